import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tacit.accounting.parts import parts_of
from tacit.accounting.planned import pld_epsilon, repeated_epsilon, supports
from tacit.accounting.rdp import curve, improved_epsilon
from tacit.core.spend import Approximate, Composed, DiscreteGaussian, Gaussian, Pure, Repeated, Stability, Subsampled

DELTA = 1e-5


def gaussian_delta(noise, epsilon):
    shift = 1 / noise
    return norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)


@pytest.mark.parametrize(("noise", "count"), [(0.5, 1), (1, 1), (10, 10), (5, 3), (100, 1000), (3000, 10_000)])
def test_gaussians_meet_the_analytic_formula(noise, count):
    found = pld_epsilon({Gaussian(noise): count}, DELTA)
    truth = gaussian_delta(noise / math.sqrt(count), found)
    assert truth <= DELTA
    assert gaussian_delta(noise / math.sqrt(count), found * (1 - 1e-4)) > DELTA


@pytest.mark.parametrize(("sigma", "shift"), [(0.6, 1), (2.0, 1), (2.0, 2), (5.27, 2)])
def test_integer_noise_meets_the_enumeration(sigma, shift):
    # All cells that move, one by one, by one each: the joint distribution over a box that holds the tails.
    reach = math.ceil(9 * sigma)
    values = np.arange(-reach, reach + 2)
    weights = np.exp(-((values[:, None] - np.array([0, 1])) ** 2) / (2 * sigma**2))
    weights /= weights.sum(axis=0)
    here, there = weights[:, 0], weights[:, 1]
    for _ in range(shift - 1):
        here, there = np.outer(here, weights[:, 0]).ravel(), np.outer(there, weights[:, 1]).ravel()
    found = pld_epsilon({DiscreteGaussian(sigma, shift, unit_steps=True): 1}, DELTA)

    def exact(epsilon):
        return np.maximum(here - math.exp(epsilon) * there, 0).sum()

    assert exact(found) <= DELTA
    # Losses on a coarse lattice of their own leave a step of at most the lattice spacing.
    assert exact(found * (1 - 1e-3)) > DELTA


@pytest.mark.parametrize(("single", "count"), [("1/10", 1000), ("1/100", 1000), (1, 100), ("1/3", 40)])
def test_pure_parts_meet_optimal_composition(single, count):
    exact = repeated_epsilon(Fraction(single), Fraction(0), count, Fraction(1, 10**5))
    found = pld_epsilon({Pure(single): count}, DELTA)
    assert exact - 1e-6 <= found <= exact * (1 + 1e-4)


def test_different_pure_and_approximate_parts_meet_the_enumeration():
    parts = {Pure("1/2"): 2, Pure("1/3"): 1, Approximate("1/4", "1e-3"): 1, Stability("1e-3"): 1}
    found = pld_epsilon(parts, 0.01)
    outcomes = []
    for part, count in parts.items():
        single, own = float(getattr(part, "epsilon", 0)), float(getattr(part, "delta", 0))
        likely = (1 - own) / (1 + math.exp(-single))
        table = [(likely, 1 - own - likely), (1 - own - likely, likely), (own, 0.0), (0.0, own)]
        outcomes += [table] * count
    truth = 0.0
    for chosen in itertools.product(*outcomes):
        here, there = math.prod(each[0] for each in chosen), math.prod(each[1] for each in chosen)
        truth += max(0.0, here - math.exp(found) * there)
    assert 0.0098 < truth <= 0.01


def test_both_directions_of_sampling_are_covered():
    rate, noise = 0.2, 1.0
    found = pld_epsilon({Subsampled(rate, Gaussian(noise)): 1}, DELTA)
    values, step = np.linspace(-30, 30, 600_001, retstep=True)
    base = norm.pdf(values, 0, noise)
    mixed = (1 - rate) * base + rate * norm.pdf(values, 1, noise)
    deltas = [
        np.maximum(here - math.exp(found) * there, 0).sum() * step for here, there in ((mixed, base), (base, mixed))
    ]
    assert max(deltas) == pytest.approx(DELTA, rel=2e-3)
    assert max(deltas) <= DELTA * (1 + 1e-6)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(
        [
            Pure("1/5"),
            Gaussian(6),
            DiscreteGaussian(5, 3, unit_steps=True),
            Approximate("1/5", "1e-8"),
            Stability("1e-8"),
        ]
    ),
    st.integers(1, 6),
)
def test_repeated_equals_composed(spend, count):
    repeated, composed = parts_of([Repeated(spend, count)]), parts_of([Composed(*[spend] * count)])
    assert pld_epsilon(repeated, DELTA) == pld_epsilon(composed, DELTA)
    if not isinstance(spend, Stability):
        assert pld_epsilon(repeated, DELTA) < pld_epsilon(parts_of([Repeated(spend, count + 1)]), DELTA)


def test_squared_shift_counts_like_repetitions():
    once = pld_epsilon({DiscreteGaussian(6, 6, unit_steps=True): 1}, DELTA)
    assert once == pytest.approx(pld_epsilon({DiscreteGaussian(6, 2, unit_steps=True): 3}, DELTA), rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.floats(1, 200), st.integers(1, 40))
def test_is_never_above_the_renyi_bound(noise, count):
    parts = {Gaussian(noise): count}
    assert pld_epsilon(parts, DELTA) <= improved_epsilon(curve(parts), DELTA)


@pytest.mark.parametrize(
    "parts",
    [
        {Subsampled("1e-6", Gaussian(0.6)): 1000},
        {Pure(40): 3, Gaussian(2000): 1},
        {Gaussian(0.05): 2},
        {Stability("1e-6"): 3},
    ],
)
def test_extreme_parts_stay_small_and_finite(parts):
    found = pld_epsilon(parts, DELTA)
    assert math.isfinite(found)
    assert found <= 1.001 * improved_epsilon(curve(parts), DELTA - 3e-6) + 1e-3


def test_what_is_not_supported_says_so():
    assert supports({Gaussian(1): 1, Pure(1): 1}, DELTA)
    assert not supports({Gaussian(1): 1}, 1e-11)
    assert not supports({DiscreteGaussian(2, 2, unit_steps=False): 1}, DELTA)
    assert not supports({DiscreteGaussian(10**6, 2, unit_steps=True): 1}, DELTA)


def test_own_delta_that_does_not_fit_has_no_bound():
    assert pld_epsilon({Stability("1e-3"): 1, Gaussian(1): 1}, DELTA) == math.inf
