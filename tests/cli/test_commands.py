"""The command line as a person uses it, good input and bad."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main

PARTS = tacit.digits()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Digits as CSV files, with 12 columns to keep them small, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    columns = np.argsort(-PARTS.public_samples.std(axis=0))[:12]
    names = [f"p{column}" for column in columns]

    def write(name, samples, **extra):
        head = ",".join([*names, *extra])
        rows = [
            ",".join(map(str, [*row, *more])) for row, *more in zip(samples[:, columns], *extra.values(), strict=True)
        ]
        (tmp_path / name).write_text("\n".join([head, *rows]) + "\n")

    write("private.csv", PARTS.private_samples, digit=PARTS.private_labels, who=np.arange(1000) // 3)
    write("public.csv", PARTS.public_samples)
    return tmp_path


def names(folder="."):
    return sorted(file.name for file in Path(folder).iterdir())


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


BASE = ("distill", "--private", "private.csv", "--public", "public.csv", "--label", "digit", "--unit", "who",
        "--classes", "0,1,2,3,4,5,6,7,8,9", "--epsilon", "1")  # fmt: skip


def test_distill_does_the_job(files, capsys):
    assert run(*BASE, "--out", "out") == 0
    shown = capsys.readouterr().out
    assert "permute-and-flip" in shown
    assert "Differential privacy: epsilon = 1" in shown
    assert 'one person (column "who"' in shown
    assert names("out") == ["arrays.npz", "labels.csv", "queries.png", "recipe.toml", "run.json", "student.skops"]
    labels = [line.split(",")[1] for line in (files / "out/labels.csv").read_text().splitlines()[1:]]
    assert np.mean(np.array(labels) == PARTS.public_labels.astype(str)) > 0.4


def test_npz_soft_labels_and_gaussian_noise(files, capsys):
    np.savez("private.npz", X=PARTS.private_samples.reshape(-1, 8, 8), y=PARTS.private_labels)
    np.savez("public.npz", X=PARTS.public_samples.reshape(-1, 8, 8))
    assert run("distill", "--private", "private.npz", "--public", "public.npz", "--label", "y", "--epsilon", "2",
               "--delta", "1e-6", "--labels", "soft", "--neighbors", "4", "--seed", "3", "--out",
               "out") == 0  # fmt: skip
    shown = capsys.readouterr().out
    assert "SIMULATION, NO PRIVACY GUARANTEE" in shown
    assert "read from the private labels" in shown
    record = json.loads((files / "out/run.json").read_text())
    assert record["recipe"]["mechanism"] == "gaussian"
    assert record["guarantee"]["simulation"] is True


def test_a_ledger_pays_and_refuses(files, capsys):
    (files / "policy.toml").write_text(
        '[accounts.research]\nepsilon = 1\ndelta = 0\n[accounts.research.unit]\ncolumn = "who"\nrecords = 1\n'
    )
    assert run("ledger", "open", "main.ledger", "--policy", "policy.toml") == 0
    paid = ("--ledger", "main.ledger", "--account", "research")
    assert run(*BASE, *paid, "--out", "out") == 0
    assert not (files / "out.request").exists()
    assert "research has spent epsilon 1 of 1" in " ".join(capsys.readouterr().out.split())
    assert run(*BASE, *paid, "--out", "more") == 1
    assert "cannot pay" in capsys.readouterr().err
    assert not (files / "more").exists()
    assert run("ledger", "verify", "main.ledger") == 0


def test_an_interrupted_run_is_taken_up_and_pays_once(files, monkeypatch, capsys):
    (files / "policy.toml").write_text(
        '[accounts.research]\nepsilon = 1\ndelta = 0\n[accounts.research.unit]\ncolumn = "who"\nrecords = 1\n'
    )
    assert run("ledger", "open", "main.ledger", "--policy", "policy.toml") == 0
    paid = ("--ledger", "main.ledger", "--account", "research", "--out", "out")

    def crash(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("tacit.runs.run.Run.write", crash)
        assert run(*BASE, *paid) == 1
    assert "disk is full" in capsys.readouterr().err
    assert not (files / "out").exists()
    assert run(*BASE, *paid) == 0
    assert "resuming" in capsys.readouterr().out
    assert (files / "out/run.json").exists()


def test_rounds_are_split_as_the_user_says(files, capsys):
    rounds = ("--iterations", 2, "--queries", "30,20", "--shares", "1,3", "--selection", "clusters")
    assert run(*BASE, *rounds, "--labels", "proportions", "--vote-space", "same", "--seed", 1, "--out", "out") == 0
    told = json.loads((files / "out/run.json").read_text())
    assert [each["queries"] for each in told["recipe"]["rounds"]] == [30, 20]
    assert told["recipe"]["rounds"][1]["selection"] == "clusters"
    assert told["recipe"]["options"]["vote_space"] == "same"
    assert told["guarantee"]["epsilon"] == "1"
    assert "2 rounds share the budget, with 30, 20 queries" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--private", "nowhere.csv"), "nowhere.csv: no such file"),
        (("--public", "nowhere.csv"), "nowhere.csv: no such file"),
        (("--label", "diagnosis"), "no column 'diagnosis'"),
        (("--unit", "patient"), "no column 'patient'"),
        (("--classes", "0,1"), "the label is not one of the classes"),
        (("--classes", "nowhere.txt"), "cannot read the classes"),
        (("--epsilon", "0"), "epsilon must be above 0"),
        (("--epsilon", "-1"), "epsilon must be above 0"),
        (("--epsilon", "many"), "many"),
        (("--delta", "1"), "delta must be in"),
        (("--queries", "5", "--neighbors", "6"), "neighbors must be at most the 5 queries"),
        (("--queries", "5000"), "queries must be between 1"),
        (("--queries", "0"), "queries"),
        (("--queries-each", "5"), "--queries-each is called --queries now"),
        (("--queries", "5,many"), "--queries must be comma-separated numbers, got '5,many'"),
        (("--queries", "5,6", "--iterations", "3"), "one per iteration (3)"),
        (("--iterations", "2", "--shares", "1/0,1"), "--shares must be comma-separated numbers"),
        (("--iterations", "2", "--shares", "1,2,3"), "one number per iteration (2)"),
        (("--iterations", "2", "--shares", "1,-2"), "a share must be above 0"),
        (("--iterations", "2", "--selection", "luck"), "selection must be one of"),
        (("--iterations", "2", "--vote-space", "mine"), "vote_space must be one of"),
        (("--voting-rule", "far"), "voting_rule must be nearest or balanced"),
        (("--one-query-per-class", "--queries", "9"), "one_query_per_class needs"),
        (("--one-to-one", "--queries", "9"), "--one-to-one is called --one-query-per-class now"),
        (("--view", "same"), "--view is called --vote-space now"),
        (("--spread", "graph"), "--spread is called --propagation now"),
        (("--keep", "0.5"), "--keep is called --label-fraction now"),
        (("--connections", "balanced"), "--connections is called --voting-rule now"),
        (("--mechanism", "magic"), "unknown mechanism"),
        (("--representation", "magic"), "unknown representation"),
        (("--student", "magic"), "unknown student"),
        (("--labels", "medium"), "labels must be"),
        (("--adjacency", "swap"), "adjacency must be one of"),
        (("--ledger", "nowhere.ledger", "--account", "a"), "nowhere.ledger"),
        (("--account", "a"), "an account needs a ledger"),
        (("--out", "."), "exists already"),
        (("--out", "public.csv/inside"), "cannot be written there"),
        (("--private", "."), "a folder, not a file"),
    ],
)
def test_wrong_use_is_one_clear_message(files, capsys, arguments, said):
    before = names()
    code = run(*BASE, *(("--out", "out") if "--out" not in arguments else ()), *arguments)
    shown = capsys.readouterr()
    assert code in (1, 2)
    assert code == 2 or "ledger" in said
    assert said in shown.err
    assert "Traceback" not in shown.err
    assert names() == before


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("private.csv", "", "the file is empty"),
        ("private.csv", "p1,digit,who\n", "the file has no rows"),
        ("private.csv", "p1,digit,who\n1,2,x\n", "the columns are not those of public.csv"),
        ("public.csv", "p1\n", "the file has no rows"),
        ("public.csv", "p1,digit\n1,2\n", "has the label column 'digit'"),
    ],
)
def test_bad_files_are_refused_with_their_place(files, capsys, file, text, said):
    (files / file).write_text(text)
    assert run(*BASE, "--out", "out") == 2
    assert said in capsys.readouterr().err.replace("\n", "")
    assert not (files / "out").exists()


@pytest.mark.parametrize(("cell", "said"), [("seven", "not a number"), ("nan", "not a finite number")])
def test_a_bad_cell_is_refused_with_its_place(files, capsys, cell, said):
    head, first, second, *rest = (files / "private.csv").read_text().splitlines()
    second = ",".join([cell, *second.split(",")[1:]])
    (files / "private.csv").write_text("\n".join([head, first, second, *rest]))
    assert run(*BASE, "--out", "out") == 2
    assert f"row 3, column '{head.split(',')[0]}': {said}" in capsys.readouterr().err.replace("\n", "")
    assert not (files / "out").exists()


def test_public_copies_of_private_rows_are_warned_of(files, capsys):
    lines = (files / "private.csv").read_text().splitlines()
    copied = [",".join(line.split(",")[:-2]) for line in lines[1:6]]
    with (files / "public.csv").open("a") as file:
        file.write("\n".join(copied) + "\n")
    assert run(*BASE, "--out", "out") == 0
    said = capsys.readouterr()
    assert "5 public rows are exact copies of private ones" in " ".join(said.err.split())
    # What is printed may be kept in a file and handed on.
    assert "copies" not in said.out


def test_a_full_disk_is_said_and_nothing_is_left(files):
    """A real process whose files may not grow: the same error as a full disk, from the kernel."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    result = subprocess.run(
        [sys.executable, "-c", "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
         "from tacit.cli import main; main()", *BASE, "--out", "out"],
        preexec_fn=small_files, capture_output=True, text=True, timeout=300,
        # What measures coverage could not write either, and would say so here.
        env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")},
    )  # fmt: skip
    assert result.returncode == 1
    assert "could not be written" in result.stderr
    assert "Traceback" not in result.stderr
    assert not any(name.startswith("out") for name in names())


