import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.calibrate import (
    discrete_gaussian_sigma,
    gaussian_delta,
    gaussian_multiplier,
    gaussian_sigma,
    largest_pure_epsilon,
)
from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.spend import DiscreteGaussian, Gaussian, Pure

DELTA = Fraction(1, 10**5)


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-3, 50), st.floats(1e-12, 0.3), st.floats(1e-3, 1e3))
def test_gaussian_noise_is_enough_and_hardly_more(epsilon, delta, sensitivity):
    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    assert gaussian_delta(epsilon, sigma, sensitivity) <= delta
    assert gaussian_delta(epsilon, sigma * (1 - 1e-6), sensitivity) > delta
    # Sensitivity only sets the scale.
    assert sigma == pytest.approx(sensitivity * gaussian_sigma(epsilon, delta), rel=1e-9)


def test_gaussian_noise_falls_with_both_parameters():
    assert gaussian_sigma(1, 1e-5) > gaussian_sigma(2, 1e-5) > gaussian_sigma(2, 1e-3)
    # Half the noise is far from private enough.
    assert gaussian_delta(1, gaussian_sigma(1, 1e-5) / 2, 1) > 100e-5


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize(
    ("epsilon", "shift", "unit_steps", "repetitions"), [(1, 2, True, 1), (1, 2, False, 2), ("1/2", 8, True, 3)]
)
def test_integer_noise_fits_its_account_and_hardly_more(epsilon, shift, unit_steps, repetitions, rule):
    sigma = discrete_gaussian_sigma(epsilon, DELTA, shift, unit_steps, repetitions, rule)

    def reached(scale):
        return total([DiscreteGaussian(sigma * scale, shift, unit_steps)] * repetitions, DELTA, rule).epsilon

    assert (sigma * 10**6).denominator == 1
    assert reached(Fraction(1)) <= Fraction(epsilon) < reached(Fraction(999, 1000))
    assert sigma == pytest.approx(gaussian_sigma(epsilon, DELTA, math.sqrt(shift * repetitions)), rel=0.1)


def test_planned_releases_need_less_noise_than_adaptive_ones():
    planned = discrete_gaussian_sigma(1, DELTA, 2, True, 3, Rule.PLANNED)
    adaptive = discrete_gaussian_sigma(1, DELTA, 2, True, 3, Rule.ADAPTIVE)
    assert planned < adaptive < discrete_gaussian_sigma(1, DELTA, 2, True, 6, Rule.ADAPTIVE)


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize(("epsilon", "rounds"), [(1, 1), (1, 10), (1, 1000), (5, 500)])
def test_pure_rounds_fill_their_total(epsilon, rounds, rule):
    single = largest_pure_epsilon(epsilon, DELTA, rounds, rule)
    assert single >= Fraction(epsilon, rounds)
    assert total([Pure(single)] * rounds, DELTA, rule).epsilon <= epsilon
    assert total([Pure(single * Fraction(1001, 1000))] * rounds, DELTA, rule).epsilon > epsilon


def test_without_delta_rounds_share_equally():
    assert largest_pure_epsilon("1/3", 0, 7) == Fraction(1, 21)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_sigma(0, 1e-5), "epsilon must be above 0"),
        (lambda: gaussian_sigma(-1, 1e-5), "epsilon must be above 0"),
        (lambda: gaussian_sigma(1, 0), r"delta must be in \(0, 1\) for Gaussian noise"),
        (lambda: gaussian_sigma(1, 1), r"delta must be in \(0, 1\)"),
        (lambda: gaussian_sigma(1, 1e-5, 0), "sensitivity must be above 0"),
        (lambda: discrete_gaussian_sigma(1, 0, 2, True), r"delta must be in \(0, 1\) for Gaussian noise"),
        (lambda: discrete_gaussian_sigma(0, 1e-5, 2, True), "epsilon must be above 0"),
        (lambda: discrete_gaussian_sigma(1, 1e-5, 0, True), "squared_shift must be at least 1"),
        (lambda: discrete_gaussian_sigma(1, 1e-5, 2, True, 0), "repetitions must be at least 1"),
        (lambda: largest_pure_epsilon(0, 0, 1), "total_epsilon must be above 0"),
        (lambda: largest_pure_epsilon(1, 1, 1), "total_delta must be in"),
        (lambda: largest_pure_epsilon(1, 0, 0), "rounds must be at least 1"),
    ],
)
def test_ranges_are_named(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize("rule", [Rule.PLANNED, Rule.ADAPTIVE])
def test_several_gaussian_releases_fit_and_hardly_less_noise_would(rule):
    delta = Fraction(1, 10**5)
    multiplier = gaussian_multiplier(1, delta, 8, rule)
    assert total([Gaussian(multiplier)] * 8, delta, rule).epsilon <= 1
    assert total([Gaussian(multiplier * Fraction(999, 1000))] * 8, delta, rule).epsilon > 1
    with pytest.raises(InvalidInput, match="repetitions"):
        gaussian_multiplier(1, delta, 0, rule)
