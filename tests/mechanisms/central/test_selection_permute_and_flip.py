import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_noisy_max
from opendp.measures import max_divergence
from opendp.metrics import linf_distance
from opendp.mod import enable_features

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Pure
from tacit.mechanisms.central.selection import ExponentialMechanism, PermuteAndFlip

enable_features("contrib")

SCORES = st.lists(st.integers(0, 12), min_size=1, max_size=5)


def by_enumeration(scores, rate):
    """The law as the mechanism is described: every order, every first stop."""
    stop = [math.exp(-rate * (max(scores) - each)) for each in scores]
    law = [0.0] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        passed = 1 / math.factorial(len(scores))
        for label in order:
            law[label] += passed * stop[label]
            passed *= 1 - stop[label]
    return law


@given(SCORES, st.fractions(min_value=Fraction(1, 100), max_value=3))
def test_the_law_is_that_of_permuting_and_flipping(scores, rate):
    law = PermuteAndFlip(rate, 2).pmf(np.array(scores))
    assert law == pytest.approx(by_enumeration(scores, float(rate)), rel=1e-12, abs=1e-15)


def test_the_law_of_many_labels_sums_to_one_and_loses_no_digits():
    law = PermuteAndFlip("0.1", 2).pmf(np.arange(200))
    assert law.sum() == pytest.approx(1, abs=1e-12)
    # All labels level: each must be exactly as likely as the next, which cancellation would destroy.
    assert PermuteAndFlip(1, 2).pmf(np.zeros(300)) == pytest.approx(np.full(300, 1 / 300), rel=1e-11)


@given(SCORES, st.integers(-50, 50))
def test_adding_a_constant_to_a_row_changes_nothing(scores, constant):
    mechanism = PermuteAndFlip("1/3", 2)
    assert np.allclose(mechanism.pmf(np.array(scores)), mechanism.pmf(np.array(scores) + constant), atol=1e-14)


@pytest.mark.parametrize("mechanism", [PermuteAndFlip("0.7", 2), ExponentialMechanism("0.7", 2)])
def test_no_neighboring_row_loses_more_than_the_spend(mechanism):
    """Every pair of rows over 0..3 with three labels: the loss is at most rate times (rise + fall)."""
    rows = list(itertools.product(range(4), repeat=3))
    laws = np.log([mechanism.pmf(np.array(row)) for row in rows])
    rows = np.array(rows)
    sensitivity = rows[:, None, :] - rows[None, :, :]
    distance = np.maximum(sensitivity.max(axis=2), 0) - np.minimum(sensitivity.min(axis=2), 0)
    loss = np.abs(laws[:, None, :] - laws[None, :, :]).max(axis=2)
    assert (loss <= float(mechanism.rate) * distance + 1e-12).all()


def test_the_spend_is_reached_exactly():
    mechanism = PermuteAndFlip.for_epsilon(1, row_range=2)
    behind, closer = mechanism.pmf(np.array([0, 9])), mechanism.pmf(np.array([1, 8]))
    assert math.log(closer[0] / behind[0]) == pytest.approx(1, abs=1e-12)
    # A mutant that charges by the largest change of one cell would understate this.
    assert math.log(closer[0] / behind[0]) > float(mechanism.rate) * 1 + 0.4


@given(st.lists(st.integers(0, 30), min_size=2, max_size=8))
def test_it_errs_no_more_than_the_exponential_mechanism(scores):
    scores = np.array(scores)
    best = scores == scores.max()
    flip, classic = PermuteAndFlip("0.4", 2).pmf(scores), ExponentialMechanism("0.4", 2).pmf(scores)
    assert flip[best].sum() >= classic[best].sum() - 1e-12