def test_records_per_person_need_a_person_column(files, capsys):
    arguments = [each for each in BASE if each not in ("--unit", "who")]
    assert run(*arguments, "--per-person", 3, "--out", "out") == 2
    assert "--per-person needs --unit" in capsys.readouterr().err


def test_a_plan_reads_nothing_and_says_what_to_expect(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run("plan", "--records", 1000, "--classes", 10, "--epsilon", 1, "--queries", 40) == 0
    shown = capsys.readouterr().out
    assert "12.2" in shown
    told = " ".join(shown.split())
    assert "expect at least 99.9 % of the 40 queries, and 89.9 % of the public samples" in told
    assert "100.0" not in told
    assert "The purity of 90% (how many of a query's voters agree) is an assumption (--purity)" in told
    assert run("plan", "--records", 1000, "--classes", 10, "--epsilon", 0) == 2
    assert run("plan", "--records", 1000, "--classes", 10, "--epsilon", 1, "--queries", 3, "--neighbors", 4) == 2
    assert run("plan", "--records", 1000, "--classes", 10, "--epsilon", 1, "--purity", 2) == 2


def test_help_teaches_and_version_is_told(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == f"tacit {tacit.__version__}"
    for command in ((), ("demo",), ("distill",), ("plan",), ("audit",), ("ledger",), ("ledger", "open")):
        assert run(*command, "--help") == 0
        assert len(capsys.readouterr().out) > 400
    assert run("distil") == 2


def test_the_demo_keeps_its_promise(tmp_path, monkeypatch, capsys):
    """Within 2 points of the pipeline without noise and 6 of direct training, mean of 10 seeded runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert run("demo", "--runs", 10, "--seed", 0, "--out", "demo") == 0
    assert "SIMULATION, NO PRIVACY GUARANTEE" in capsys.readouterr().out
    record = json.loads((tmp_path / "demo/run.json").read_text())
    metrics = record["metrics"]
    private = np.mean(metrics["test accuracy"])
    secret = metrics["not private"]
    assert "10 runs were made on the same records" in record["guarantee"]["statement"]
    assert secret["test accuracy without noise"][0] - private <= 0.02
    assert secret["test accuracy trained directly"][0] - private <= 0.06
    assert (tmp_path / "demo/queries.png").stat().st_size > 10_000
    assert run("demo", "--out", "demo") == 0
    assert "Differential privacy: epsilon = 1, delta = 0 (pure)." in capsys.readouterr().out
    assert (tmp_path / "demo-2/run.json").exists()
