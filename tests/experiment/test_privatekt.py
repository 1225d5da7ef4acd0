"""PrivateKT from end to end on the digits: what it promises, who pays, and going on after a stop."""

import json
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.compose import Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.datasets.digits import digits
from tacit.experiment.kept_rounds import KeptRounds
from tacit.experiment.privatekt import transfer
from tacit.experiment.privatekt_plan import plan_transfer
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.privatekt.coordinator import Teaching
from tacit.methods.privatekt.models import Learning
from tacit.students.saved import load_student
from tacit.students.weighted import logistic

PARTS = digits()
PRIVATE = (PARTS.private_samples, PARTS.private_labels)
TEST = (PARTS.test_samples, PARTS.test_labels)
DELTA = Fraction(1, 10**5)


def run(**changes):
    settings = {"round_epsilon": 6, "rounds": 10, "holders": 20, "model": logistic(), "classes": range(10), "seed": 3}
    return transfer(PRIVATE, PARTS.public_samples, **(settings | changes))


def test_it_learns_and_says_what_it_cost():
    made = run(rounds=60, test=TEST, every=20, teaching=Teaching(buffer=None))
    assert [turn for turn, _ in made.curve] == [20, 40, 60]
    assert made.curve[-1][1] > 0.75
    assert len(made.guarantees) == 20
    assert {len([r for r in made.receipts if r.account == name]) for name in made.guarantees} == {30}
    assert made.guarantee.epsilon == plan_transfer(10, 20, round_epsilon=6, rounds=60).total.epsilon
    assert made.guarantee.unit == Unit.whole_holder()
    said = str(made.guarantee)
    for part in ("SIMULATION", "one holder with all its records", "Trust (local)", "optimal composition"):
        assert part in said


def test_a_total_is_solved_for_and_kept():
    made = run(round_epsilon=None, epsilon=20, rounds=20)
    assert 19.99 < made.guarantee.epsilon <= 20
    assert made.plan.sheet.epsilon > 1
    assert made.exhausted == 0
    capped = run(round_epsilon=None, epsilon=20, rounds=20, most=5)
    assert capped.plan.sheet.epsilon > made.plan.sheet.epsilon
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
    assert "read off the private labels" in str(made.guarantee)
    assert "one over the number of holders" in str(run(rounds=10, delta="0.1").guarantee)


def test_helpers_can_be_switched_off():
    plain = Teaching(importance=False, buffer=1, self_training=False, targets="hard")
    assert run(teaching=plain).recipe["teaching"] == repr(plain)


def test_holders_run_dry_and_the_others_go_on():
    poor, rich = Ceiling(6, DELTA, Rule.PLANNED), Ceiling(1000, DELTA, Rule.PLANNED)
    ledger = MemoryLedger({f"holder {place}": poor if place < 5 else rich for place in range(20)})
    made = run(ledger=ledger, most=10)
    assert made.exhausted == 5
    assert all(5.99 < made.guarantees[f"holder {place}"].epsilon <= 6 for place in range(5))
    assert made.metrics["rounds"] == 10
    with pytest.raises(InvalidInput, match="nobody answered"):
        run(ledger=MemoryLedger({f"holder {place}": Ceiling(1) for place in range(20)}))


class Stopped(Exception):
    pass


@pytest.mark.parametrize("seed", [3, None])
def test_a_stopped_run_goes_on_and_nobody_pays_twice(tmp_path, seed):
    book = None if seed is not None else tmp_path / "site.ledger"

    def stop(turn):
        if turn == 4:
            raise Stopped

    with pytest.raises(Stopped):
        run(seed=seed, keep=tmp_path / "rounds", ledger=book, progress=stop, test=TEST, every=2)
    turns = []
    made = run(seed=seed, keep=tmp_path / "rounds", ledger=book, progress=turns.append, test=TEST, every=2)
    assert turns == [5, 6, 7, 8, 9, 10]
    assert [turn for turn, _ in made.curve] == [2, 4, 6, 8, 10]
    assert len(made.receipts) == 100
    with SqliteLedger(book or tmp_path / "rounds" / "simulation.ledger") as ledger:
        assert sum(ledger.balance(f"holder {place}").payments for place in range(20)) == 100
        assert max(ledger.balance(f"holder {place}").spent.epsilon for place in range(20)) == made.guarantee.epsilon
    # Finished: it is only read again.
    again = run(seed=seed, keep=tmp_path / "rounds", ledger=book)
    assert np.array_equal(again.student.predict(TEST[0]), made.student.predict(TEST[0]))
    with pytest.raises(InvalidInput, match="rounds of another run"):
        run(seed=seed, keep=tmp_path / "rounds", ledger=book, rounds=11)


def test_a_round_that_was_cut_off_is_asked_again_at_no_cost(tmp_path, monkeypatch):
    keep = KeptRounds.keep

    def cut_off(self, state, curve):
        # Everybody has paid and answered, and the machine dies before the round is written down.
        if state.turn == 3:
            raise Stopped
        keep(self, state, curve)

    monkeypatch.setattr(KeptRounds, "keep", cut_off)
    book = tmp_path / "site.ledger"
    with pytest.raises(Stopped):
        run(seed=None, keep=tmp_path / "rounds", ledger=book)
    with SqliteLedger(book) as ledger:
        assert sum(ledger.balance(f"holder {place}").payments for place in range(20)) == 30
    monkeypatch.setattr(KeptRounds, "keep", keep)
    made = run(seed=None, keep=tmp_path / "rounds", ledger=book)
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


def test_networks_run_end_to_end():
    pytest.importorskip("torch")
    made = run(model="auto", rounds=3, holders=np.arange(1000) % 7, test=TEST, every=1)
    assert len(made.curve) == 3
    assert made.plan.holders == 7
    assert made.student.predict(TEST[0]).shape == TEST[1].shape


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": 5}, "give either epsilon"),
        ({"round_epsilon": None}, "give either epsilon"),
        ({"answers": 501}, "answers must be at most the 500 public samples"),
        ({"answers": 0}, "answers must be at least 1"),
        ({"participation": 0.0}, r"participation must be in \(0, 1\]"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"holders": 0}, "holders must be"),
        ({"holders": 400, "alpha": 0.01}, "a holder got no records"),
        ({"alpha": -1.0}, "alpha must be above 0"),
        ({"most": 0}, "most must be at least 1"),
        ({"ledger": "site.ledger"}, "must not spend a real budget"),
        ({"seed": None, "keep": "rounds"}, "needs a ledger file"),
        ({"every": 0}, "every must be at least 1"),
    ],
)
def test_bad_input_is_named(change, named):
    with pytest.raises(InvalidInput, match=named):
        run(**change)
