"""Limits of a policy: one question, one purpose and one day cannot take the whole ceiling, whoever asks at once."""

import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from multiprocessing import get_context

import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput, LimitExceeded, RequestConflict
from tacit.core.spend import Approximate, DiscreteGaussian, Pure
from tacit.ledger.account import Bound, PolicyLimits
from tacit.ledger.memory import MemoryLedger, UnlimitedLedger
from tacit.ledger.sqlite import SqliteLedger


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    ceilings = {"clinic": Ceiling(10, "1e-5"), "other": Ceiling(10)}
    if request.param == "memory":
        yield MemoryLedger(ceilings)
    else:
        with SqliteLedger.create(tmp_path / "main.ledger", ceilings) as made:
            yield made


def pay(ledger, limits, spend="1/2", request="r-1", purpose="labels", account="clinic"):
    cost = Pure(spend) if isinstance(spend, str) else spend
    return ledger.charge(account, cost, purpose, "system", request, "q", limits)


def test_a_question_may_cost_no_more_than_its_limit(ledger):
    limits = PolicyLimits(question=Bound(Fraction(1, 2)))
    with pytest.raises(LimitExceeded, match=r"epsilon 0\.5 at delta 1e-05 for one question.*Nothing was"):
        pay(ledger, limits, "51/100")
    assert ledger.balance("clinic").payments == 0
    for number in range(3):
        pay(ledger, limits, request=f"r-{number}")
    assert ledger.balance("clinic").payments == 3


def test_a_purpose_counts_with_all_its_rounds_and_by_the_policys_own_name(ledger):
    limits = PolicyLimits(purpose=Bound(Fraction(1)), purposes=("labels", "votes"))
    pay(ledger, limits, request="r-1", purpose="labels, round 1 of 9")
    pay(ledger, limits, request="r-2", purpose="labels, round 2 of 9")
    with pytest.raises(LimitExceeded, match=r"the purpose 'labels'.*to 1\.5"):
        pay(ledger, limits, request="r-3", purpose="labels, whatever else is written")
    pay(ledger, limits, request="r-4", purpose="votes")
    # Purposes of another account are that account's.
    pay(ledger, limits, request="r-1", account="other")


def test_a_day_has_a_price_and_a_number_and_ends(ledger):
    now = datetime.now(UTC)
    price, number = (
        PolicyLimits(day=Bound(Fraction(1)), clock=lambda: now),
        PolicyLimits(questions=2, clock=lambda: now),
    )
    pay(ledger, price, request="r-1")
    pay(ledger, number, request="r-2")
    with pytest.raises(LimitExceeded, match="for a day"):
        pay(ledger, price, "1/100", request="r-3")
    with pytest.raises(LimitExceeded, match="2 questions per day"):
        pay(ledger, number, "1/100", request="r-3")
    tomorrow = now + timedelta(days=1)
    pay(ledger, PolicyLimits(questions=1, clock=lambda: tomorrow), request="r-3")
    # The ledger's own clock is a day behind that one; a clock that goes back frees nothing.
    yesterday = now - timedelta(days=1)
    with pytest.raises(LimitExceeded):
        pay(ledger, PolicyLimits(questions=3, clock=lambda: yesterday), request="r-4")


def test_a_day_is_one_of_utc(ledger):
    pay(ledger, None, request="r-1")
    now = datetime.now(UTC)
    # At any time of day but its first minute it is tomorrow there.
    ahead = now.astimezone(timezone(timedelta(hours=23, minutes=59)))
    with pytest.raises(LimitExceeded):
        pay(ledger, PolicyLimits(questions=1, clock=lambda: ahead), request="r-2")


def test_what_was_paid_is_replayed_and_not_counted_again(ledger):
    limits = PolicyLimits(
        question=Bound(Fraction(1, 2)), purpose=Bound(Fraction(1, 2)), day=Bound(Fraction(1, 2)), questions=1,
        purposes=("labels",),
    )  # fmt: skip
    first = pay(ledger, limits)
    assert all(pay(ledger, limits) == first for _ in range(3))
    # The policy may have become stricter since.
    assert pay(ledger, PolicyLimits(question=Bound(Fraction(1, 100)), questions=0)) == first
    with pytest.raises(RequestConflict):
        pay(ledger, limits, "1/3")
    with pytest.raises(LimitExceeded):
        pay(ledger, limits, request="r-2")
    assert ledger.balance("clinic").payments == 1


def test_the_ceiling_comes_first_and_no_questions_is_none(ledger):
    with pytest.raises(BudgetExceeded):
        pay(ledger, PolicyLimits(question=Bound(Fraction(1))), "11")
    with pytest.raises(LimitExceeded, match="0 questions per day"):
        pay(ledger, PolicyLimits(questions=0))


def test_delta_is_bounded_where_epsilon_is(ledger):
    noisy, half = DiscreteGaussian(20, 2, True), Approximate("1/10", "5e-6")
    with pytest.raises(LimitExceeded, match="beyond any bound"):
        pay(ledger, PolicyLimits(question=Bound(Fraction(5), Fraction(0))), noisy)
    with pytest.raises(LimitExceeded):
        pay(ledger, PolicyLimits(question=Bound(Fraction(5), Fraction("4e-6"))), half)
    pay(ledger, PolicyLimits(day=Bound(Fraction(5), Fraction("6e-6"))), half)
    with pytest.raises(LimitExceeded, match="beyond any bound"):
        pay(ledger, PolicyLimits(day=Bound(Fraction(5), Fraction("6e-6"))), half, request="r-2")
    # Where the limit says no delta, it is the account's.
    pay(ledger, PolicyLimits(day=Bound(Fraction(5))), half, request="r-2")


def test_pure_questions_are_summed_exactly(ledger):
    limits = PolicyLimits(day=Bound(Fraction(1)))
    for number in range(7):
        pay(ledger, limits, "1/7", request=f"r-{number}")
    with pytest.raises(LimitExceeded):
        pay(ledger, limits, "1/1000000", request="r-7")


def charges(path, name, limits):
    paid = 0
    with SqliteLedger(path) as book:
        for number in range(20):
            with suppress(LimitExceeded):
                book.charge("clinic", Pure("1/7"), "labels", "system", f"{name}-{number}", "q", limits)
                paid += 1
    return paid


@pytest.mark.parametrize(
    "limits",
    [
        PolicyLimits(day=Bound(Fraction(10, 7))),
        PolicyLimits(questions=10),
        PolicyLimits(purpose=Bound(Fraction(10, 7)), purposes=("labels",)),
    ],
    ids=["epsilon a day", "questions per day", "epsilon a purpose"],
)
def test_processes_that_ask_at_once_do_not_both_get_the_last_of_it(limits, tmp_path):
    path = tmp_path / "main.ledger"
    SqliteLedger.create(path, {"clinic": Ceiling(1000)}).close()
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        paid = list(pool.map(charges, [path] * 4, "abcd", [limits] * 4))
    assert sum(paid) == 10


def test_threads_that_ask_at_once_do_not_either():
    ledger, paid = MemoryLedger({"clinic": Ceiling(1000)}), []

    def spend(name):
        for number in range(20):
            with suppress(LimitExceeded):
                paid.append(pay(ledger, PolicyLimits(questions=10), request=f"{name}-{number}"))

    threads = [threading.Thread(target=spend, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paid) == 10


def test_a_ledger_without_a_ceiling_has_no_limits_and_says_so():
    with pytest.raises(InvalidInput, match="no other limits"):
        pay(UnlimitedLedger(), PolicyLimits(questions=1))
    assert not PolicyLimits().any
    assert PolicyLimits(questions=1).any
