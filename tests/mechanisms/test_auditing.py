"""The intervals are right for every count that can occur, by enumeration, and the proofs made of them too."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tacit.mechanisms.auditing import (
    delta_bounds,
    epsilon_bounds,
    proportion_above,
    proportion_below,
    provable_epsilon,
)


@pytest.mark.parametrize("trials", [1, 7, 40])
@pytest.mark.parametrize("error", [0.2, 0.01, 1e-6])
def test_a_limit_is_wrong_no_more_often_than_it_says(trials, error):
    counts = np.arange(trials + 1)
    for share in np.linspace(0, 1, 41):
        law = binom.pmf(counts, trials, share)
        assert law[proportion_above(counts, trials, error) > share].sum() <= error * (1 + 1e-9)
        assert law[proportion_below(counts, trials, error) < share].sum() <= error * (1 + 1e-9)


def test_a_limit_without_its_correction_is_found_to_be_wrong():
    """The plain proportion, which one would take without Clopper and Pearson, is above the truth half the time."""
    counts = np.arange(41)
    law = binom.pmf(counts, 40, 0.3)
    assert law[counts / 40 > 0.3].sum() > 0.01


@pytest.mark.parametrize(("frequent", "rare"), [(0.5, 0.5 * math.exp(-1)), (0.9, 0.9 / math.e), (0.05, 0.05 / math.e)])
def test_a_proof_is_wrong_no_more_often_than_it_says(frequent, rare):
    trials, error = 60, 0.05
    counts = np.arange(trials + 1)
    law = np.outer(binom.pmf(counts, trials, frequent), binom.pmf(counts, trials, rare))
    hits, others = np.meshgrid(counts, counts, indexing="ij")
    epsilon = math.log(frequent / rare)
    assert law[epsilon_bounds(hits, others, trials, 0, error) > epsilon].sum() <= error
    delta = frequent - math.exp(0.3) * rare
    assert law[delta_bounds(hits, others, trials, 0.3, error) > delta].sum() <= error
    # Half of the noise makes twice the ε; the bound is not so loose that it would miss it for ever.
    assert epsilon_bounds(10**6 * frequent, 10**6 * rare**2 / frequent, 10**6, 0, error) > epsilon


@given(hits=st.integers(0, 1000), others=st.integers(0, 1000), delta=st.floats(0, 0.5), error=st.floats(1e-12, 0.5))
def test_bounds_are_never_negative_and_fall_with_delta_and_certainty(hits, others, delta, error):
    bound = epsilon_bounds(hits, others, 1000, delta, error)
    assert 0 <= bound < math.inf
    assert epsilon_bounds(hits, others, 1000, delta + 0.01, error) <= bound
    assert epsilon_bounds(hits, others, 1000, delta, error / 2) <= bound
    assert 0 <= delta_bounds(hits, others, 1000, 0.1, error) <= delta_bounds(hits, others, 1000, 0, error) <= 1


def test_rare_events_are_worth_less():
    assert provable_epsilon(np.array([0.5]), np.array([0.2])) > provable_epsilon(np.array([5e-6]), np.array([2e-6]))
