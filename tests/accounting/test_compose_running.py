"""A running total is never below the exact composition, hardly above it, and does not grow."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.compose import TABLE, Running, total
from tacit.accounting.rdp import ORDERS, curve, order_for
from tacit.accounting.rest import BITS, Rest, deciding_orders, sum_up
from tacit.core.account import Rule
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
)

TIGHT = 1e-9
FRACTIONS = st.fractions(Fraction(1, 10**6), Fraction(1, 100), max_denominator=10**9)
NOISE = st.fractions(30, 3000, max_denominator=10**6)
SPENDS = st.one_of(
    FRACTIONS.map(Pure),
    NOISE.map(Gaussian),
    st.builds(DiscreteGaussian, NOISE, st.integers(1, 4), st.booleans()),
    st.builds(RandomizedResponse, FRACTIONS, st.integers(2, 20)),
    st.builds(Approximate, FRACTIONS, st.fractions(Fraction(1, 10**15), Fraction(1, 10**9))),
    st.fractions(Fraction(1, 10**15), Fraction(1, 10**9)).map(Stability),
    st.builds(Composed, FRACTIONS.map(Pure), NOISE.map(Gaussian)),
    st.builds(Repeated, FRACTIONS.map(Pure), st.integers(1, 5)),
    st.just(FREE),
)


def stored(running, epsilon, delta):
    """What a ledger reads after it has written it."""
    return Running.from_json(json.loads(json.dumps(running.to_json(epsilon, delta))))


@settings(max_examples=60)
@given(
    spends=st.lists(SPENDS, min_size=TABLE, max_size=4 * TABLE),
    delta=st.sampled_from(["0", "1e-5", "1e-8"]),
    epsilon=st.sampled_from(["1/100", "1", "10"]),
)
def test_a_stored_total_is_never_below_the_exact_one(spends, delta, epsilon):
    """Written down after every charge, and compared with composing all charges anew from their exact parts."""
    delta, epsilon = Fraction(delta), Fraction(epsilon)
    running = Running()
    for spend in spends:
        running = stored(running.plus(spend, curves=delta > 0), epsilon, delta)
    exact, rounded = total(spends, delta).epsilon, running.total(delta, Rule.ADAPTIVE).epsilon
    assert rounded >= exact
    # Whether a ceiling admits the charges is decided as on the whole grid, up to the last digits.
    above = Fraction(10**9 + 2, 10**9)
    assert rounded <= epsilon or exact * above > epsilon


@settings(max_examples=40)
@given(spends=st.lists(SPENDS, min_size=TABLE, max_size=4 * TABLE), delta=st.sampled_from(["0", "1e-5", "1e-8"]))
def test_a_total_in_memory_is_tight(spends, delta):
    delta = Fraction(delta)
    exact, rounded = total(spends, delta).epsilon, Running.of(spends).total(delta, Rule.ADAPTIVE).epsilon
    assert rounded >= exact
    if math.isfinite(exact):
        # Both are rounded up at the ninth digit.
        assert rounded <= exact * Fraction(1 + TIGHT) + Fraction(2, 10**9)


@pytest.mark.parametrize("rule", list(Rule))
@given(spends=st.lists(SPENDS, min_size=2 * TABLE, max_size=3 * TABLE))
@settings(max_examples=15)
def test_a_planned_total_with_a_rest_is_never_below_a_bound_that_holds(rule, spends):
    """Of more parts than the table holds a planned account claims no more than sums and Rényi curves prove."""
    delta = Fraction(1, 10**5)
    running = Running.of(spends)
    if running.rest is None:
        return
    assert running.total(delta, rule).epsilon <= running.total(delta, Rule.ADAPTIVE).epsilon


@pytest.mark.parametrize("count", [1, 3, TABLE])
def test_few_kinds_of_charges_are_composed_exactly_for_ever(count):
    running = Running()
    spends = [Pure(Fraction(1, 1000 + number)) for number in range(count)] * 5
    for spend in spends:
        running = stored(running.plus(spend), Fraction(1), Fraction(1, 10**6))
    assert running.rest is None
    assert running.total(Fraction(1, 10**6), Rule.ADAPTIVE) == total(spends, Fraction(1, 10**6))


def test_a_single_charge_of_many_parts_is_composed_as_one_that_was_planned():
    spend = Composed(*(Gaussian(50 + number) for number in range(2 * TABLE)))
    delta = Fraction(1, 10**6)
    running = Running().plus(spend)
    assert running.total(delta, Rule.ADAPTIVE) == total([spend], delta)
    after = running.plus(Gaussian(1000))
    assert len(after.parts) == TABLE
    exact = total([spend, Gaussian(1000)], delta).epsilon
    assert exact <= after.total(delta, Rule.ADAPTIVE).epsilon <= exact * Fraction(1 + TIGHT) + Fraction(1, 10**9)


def test_the_delta_of_charges_beyond_the_table_is_spent():
    own = Fraction(1, 10**7)
    spends = [Approximate(Fraction(1, 1000 + number), own) for number in range(TABLE + 10)]
    running, delta = Running.of(spends), own * len(spends)
    assert running.rest.delta == 10 * own
    assert running.total(delta, Rule.ADAPTIVE).epsilon == total(spends, delta).epsilon
    for rule in Rule:
        assert running.total(delta * Fraction(99, 100), rule).epsilon == math.inf


@pytest.mark.parametrize("spends", [[Pure("1/10"), Gaussian(50)], [Gaussian(50), Pure("1/10")]], ids=["half", "all"])
def test_the_first_charge_settles_how_delta_is_divided(spends):
    delta = Fraction(1, 10**6)
    assert Running.of(spends).share is Running.of(spends[:1]).share
    assert Running.of(spends).total(delta, Rule.ADAPTIVE) == total(spends, delta)


def test_ten_thousand_different_charges_take_no_more_room_than_forty():
    sizes = []
    running, exact = Running(), Fraction(0)
    for number in range(10_000):
        spend = Pure(Fraction(1, 10**7 + 7919 * number))
        exact += spend.epsilon if number < 2000 else 0
        running = running.plus(spend)
        if number in (40, 9_999):
            sizes.append(len(json.dumps(running.to_json(Fraction(1), Fraction(1, 10**6)))))
        if number == 1999:
            assert exact <= running.pure_epsilon <= exact * (1 + Fraction(1, 2**100))
    assert sizes[1] <= sizes[0] + 200


@given(st.lists(st.fractions(0, 1), max_size=30))
def test_a_rounded_sum_is_never_below_the_exact_one(numbers):
    rounded = Fraction(0)
    for number in numbers:
        rounded = sum_up(rounded, number)
        assert rounded.denominator.bit_length() <= BITS + 130
    exact = sum(numbers, Fraction(0))
    assert exact <= rounded <= exact * (1 + Fraction(len(numbers), 2 ** (BITS - 1)))


@given(st.integers(1, 2**600), st.integers(2**200, 2**600))
def test_rounding_keeps_its_digits_whatever_the_size(numerator, denominator):
    exact = Fraction(numerator, denominator)
    rounded = sum_up(exact, Fraction(0))
    assert exact <= rounded <= exact * (1 + Fraction(1, 2 ** (BITS - 1)))


@settings(max_examples=30)
@given(st.lists(st.tuples(NOISE.map(Gaussian) | FRACTIONS.map(Pure), st.integers(1, 9)), min_size=1, max_size=30))
def test_a_curve_is_never_below_the_exact_one(parts):
    rest = Rest()
    for part, count in parts:
        rest = rest.plus(part, count, curves=True)
    found = rest.with_table({})
    # The exact sum at a few orders, in fractions of floats, whose last digits are covered where they become an ε.
    for place in (0, 50, 200, len(ORDERS) - 1):
        exact = sum(Fraction(float(curve({part: count})[place])) for part, count in parts)
        assert exact * Fraction(1 - 1e-14) <= Fraction(float(found[place])) <= exact * Fraction(1 + TIGHT)


@given(st.floats(1e-3, 50), st.floats(1e-12, 1e-2))
def test_the_orders_around_the_one_that_decides_are_kept(epsilon, delta):
    order = order_for(epsilon, delta)
    kept = ORDERS[list(deciding_orders(Fraction(epsilon), Fraction(delta)))]
    below, above = np.searchsorted(ORDERS, order) - 1, np.searchsorted(ORDERS, order)
    for place in (below, above):
        if 0 <= place < len(ORDERS):
            assert ORDERS[place] in kept


@given(st.fractions(Fraction(1, 100), 20), st.floats(1e-12, 1e-2), st.floats(1e-12, 1e-2))
def test_a_ceiling_with_a_smaller_delta_admits_no_more(epsilon, one, other):
    """Why δ may be lowered: αρ at the deciding order falls with δ, and every curve grows with its order."""
    small, large = sorted([one, other])

    def limit(delta):
        from tacit.accounting.rdp import best_rho

        order = order_for(float(epsilon), delta)
        return order, order * best_rho(order, delta)

    (order, bound), (smaller, larger) = limit(small), limit(large)
    assert order >= smaller * (1 - 1e-9)
    assert bound <= larger * (1 + 1e-9)
