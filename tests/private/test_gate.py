"""The gate: compare, pay, sample, keep, let go, in that order and no other."""

import numpy as np
import pytest

from tacit.core.errors import BudgetExceeded, RequestConflict, ToleranceExceeded
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import vote_sensitivity
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.private.gate import Gate
from tacit.private.records import Private

MOVES = vote_sensitivity(queries=3, classes=4, neighbors=1)
VOTES = np.array([[30, 0, 0, 1], [0, 40, 2, 0], [1, 0, 0, 50]])


class Spy:
    """A ledger that records what happens in which order, and can fail."""

    def __init__(self, ceiling=1, fail_on=None):
        self.inner = MemoryLedger({"clinic": Ceiling(ceiling)})
        self.events = []
        self.fail_on = fail_on

    def __getattr__(self, name):
        def call(*arguments):
            if name == self.fail_on:
                self.fail_on = None
                raise OSError("the power went out")
            result = getattr(self.inner, name)(*arguments)
            if name != "protects":
                self.events.append(name)
            return result

        return call


class SpyMechanism:
    def __init__(self, events, mechanism):
        self.events, self.inner = events, mechanism
        self.spend, self.tolerates = mechanism.spend, mechanism.tolerates

    def __repr__(self):
        return repr(self.inner)

    def sample(self, value, randomness):
        self.events.append("sample")
        return self.inner.sample(value, randomness)


def release(ledger, mechanism=None, request="r-1", moves=MOVES, question="q", seed=1):
    gate = Gate(ledger, "clinic", SeededRandomness(seed))
    return gate.release(Private(VOTES), moves, mechanism or DiscreteLaplaceNoise.for_epsilon(1, 2), "labels", request,
                        question)  # fmt: skip


def test_pay_then_sample_then_keep():
    ledger = Spy()
    release(ledger, SpyMechanism(ledger.events, DiscreteLaplaceNoise.for_epsilon(1, 2)))
    assert ledger.events == ["charge", "kept", "sample", "keep"]


def test_nothing_is_sampled_when_the_account_cannot_pay():
    ledger = Spy(ceiling=0.5)
    with pytest.raises(BudgetExceeded, match=r"remain"):
        release(ledger, SpyMechanism(ledger.events, DiscreteLaplaceNoise.for_epsilon(1, 2)))
    assert "sample" not in ledger.events


@pytest.mark.parametrize("mechanism", [DiscreteLaplaceNoise.for_epsilon(1, 1), PermuteAndFlip.for_epsilon(1, 1)])
def test_a_statistic_that_moves_too_far_is_refused_before_payment(mechanism):
    ledger = Spy()
    with pytest.raises(ToleranceExceeded, match="moves by 2, tolerated is 1"):
        release(ledger, mechanism)
    assert ledger.events == []


def test_a_retry_replays_the_same_release_and_pays_once():
    ledger = Spy()
    first, again = release(ledger, seed=1), release(ledger, seed=2)
    assert np.array_equal(first.value, again.value)
    assert first.receipts == again.receipts
    assert ledger.balance("clinic").spent.epsilon == 1


def test_another_request_needs_another_payment():
    ledger = Spy()
    release(ledger)
    with pytest.raises(BudgetExceeded):
        release(ledger, request="r-2")


@pytest.mark.parametrize("change", [{"question": "other"}, {"mechanism": PermuteAndFlip.for_epsilon(1, 2)}])
def test_a_request_cannot_be_reused_for_another_question(change):
    ledger = Spy(ceiling=10)
    release(ledger)
    with pytest.raises(RequestConflict):
        release(ledger, **change)


def test_a_crash_between_payment_and_release_pays_once_and_releases_once():
    ledger = Spy(fail_on="keep")
    with pytest.raises(OSError, match="power"):
        release(ledger, seed=1)
    assert ledger.balance("clinic").spent.epsilon == 1
    first, again = release(ledger, seed=2), release(ledger, seed=3)
    assert np.array_equal(first.value, again.value)
    assert ledger.balance("clinic").spent.epsilon == 1


def test_receipts_say_how_the_noise_was_made():
    assert release(Spy()).receipts[0].randomness == "seeded"
    real = Gate(Spy(), "clinic").release(Private(VOTES), MOVES, PermuteAndFlip.for_epsilon(1, 2), "labels", "r")
    assert real.receipts[0].randomness == "system"
    assert not real.receipts[0].simulated
