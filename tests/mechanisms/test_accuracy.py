import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tacit.core.errors import InvalidInput
from tacit.mechanisms.accuracy import (
    collision_count_error,
    expected_label_accuracy,
    laplace_count_error,
    randomized_response_count_error,
)
from tacit.mechanisms.central.selection import PermuteAndFlip


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


@given(
    st.integers(2, 6),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.floats(0.2, 1),
    st.sampled_from(["1/10", 1, 3]),
)
def test_one_rival_with_all_other_votes_is_the_worst_case(classes, shares, purity, epsilon):
    plan = expected_label_accuracy(120, 10, classes, epsilon, neighbors=1, purity=purity)
    rivals = np.array(shares[: classes - 1]) + 1e-9
    scores = np.append(plan.votes * purity, plan.votes * (1 - purity) * rivals / rivals.sum())
    assert PermuteAndFlip.for_epsilon(epsilon, 2).pmf(scores)[0] >= plan.queries_right - 1e-12
    assert plan.samples_right == pytest.approx(plan.queries_right * purity)


def test_more_records_more_epsilon_and_fewer_queries_help():
    def right(records=6000, queries=40, epsilon=0.05):
        return expected_label_accuracy(records, queries, 10, epsilon, neighbors=1, purity=0.8).queries_right

    assert right() < right(records=12_000)
    assert right() < right(queries=20)
    assert right() < right(epsilon=0.1)


def test_the_assumptions_are_said():
    text = expected_label_accuracy(60_000, 40, 10, 0.1, neighbors=1, purity=0.9).in_words
    for words in ("epsilon = 0.1", "same 1500 of the 60000", "at least 90%", "single rival", "replace-one"):
        assert words in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: laplace_count_error(0, 1, 1, 1, 0.1), "classes must be at least 1"),
        (lambda: laplace_count_error(2, 1, 1, 0, 0.1), "epsilon must be above 0"),
        (lambda: laplace_count_error(2, 1, 1, 1, 1.0), r"beta must be in \(0, 1\)"),
        (lambda: randomized_response_count_error(0, 2, 1, 0.1), "records must be at least 1"),
        (lambda: collision_count_error(10, 2, 1, 0.1, length=2, touched=2), r"length must be above touched \(2\)"),
        (lambda: expected_label_accuracy(10, 2, 1, 1, 1, 0.9), "classes must be at least 2"),
        (lambda: expected_label_accuracy(10, 2, 2, 1, 3, 0.9), "neighbors must be at most the 2 queries"),
        (lambda: expected_label_accuracy(10, 2, 2, 1, 1, 0.0), r"purity must be in \(0, 1\]"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
