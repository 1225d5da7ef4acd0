"""PrivateKT from end to end on the digits: what it promises, who pays, and going on after a stop."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import BudgetExceeded, InvalidInput, TacitWarning
from tacit.core.guarantee import Unit
from tacit.datasets.published import digits
from tacit.federation.coordinator import Journal
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.privatekt.options import Learning, PrivateKT, Teaching
from tacit.methods.privatekt.plan import plan_transfer
from tacit.students.registry import load_student
from tacit.students.weighted import logistic

PARTS = digits()
PRIVATE = (PARTS.private_samples, PARTS.private_labels)
TEST = (PARTS.test_samples, PARTS.test_labels)
DELTA = Fraction(1, 10**5)


def run(**changes):
    settings = {"round_epsilon": 6, "rounds": 10, "holders": 20, "model": logistic(), "classes": range(10), "seed": 3}
    return tacit.distill(PRIVATE, PARTS.public_samples, method="privatekt", **(settings | changes))


def test_it_learns_and_says_what_it_cost():
    made = run(rounds=60, test=TEST, eval_every=20, teaching=Teaching(buffer=None))
    assert [turn for turn, _ in made.metrics["curve"]] == [20, 40, 60]
    assert made.metrics["curve"][-1][1] > 0.75
    assert len(made.guarantees) == 20
    assert {len([r for r in made.receipts if r.account == name]) for name in made.guarantees} == {30}
    assert (
        made.guarantee.epsilon
        == plan_transfer(10, 20, None, DELTA, PrivateKT(round_epsilon=6, rounds=60)).total.epsilon
    )
    assert made.guarantee.unit == Unit.whole_holder()
    said = str(made.guarantee)
    for part in ("SIMULATION", "one holder with all its records", "Trust (local)", "optimal composition"):
        assert part in said


def test_a_total_is_solved_for_and_kept():
    made = run(round_epsilon=None, epsilon=20, rounds=20)
    assert 19.99 < made.guarantee.epsilon <= 20
    assert Fraction(made.recipe["round_epsilon"]) > 1
    assert made.metrics["exhausted"] == 0
    capped = run(round_epsilon=None, epsilon=20, rounds=20, max_participations=5)
    assert Fraction(capped.recipe["round_epsilon"]) > Fraction(made.recipe["round_epsilon"])
    assert capped.metrics["rounds"] == 10
    assert capped.guarantee.epsilon <= 20


def test_the_same_seed_gives_the_same_run():
    one, other, third = run(), run(), run(seed=4)
    assert np.array_equal(one.student.predict(TEST[0]), other.student.predict(TEST[0]))
    assert not np.array_equal(one.student.predict_proba(TEST[0]), third.student.predict_proba(TEST[0]))


def test_the_same_seed_gives_the_same_networks():
    pytest.importorskip("torch")
    small = Learning(steps=3, local_steps=3, pretext=5)
    one, other = (run(model="perceptron", rounds=6, learning=small) for _ in range(2))
    assert np.array_equal(one.student.predict_proba(TEST[0]), other.student.predict_proba(TEST[0]))


def test_without_a_seed_the_guarantee_is_real():
    made = run(seed=None, classes=None, delta=0, rounds=2, teaching=Teaching(self_training=False))
    assert not made.guarantee.simulation
    assert made.guarantee.epsilon == 6
    assert "read from the private labels" in str(made.guarantee)
    with pytest.warns(TacitWarning, match="one over the number of holders"):
        assert "one over the number of holders" in str(run(rounds=10, delta="0.1").guarantee)


def test_helpers_can_be_switched_off():
    plain = Teaching(importance=False, buffer=1, self_training=False, targets="hard")
    written = run(teaching=plain).recipe["options"]["teaching"]
    assert (written["importance"], written["buffer"], written["self_training"]) == (False, 1, False)
    assert written["targets"] == "hard"


def test_holders_run_dry_and_the_others_go_on():
    poor, rich = Ceiling(6, DELTA, Rule.PLANNED), Ceiling(1000, DELTA, Rule.PLANNED)
    ledger = MemoryLedger({
        f"holder {place}": replace(poor if place < 5 else rich, unit=Unit.whole_holder()) for place in range(20)
    })  # fmt: skip
    with pytest.warns(TacitWarning, match="5 of 20 holders cannot pay for all rounds and will drop out: holder 0, "):
        made = run(ledger=ledger, max_participations=10)
    assert made.metrics["exhausted"] == 5
    assert all(5.99 < made.guarantees[f"holder {place}"].epsilon <= 6 for place in range(5))
    assert made.metrics["rounds"] == 10
    nobody = Ceiling(1, unit=Unit.whole_holder())
    ledger = MemoryLedger({f"holder {place}": nobody for place in range(20)})
    with pytest.raises(BudgetExceeded, match="cannot pay"):
        run(ledger=ledger)
    assert all(ledger.balance(f"holder {place}").payments == 0 for place in range(20))


class Stopped(Exception):
    pass


@pytest.mark.parametrize("seed", [3, None])
def test_a_stopped_run_goes_on_and_nobody_pays_twice(tmp_path, seed):
    book = None if seed is not None else tmp_path / "main.ledger"

    def stop(turn):
        if turn == 4:
            raise Stopped

    kept = {"seed": seed, "checkpoint": tmp_path / "rounds", "ledger": book, "eval_every": 2}
    with pytest.raises(Stopped):
        run(**kept, observer=tacit.Observer(progress=stop), test=TEST)
    turns = []
    made = run(**kept, observer=tacit.Observer(progress=turns.append), test=TEST)
    assert turns == [5, 6, 7, 8, 9, 10]
    assert [turn for turn, _ in made.metrics["curve"]] == [2, 4, 6, 8, 10]
    assert len(made.receipts) == 100
    if book is not None:
        with SqliteLedger(book) as ledger:
            balances = [ledger.balance(f"holder {place}") for place in range(20)]
        assert sum(each.payments for each in balances) == 100
        assert max(each.spent.epsilon for each in balances) == made.guarantee.epsilon
    # Finished: it is only read again, and nobody is asked.
    turns.clear()
    again = run(**kept, observer=tacit.Observer(progress=turns.append))
    assert turns == []
    assert again.receipts == made.receipts
    assert np.array_equal(again.student.predict(TEST[0]), made.student.predict(TEST[0]))
    with pytest.raises(InvalidInput, match="rounds of another run"):
        run(**kept, rounds=11)


def test_a_round_that_was_cut_off_is_asked_again_at_no_cost(tmp_path, monkeypatch):
    keep = Journal.store_answers

    def cut_off(self, number, kept):
        # Everybody has paid and answered, and the machine dies before the round is written down.
        if number == 2:
            raise Stopped
        keep(self, number, kept)

    monkeypatch.setattr(Journal, "store_answers", cut_off)
    book = tmp_path / "main.ledger"
    with pytest.raises(Stopped):
        run(seed=None, checkpoint=tmp_path / "rounds", ledger=book)
    with SqliteLedger(book) as ledger:
        assert sum(ledger.balance(f"holder {place}").payments for place in range(20)) == 30
    monkeypatch.setattr(Journal, "store_answers", keep)
    made = run(seed=None, checkpoint=tmp_path / "rounds", ledger=book)
    with SqliteLedger(book) as ledger:
        assert sum(ledger.balance(f"holder {place}").payments for place in range(20)) == len(made.receipts) == 100


def test_a_run_is_saved(tmp_path):
    made = run(test=TEST)
    folder = made.save(tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    assert record["guarantee"]["unit"]["holder"] is True
    assert len(record["guarantees"]) == 20
    assert record["metrics"]["curve"][-1][0] == 10
    student = load_student(folder / record["student"])
    assert np.array_equal(student.predict(TEST[0]), made.student.predict(TEST[0]))
    loaded = tacit.load(folder)
    assert loaded.guarantees == made.guarantees
    assert loaded.receipts == made.receipts
    assert np.array_equal(loaded.labels, made.labels)
    assert np.array_equal(loaded.student.predict(TEST[0]), made.student.predict(TEST[0]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record["guarantees"].popitem(), "accounts that paid are not those with a guarantee"),
        (lambda record: record["guarantees"]["holder 3"].update(epsilon_exact="1/2"), "receipts add up to epsilon"),
    ],
)
def test_what_is_claimed_for_each_holder_is_checked_by_its_receipts(tmp_path, change, said):
    folder = run(rounds=2).save(tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    change(record)
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match=said):
        tacit.load(folder)


def test_networks_run_end_to_end():
    pytest.importorskip("torch")
    made = run(model="auto", rounds=3, holders=np.arange(1000) % 7, test=TEST, eval_every=1)
    assert len(made.metrics["curve"]) == 3
    assert made.recipe["holders"] == 7
    assert made.student.predict(TEST[0]).shape == TEST[1].shape


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": 5}, "give either epsilon"),
        ({"round_epsilon": None}, "give either epsilon"),
        ({"queries_per_round": 501}, "queries_per_round must be at most the 500 public samples"),
        ({"queries_per_round": 0}, "queries_per_round must be at least 1"),
        ({"participation": 0.0}, "participation must be above 0 and at most 1"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"holders": 0}, "holders must be"),
        ({"holders": tacit.Partition(400, "dirichlet", 0.01)}, "a holder got no records"),
        ({"holders": tacit.Partition(5, "dirichlet", -1.0)}, "alpha must be above 0"),
        ({"max_participations": 0}, "max_participations must be at least 1"),
        ({"ledger": "main.ledger"}, "must not spend a real budget"),
        ({"seed": None, "checkpoint": "rounds"}, "needs a ledger file"),
        ({"eval_every": 0}, "eval_every must be at least 1"),
        ({"answers": 3}, "answers is called queries_per_round now"),
        ({"keep": "rounds"}, "keep is given as checkpoint now"),
        ({"unit": Unit.person("patient", 2)}, "the unit is a person"),
        ({"trust": "central"}, "trust must be one of local here"),
    ],
)
def test_bad_input_is_named(change, named):
    with pytest.raises(InvalidInput, match=named):
        run(**change)


def test_a_run_that_was_refused_binds_nobody_to_its_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="needs a ledger file"):
        run(seed=None, checkpoint="rounds")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidInput, match="at most the 500 public samples"):
        run(checkpoint="rounds", queries_per_round=501)
    assert run(checkpoint="rounds", rounds=1).receipts