@pytest.mark.statistical(rate=1e-9)
def test_the_sampler_follows_the_law_and_mutants_do_not(fits):
    row, count = np.array([5, 3, 4]), 60_000
    table = np.tile(row, (count, 1))
    mechanism = PermuteAndFlip("0.5", 2)
    law = mechanism.pmf(row)
    assert fits(mechanism.sample(table, SystemRandomness()), np.arange(3), law) > 1e-9
    half_the_noise = PermuteAndFlip(1, 2).sample(table, SystemRandomness())
    assert fits(half_the_noise, np.arange(3), law) < 1e-9
    other_mechanism = ExponentialMechanism("0.5", 2).sample(table, SystemRandomness())
    assert fits(other_mechanism, np.arange(3), law) < 1e-9


@pytest.mark.statistical(rate=1e-9)
def test_it_agrees_with_the_noisy_max_of_opendp(agree):
    domain = vector_domain(atom_domain(T="i64"))
    noisy_max = make_noisy_max(domain, linf_distance(T="i64"), max_divergence(), scale=2.0)
    theirs = np.array([noisy_max([5, 3, 4]) for _ in range(3000)])
    table = np.tile([5, 3, 4], (3000, 1))
    assert agree(PermuteAndFlip("1/2", 2).sample(table, SystemRandomness()), theirs) > 1e-9
    assert agree(PermuteAndFlip(1, 2).sample(table, SystemRandomness()), theirs) < 1e-9


@pytest.mark.statistical(rate=1e-9)
def test_an_empty_row_is_labeled_too_and_uniformly(fits):
    labels = PermuteAndFlip("0.5", 2).sample(np.zeros((40_000, 4), dtype=int), SystemRandomness())
    assert fits(labels, np.arange(4), np.full(4, 0.25)) > 1e-9


def test_rows_are_independent_of_each_other_and_of_their_number():
    table = np.array([[900, 0, 0], [0, 900, 0], [0, 0, 900], [0, 900, 0]])
    assert PermuteAndFlip(1, 2).sample(table, SystemRandomness()).tolist() == [0, 1, 2, 1]
    assert PermuteAndFlip(1, 2).sample(table[:0], SystemRandomness()).shape == (0,)
    assert PermuteAndFlip(1, 2).sample(table[:, :1], SystemRandomness()).tolist() == [0, 0, 0, 0]


def test_a_seeded_run_can_be_replayed():
    table = np.arange(60).reshape(20, 3) % 5
    one, two = (PermuteAndFlip("1/2", 2).sample(table, SeededRandomness(3)) for _ in range(2))
    assert (one == two).all()


def test_huge_counts_and_tiny_rates_do_not_overflow():
    labels = PermuteAndFlip(Fraction(1, 10**30), 2).sample(np.array([[2**61, -(2**61)]] * 64), SeededRandomness(1))
    assert set(labels.tolist()) == {0, 1}


def test_the_spend_and_the_tolerance_follow_from_the_one_parameter():
    mechanism = PermuteAndFlip.for_epsilon("1/10", 4)
    assert mechanism.spend == Pure("1/10")
    assert mechanism.max_sensitivity == Sensitivity(row_range=4)
    assert mechanism == PermuteAndFlip("1/40", 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PermuteAndFlip(0, 2), "rate must be above 0"),
        (lambda: PermuteAndFlip(1, 0), "row_range must be at least 1"),
        (lambda: PermuteAndFlip.for_epsilon(1, 0), "row_range must be at least 1"),
        (lambda: PermuteAndFlip.for_epsilon(-1, 2), "epsilon must be above 0"),
        (lambda: PermuteAndFlip(1, 2).sample(np.array([1, 2]), SeededRandomness(1)), "one row per query"),
        (lambda: PermuteAndFlip(1, 2).sample(np.array([[0.5]]), SeededRandomness(1)), "table must hold integers"),
        (lambda: PermuteAndFlip(1, 2).sample(np.array([[2**62]]), SeededRandomness(1)), r"\[-2\^61, 2\^61\]"),
        (lambda: PermuteAndFlip(1, 2).sample(np.zeros((2, 0), dtype=int), SeededRandomness(1)), "at least one column"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
