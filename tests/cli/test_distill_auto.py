"""``tacit distill`` with nothing said but data and ε: the plan and its reasons, a ledger, a retry, and wrong use."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.ledger import opened
from tacit.runs.run import load

BASE = ["distill", "--private", "records.csv", "--public", "samples.csv", "--label", "diagnosis", "--classes",
        "ill,well"]  # fmt: skip
POLICY = """\
[accounts.research]
epsilon = 2
delta = 1e-5
adjacency = "replace-one"
"""


def rows(size, seed):
    """Ages, sizes and colors, and who is ill: a plane of the first two."""
    drawn = np.random.default_rng(seed)
    return [
        [f"{age:.3f}", f"{size:.3f}", "red" if color > 0 else "blue", "ill" if age + size > 0 else "well"]
        for age, size, color in drawn.normal(size=(size, 3))
    ]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, size, columns in (("records.csv", 2000, 4), ("samples.csv", 300, 3), ("test.csv", 300, 4)):
        with Path(name).open("w", newline="", encoding="utf-8") as opened:
            head = ["age", "size", "color", "diagnosis"]
            csv.writer(opened).writerows(each[:columns] for each in [head, *rows(size, len(name))])
    Path("policy.toml").write_text(POLICY)
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*BASE, *arguments])
    return ended.value.code


def test_a_dry_run_tells_the_plan_with_its_reasons_and_writes_nothing(files, capsys):
    assert run("--method", "auto", "--epsilon", "1", "--delta", "1e-5", "--dry-run") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "data a mixed table" in said
    assert (
        "questions class sums of the columns and of random features of them; then the gradient of the regression"
        in said
    )
    assert "nothing was spent, and nothing was written" in said
    assert said.count("data ") == 1
    assert sorted(each.name for each in files.iterdir()) == ["policy.toml", "records.csv", "samples.csv", "test.csv"]


def test_a_dry_run_of_votes_tells_why_it_is_votes(files, capsys):
    assert run("--epsilon", "1", "--trust", "local", "--dry-run") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "planning reverse k-NN votes: no curator has all records" in said


def test_a_run_is_paid_made_and_loaded_and_a_second_one_cannot_be_paid(files, capsys):
    with pytest.raises(SystemExit):
        main(["ledger", "open", "main.ledger", "--policy", "policy.toml"])
    paying = ["--epsilon", "2", "--delta", "1e-5", "--ledger", "main.ledger", "--account", "research"]
    assert run(*paying, "--out", "first") == 0
    made = load("first")
    assert made.recipe["method"] == "auto"
    assert made.recipe["chosen"] == "sums, then a gradient"
    assert made.recipe["plan"]
    assert made.guarantee.epsilon <= 2
    true = rows(300, len("test.csv"))
    table = {name: [row[place] for row in true] for place, name in enumerate(["age", "size", "color"])}
    table = {name: list(map(float, cells)) if name != "color" else cells for name, cells in table.items()}
    pandas = pytest.importorskip("pandas")
    predicted = made.student.predict(pandas.DataFrame(table))
    assert np.mean(predicted == [row[3] for row in true]) > 0.9
    capsys.readouterr()
    assert run(*paying, "--out", "second") == 1
    assert "cannot pay" in " ".join(capsys.readouterr().err.split())
    with opened("main.ledger") as book:
        assert book.balance("research").payments == 2  # sums and a gradient, once
    assert not Path("second").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--releases", "sums", "--queries", "9"], "--queries is an option of --method rknn"),
        (["--releases", "magic"], "releases must be one of auto, votes, sums"),
        (["--student", "magic"], "magic"),
        (["--delta", "1e-40"], "delta must be 0, or in"),
    ],
)
def test_wrong_use_is_named(files, capsys, arguments, message):
    assert run("--epsilon", "1", "--delta", "1e-5", *arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("tacit-run").exists()
