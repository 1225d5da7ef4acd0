import json
import math
import subprocess
import sys
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.spend import (
    FREE,
    Approximate,
    Composed,
    DiscreteGaussian,
    Gaussian,
    Pure,
    RandomizedResponse,
    Repeated,
    Stability,
    Subsampled,
)

DELTA = Fraction(1, 10**5)
SMALL = Fraction(1, 10**7)
LEAVES = [
    Pure("1/10"),
    Pure(1),
    RandomizedResponse("1/2", 10),
    Approximate("1/5", "1e-7"),
    Gaussian(5),
    DiscreteGaussian(8, 2, unit_steps=True),
    DiscreteGaussian(8, 2, unit_steps=False),
    Subsampled("1/10", Gaussian(2)),
    Stability("1e-7"),
]
leaves = st.sampled_from(LEAVES)
charges = st.lists(st.one_of(leaves, st.builds(Repeated, leaves, st.integers(1, 4))), min_size=1, max_size=4)


def test_pure_spends_add_up_exactly():
    spends = [Pure(Fraction(1, denominator)) for denominator in range(1, 30)]
    assert total(spends, Fraction(0)).epsilon == sum(Fraction(1, denominator) for denominator in range(1, 30))
    # Three tenths are not three float tenths.
    assert total([Pure(0.1)] * 3, Fraction(0)).epsilon == Fraction(3, 10)


def test_nothing_costs_nothing():
    for rule in Rule:
        for spends in ([], [FREE], [FREE, FREE]):
            assert total(spends, DELTA, rule).epsilon == 0


def test_post_processing_is_not_a_charge():
    alone, after = total([Gaussian(2)], DELTA), total([FREE, Gaussian(2), FREE], DELTA)
    assert alone == after


@pytest.mark.parametrize("spend", [Gaussian(100), DiscreteGaussian(9, 1, unit_steps=True), Stability("1e-9")])
def test_without_delta_only_pure_spends_are_bounded(spend):
    for rule in Rule:
        found = total([Pure(1), spend], Fraction(0), rule)
        assert (found.epsilon, found.accountant) == (math.inf, "none")
        assert total([spend], Fraction(0), rule).epsilon == math.inf


def test_delta_of_parts_is_used_up_exactly():
    spends = [Approximate("1/5", "1e-6")] * 10
    for rule in Rule:
        assert total(spends, Fraction(1, 10**5), rule) == total(spends, Fraction(1, 10**5))
        assert total(spends, Fraction(1, 10**5), rule).epsilon == 2
        assert total(spends, Fraction(1, 10**5) - Fraction(1, 10**20), rule).epsilon == math.inf
    assert total(spends, Fraction(1, 10**5)).accountant == "basic composition"
    assert total([Stability("1/100")], Fraction(1, 100)).epsilon == 0
    assert total([Stability("1/100")], Fraction(1, 101)).epsilon == math.inf


def test_which_accountant():
    assert total([Pure(1)] * 2, DELTA).accountant == "pure composition"
    assert total([Pure("1/100")] * 1000, DELTA).accountant == "Rényi (RDP)"
    assert total([Repeated(Pure("1/100"), 1000)], DELTA).accountant == "optimal composition"
    assert total([Gaussian(5)] * 2, DELTA).accountant == "Rényi (RDP)"
    assert total([Gaussian(5)] * 2, DELTA, Rule.PLANNED).accountant == "privacy-loss distribution (PLD)"
    assert total([Repeated(Gaussian(5), 2)], DELTA).accountant == "privacy-loss distribution (PLD)"
    assert total([RandomizedResponse(1, 10)] * 100, DELTA).accountant == "Rényi (RDP)"
    assert total([RandomizedResponse(1, 10)] * 100, DELTA, Rule.PLANNED).accountant == "optimal composition"
    mixed = [RandomizedResponse(1, 10)] * 100 + [RandomizedResponse(1, 5)] * 100
    assert total(mixed, DELTA, Rule.PLANNED).accountant == "privacy-loss distribution (PLD)"
    # Without unit steps only concentrated privacy is proven.
    assert total([DiscreteGaussian(8, 2, unit_steps=False)], DELTA).accountant == "Rényi (RDP)"


def test_the_first_charge_settles_what_delta_is_kept_for():
    carried, noise, pure = Approximate("1/5", "1e-6"), Gaussian(5), Pure("1/5")
    # Kept for parts that carry δ: noise cannot be converted any more, and the other way round.
    assert total([carried, noise], DELTA).epsilon == math.inf
    assert total([noise, carried], DELTA).epsilon == math.inf
    # Half each when the first charge is pure, or carries and converts.
    for first in (pure, Composed(carried, noise)):
        assert total([first, carried, noise], DELTA).epsilon < math.inf
        assert total([first, Repeated(carried, 6), noise], DELTA).epsilon == math.inf
    assert total([pure, noise], DELTA).epsilon > total([noise, pure], DELTA).epsilon
    # Spends that were all planned share δ without waste.
    assert total([carried, noise], DELTA, Rule.PLANNED).epsilon < math.inf


