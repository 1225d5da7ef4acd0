import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.planned import repeated_epsilon
from tacit.accounting.rdp import curve, improved_epsilon
from tacit.core.errors import InvalidInput
from tacit.core.spend import Pure


def true_delta(single, own, count, epsilon):
    """δ at ε of ``count`` randomized responses, each in the clear with chance ``own``: all outcomes one by one."""
    likely = (1 - own) / (1 + math.exp(-single))
    outcomes = [(likely, 1 - own - likely), (1 - own - likely, likely), (own, 0.0), (0.0, own)]
    result = 0.0
    for chosen in itertools.product(outcomes, repeat=count):
        here, there = math.prod(each[0] for each in chosen), math.prod(each[1] for each in chosen)
        result += max(0.0, here - math.exp(epsilon) * there)
    return result


@pytest.mark.parametrize("single", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("own", "delta"), [(0, 0.01), (0, 0.2), (0.001, 0.03)])
def test_meets_the_enumeration_exactly(single, count, own, delta):
    found = repeated_epsilon(Fraction(single), Fraction(own), count, Fraction(delta))
    truth = true_delta(single, own, count, found)
    assert truth <= delta * (1 + 1e-12)
    if found > 0:
        # Own δ is bounded by its sum, nδ₀ instead of 1 − (1−δ₀)ⁿ; otherwise this is equality.
        assert truth >= delta * (1 - 1e-6) - own**2 * count**2


@pytest.mark.parametrize(("single", "count"), [("1/10", 1000), ("1/1000", 10_000), (1, 100), (5, 500)])
def test_is_between_the_mean_loss_and_the_renyi_bound(single, count):
    found = repeated_epsilon(Fraction(single), Fraction(0), count, Fraction(1, 10**6))
    mean = count * float(Fraction(single)) * math.tanh(float(Fraction(single)) / 2)
    assert mean < found <= improved_epsilon(curve({Pure(single): count}), 1e-6) * (1 + 1e-7)


@given(st.fractions(Fraction(1, 100), 3), st.integers(1, 50), st.fractions(Fraction(1, 10**8), Fraction(1, 10)))
def test_is_monotone_and_below_the_sum(single, count, delta):
    found = repeated_epsilon(single, Fraction(0), count, delta)
    assert found <= count * float(single)
    assert found <= repeated_epsilon(single, Fraction(0), count + 1, delta) + 1e-9
    assert found <= repeated_epsilon(single * 2, Fraction(0), count, delta) + 1e-9
    assert found <= repeated_epsilon(single, Fraction(0), count, delta / 2) + 1e-9


def test_own_delta_that_does_not_fit_has_no_bound():
    assert repeated_epsilon(Fraction(1), Fraction(1, 100), 10, Fraction(1, 10)) == math.inf
    assert repeated_epsilon(Fraction(1), Fraction(1, 100), 9, Fraction(1, 10)) < math.inf
    assert repeated_epsilon(Fraction(1), Fraction(0), 10**6 + 1, Fraction(1, 10)) == math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Fraction(0), Fraction(0), 2, Fraction(1, 9)), "epsilon must be above 0"),
        ((Fraction(1), Fraction(1), 2, Fraction(1, 9)), "own_delta must be in"),
        ((Fraction(1), Fraction(0), 0, Fraction(1, 9)), "count must be at least 1"),
        ((Fraction(1), Fraction(0), 2, Fraction(0)), r"delta must be in \(0, 1\)"),
    ],
)
def test_ranges_are_named(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        repeated_epsilon(*arguments)
