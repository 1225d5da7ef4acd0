"""How the budget is divided: all of it before a record is looked at, and never more than there is."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Trust, Unit
from tacit.core.spend import Gaussian, Pure
from tacit.methods.auto.method import question_prices
from tacit.methods.auto.plan import LITTLE_NOISE, AutoPlan, divided_task, little_noise, plan_auto, summed
from tacit.methods.class_sums.plan import plan_sums
from tests.methods.auto.given import clouds, task

PRIVATE, PUBLIC = clouds(2000, 1), clouds(100, 2)[0]
SHARES = st.integers(2, 4).flatmap(lambda size: st.lists(st.integers(1, 9), min_size=size, max_size=size))


def prices(tasks):
    plan = AutoPlan("images", "identity", "identity", False, tuple(tasks), "auto", ())
    return list(question_prices(plan, len(tasks[0].classes)).values())


@settings(max_examples=12, deadline=None)
@given(
    epsilon=st.fractions(Fraction(1, 10), 12, max_denominator=1000), digits=st.integers(4, 12), parts=SHARES,
    own=st.booleans(), records=st.integers(1, 3),
)  # fmt: skip
def test_with_delta_the_questions_never_cost_more_than_the_budget(epsilon, digits, parts, own, records):
    """In the account that was assumed: a run's own, where all was planned, or else an adaptive one."""
    delta = Fraction(1, 10**digits)
    unit = Unit() if records == 1 else Unit.person("patient", records)
    whole = task(PRIVATE, PUBLIC, epsilon=epsilon, delta=delta, own_budget=own, unit=unit)
    shares = [Fraction(each, sum(parts)) for each in parts]
    tasks = divided_task(whole, shares)
    charged = prices(tasks)
    assert all(isinstance(each, Gaussian) for each in charged)
    spent = total(charged, delta, Rule.PLANNED if own else Rule.ADAPTIVE).epsilon
    assert spent <= epsilon
    if digits > 8:
        return  # where one release is accounted for by looser bounds, more noise is added than is needed
    # Little is left over where all was planned.
    assert not own or spent > Fraction(97, 100) * epsilon
    # Squared shifts are in the shares.
    squared = np.array([float(each.noise_multiplier) ** -2 for each in charged])
    assert squared / squared.sum() == pytest.approx(np.array(shares, dtype=float), rel=0.01)


def test_a_budget_that_is_all_delta_is_not_divided_and_the_reason_is_said():
    whole = task(PRIVATE, PUBLIC, epsilon=Fraction(1, 10**5), delta=Fraction(1, 100))
    with pytest.raises(InvalidInput, match="too small relative to delta"):
        divided_task(whole, [Fraction(1, 5), Fraction(4, 5)])


@given(epsilon=st.fractions(Fraction(1, 1000), 50), parts=SHARES)
def test_without_delta_the_parts_add_up_exactly(epsilon, parts):
    whole = task(PRIVATE, PUBLIC, epsilon=epsilon, delta=Fraction(0))
    tasks = divided_task(whole, [Fraction(each, sum(parts)) for each in parts])
    assert sum(each.budget for each in tasks) == epsilon
    charged = prices(tasks)
    assert all(isinstance(each, Pure) for each in charged)
    assert sum(each.epsilon for each in charged) == epsilon


@pytest.mark.parametrize("releases", ["auto", "votes", "sums"])
@pytest.mark.parametrize("side", [2, 20])
def test_the_shares_of_every_plan_are_all_there_is(releases, side, monkeypatch):
    seen = []

    def watching(given, shares):
        seen.append(shares)
        return divided_task(given, shares)

    monkeypatch.setattr("tacit.methods.auto.plan.divided_task", watching)
    for torch in (True, False):
        monkeypatch.setattr("tacit.methods.auto.plan.installed", lambda *_, there=torch: there)
        images = np.random.default_rng(0).normal(size=(40, side * side))
        plan = plan_auto(task(PRIVATE, images, kind="images"), releases)
        assert sum(seen[-1]) == 1
        assert all(0 < each <= 1 for each in seen[-1])
        assert len(plan.tasks) == len(seen[-1])
        assert len({each.request for each in plan.tasks}) == len(plan.tasks)
        assert plan.network is torch


def test_one_question_gets_all_and_keeps_its_name():
    whole = task(PRIVATE, PUBLIC)
    assert divided_task(whole, [Fraction(1)]) == [whole]
    assert plan_auto(whole, "sums").tasks == (whole,)


def test_every_choice_is_said_with_its_reason():
    titles = [title for title, _ in plan_auto(task(PRIVATE, PUBLIC, kind="images"), "auto").lines]
    assert titles[:3] == ["features", "questions", "budget"]
    assert dict(plan_auto(task(PRIVATE, PUBLIC, kind="images"), "sums").lines)["questions"] == "sums only, as requested"
    assert "class sums" in dict(plan_auto(task(PRIVATE, PUBLIC), "auto").lines)["questions"]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**4), Fraction(1, 10**3)])
def test_a_tiny_budget_is_divided_and_not_rounded_to_nothing(epsilon):
    tasks = divided_task(task(PRIVATE, PUBLIC, epsilon=epsilon), [Fraction(1, 5), Fraction(4, 5)])
    assert all(each.budget > 0 for each in tasks)


def test_several_gradients_are_taken_only_if_every_component_is_worth_summing():
    """Strong components have nearly all of the signal: without this rule weak ones that tell classes apart are lost."""
    random = np.random.default_rng(0)
    even, mixing = random.normal(size=(400, 30)), random.normal(size=(30, 30))
    steep = even * 0.7 ** np.arange(30) @ mixing
    for public, several in ((even, True), (steep, False)):
        whole = task((np.tile(public, (20, 1)), np.zeros(8000, dtype=int)), public, kind="embedding")
        planned = plan_sums(whole, summed(whole), Trust.CENTRAL)
        assert planned.kept > LITTLE_NOISE
        assert little_noise(whole) is several
