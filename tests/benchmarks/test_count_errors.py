"""Bounds on the error of counts: checked vectors, and exact probabilities by enumeration."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from experiments.count_errors import collision_count_error, laplace_count_error, randomized_response_count_error
from tacit.core.errors import InvalidInput


@pytest.mark.parametrize(
    ("parameters", "published", "exact"),
    [((10, 1, 1, 0.1, 0.05), 105.966347, 105.506878), ((50, 2, 2, 1, 0.01), 68.137546, 68.098182)],
)
def test_laplace_count_error(parameters, published, exact):
    assert laplace_count_error(*parameters) == pytest.approx((published, exact), abs=6e-7)


@pytest.mark.parametrize(
    ("records", "epsilon", "eta"),
    [(1000, 1, 224.976849), (60_000, 0.4, 4252.649582)],
)
def test_randomized_response_count_error(records, epsilon, eta):
    assert randomized_response_count_error(records, 10, epsilon, 0.05) == pytest.approx(eta, abs=6e-7)


def test_collision_count_error():
    assert collision_count_error(1000, 10, 1, 0.05, length=4) == pytest.approx(251.591724, abs=6e-7)


def test_the_exact_laplace_bound_fails_with_exactly_the_stated_probability():
    published, exact = laplace_count_error(classes=10, neighbors=2, labels=1, epsilon="1/2", beta=0.03, queries=4)
    scale = 2 * 2 / 0.5
    assert 1 - (1 - math.exp(-exact / scale)) ** 40 == pytest.approx(0.03, rel=1e-12)
    assert exact < published


def failure(records, ones, keep, raised, eta):
    """The exact probability that one unbiased count is off by more than η."""
    counts = np.arange(ones + 1)[:, None] + np.arange(records - ones + 1)
    law = np.outer(
        binom.pmf(np.arange(ones + 1), ones, keep), binom.pmf(np.arange(records - ones + 1), records - ones, raised)
    )
    estimate = (counts - records * raised) / (keep - raised)
    return law[np.abs(estimate - ones) > eta].sum()


@pytest.mark.parametrize(("records", "budget", "beta"), [(100, 8.0, 1e-6), (60, 2.0, 0.01), (200, 0.5, 0.05)])
def test_the_local_bounds_hold_by_enumeration(records, budget, beta):
    """Including the parameters at which the published theorem fails (n = 100, ε/2kr = 4, Y = 10, β = 1e-6)."""
    flip = 1 / (math.exp(budget / 2) + 1)
    eta = randomized_response_count_error(records, 10, budget, beta)
    for ones in (0, records // 2, records):
        assert 10 * failure(records, ones, 1 - flip, flip, eta) <= beta
    length = max(2, round(1 + math.exp(budget)))
    hit = math.exp(budget) / (math.exp(budget) + length - 1)
    eta = collision_count_error(records, 10, budget, beta, length)
    for ones in (0, records // 2, records):
        assert 10 * failure(records, ones, hit, 1 / length, eta) <= beta


def test_half_the_bound_does_not_hold():
    eta = randomized_response_count_error(200, 10, 0.5, 0.05) / 2
    flip = 1 / (math.exp(0.25) + 1)
    assert 10 * failure(200, 100, 1 - flip, flip, eta) > 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: laplace_count_error(0, 1, 1, 1, 0.1), "classes must be at least 1"),
        (lambda: laplace_count_error(2, 1, 1, 0, 0.1), "epsilon must be above 0"),
        (lambda: laplace_count_error(2, 1, 1, 1, 1.0), r"beta must be in \(0, 1\)"),
        (lambda: randomized_response_count_error(0, 2, 1, 0.1), "records must be at least 1"),
        (lambda: collision_count_error(10, 2, 1, 0.1, length=2, touched=2), r"length must be above touched \(2\)"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
