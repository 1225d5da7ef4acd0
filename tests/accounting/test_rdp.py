import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tacit.accounting.parts import parts_of
from tacit.accounting.rdp import ORDERS, WHOLE_ORDERS, curve, improved_epsilon, pure_curve
from tacit.core.errors import InvalidInput
from tacit.core.spend import Approximate, Composed, DiscreteGaussian, Gaussian, Pure, Repeated, Stability, Subsampled
from tests.accounting.published import classic_rdp_epsilon

epsilons = st.floats(1e-6, 1e3)


def divergence(here, there, order):
    """The Rényi divergence of two finite distributions, by its definition."""
    logs = order * np.log(here) + (1 - order) * np.log(there)
    return float(np.logaddexp.reduce(logs)) / (order - 1)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
def test_pure_curve_is_that_of_randomized_response(epsilon):
    likely = 1 / (1 + math.exp(-epsilon))
    for order in (1.1, 2.0, 7.5, 40.0):
        expected = divergence((likely, 1 - likely), (1 - likely, likely), order)
        assert pure_curve(epsilon, np.array([order]))[0] == pytest.approx(expected, rel=1e-9)


@given(epsilons)
def test_pure_curve_grows_with_the_order_and_ends_at_epsilon(epsilon):
    values = pure_curve(epsilon)
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) >= -1e-12 * epsilon)
    assert np.all(values <= epsilon)
    # Never above concentrated privacy, αε²/2, either.
    assert np.all(values <= ORDERS * epsilon**2 / 2 * (1 + 1e-9) + 1e-15)


@given(epsilons, epsilons)
def test_pure_curve_grows_with_epsilon(one, other):
    low, high = sorted((one, other))
    assert np.all(pure_curve(low) <= pure_curve(high) * (1 + 1e-9) + 1e-15)


def test_other_pure_mechanisms_lie_below_the_curve():
    # Three answers instead of two, and Laplace-like weights: both are ε-DP.
    epsilon = 1.2
    growth = math.exp(epsilon)
    answers = np.array([growth, 1, 1]) / (growth + 2), np.array([1, growth, 1]) / (growth + 2)
    decay = np.exp(-epsilon * np.abs(np.arange(-20, 22)[:, None] - np.array([0, 1])))
    decay /= decay.sum(axis=0)
    for here, there in (answers, (decay[:, 0], decay[:, 1])):
        for order in (1.1, 2.0, 8.0, 50.0):
            # Equal for the second, up to rounding.
            assert divergence(here, there, order) <= pure_curve(epsilon, np.array([order]))[0] * (1 + 1e-12)


def test_discrete_gaussian_lies_below_its_bound():
    for sigma in (0.7, 2.0, 5.0):
        values = np.arange(-30 * sigma // 1, 30 * sigma // 1 + 2)
        weights = np.exp(-((values[:, None] - np.array([0, 1])) ** 2) / (2 * sigma**2))
        weights /= weights.sum(axis=0)
        bound = curve({DiscreteGaussian(sigma, 1, unit_steps=True): 1})
        for order in (1.1, 2.0, 8.0, 20.0):
            exact = divergence(weights[:, 0], weights[:, 1], order)
            assert exact <= bound[np.isclose(ORDERS, order)][0] * (1 + 1e-9)


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.15, 35.0), (0.5, 0.8)])
def test_sampled_gaussian_by_quadrature(rate, noise):
    values, step = np.linspace(-40 * noise, 80 * noise, 400_001, retstep=True)
    log_there = norm.logpdf(values, 0, noise)
    log_here = np.logaddexp(math.log1p(-rate) + log_there, math.log(rate) + norm.logpdf(values, 1, noise))
    found = curve({Subsampled(rate, Gaussian(noise)): 1})
    for order in (1.5, 2.0, 2.7, 5.0, 12.0):
        truth = math.log(float(np.exp(order * log_here + (1 - order) * log_there).sum() * step)) / (order - 1)
        bound = float(found[np.isclose(ORDERS, order)][0])
        assert bound >= truth * (1 - 1e-6)
        if order in WHOLE_ORDERS:
            assert bound == pytest.approx(truth, rel=1e-6)


def test_sampling_everybody_is_not_sampling():
    assert np.array_equal(curve({Subsampled(1, Gaussian(3)): 1}), curve({Gaussian(3): 1}))


def test_curves_add_up_and_own_delta_is_left_out():
    spends = [Repeated(Pure("1/2"), 3), Composed(Gaussian(2), Approximate("1/4", "1e-6")), Stability("1e-6")]
    expected = 3 * pure_curve(0.5) + ORDERS / 8 + pure_curve(0.25)
    assert curve(parts_of(spends)) == pytest.approx(expected)


def test_improved_conversion_is_never_worse_and_grows_as_delta_falls():
    for spend in (Pure(1), Gaussian(3), DiscreteGaussian(3, 2, unit_steps=False)):
        values = [improved_epsilon(curve({spend: 5}), delta) for delta in (1e-2, 1e-5, 1e-8)]
        assert values == sorted(values)
        for delta in (1e-2, 1e-5, 1e-8):
            assert improved_epsilon(curve({spend: 5}), delta) <= classic_rdp_epsilon(curve({spend: 5}), delta)


def test_conversion_bounds_the_exact_gaussian():
    for noise in (0.5, 2.0, 20.0):
        shift = 1 / noise
        epsilon = improved_epsilon(curve({Gaussian(noise): 1}), 1e-5)
        delta = norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)
        assert 1e-7 < delta <= 1e-5


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.0])
def test_delta_out_of_range_is_named(delta):
    for convert in (improved_epsilon,):
        with pytest.raises(InvalidInput, match=r"delta must be in \(0, 1\)"):
            convert(curve({Gaussian(1): 1}), delta)


def test_many_different_spends_stay_finite():
    spends = {Pure(Fraction(i, 1000)): i for i in range(1, 200)}
    assert np.all(np.isfinite(curve(spends)))
