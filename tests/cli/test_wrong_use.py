"""A table of wrong uses for every command: exit code 2, one message that says what, where and what to do.

No traceback, no private value, at most 80 characters of a user's text in one piece, the nearest name suggested.
"""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tests.cli.test_recipe import commands

SECRET, LONG = "pemphigus", "x" * 300
DRAW = np.random.default_rng(0)
LABELS = DRAW.integers(0, 2, 120)
RECORDS = DRAW.normal(size=(120, 2)) + 4 * LABELS[:, None]
SAMPLES = DRAW.normal(size=(50, 2)) + 4 * DRAW.integers(0, 2, 50)[:, None]
FILES = ("--private", "records.csv", "--public", "samples.csv", "--label", "diagnosis")
CLASSES = ("--classes", f"none,{SECRET}")
SPEND = ("--epsilon", "1", "--out", "out")
RECIPE = '[data]\nprivate = "records.csv"\npublic = "samples.csv"\nlabel = "diagnosis"\n[privacy]\nepsilon = 1\n'


def table(rows, head, more=()):
    return "\n".join([head, *(",".join(map(str, row)) for row in rows), *more]) + "\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with good files, a good run, and the wrong ones."""
    place = tmp_path_factory.mktemp("wrong")
    rows = [[f"{a:.3f}", f"{b:.3f}", SECRET if y else "none"] for (a, b), y in zip(RECORDS, LABELS, strict=True)]
    some = [[f"{a:.3f}", f"{b:.3f}"] for a, b in SAMPLES]
    texts = {
        "records.csv": table(rows, "age,dose,diagnosis"),
        "samples.csv": table(some, "age,dose"),
        "empty.csv": "",
        "head.csv": "age,dose,diagnosis\n",
        "twice.csv": table(some, "age,age"),
        "other.csv": table(some, "age,doses"),
        "one.csv": table([[*row[:2], "none"] for row in rows], "age,dose,diagnosis"),
        "gaps.csv": table([["", row[1]] for row in some], "age,dose"),
        "words.csv": table([[SECRET, *row[1:]] for row in rows], "age,dose,diagnosis"),
        "ragged.csv": table(rows, "age,dose,diagnosis", [f"1,2,{SECRET},4"]),
        "recipe.toml": RECIPE,
        "typo.toml": RECIPE.replace("epsilon", "epsilonn"),
        "section.toml": RECIPE.replace("[privacy]", "[privcy]"),
        "option.toml": RECIPE + "[options]\nqueriess = 3\n",
        "kind.toml": RECIPE.replace("epsilon = 1", 'epsilon = "much"'),
        "broken.toml": "[data\n",
        "folder.toml": "[privacy]\nepsilon = 1\n",
        "policy.toml": "[accounts.research]\nepsilon = 1\n",
        "notes.txt": "no table",
        "out.csv": "a\n",
    }
    for name, text in texts.items():
        (place / name).write_text(text, encoding="utf-8")
    (place / "mixed.csv").write_bytes(texts["records.csv"].encode() + b"1,2,caf\xe9\n")
    (place / "folder").mkdir()
    for name in ("cat", "dog"):
        (place / "images" / name).mkdir(parents=True)
        (place / "images" / name / "1.png").write_bytes(b"not a picture")
    (place / "pictures").mkdir()
    (place / "pictures" / "1.png").write_bytes(b"not a picture")
    run = tacit.distill((RECORDS, np.where(LABELS, SECRET, "none")), SAMPLES, 1.0, classes=["none", SECRET])
    run.save(place / "run")
    shutil.copytree(place / "run", place / "cut")
    (place / "cut" / "arrays.npz").write_bytes(b"PK\x03\x04 cut off")
    shutil.copytree(place / "run", place / "edited")
    text = (place / "edited" / "run.json").read_text()
    (place / "edited" / "run.json").write_text(text[: len(text) // 2])
    shutil.copytree(place / "run", place / "lost")
    next((place / "lost").glob("student.*")).unlink()
    (place / "locked").mkdir()
    return place


# What is typed, and what the message must say.
WRONG = {
    "distill": [
        ((), "--private"),
        (("--private", "record.csv", *FILES[2:], *SPEND), "record.csv: no such file"),
        (("--private", LONG, *FILES[2:], *SPEND), "…"),
        (("--private", "empty.csv", *FILES[2:], *SPEND), "empty.csv: the file is empty"),
        (("--private", "head.csv", *FILES[2:], *SPEND), "head.csv: the file has no rows"),
        (("--private", "folder", *FILES[2:], *SPEND), "folder: a folder, not a file with columns"),
        (("--private", "notes.txt", *FILES[2:], *SPEND), "notes.txt: cannot read .txt"),
        ((*FILES[:4], "--label", "diagnoses", *SPEND), "no column 'diagnoses'; the columns are age, dose, diagnosis; did you mean 'diagnosis'?"),  # noqa: E501
        ((*FILES[:4], *SPEND), "name the column or array of the labels with --label"),
        ((*FILES[:2], "--public", "other.csv", *FILES[4:], *SPEND), "dose"),
        ((*FILES[:2], "--public", "twice.csv", *FILES[4:], *SPEND), "columns 1 and 2 have the same name; rename one"),
        ((*FILES[:2], "--public", "records.csv", *FILES[4:], *SPEND), "has the label column 'diagnosis'; remove it"),
        (("--private", "words.csv", *FILES[2:], *SPEND), "row 2, column 'age': not a number"),
        (("--private", "ragged.csv", *FILES[2:], *SPEND), "row 122 has 4 cells, the header 3"),
        (("--private", "mixed.csv", *FILES[2:], *SPEND), "mixed.csv: "),
        (("--private", "one.csv", *FILES[2:], *SPEND), "at least two classes are needed"),
        ((*FILES, "--classes", "ill,well", *SPEND), "row 2, column 'diagnosis': the label is not one of the classes"),
        ((*FILES, "--classes", "a,a", *SPEND), "listed twice in classes"),
        (("--private", "images", "--public", "pictures", *SPEND), "1.png"),
        ((*FILES, *CLASSES, "--out", "out"), "needs --epsilon"),
        ((*FILES, *CLASSES, "--epsilon", "nan", "--out", "out"), "epsilon must be"),
        ((*FILES, *CLASSES, "--epsilon", "0", "--out", "out"), "epsilon must be above 0, got 0"),
        ((*FILES, *CLASSES, "--epsilon", "-1", "--out", "out"), "epsilon must be above 0, got -1"),
        ((*FILES, *CLASSES, "--epsilon", "inf", "--out", "out"), "epsilon must be"),
        ((*FILES, *CLASSES, "--epsilon", "much", "--out", "out"), "--epsilon"),
        ((*FILES, *CLASSES, *SPEND, "--delta", "2"), "delta must be"),
        ((*FILES, *CLASSES, *SPEND, "--delta", "-1e-6"), "delta must be"),
        ((*FILES, *CLASSES, *SPEND, "--delta", "nan"), "delta must be"),
        ((*FILES, *CLASSES, *SPEND, "--account", "research"), "an account needs a ledger"),
        ((*FILES, *CLASSES, *SPEND, "--ledger", "no.ledger", "--account", "research"), "no.ledger: no such ledger; open it with 'tacit ledger open'"),  # noqa: E501
        ((*FILES, *CLASSES, *SPEND, "--ledger", "main.ledger"), "name the account that pays with --account"),
        ((*FILES, *CLASSES, *SPEND, "--ledger", "main.ledger", "--account", "reserch"), "did you mean research?"),
        ((*FILES, *CLASSES, "--epsilon", LONG, "--out", "out"), "not a valid float"),
        ((*FILES, *CLASSES, *SPEND, LONG), "unexpected extra argument"),
        ((*FILES, *CLASSES, *SPEND, "--method", "rkn"), "did you mean 'rknn'?"),
        ((*FILES, *CLASSES, *SPEND, "--method", LONG), "unknown method"),
        ((*FILES, *CLASSES, *SPEND, "--neighbours", "2"), "--neighbors"),
        ((*FILES, *CLASSES, *SPEND, "--method", "pate", "--neighbors", "2"), "--neighbors is an option of --method rknn and private_knn, not of pate"),  # noqa: E501
        ((*FILES, *CLASSES, *SPEND, "--trust", "centrall"), "did you mean 'central'?"),
        ((*FILES, *CLASSES, *SPEND, "--adjacency", "addremove"), "did you mean 'add-remove'?"),
        ((*FILES, *CLASSES, *SPEND, "--data-kind", "tabel"), "table"),
        ((*FILES, *CLASSES, *SPEND, "--text", "notes"), "notes"),
        ((*FILES, *CLASSES, *SPEND, "--queries", "0"), "queries must be"),
        ((*FILES, *CLASSES, *SPEND, "--labels", "sof"), "did you mean 'soft'?"),
        ((*FILES, *CLASSES, *SPEND, "--shares", "1,2"), "one number per iteration (1), got 2 numbers"),
        ((*FILES, *CLASSES, *SPEND, "--queries", "9999"), "queries must be between 1 and"),
        ((*FILES, *CLASSES, *SPEND, "--representation", "umpa"), "umap"),
        ((*FILES, *CLASSES, *SPEND, "--student", "forrest"), "forest"),
        ((*FILES, *CLASSES, *SPEND, "--unit", "patient"), "no column 'patient'"),
        ((*FILES, *CLASSES, *SPEND, "--per-person", "2"), "--per-person needs --unit"),
        ((*FILES, *CLASSES, *SPEND, "--seed", "1", "--ledger", "main.ledger", "--account", "research"), "--seed makes a simulation"),  # noqa: E501
        ((*FILES, *CLASSES, *SPEND, "--method", "privatekt"), "assign the records to holders"),
        ((*FILES, *CLASSES, "--epsilon", "1", "--out", "run"), "run: exists already; choose another --out"),
        ((*FILES, *CLASSES, "--epsilon", "1", "--out", "records.csv/run"), "cannot be written there (Not a directory)"),
        (("--method", "rkn", "--help"), "did you mean 'rknn'?"),
    ],
    "run": [
        ((), "RECIPE"),
        (("recipes.toml",), "recipes.toml: no such recipe; write one with 'tacit init'"),
        (("folder",), "folder: a folder, not a recipe"),
        (("broken.toml",), "broken.toml: not valid TOML"),
        (("mixed.csv",), "mixed.csv: not UTF-8 text"),
        (("typo.toml",), "unknown key 'epsilonn' in [privacy]; did you mean 'epsilon'?"),
        (("section.toml",), "unknown key 'privcy' in the file's head; did you mean 'privacy'?"),
        (("option.toml",), "did you mean 'queries'?"),
        (("kind.toml",), "kind.toml: epsilon must be a number"),
        (("folder.toml",), "private is missing: name the file in [data]"),
        (("recipe.toml", "--out", "run"), "run: exists already"),
        ((LONG,), "…"),
    ],
    "resume": [
        ((), "RUN"),
        (("nothing",), "no unfinished run here, there is no nothing.request"),
        (("run",), "run: exists already: its run is finished"),
        ((".",), ".: exists already"),
        (("/",), "/: exists already"),
        (("..",), "..: exists already"),
        ((LONG,), "…"),
    ],
    "init": [
        ((), "FILES"),
        (("records.csv",), "give two files, private records and public samples; got 1 file"),
        (("records.csv", "samples.csv", "one.csv"), "got 3 files"),
        (("records.csv", "sample.csv", "--out", "new.toml"), "sample.csv: no such file"),
        (("records.csv", "samples.csv"), "recipe.toml: exists already"),
        (("records.csv", "samples.csv", "--out", "no/new.toml"), "there is no such folder"),
        (("records.csv", "samples.csv", "--out", "new.toml", "--label", "diagnoses"), "did you mean 'diagnosis'?"),
        (("samples.csv", "samples.csv", "--out", "new.toml"), "the private file needs a label column"),
        (("records.csv", "other.csv", "--out", "new.toml"), "columns differ"),
        (("empty.csv", "samples.csv", "--out", "new.toml"), "empty.csv: the file is empty"),
    ],
    "plan": [
        ((), "--records"),
        (("--records", "0", "--classes", "2"), "--records"),
        (("--records", "9", "--classes", "1"), "classes must be at least 2, got 1"),
        (("--records", "9", "--classes", "a,a"), "listed twice in classes"),
        (("--records", "9", "--classes", "2", "--epsilon", "nan"), "epsilon must be"),
        (("--records", "9", "--classes", "2", "--epsilon", "0"), "epsilon must be above 0"),
        (("--records", "9", "--classes", "2", "--delta", "3"), "delta must be"),
        (("--records", "9", "--classes", "2", "--accuracy", "90"), "accuracy must be between 0.5 and 1, got 90"),
        (("--records", "9", "--classes", "2", "--purity", "2"), "purity must be in (0, 1], got 2"),
        (("--records", "9", "--classes", "2", "--method", "pat"), "did you mean 'pate'?"),
        (("--records", "9", "--classes", "2", "--public", "sample.csv"), "sample.csv: no such file"),
        (("--records", "9", "--classes", "2", "--public-label", "y"), "give --public, too"),
        (("--records", "9", "--classes", "2", "--public", "samples.csv", "--public-label", "y"), "no column 'y'"),
        (("--records", "9", "--classes", "2", "--chart", "plan.gif"), "a chart is written as .png or .svg"),
        (("--records", "9", "--classes", "2", "--chart", "no/plan.png"), "there is no such folder"),
    ],
    "show": [
        ((), "RUN"),
        (("rum",), "rum: not a run folder, it has no run.json; did you mean run?"),
        (("records.csv",), "records.csv: not a run folder"),
        (("edited",), "edited/run.json: cannot be read"),
        ((LONG,), "…"),
    ],
    "report": [
        (("rum",), "did you mean run?"),
        (("cut",), "arrays.npz: "),
        (("run", "--out", "page.pdf"), "a page is written as .html"),
        (("run", "--out", "no/page.html"), "there is no such folder"),
    ],
    "predict": [
        (("run",), "FILE"),
        (("run", "samples.csv"), "--out"),
        (("rum", "samples.csv", "--out", "new.csv"), "did you mean run?"),
        (("run", "sample.csv", "--out", "new.csv"), "sample.csv: no such file"),
        (("run", "one.csv", "--out", "new.csv"), "one.csv: has 3 features, the run's samples have 2"),
        (("run", "empty.csv", "--out", "new.csv"), "empty.csv: the file is empty"),
        (("run", "samples.csv", "--out", "out.csv"), "out.csv: exists already"),
        (("run", "samples.csv", "--out", "new.xls"), ".csv"),
        (("lost", "samples.csv", "--out", "new.csv"), "student.skops: no such file"),
        (("cut", "samples.csv", "--out", "new.csv"), "arrays.npz: "),
    ],
    "export": [
        (("run",), "choose what to export"),
        (("run", "--onnx", "--skops", "--out", "new"), "are two formats: choose one"),
        (("run", "--onnx"), "and --out"),
        (("run", "--safetensors", "--out", "new"), "this student is saved as skops: give --skops or --onnx"),
        (("run", "--labels", "labels.xls"), ".csv"),
        (("run", "--skops", "--out", "run"), "run: exists already"),
        (("cut", "--labels", "new.csv"), "arrays.npz: "),
        (("rum", "--labels", "new.csv"), "did you mean run?"),
    ],
    "ledger": [
        (("opn",), "No such command 'opn'"),
        (("open", "new.ledger"), "--policy"),
        (("open", "new.ledger", "--policy", "no.toml"), "no.toml"),
        (("open", "new.ledger", "--policy", "broken.toml"), "broken.toml"),
        (("show", "no.ledger"), "no.ledger"),
        (("show", "main.ledger", "reserch"), "must be one of research, got 'reserch'; did you mean 'research'?"),
        (("verify", "no.ledger"), "no.ledger"),
        (("accept", "main.ledger"), "--reason"),
        (("accept", "no.ledger", "--reason", "restored"), "there is no ledger at no.ledger"),
        (("export", "no.ledger"), "there is no ledger at no.ledger"),
        (("export", LONG, "--out", "e.jsonl"), "there is no ledger at xxx"),
        (("export", "main.ledger", "--out", "out.csv"), "cannot write out.csv: it exists already"),
        (("copy", "main.ledger"), "TARGET"),
        (("copy", "no.ledger", "new.ledger"), "there is no ledger at no.ledger"),
        (("copy", "main.ledger", "main.ledger"), "something is at main.ledger already"),
        (("roles", "main.ledger"), "roles are for a ledger on a server"),
    ],
    "audit": [(("--epsilon", "nan"), "epsilon"), (("no-such-mechanism",), "no-such-mechanism")],
    "demo": [(("--epsilon", "0"), "epsilon must be above 0"), (("--out", "records.csv/run"), "cannot be written there"), (("--runs", "0"), "--runs")],  # noqa: E501
    "ui": [(("no-such-folder",), "no-such-folder: no such folder"), (("--prot", "1"), "--port"), (("--port", "much"), "--port")],  # noqa: E501
    "doctor": [(("--jsn",), "--json"), (("me",), "unexpected extra argument")],
    "federation": [
        (("strat",), "No such command 'strat'"),
        (("demo", "--trust", "maskd"), "one of local, masked, shuffle, got 'maskd'; did you mean 'masked'?"),
        (("demo", "--epsilon", "nan"), "epsilon must be a finite number, got nan"),
        (("demo", "--folder", "folder"), "folder: exists already"),
        (("check", "no.toml"), "cannot read no.toml: No such file or directory"),
        (("check", LONG), "File name too long"),
        (("device",), "URL"),
        (("approve", "no.toml"), "cannot read no.toml"),
        (("node", "no.toml"), "cannot read no.toml"),
        (("node", "broken.toml"), "broken.toml: not valid TOML"),
        (("jobs", "no.toml"), "cannot read no.toml"),
        (("fleet", "nothing"), "nothing: not a coordinator's folder; make one with `tacit federation init nothing`"),
        (("cancel", "no.toml", "job"), "cannot read no.toml"),
        (("init", "run"), "run: a run folder, which may be published: choose another folder"),
        (("init", "study", "--node", "north"), "--node needs --address and --authority"),
        (("init", "study", "--service", "shufler"), "--service needs --coordinator and --peers"),
        (("coordinator", "nothing"), "nothing: not a coordinator's folder"),
        (("shuffler", "no.toml"), "cannot read no.toml"),
        (("curator", "no.toml"), "cannot read no.toml"),
        (("status", "no.toml"), "cannot read no.toml"),
        (("nodes", "lst"), "No such command 'lst'"),
        (("nodes", "list", "nothing"), "nothing: not a coordinator's folder"),
        (("nodes", "add", "nothing", "no.pub"), "nothing: not a coordinator's folder"),
        (("nodes", "remove", "nothing", "north"), "nothing: not a coordinator's folder"),
        (("nodes", "renew", "nothing"), "nothing: neither a coordinator's, a service's nor a node's folder"),
        (("intake", "keys"), "NAME"),
        (("intake", "keys", LONG), "cannot be made (File name too long)"),
        (("intake", "open", "no.csv", "out", "--classes", "a,b", "--devices", "10", "--epsilon", "1"), "no.csv: no"),
        (("intake", "worker", "no.toml", "--store", "s"), "no.toml: cannot be read"),
        (("intake", "tokens", "no.toml", "secret", "--count", "0", "--out", "t"), "--count must be from 1 to"),
        (("intake", "collect", "no.toml", "out", "--store", "s"), "'s' is not a kind of store"),
        (("intake", "decode", "no.toml", "m", "--public", "p", "--out", "o"), "no.toml: cannot be read"),
        (("intake", "status", "--store", "no.db"), "'no.db' is not a kind of store"),
    ],
    "bench": [(("no-such-bench",), "no-such-bench"), ((LONG,), "No such command")],
}  # fmt: skip
NOUNS = (
    "files|rows|columns|records|classes|samples|queries|votes|holders|nodes|accounts|payments|predictions|questions|"
    "labels|persons|rounds|iterations|entries|numbers|names|runs|teachers|features|components|neighbors|messages"
)
CASES = [pytest.param(name, typed, said, id=f"{name}-{place}") for name, rows in WRONG.items()
         for place, (typed, said) in enumerate(rows)]  # fmt: skip


@pytest.mark.parametrize(("name", "typed", "said"), CASES)
def test_wrong_use_is_told_in_one_message(name, typed, said, made, monkeypatch, capsys):
    monkeypatch.chdir(made)
    monkeypatch.setenv("COLUMNS", "400")
    if not Path("main.ledger").exists():
        with pytest.raises(SystemExit):
            main(["ledger", "open", "main.ledger", "--policy", "policy.toml"])
        capsys.readouterr()
    before = sorted(Path().rglob("*"))
    with pytest.raises(SystemExit) as stopped:
        main([name, *typed])
    told = capsys.readouterr()
    message = " ".join(told.err.split())
    assert stopped.value.code == 2, message
    assert said in message
    assert "Traceback" not in message
    assert LONG[:81] not in told.err + told.out
    # Classes that were declared may be named; cells may not.
    assert SECRET not in message or "none of the classes" in message
    assert not re.search(rf"\b1 ({NOUNS})\b", message)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("typed", [("ledger", "show", "records.csv"),
                                   ("distill", *FILES, *CLASSES, *SPEND, "--ledger", "records.csv", "--account", "a")])  # fmt: skip  # noqa: E501
def test_a_file_that_is_no_ledger_may_be_a_damaged_one(typed, made, monkeypatch, capsys):
    monkeypatch.chdir(made)
    with pytest.raises(SystemExit) as stopped:
        main(list(typed))
    assert stopped.value.code == 1
    assert "records.csv: it is not a ledger" in " ".join(capsys.readouterr().err.split())


def test_a_column_without_a_single_value_is_left_out_and_it_is_said(made, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(made)
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                "distill",
                *FILES[:2],
                "--public",
                "gaps.csv",
                *FILES[4:],
                *CLASSES,
                "--epsilon",
                "1",
                "--out",
                str(tmp_path / "out"),
            ]
        )
    assert stopped.value.code == 0
    assert "column 'age' is left out: it is empty" in " ".join(capsys.readouterr().out.split())


def test_every_command_is_in_the_table():
    from tacit.cli.application import COMMANDS

    assert set(WRONG) == set(COMMANDS)
    # Each command of a group, and of its groups, by the words that call it.
    for name in ("ledger", "federation"):
        for typed, _ in commands(COMMANDS[name].load(name), [name]):
            words = tuple(typed.split()[1:])
            assert any(row[: len(words)] == words for row, _ in WRONG[name]), typed
