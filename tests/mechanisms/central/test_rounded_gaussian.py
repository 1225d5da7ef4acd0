import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.mechanisms import exact
from tacit.mechanisms.central import rounded_gaussian
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise, gaussian_integers
from tacit.mechanisms.central.rounded_gaussian import noise_multiplier, rounded_gaussian_integers, rounded_gaussian_pmf


def continuous_delta(sigma, epsilon):
    """The exact δ at ε of continuous Gaussian noise on a number that moves by one."""
    return ndtr(1 / (2 * sigma) - epsilon * sigma) - math.exp(epsilon) * ndtr(-1 / (2 * sigma) - epsilon * sigma)


@pytest.mark.parametrize("sigma", [0.4, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5, 1.0, 3.0])
def test_it_costs_no_more_than_the_continuous_gaussian(sigma, epsilon):
    outputs = np.arange(-40, 41)
    here = rounded_gaussian_pmf(Fraction(sigma), outputs)
    there = rounded_gaussian_pmf(Fraction(sigma), outputs - 1)
    delta = np.maximum(here - math.exp(epsilon) * there, 0).sum()
    assert delta <= continuous_delta(sigma, epsilon) + 1e-12


def test_the_discrete_gaussian_may_cost_more_than_the_continuous_one():
    """Why a mechanism that is accounted as continuous must round instead of using the discrete Gaussian."""
    outputs = np.arange(-40, 41)
    mechanism = DiscreteGaussianNoise("0.4", 1, unit_steps=True)
    found = [
        np.maximum(mechanism.pmf(outputs) - math.exp(epsilon) * mechanism.pmf(outputs - 1), 0).sum()
        - continuous_delta(0.4, epsilon)
        for epsilon in np.linspace(0, 6, 61)
    ]
    assert max(found) > 0.01


@pytest.mark.statistical(rate=1e-9)
@pytest.mark.parametrize("sigma", ["1/3", "1", "5.275910", "120"])
def test_the_sampler_follows_the_law_and_mutants_do_not(fits, sigma):
    count = 100_000
    support = np.arange(-1500, 1501)
    law = rounded_gaussian_pmf(Fraction(sigma), support)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert fits(rounded_gaussian_integers(Fraction(sigma), count, SystemRandomness()), support, law) > 1e-9
    half_the_noise = rounded_gaussian_integers(Fraction(sigma) / 2, count, SystemRandomness())
    assert fits(half_the_noise, support, law) < 1e-9
    if sigma == "1/3":
        assert fits(gaussian_integers(Fraction(sigma), count, SystemRandomness()), support, law) < 1e-9


@pytest.mark.parametrize("sigma", ["0.01", "0.37", "5.275910", "123456.789012", "1e12"])
def test_the_float_filter_is_within_its_margin_and_more_bits_are_drawn_when_needed(monkeypatch, sigma):
    seen = []

    def recorded(approximate, refine, randomness):
        # 40 digits need more than the 64 bits of the fraction that were drawn at first.
        seen.append(
            (approximate, [(refine(index, 20), refine(index, 40)) for index in range(min(60, len(approximate)))])
        )
        return exact.bernoulli(approximate, refine, randomness)

    monkeypatch.setattr(rounded_gaussian, "bernoulli", recorded)
    rounded_gaussian_integers(Fraction(sigma), 10, SeededRandomness(1))
    for approximate, refined in seen:
        for rough, (fine, finer) in zip(approximate, refined, strict=False):
            assert abs(Fraction(float(rough)) - Fraction(finer)) < Fraction(1, 2**45)
            assert abs(Fraction(fine) - Fraction(finer)) < Fraction(1, 10**20)


def test_the_bits_of_a_fraction_are_drawn_once_and_only_when_needed(monkeypatch, scripted):
    def recorded(approximate, refine, randomness):
        used = [randomness.used]
        for digits in (10, 40, 40, 200):
            refine(0, digits)
            used.append(randomness.used)
        # Ten digits are in the first 64 bits, 40 need two or three words more, 200 need ten or so.
        assert used[1] == used[0] < used[2] == used[3] < used[4]
        return exact.bernoulli(approximate, refine, randomness)

    monkeypatch.setattr(rounded_gaussian, "bernoulli", recorded)
    assert rounded_gaussian_integers(Fraction(3), 4, scripted([], SeededRandomness(1))).shape == (4,)


def test_the_noise_multiplier_is_rounded_down_and_no_further():
    for sigma, shift in ((Fraction(50), 2), (Fraction(7, 3), 5), (Fraction(1, 100), 1000), (Fraction(6), 4)):
        found = noise_multiplier(sigma, shift)
        assert found**2 * shift <= sigma**2 < (found + Fraction(1, 10**9)) ** 2 * shift
    assert noise_multiplier(Fraction(6), 4) == 3
