"""``tacit distill --method class_sums`` as a user gives it: runs, a ledger, a retry, and wrong use."""

import csv
import json
from pathlib import Path

import pytest

from tacit.cli import main
from tacit.datasets.published import digits
from tacit.ledger.sqlite import SqliteLedger
from tacit.runs.run import load

PARTS = digits()
PIXELS = [f"p{place}" for place in range(64)]
BASE = ["distill", "--method", "class_sums", "--private", "records.csv", "--public", "public.csv", "--label", "digit",
        "--classes", "0,1,2,3,4,5,6,7,8,9"]  # fmt: skip
POLICY = """\
[accounts.research]
epsilon = 6
delta = 1e-5
adjacency = "replace-one"
"""


def write(file, header, rows):
    with Path(file).open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([header, *rows])


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [[*x, y] for x, y in zip(PARTS.private_samples, PARTS.private_labels, strict=True)]
    write("records.csv", [*PIXELS, "digit"], rows)
    write("persons.csv", [*PIXELS, "digit", "person"], [[*row, f"p{at // 2}"] for at, row in enumerate(rows)])
    write("public.csv", PIXELS, PARTS.public_samples)
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*BASE, *arguments])
    return ended.value.code


def test_a_run_is_made_told_and_loaded(files, capsys):
    owned = ["--private", "persons.csv", "--unit", "person", "--per-person", "1"]
    assert run("--epsilon", "4", "--delta", "1e-5", "--components", "20", *owned, "--out", "first") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "RoundedGaussianNoise: one noisy sum per class is released, once" in said
    assert "20 components of the public samples by identity" in said
    made = load("first")
    assert made.recipe["method"] == "class_sums"
    assert made.recipe["options"]["components"] == 20
    # About 82 of 100 at this epsilon; a tenth would be guessing.
    assert (made.student.predict(PARTS.test_samples) == PARTS.test_labels.astype(str)).mean() > 0.6
    assert made.student.predict_proba(PARTS.test_samples).shape == (len(PARTS.test_samples), 10)
    with Path("first/labels.csv").open(newline="") as file:
        assert len(list(csv.reader(file))) == 1 + len(PARTS.public_samples)
    assert "one person" in json.loads(Path("first/run.json").read_text())["guarantee"]["statement"]


def test_the_same_command_again_pays_nothing_and_another_one_is_over_budget(files, capsys):
    Path("policy.toml").write_text(POLICY)
    with pytest.raises(SystemExit):
        main(["ledger", "open", "main.ledger", "--policy", "policy.toml"])
    paid = ["--epsilon", "4", "--delta", "1e-5", "--ledger", "main.ledger", "--account", "research"]
    assert run(*paid, "--out", "first") == 0
    assert run(*paid, "--fit", "least-squares", "--out", "second") == 1
    assert "cannot pay" in " ".join(capsys.readouterr().err.split())
    with SqliteLedger("main.ledger") as ledger:
        assert ledger.balance("research").payments == 1
    assert not Path("second").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--epsilon", "1", "--trust", "local"], "Use method rknn"),
        (["--epsilon", "1", "--components", "0"], "components"),
        (["--epsilon", "1", "--fit", "magic"], "logistic, least-squares"),
        (["--epsilon", "1", "--adjacency", "add-remove"], "give components"),
        (["--epsilon", "1", "--queries", "3"], "queries"),
        (["--delta", "1e-5"], "needs --epsilon"),
    ],
)
def test_wrong_use_is_told_and_ends_with_2(files, capsys, given, message):
    assert run(*given, "--out", "first") == 2
    heard = capsys.readouterr()
    assert message in " ".join((heard.err + heard.out).split())
    assert not Path("first").exists()


def test_numbers_are_not_shown(files, capsys):
    rows = [[*x, 3] for x in PARTS.private_samples[:30]]
    rows[4][7] = "77.123secret"
    write("records.csv", [*PIXELS, "digit"], rows)
    assert run("--epsilon", "1", "--out", "first") == 2
    heard = capsys.readouterr()
    assert "row 6, column 'p7'" in heard.err
    assert "secret" not in heard.err + heard.out
