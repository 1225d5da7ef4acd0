"""``tacit distill --method privatekt`` as a user gives it: a run, a kill in the middle of one, and wrong use."""

import csv
import json
import signal
from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.privatekt.coordinator import LabelCoordinator
from tacit.runs.run import load
from tests.cli.forked import ended, kill

PARTS = digits()
PIXELS = [f"p{place}" for place in range(64)]
OWNERS = np.arange(300) % 6
BASE = ["distill", "--method", "privatekt", "--private", "records.csv", "--public", "public.csv", "--label", "digit",
        "--classes", "0,1,2,3,4,5,6,7,8,9", "--model", "logistic"]  # fmt: skip
ROUNDS = ["--holder", "clinic", "--round-epsilon", "8", "--rounds", "8"]


def write(file, header, rows):
    with Path(file).open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([header, *rows])


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labeled = zip(PARTS.private_samples[:300], PARTS.private_labels[:300], OWNERS, strict=True)
    write("records.csv", [*PIXELS, "digit", "clinic"], [[*x, y, f"clinic {owner}"] for x, y, owner in labeled])
    write("public.csv", PIXELS, PARTS.public_samples[:100])
    return tmp_path


def there():
    return sorted(each.name for each in Path().iterdir())


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*BASE, *arguments])
    return ended.value.code


def test_a_run_is_made_and_told(files, capsys):
    assert run(*ROUNDS, "--ledger", "clinics.ledger", "--out", "first") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "8 rounds, 3 of 6 holders in each" in said
    assert "epsilon 8 per round, in total 32" in said
    assert "one holder with all its records" in said
    assert "round 8 of 8" in said
    made = load("first")
    assert (round(made.guarantee.epsilon, 3), len(made.guarantees), made.metrics["rounds"]) == (32, 6, 8)
    assert "holder clinic 3" in made.guarantees
    assert made.student.predict(PARTS.test_samples[:5]).shape == (5,)
    assert there() == ["clinics.ledger", "first", "public.csv", "records.csv"]
    # A second run finds every account spent.
    paid = payments()
    assert run(*ROUNDS, "--ledger", "clinics.ledger", "--out", "second") == 1
    assert "'holder clinic 0'" in (said := capsys.readouterr().err)
    assert "cannot pay" in said
    assert payments() == paid == 24
    assert there() == ["clinics.ledger", "first", "public.csv", "records.csv"]


def test_a_total_is_split_over_the_rounds(files, capsys):
    write(
        "records.csv",
        [*PIXELS, "digit"],
        [[*x, y] for x, y in zip(PARTS.private_samples, PARTS.private_labels, strict=True)],
    )
    assert run("--holders", "5", "--alpha", "5", "--epsilon", "20", "--rounds", "4", "--seed", "1", "--out", "it") == 0
    assert "SIMULATION" in capsys.readouterr().out
    record = json.loads((files / "it" / "run.json").read_text())
    assert record["guarantee"]["epsilon"] == "20"
    assert record["recipe"]["randomness"] == "seed 1 (simulation)"


def test_killed_in_any_round_it_goes_on_and_nobody_pays_twice(files):
    command = [*BASE, *ROUNDS, "--ledger", "clinics.ledger", "--out", "run"]
    charge = SqliteLedger.charge
    for reached in (1, 9):

        def dying(book, *given, reached=reached, **more):
            receipt = charge(book, *given, **more)
            if payments() >= reached:
                kill()
            return receipt

        code, said = ended(*command, first=lambda dying=dying: setattr(SqliteLedger, "charge", dying))
        assert code == -signal.SIGKILL, said
        assert payments() == reached
        assert not (files / "run").exists()
    code, said = ended(*command)
    assert code == 0, said
    assert "resuming" in said
    # Eight rounds of three holders, each paid once.
    assert payments() == len(load(files / "run").receipts) == 24
    assert not (files / "run.request").exists()


def payments():
    if not Path("clinics.ledger").exists():
        return 0
    with SqliteLedger("clinics.ledger") as book:
        return sum(book.balance(f"holder clinic {owner}").payments for owner in range(6))


