"""The gate: compare, pay, sample, keep, let go, in that order and no other."""

import traceback

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, RequestConflict, ToleranceExceeded
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import vote_sensitivity
from tacit.core.spend import FREE
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.subset_selection import SubsetSelection
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
            if name != "privacy_unit":
                self.events.append(name)
            return result

        return call


class SpyMechanism:
    def __init__(self, events, mechanism):
        self.events, self.inner = events, mechanism
        self.spend, self.max_sensitivity = mechanism.spend, mechanism.max_sensitivity

    def __repr__(self):
        return repr(self.inner)

    def sample(self, value, randomness):
        self.events.append("sample")
        return self.inner.sample(value, randomness)


def release(ledger, mechanism=None, request="r-1", sensitivity=MOVES, question="q", seed=1, value=None):
    gate = Gate(ledger, "clinic", SeededRandomness(seed))
    mechanism = mechanism or DiscreteLaplaceNoise.for_epsilon(1, 2)
    value = Private(VOTES) if value is None else value
    return gate.release(value, lambda: np.zeros_like(VOTES), sensitivity, mechanism, "labels", request, question)


def touched(events, error=None):
    """Votes that note down when they are counted, and may fail."""

    def count(votes):
        events.append("touch")
        if error is not None:
            raise error
        return votes

    return Private(VOTES).map(count)


def test_pay_then_touch_then_sample_then_keep():
    ledger = Spy()
    mechanism = SpyMechanism(ledger.events, DiscreteLaplaceNoise.for_epsilon(1, 2))
    release(ledger, mechanism, value=touched(ledger.events))
    assert ledger.events == ["charge", "stored_release", "touch", "sample", "store_release"]


def test_records_are_not_touched_where_nothing_is_paid_or_where_it_is_a_replay():
    for ledger, change, error in (
        (Spy(ceiling=0.5), {}, BudgetExceeded),
        (Spy(), {"mechanism": DiscreteLaplaceNoise.for_epsilon(1, 1)}, ToleranceExceeded),
    ):
        with pytest.raises(error):
            release(ledger, value=touched(ledger.events), **change)
        assert "touch" not in ledger.events
    ledger = Spy()
    first = release(ledger)
    assert np.array_equal(release(ledger, value=touched(ledger.events)).value, first.value)
    assert "touch" not in ledger.events


@pytest.mark.parametrize("error", [ValueError("secret 7"), MemoryError(), KeyError("secret"), ZeroDivisionError()])
def test_votes_that_cannot_be_counted_are_answered_as_those_of_nobody(error, caplog):
    ledger = Spy()
    mechanism = SpyMechanism(ledger.events, DiscreteLaplaceNoise.for_epsilon(1, 2))
    failed = release(ledger, mechanism, value=touched(ledger.events, error))
    nobody = release(Spy(), value=Private(np.zeros_like(VOTES)))
    assert np.array_equal(failed.value, nobody.value)
    assert ledger.events == ["charge", "stored_release", "touch", "sample", "store_release"]
    assert ledger.balance("clinic").spent.epsilon == 1
    assert "secret" not in caplog.text
    assert type(error).__name__ in caplog.text


def test_a_mechanism_that_fails_on_votes_draws_from_those_of_nobody():
    """What a mechanism cannot take must not be refused either: that would tell what it was given."""
    ledger = Spy()
    wild = Private(np.full_like(VOTES, 2**62))
    assert np.array_equal(release(ledger, value=wild).value, release(Spy(), value=Private(np.zeros_like(VOTES))).value)


def test_a_local_randomizer_is_refused_for_a_statistic_of_many_records():
    """It tolerates anything, and would charge for one row while all of them are released."""
    ledger = Spy(ceiling=10)
    with pytest.raises(ToleranceExceeded, match="of many records"):
        release(ledger, SubsetSelection(12, 1, "1/10"))
    assert ledger.events == []


def test_nothing_is_sampled_when_the_account_cannot_pay():
    ledger = Spy(ceiling=0.5)
    with pytest.raises(BudgetExceeded, match=r"remain"):
        release(ledger, SpyMechanism(ledger.events, DiscreteLaplaceNoise.for_epsilon(1, 2)))
    assert "sample" not in ledger.events


@pytest.mark.parametrize("mechanism", [DiscreteLaplaceNoise.for_epsilon(1, 1), PermuteAndFlip.for_epsilon(1, 1)])
def test_a_statistic_that_moves_too_far_is_refused_before_payment(mechanism):
    ledger = Spy()
    with pytest.raises(ToleranceExceeded, match="changes by 2, and the mechanism allows 1"):
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
    ledger = Spy(fail_on="store_release")
    with pytest.raises(OSError, match="power"):
        release(ledger, seed=1)
    assert ledger.balance("clinic").spent.epsilon == 1
    first, again = release(ledger, seed=2), release(ledger, seed=3)
    assert np.array_equal(first.value, again.value)
    assert ledger.balance("clinic").spent.epsilon == 1


def test_receipts_say_how_the_noise_was_made():
    assert release(Spy()).receipts[0].randomness == "seeded"
    gate = Gate(Spy(), "clinic")
    real = gate.release(Private(VOTES), lambda: 0, MOVES, PermuteAndFlip.for_epsilon(1, 2), "labels", "r")
    assert real.receipts[0].randomness == "system"
    assert not real.receipts[0].simulated


def test_a_mechanism_that_claims_to_cost_nothing_is_refused():
    ledger = Spy()
    gift = SpyMechanism(ledger.events, DiscreteLaplaceNoise.for_epsilon(1, 2))
    gift.spend = FREE
    with pytest.raises(ToleranceExceeded, match="every private release has a cost"):
        release(ledger, gift)
    assert ledger.events == []


def test_of_two_draws_for_one_payment_the_stored_one_leaves():
    """Two processes answer one request at once: both find nothing stored, and the second must give its draw up."""

    class Late(Spy):
        def __getattr__(self, name):
            return (lambda receipt: None) if name == "stored_release" else super().__getattr__(name)

    ledger = Late()
    first, second = release(ledger, seed=1), release(ledger, seed=2)
    assert not np.array_equal(first.value, release(Spy(), seed=2).value)
    assert np.array_equal(second.value, first.value)
    assert ledger.balance("clinic").spent.epsilon == 1


def test_a_refusal_after_payment_carries_no_other_error():
    """What went wrong inside may quote what it was given, and a traceback prints the errors behind an error."""

    class Quoting(SpyMechanism):
        def sample(self, value, randomness):
            raise ValueError(f"cannot take {value}")

    with pytest.raises(ToleranceExceeded, match="The payment stands") as caught:
        release(Spy(), Quoting([], DiscreteLaplaceNoise.for_epsilon(1, 2)))
    assert "cannot take" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("fails", [2, 3, 7])
def test_a_payment_that_bought_nothing_buys_nothing_when_it_is_retried(fails):
    """A mechanism that fails for much noise would, asked again and again for one payment, let out what has little."""
    ledger = Spy()
    drawn = []

    class Sometimes(SpyMechanism):
        def sample(self, value, randomness):
            drawn.append(value)
            if len(drawn) <= fails:
                raise ValueError("no room for so much noise")
            return super().sample(value, randomness)

    for _ in range(5):
        with pytest.raises(ToleranceExceeded, match="The payment stands"):
            release(ledger, Sometimes([], DiscreteLaplaceNoise.for_epsilon(1, 2)))
    assert len(drawn) == 2
    assert ledger.balance("clinic").payments == 1
