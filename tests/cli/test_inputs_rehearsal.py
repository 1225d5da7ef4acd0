"""Before anything is spent: a dry run looks at everything and leaves no trace, and who cannot pay hears it at once."""

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main

PARTS = tacit.digits()
COLUMNS = np.argsort(-PARTS.public_samples.std(axis=0))[:12]
NAMES = [f"p{column}" for column in COLUMNS]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    private = np.column_stack([PARTS.private_samples[:, COLUMNS], PARTS.private_labels, np.arange(1000) // 3])
    for name, head, rows in (
        ("private.csv", [*NAMES, "digit", "who"], private),
        ("records.csv", [*NAMES, "digit"], private[:, :-1]),
        ("public.csv", NAMES, PARTS.public_samples[:, COLUMNS]),
        ("other.csv", ["q", *NAMES[1:]], PARTS.public_samples[:, COLUMNS]),
    ):
        Path(name).write_text("\n".join([",".join(head), *(",".join(map(str, row)) for row in rows.tolist())]) + "\n")
    Path("policy.toml").write_text(
        "[accounts.research]\nepsilon = 1\ndelta = 0\n[accounts.research.unit]\ncolumn = 'who'\nrecords = 1\n"
        "[accounts.poor]\nepsilon = 0.5\ndelta = 0\n[accounts.poor.unit]\ncolumn = 'who'\nrecords = 1\n"
        "[accounts.records]\nepsilon = 5\ndelta = 0\n"
        "[accounts.small]\nepsilon = 0.5\ndelta = 1e-5\n[accounts.small.unit]\ncolumn = 'who'\nrecords = 1\n"
    )
    assert run("ledger", "open", "main.ledger", "--policy", "policy.toml") == 0
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def left(folder):
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


BASE = ("distill", "--private", "private.csv", "--public", "public.csv", "--label", "digit", "--classes",
        "0,1,2,3,4,5,6,7,8,9", "--epsilon", "1", "--out", "out")  # fmt: skip
PAID = ("--unit", "who", "--ledger", "main.ledger", "--account")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((*PAID, "research"), "research can pay; it has spent epsilon 0 of 1"),
        ((), "none: the budget is for this run only"),
        (("--seed", "1"), "none: the budget is for this run only"),
        (("--delta", "1e-6", "--labels", "soft"), "price      epsilon = 1, delta = 1e-06"),
        (("--method", "pate", "--queries", "5"), "dry run"),
        (("--method", "privatekt", "--holders", "4", "--rounds", "2", "--model", "logistic", "--ledger", "books"),
         "the holders' accounts in books"),
    ],
)  # fmt: skip
def test_a_dry_run_says_what_would_happen_and_leaves_no_trace(files, capsys, more, said):
    before = left(files)
    capsys.readouterr()
    private = ("--private", "private.csv" if "--unit" in more else "records.csv")
    assert run(*BASE, *private, *more, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert said in shown
    assert "nothing was spent, and nothing was written" in shown
    # Under add/remove adjacency even their number is private, and this stream may be handed on.
    assert "1000" not in shown
    assert left(files) == before


def test_after_a_dry_run_the_run_itself_is_the_same(files, capsys):
    assert run(*BASE, *PAID, "research", "--dry-run") == 0
    assert run(*BASE, *PAID, "research") == 0
    assert "research has spent epsilon 1 of 1" in " ".join(capsys.readouterr().out.split())


def test_a_dry_run_of_an_interrupted_run_pays_nothing_and_keeps_its_request(files, monkeypatch, capsys):
    def crash(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("tacit.runs.run.Run.write", crash)
        assert run(*BASE, *PAID, "research") == 1
    assert Path("out.request").exists()
    before = left(files)
    assert run(*BASE, *PAID, "research", "--dry-run") == 0
    assert left(files) == before
    assert run(*BASE, *PAID, "research") == 0


# Files that are not there: if one were looked at, the complaint would be about it.
WRONG = {
    "an unknown account": (
        (*PAID, "reserch"),
        2,
        "no account 'reserch'; it has research, poor, records, small; did you mean research",
    ),
    "an account that cannot pay": ((*PAID, "poor"), 1, "account 'poor' cannot pay: it would reach epsilon 1"),
    "an account with a delta": ((*PAID, "small"), 1, "account 'small' cannot pay: it would reach epsilon 1 by pure"),
    "an account with a delta, and Gaussian noise": (
        (*PAID, "small", "--delta", "1e-6"),
        1,
        "account 'small' cannot pay: it would reach epsilon 0.8",
    ),
    "several iterations": ((*PAID, "small", "--iterations", "3"), 1, "account 'small' cannot pay"),
    "an epsilon below 0": (("--epsilon", "-1"), 2, "epsilon must be above 0, got -1"),
    "a delta above 1": (("--delta", "2"), 2, "delta must be in [0, 1), got 2"),
    "an unknown trust model": (("--trust", "centrall"), 2, "did you mean 'central'"),
    "an unknown adjacency": (("--adjacency", "addremove"), 2, "did you mean 'add-remove'"),
    "an account of another unit": ((*PAID, "records"), 2, "account 'records' protects one record"),
    "no such ledger": (("--ledger", "sight.ledger", "--account", "research"), 2, "sight.ledger: no such ledger"),
    "a ledger without an account": (("--ledger", "main.ledger"), 2, "name the account that pays with --account"),
    "an account without a ledger": (("--account", "research"), 2, "an account needs a ledger"),
    "a very long account": ((*PAID, "r" * 5000), 2, "no account"),
}


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize("case", WRONG)
def test_the_account_is_looked_at_before_any_file(files, capsys, case, dry):
    more, code, message = WRONG[case]
    Path("private.csv").unlink()
    Path("public.csv").unlink()
    before = left(files)
    capsys.readouterr()
    assert run(*BASE, *more, *dry) == code
    told = capsys.readouterr().err
    assert message in told.replace("\n", " ")
    assert "r" * 81 not in told
    assert left(files) == before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--public", "other.csv"), "the columns are not those of"),
        (("--label", "digt"), "digit"),
        (("--unit", "whom"), "who"),
        (("--private", "no.csv"), "no.csv: no such file"),
        (("--epsilon", "-1"), "epsilon must be above 0"),
        (("--delta", "2"), "delta must be"),
        (("--classes", "0,1"), "not one of the classes (0, 1)"),
        (("--out", "private.csv"), "exists already"),
        (("--dryrun",), "No such option"),
    ],
)
def test_a_dry_run_finds_what_the_run_would_find(files, capsys, more, message):
    before = left(files)
    capsys.readouterr()
    assert run(*BASE, "--unit", "who", "--dry-run", *more) == 2
    told = capsys.readouterr().err
    assert message in told.replace("\n", " ")
    assert "Traceback" not in told
    assert left(files) == before


def test_the_library_asks_the_account_before_it_plans(files, monkeypatch):
    def planned(*_):
        raise AssertionError("planning is slow")

    monkeypatch.setattr("tacit.methods.rknn.method.prepare", planned)
    with pytest.raises(tacit.BudgetExceeded, match="it would reach epsilon 6"):
        tacit.distill(
            (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, 6, ledger="main.ledger",
            account="records",
        )  # fmt: skip
