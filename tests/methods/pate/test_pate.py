"""Teachers vote, the gate adds noise, and what one teacher can move is what is charged."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.errors import BudgetExceeded, InvalidInput, ToleranceExceeded
from tacit.core.guarantee import Unit
from tacit.core.randomness import SeededRandomness
from tacit.exchange.local import local_exchange
from tacit.experiment.drive import drive
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.mechanisms.central.pate import ConfidenceScreen, GaussianVotes, LaplaceVotes
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.methods.pate.coordinator import TeacherCoordinator
from tacit.methods.pate.holder import TeacherHolder, teacher_sensitivity
from tacit.methods.pate.wire import TeacherAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records

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


@pytest.mark.parametrize("mechanism", [LaplaceVotes(1, 3), PermuteAndFlip("1/2", 6)])
def test_the_majority_of_teachers_is_learned(mechanism):
    coordinator = TeacherCoordinator(PUBLIC, "abc", mechanism, "r-1")
    release = drive(coordinator, local_exchange([holder([2] * 40 + [0] * 5)]))
    assert release.value.labels.tolist() == [2, 2, 2]
    assert (release.value.votes is None) == isinstance(mechanism, PermuteAndFlip)
    assert [each.account for each in release.receipts] == ["curator"]


def test_votes_of_several_holders_are_added_up():
    coordinator = TeacherCoordinator(PUBLIC, "abc", LaplaceVotes(1, 3), "r-1")
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
        asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LaplaceVotes(1, 2), "votes", "r-1"))
    assert len(asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LaplaceVotes(1, 3), "votes", "r-1")).receipts) == 1


def test_a_spent_account_is_refused_and_a_retry_is_replayed():
    asked = holder([0, 1], ceiling=6)
    ask = TeacherAsk(PUBLIC, ("a", "b"), LaplaceVotes(1, 3), "votes", "r-1")
    first = asked.answer(ask)
    assert first.receipts[0].spend.spend.epsilon == Fraction(1)
    assert np.array_equal(asked.answer(ask).value, first.value)
    with pytest.raises(BudgetExceeded):
        asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LaplaceVotes(1, 3), "votes", "r-2"))


def test_what_goes_wrong_with_records_is_not_told():
    gate = Gate(MemoryLedger({"curator": Ceiling(9)}), "curator", SeededRandomness(1))
    asked = TeacherHolder([records(0)], gate, lambda: None)
    with pytest.raises(InvalidInput, match="do not fit the question"):
        asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LaplaceVotes(1, 3), "votes", "r-1"))


def test_persons_are_not_spread_over_teachers():
    gate = Gate(MemoryLedger({"curator": Ceiling(9, unit=Unit.person("patient", 2))}), "curator")
    ada, bob = np.array(["ada", "ada"]), np.array(["bob", "bob"])
    TeacherHolder([records(0, ada), records(1, bob)], gate, Constant)
    with pytest.raises(InvalidInput, match="spread over several teachers"):
        TeacherHolder([records(0, ada), records(1, ada)], gate, Constant)
    with pytest.raises(InvalidInput, match="person column"):
        TeacherHolder([records(0, ada), records(1)], gate, Constant)


def test_wrong_use_is_explained():
    with pytest.raises(InvalidInput, match="at least one teacher"):
        holder([])
    with pytest.raises(InvalidInput, match="gives no labels"):
        TeacherCoordinator(PUBLIC, "abc", ConfidenceScreen(4, 2, 3), "r-1")
    with pytest.raises(InvalidInput, match="at least 2 classes"):
        TeacherCoordinator(PUBLIC, "a", GaussianVotes(4, 3), "r-1")
    with pytest.raises(InvalidInput, match="at least one sample"):
        TeacherAsk(PUBLIC[:0], ("a", "b"), GaussianVotes(4, 3), "votes", "r-1")
    with pytest.raises(InvalidInput, match="does not answer through"):
        holder([0]).answer(TeacherAsk(PUBLIC, ("a", "b"), object(), "votes", "r-1"))
    coordinator = TeacherCoordinator(PUBLIC, "abc", GaussianVotes(4, 3), "r-1")
    with pytest.raises(InvalidInput, match="no answer yet"):
        coordinator.result(coordinator.begin())
    with pytest.raises(InvalidInput, match="no teacher answered"):
        coordinator.fold(coordinator.begin(), [])
    with pytest.raises(InvalidInput, match="queries must be at least 1"):
        teacher_sensitivity(0)
