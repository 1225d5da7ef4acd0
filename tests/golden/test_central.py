"""Checked vectors for the central mechanisms and for accuracy: every number was verified independently."""

import numpy as np
import pytest

from tacit.mechanisms.accuracy import (
    argmax_pmf,
    error_probability,
    gap_needed,
)
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.sampling import SubsetSample
from tacit.mechanisms.central.selection import ExponentialMechanism, PermuteAndFlip

SCORES = np.array([5, 3, 4])


@pytest.mark.parametrize(
    ("selection", "law"),
    [
        ("permute-and-flip", [0.587171669607, 0.146751360561, 0.266076969832]),
        ("exponential", [0.506480391056, 0.186323723226, 0.307195885718]),
        ("laplace", [0.519651387381, 0.174642630580, 0.305705982040]),
        ("gaussian", [0.548743716551, 0.150330582560, 0.300925700890]),
    ],
)
def test_selection_laws(selection, law):
    # One unit in the last printed digit: the Laplace and Gaussian rows add up to 1 + 1e-12 as printed.
    assert argmax_pmf(selection, SCORES, 2) == pytest.approx(law, abs=1e-12, rel=0)


def test_the_mechanisms_own_laws():
    permute = PermuteAndFlip("1/2", 2).pmf(SCORES)
    assert permute == pytest.approx([0.587171669607, 0.146751360561, 0.266076969832], abs=6e-13, rel=0)
    exponential = ExponentialMechanism("1/2", 2).pmf(SCORES)
    assert exponential == pytest.approx([0.506480391056, 0.186323723226, 0.307195885718], abs=6e-13, rel=0)


@pytest.mark.parametrize(
    ("selection", "one_percent", "one_permille"),
    [
        ("laplace", 7.334604, 9.963522),
        ("permute-and-flip", 6.103292, 8.411240),
        ("exponential", 6.792344, 9.103979),
        ("gaussian", 4.245557, 5.191638),
    ],
)
def test_gap_needed_for_ten_labels(selection, one_percent, one_permille):
    assert gap_needed(selection, 10, 0.01) == pytest.approx(one_percent, abs=6e-7)
    assert gap_needed(selection, 10, 0.001) == pytest.approx(one_permille, abs=6e-7)
    assert error_probability(selection, 10, one_percent) == pytest.approx(0.01, rel=1e-5)


def test_variance_of_the_discrete_laplace():
    assert DiscreteLaplaceNoise(2, 2).variance == pytest.approx(7.835396178, abs=6e-10)


@pytest.mark.parametrize(
    ("population", "size", "natural", "printed", "delta"),
    [
        (2880, 18, 0.006249, 0.002714, 0.006232),
        (2880, 60, 0.020830, 0.009046, 0.020621),
        (2880, 300, 0.104149, 0.045231, 0.098941),
        (2880, 2880, 0.999826, 0.434219, 0.632184),
        (300, 18, 0.059900, 0.026014, 0.058330),
        (300, 60, 0.199667, 0.086714, 0.181543),
        (300, 120, 0.399335, 0.173429, 0.330128),
        (300, 300, 0.998337, 0.433572, 0.632735),
    ],
)
def test_noise_free_sampling_table(population, size, natural, printed, delta):
    sample = SubsetSample(size, population, replacement=True)
    assert sample.published_epsilon == pytest.approx(natural, abs=6e-7)
    assert sample.printed_epsilon == pytest.approx(printed, abs=6e-7)
    assert float(sample.delta) == pytest.approx(delta, abs=6e-7)
    assert SubsetSample(size, population, replacement=False).delta * population == size