def test_another_run_does_not_take_up_what_is_left(files, capsys, monkeypatch):
    fold = LabelCoordinator.fold

    def stopped(self, state, answers):
        fold(self, state, answers)
        raise KeyboardInterrupt

    monkeypatch.setattr(LabelCoordinator, "fold", stopped)
    assert run(*ROUNDS, "--ledger", "clinics.ledger", "--out", "run") == 130
    assert "pays nothing twice" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setattr(LabelCoordinator, "fold", fold)
    assert run(*ROUNDS, "--ledger", "clinics.ledger", "--out", "run", "--queries-per-round", "1") == 2
    assert "differs in --queries-per-round" in " ".join(capsys.readouterr().err.split())
    assert run(*ROUNDS, "--ledger", "clinics.ledger", "--out", "run") == 0
    assert payments() == 24


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--epsilon", "5"], "assign the records to holders"),
        (["--epsilon", "5", "--holders", "3", "--holder", "clinic"], "both assign records to holders"),
        (
            ["--epsilon", "5", "--holder", "clinic", "--alpha", "1"],
            "--alpha and --by-class divide records",
        ),
        (["--holder", "clinic"], "give either epsilon"),
        (["--holder", "clinic", "--epsilon", "5", "--round-epsilon", "1"], "give either epsilon"),
        (["--holder", "clinic", "--epsilon", "-1"], "epsilon must be above 0"),
        (["--holder", "ward", "--epsilon", "5"], "no column 'ward'"),
        (["--holder", "clinic", "--epsilon", "5", "--queries-per-round", "101"], "at most the 100 public samples"),
        (
            ["--holder", "clinic", "--epsilon", "5", "--participation", "2"],
            "participation must be above 0 and at most",
        ),
        (["--holder", "clinic", "--epsilon", "5", "--targets", "mixed"], "targets must be one of"),
        (["--holder", "clinic", "--epsilon", "5", "--shape", "8"], "--shape must be like 28x28"),
        (["--holder", "clinic", "--epsilon", "5", "--seed", "1", "--ledger", "a"], "must not spend a real budget"),
        (["--holder", "clinic", "--epsilon", "5", "--unit", "clinic"], "--holder and --unit both name a column"),
        (
            ["--holders", "3", "--epsilon", "5", "--unit", "clinic"],
            "privatekt protects one holder with all",
        ),
        (["--holder", "clinic", "--epsilon", "5", "--answers", "2"], "--answers is called --queries-per-round now"),
        (["--holder", "clinic", "--epsilon", "5", "--most", "2"], "--most is called --max-participations now"),
        (["--holder", "clinic", "--epsilon", "5", "--ledgers", "x"], "--ledgers is called --ledger now"),
        (["--holder", "clinic", "--epsilon", "5", "--labels", "soft"], "--labels is an option of --method rknn"),
    ],
)
def test_wrong_use_is_one_clear_message(files, capsys, arguments, said):
    assert run(*arguments) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert there() == ["public.csv", "records.csv"]


def test_methods_have_options_of_their_own(files, capsys):
    for arguments, said in (
        (["--rounds", "3", "--epsilon", "1"], "--rounds is an option of --method privatekt"),
        ([], "--method auto needs --epsilon"),
        (["--method", "magic", "--epsilon", "1"], "unknown method 'magic': choose one of rknn, auto, class_sums"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["distill", "--private", "records.csv", "--public", "public.csv", "--label", "digit", *arguments])
        assert ended.value.code == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_an_edited_run_is_refused(files):
    assert run(*ROUNDS, "--delta", "0", "--out", "run") == 0
    file = files / "run" / "run.json"
    written = file.read_text()
    assert len(load(files / "run").receipts) == 24
    changes = {
        "epsilon = 1 at delta = 0 for holder clinic 1": lambda record: record["guarantees"]["holder clinic 1"].update(
            epsilon="1", epsilon_exact="1"
        ),
        "epsilon = 1 at delta = 0, but": lambda record: record["guarantee"].update(epsilon="1", epsilon_exact="1"),
        "not those with a guarantee": lambda record: record["guarantees"].pop("holder clinic 1"),
        "not complete": lambda record: record.update(format=1),
        "written in format 7": lambda record: record.update(format=7),
        "cannot be read": lambda record: record.pop("recipe"),
    }
    for said, change in changes.items():
        record = json.loads(written)
        change(record)
        file.write_text(json.dumps(record))
        with pytest.raises(InvalidInput, match=said):
            load(files / "run")
