"""Teachers vote, the gate adds noise, and what one teacher can move is what is charged."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.methods.pate.coordinator import TeacherCoordinator
from tacit.methods.pate.holder import TeacherHolder, rows_per_teacher
from tacit.methods.pate.wire import TeacherAsk, teacher_sensitivity
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.runs.drive import drive
from tests.local_exchange import local_exchange

PUBLIC = np.array([[0.0], [1.0], [2.0]])


class Constant:
    """A teacher that says what its first record says."""

    def fit(self, X, y, sample_weight=None):
        self.label = y[0]
        return self

    def predict(self, X):
        return np.full(len(X), self.label)


def records(label, persons=None):
    return Private(Records(np.zeros((2, 1)), np.full(2, label), persons))


def holder(labels, ceiling=10, seed=1):
    gate = Gate(MemoryLedger({"curator": Ceiling(ceiling)}), "curator", SeededRandomness(seed))
    return TeacherHolder([records(each) for each in labels], gate, Constant)


@pytest.mark.parametrize("mechanism", [LNMax(1, 3), PermuteAndFlip("1/2", 6)])
def test_the_majority_of_teachers_is_learned(mechanism):
    coordinator = TeacherCoordinator(PUBLIC, "abc", mechanism, "r-1")
    release = drive(coordinator, local_exchange([holder([2] * 40 + [0] * 5)]))
    assert release.value.labels.tolist() == [2, 2, 2]
    assert (release.value.votes is None) == isinstance(mechanism, PermuteAndFlip)
    assert [each.account for each in release.receipts] == ["curator"]


def test_votes_of_several_holders_are_added_up():
    coordinator = TeacherCoordinator(PUBLIC, "abc", LNMax(1, 3), "r-1")
    release = drive(coordinator, local_exchange([holder([1] * 30), holder([1] * 30, seed=2), holder([0] * 20, seed=3)]))
    assert release.value.labels.tolist() == [1, 1, 1]
    assert abs(release.value.votes - [20, 60, 0]).max() < 30
    assert len(release.receipts) == 3
    labels = TeacherCoordinator(PUBLIC, "abc", PermuteAndFlip("1/2", 6), "r-2")
    seen = drive(labels, local_exchange([holder([1] * 30), holder([1] * 30, seed=2), holder([0] * 30, seed=3)]))
    assert seen.value.labels.tolist() == [1, 1, 1]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.data())
def test_one_teacher_moves_the_votes_no_further_than_is_said(labels, data):
    other = list(labels)
    other[data.draw(st.integers(0, len(labels) - 1))] = data.draw(st.integers(0, 2))
    tables = [np.tile(np.bincount(each, minlength=3), (3, 1)) for each in (labels, other)]
    moved = np.abs(tables[0] - tables[1])
    said = teacher_sensitivity(3)
    assert moved.sum() <= said.l1
    assert (moved**2).sum() <= said.l2_squared
    assert moved.max() <= said.linf


def test_noise_for_fewer_samples_is_refused_and_nothing_is_charged():
    asked = holder([0, 1])
    with pytest.raises(ToleranceExceeded, match="l1"):
        asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1, 2), "votes", "r-1"))
    assert len(asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1, 3), "votes", "r-1")).receipts) == 1


def test_a_spent_account_is_refused_and_a_retry_is_replayed():
    asked = holder([0, 1], ceiling=6)
    ask = TeacherAsk(PUBLIC, ("a", "b"), LNMax(1, 3), "votes", "r-1")
    first = asked.answer(ask)
    assert first.receipts[0].spend.spend.epsilon == Fraction(1)
    assert np.array_equal(asked.answer(ask).value, first.value)
    with pytest.raises(BudgetExceeded):
        asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1, 3), "votes", "r-2"))


class Broken(Constant):
    """A teacher that cannot be trained, or cannot be asked."""

    def __init__(self, step):
        self.step = step

    def fit(self, X, y, sample_weight=None):
        if self.step == "fit":
            raise ValueError(f"secret {y}")
        return super().fit(X, y)

    def predict(self, X):
        if self.step == "raise":
            raise ValueError(f"secret {self.label}")
        return np.full((1, 1) if self.step == "shape" else len(X), 7)


@pytest.mark.parametrize("step", ["fit", "raise", "shape", "label"])
def test_a_teacher_that_cannot_answer_does_not_vote_and_pays_as_any_other(step):
    ledger = MemoryLedger({"curator": Ceiling(10**6)})
    both = Private(Records(np.zeros((2, 1)), np.array([0, 1])))
    teachers = iter([Broken(step), Constant(), Constant()])
    asked = TeacherHolder([both] * 3, Gate(ledger, "curator", SeededRandomness(1)), lambda: next(teachers))
    votes = asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1000, 3), "votes", "r-1"))
    assert votes.value.tolist() == [[2, 0]] * 3
    assert ledger.balance("curator").payments == 1


def test_a_teacher_whose_records_are_all_of_one_class_votes_for_it():
    ledger = MemoryLedger({"curator": Ceiling(10**6)})
    asked = TeacherHolder([records(1)], Gate(ledger, "curator", SeededRandomness(1)), LogisticRegression)
    votes = asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1000, 3), "votes", "r-1"))
    assert votes.value.tolist() == [[0, 1]] * 3


def test_a_teacher_without_records_of_some_class_votes_for_the_others_in_their_own_columns():
    ledger = MemoryLedger({"curator": Ceiling(10**6)})
    # Neither teacher has a record of the class in the middle; only the second has one of the first.
    shards = [
        Private(Records(np.array([[0.0], [9.0]]), np.array([2, 3]))),
        Private(Records(np.array([[0.0], [9.0]]), np.array([0, 3]))),
    ]
    asked = TeacherHolder(shards, Gate(ledger, "curator", SeededRandomness(1)), LogisticRegression)
    samples = np.array([[0.0], [9.0]])
    votes = asked.answer(TeacherAsk(samples, ("a", "b", "c", "d"), LNMax(1000, 2), "votes", "r-1"))
    assert votes.value.tolist() == [[1, 0, 1, 0], [0, 0, 0, 2]]


def test_samples_of_another_shape_are_refused_before_payment():
    ledger = MemoryLedger({"curator": Ceiling(9)})
    asked = TeacherHolder([records(0)], Gate(ledger, "curator", SeededRandomness(1)), Constant)
    with pytest.raises(InvalidInput, match="a different shape than the records; nothing was charged"):
        asked.answer(TeacherAsk(np.zeros((3, 2)), ("a", "b"), LNMax(1, 3), "votes", "r-1"))
    assert ledger.balance("curator").payments == 0


def test_persons_are_not_spread_over_teachers():
    gate = Gate(MemoryLedger({"curator": Ceiling(9, unit=Unit.person("patient", 2))}), "curator")
    ada, bob = np.array(["ada", "ada"]), np.array(["bob", "bob"])
    TeacherHolder([records(0, ada), records(1, bob)], gate, Constant)
    with pytest.raises(InvalidInput, match="at several teachers"):
        TeacherHolder([records(0, ada), records(1, ada)], gate, Constant)
    with pytest.raises(InvalidInput, match="person column"):
        TeacherHolder([records(0, ada), records(1)], gate, Constant)


def test_wrong_use_is_explained():
    with pytest.raises(InvalidInput, match="at least one teacher"):
        holder([])
    with pytest.raises(InvalidInput, match="gives no labels"):
        TeacherCoordinator(PUBLIC, "abc", ConfidentScreen(4, 2, 3), "r-1")
    with pytest.raises(InvalidInput, match="at least 2 classes"):
        TeacherCoordinator(PUBLIC, "a", GNMax(4, 3), "r-1")
    with pytest.raises(InvalidInput, match="at least one sample"):
        TeacherAsk(PUBLIC[:0], ("a", "b"), GNMax(4, 3), "votes", "r-1")
    with pytest.raises(InvalidInput, match="does not answer through"):
        holder([0]).answer(TeacherAsk(PUBLIC, ("a", "b"), object(), "votes", "r-1"))
    coordinator = TeacherCoordinator(PUBLIC, "abc", GNMax(4, 3), "r-1")
    with pytest.raises(InvalidInput, match="no answer yet"):
        coordinator.result(coordinator.begin())
    with pytest.raises(InvalidInput, match="no teacher answered"):
        coordinator.fold(coordinator.begin(), [])
    with pytest.raises(InvalidInput, match="queries must be at least 1"):
        teacher_sensitivity(0)


class Scripted:
    """Randomness that is told: these words, and zeros after them."""

    origin = "scripted"

    def __init__(self, words):
        self.told = words

    def words(self, count):
        return np.array([*self.told, *[0] * count][:count], dtype=np.uint64)


def divisions(names, adjacency, scripts):
    """Who teaches whom, over all draws: how often each division comes up."""
    found = Counter()
    for words in scripts:
        rows = np.array([name for name in names for _ in range(2)])
        own = Records(np.zeros((len(rows), 1)), np.zeros(len(rows), dtype=np.int64), rows)
        parts = rows_per_teacher(own, 2, adjacency, Scripted(words))
        found[frozenset((name, place) for place, part in enumerate(parts) for name in rows[part].tolist())] += 1
    return found


def without(found, name):
    """The same divisions of all others but this person."""
    left = Counter()
    for division, times in found.items():
        left[frozenset(each for each in division if each[0] != name)] += times
    return left


def test_a_replaced_person_changes_one_teacher_whatever_its_name():
    """Over all draws: the others are divided the same way, and who came is where the one who went would have been."""
    orders = list(itertools.permutations(range(4)))
    before = divisions(["bob", "cy", "dan", "eve"], Adjacency.REPLACE_ONE, orders)
    after = divisions(["bob", "cy", "dan", "ada"], Adjacency.REPLACE_ONE, orders)
    assert len(before) == 6
    assert Counter({frozenset(("ada" if n == "eve" else n, t) for n, t in d): c for d, c in before.items()}) == after
    # Nobody is spread over teachers, and they get equally many.
    assert all(len(division) == 4 and sum(place for _, place in division) == 2 for division in before)


def test_a_person_more_changes_one_teacher():
    fewer = divisions(["bob", "cy"], Adjacency.ADD_REMOVE, itertools.product(range(2), repeat=2))
    more = divisions(["ada", "bob", "cy"], Adjacency.ADD_REMOVE, itertools.product(range(2), repeat=3))
    assert {each: 2 * times for each, times in fewer.items()} == without(more, "ada")