@settings(max_examples=25, deadline=None)
@given(charges, leaves, st.sampled_from(list(Rule)))
def test_totals_never_fall(several, more, rule):
    before, after = total(several, DELTA, rule).epsilon, total([*several, more], DELTA, rule).epsilon
    # Two privacy-loss distributions lie on different lattices; each is within a thousandth of the truth.
    assert after >= before * Fraction(999, 1000)
    if rule is Rule.ADAPTIVE:
        assert after >= before


@settings(max_examples=25, deadline=None)
@given(charges, st.sampled_from(list(Rule)))
def test_no_total_is_below_one_of_its_parts(several, rule):
    whole = total(several, DELTA, rule).epsilon
    for spend in several:
        assert whole >= total([spend], DELTA, rule).epsilon * Fraction(999, 1000)
        if isinstance(spend, Pure | RandomizedResponse):
            assert whole >= spend.epsilon


@settings(max_examples=25, deadline=None)
@given(charges)
def test_planning_never_costs_more(several):
    assert total(several, DELTA, Rule.PLANNED).epsilon <= total(several, DELTA, Rule.ADAPTIVE).epsilon


@settings(max_examples=20, deadline=None)
@given(charges, st.sampled_from(list(Rule)))
def test_a_larger_delta_never_costs_more(several, rule):
    small, large = total(several, SMALL, rule).epsilon, total(several, DELTA, rule).epsilon
    # Lattices differ as above; filters and sums are compared exactly.
    assert large <= small * (Fraction(1001, 1000) if math.isfinite(small) else 1)


@settings(max_examples=30, deadline=None)
@given(leaves, st.integers(2, 6), st.sampled_from(list(Rule)))
def test_repeated_equals_composed_in_every_accountant(spend, count, rule):
    repeated, composed = Repeated(spend, count), Composed(*[spend] * count)
    assert total([repeated], DELTA, rule) == total([composed], DELTA, rule)
    assert total([repeated], DELTA, Rule.PLANNED) == total([spend] * count, DELTA, Rule.PLANNED)
    assert total([repeated, Gaussian(9)], DELTA, rule) == total([composed, Gaussian(9)], DELTA, rule)
    # The mutant that loses or adds one count is seen, except where there is no ε to count.
    if not isinstance(spend, Stability):
        assert total([Repeated(spend, count - 1)], DELTA, rule).epsilon < total([repeated], DELTA, rule).epsilon
        assert total([repeated], DELTA, rule).epsilon < total([Repeated(spend, count + 1)], DELTA, rule).epsilon


def test_ten_thousand_pure_spends_are_quick():
    spends = [Pure(Fraction(1 + i % 997, 1000)) for i in range(10_000)]
    started = time.perf_counter()
    found = total(spends, Fraction(0))
    assert found.epsilon == Fraction(sum(1 + i % 997 for i in range(10_000)), 1000)
    assert time.perf_counter() - started < 3


def test_pure_budgets_load_no_numeric_library():
    program = """
import json, sys
from fractions import Fraction
from tacit.accounting.compose import total
from tacit.core.spend import Pure, Repeated
total([Pure(1)] * 3, Fraction(0))
total([Pure(1), Pure(2)] * 50, Fraction(1, 10**6))
total([Repeated(Pure(1), 100)], Fraction(1, 10**6))
print(json.dumps([name for name in ("scipy", "dp_accounting") if name in sys.modules]))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert json.loads(answer.stdout) == []


@pytest.mark.parametrize("delta", [Fraction(-1, 10), Fraction(1), Fraction(3, 2)])
def test_delta_out_of_range_is_named(delta):
    with pytest.raises(InvalidInput, match=r"delta must be in \[0, 1\)"):
        total([Pure(1)], delta)


def test_numbers_beyond_floats_leave_the_exact_sum():
    huge = Pure(10**400)
    for rule in Rule:
        assert total([huge, huge], DELTA, rule).epsilon == 2 * 10**400
        assert total([huge, Gaussian(1)], DELTA, rule).epsilon == math.inf
        assert total([Pure(1), Pure(2)], Fraction(1, 10**400), rule).epsilon == 3
        assert total([Gaussian(1)], Fraction(1, 10**400), rule).epsilon == math.inf


def test_numeric_totals_are_rounded_up():
    found = total([Gaussian(5)] * 2, DELTA).epsilon
    assert isinstance(found, Fraction)
    assert (found * 10**9).denominator == 1
