"""The auditor itself: it finds what tells two inputs apart, and is wrong no more often than it says."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from tacit.audit.auditor import Event, Grid, audit, best_event
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness, uniform_below
from tacit.mechanisms.auditing import Estimator, Target, epsilon_bounds
from tacit.mechanisms.registry import audits

ONE = Fraction(1)


def runs_that_fail(target, runs, confidence):
    randomness = SystemRandomness()
    return sum(not audit(target, 400, confidence, randomness).passed for _ in range(runs))


@pytest.mark.statistical(rate=1e-9)
def test_a_claim_that_is_exactly_true_fails_no_more_often_than_stated():
    # Permute-and-flip reaches its ε, so nothing but the confidence protects it; half of its runs may fail.
    runs = 300
    most = binom.isf(1e-9, runs, 0.5)
    assert runs_that_fail(audits()["permute-and-flip"](ONE, 0)[0], runs, 0.5) <= most


def test_looking_twice_at_the_same_samples_is_dishonest():
    # 200 equally likely outcomes on both inputs: whoever takes those that happened to differ finds a difference.
    randomness, runs, trials = SeededRandomness(1), 20, 5000
    luck, proof = 0, 0
    for _ in range(runs):
        first, second, third, fourth = (uniform_below(200, trials, randomness)[:, None] for _ in range(4))
        grid = Grid.of(first, size=256)
        counts = [np.bincount(grid.cells(features), minlength=grid.size) for features in (first, second)]
        event = Event(grid, counts[0] > counts[1], reverse=False)
        luck += epsilon_bounds(*event.hits(first, second), trials, 0, 0.01) > 0
        proof += epsilon_bounds(*event.hits(third, fourth), trials, 0, 0.01) > 0
    assert luck == runs
    assert proof <= 1


def test_outcomes_in_any_order_are_told_apart():
    # Outcomes 3 and 7 of ten happen on the first input only.
    def draw(value, count, randomness):
        outcomes = uniform_below(10, count, randomness)
        return outcomes if value == 0 else np.where((outcomes == 3) | (outcomes == 7), 0, outcomes)

    finding = audit(Target("told", ONE, Fraction(0), (0, 1), draw), 20_000, randomness=SeededRandomness(1))
    assert not finding.passed
    assert finding.found > 4
    turned = audit(Target("told", ONE, Fraction(0), (1, 0), draw), 20_000, randomness=SeededRandomness(1))
    assert turned.found > 4


def test_an_end_that_moves_by_one_is_seen_among_a_thousand_values():
    # Noise on 0, …, 1000 that is cut off: one time in a hundred it would have gone further.
    def draw(value, count, randomness):
        noise = uniform_below(1000, count, randomness)
        return value + np.where(uniform_below(100, count, randomness) == 0, 1000, noise)

    target = Target("ends", ONE, Fraction(0), (0, 1), draw)
    assert audit(target, 40_000, randomness=SeededRandomness(1)).found > 2


def test_total_variation_is_measured_where_no_epsilon_is_claimed():
    def draw(value, count, randomness):
        return value * (uniform_below(4, count, randomness) == 0)

    target = Target("quarter", Fraction(0), Fraction(1, 4), (0, 1), draw)
    finding = audit(target, 100_000, randomness=SeededRandomness(1))
    assert finding.measure == "δ"
    assert finding.passed
    assert 0.24 < finding.found < 0.25
    assert not audit(
        Target("fifth", Fraction(0), Fraction(1, 5), (0, 1), draw), 100_000, randomness=SeededRandomness(1)
    ).passed


def test_a_bias_of_a_few_standard_deviations_is_found():
    def deviations(clients, randomness):
        return np.array([0.0, -6.0])

    finding = audit(Estimator("off", deviations), 1000, 0.999)
    assert not finding.passed
    assert finding.measure == "|z|"
    assert finding.share is None
    assert audit(Estimator("off", deviations), 1000, 1 - 1e-9).passed
    assert "6.0 standard deviations" in str(finding)


def test_samples_are_shared_out_by_cost_and_drawn_in_parts():
    drawn = []

    def draw(value, count, randomness):
        drawn.append(count)
        return np.zeros(count, dtype=np.int64)

    finding = audit(Target("slow", ONE, Fraction(0), (0, 1), draw, cost=2), 1_000_000)
    assert finding.samples == 500_000
    assert sum(drawn) == 2 * finding.samples
    assert max(drawn) == 100_000
    assert finding.found == 0
    assert "claimed ε = 1, samples prove ε ≥ 0" in str(finding)


def test_the_best_event_is_that_of_the_larger_likelihood():
    # On the second input even numbers are three times as likely; no threshold finds that.
    randomness = SeededRandomness(1)
    first = uniform_below(40, 20_000, randomness)[:, None]
    second = first - (first % 2) * (uniform_below(2, 20_000, randomness) == 0)[:, None]
    event = best_event(first, second, lambda hits, others, trials: epsilon_bounds(hits, others, trials, 0, 0.01))
    members = event.members[event.grid.cells(np.arange(40)[:, None])]
    assert members.tolist() in ([True, False] * 20, [False, True] * 20)
    assert event.reverse == members[0]


def test_a_grid_keeps_few_values_apart_and_the_ends_of_many():
    few = Grid.of(np.array([[5], [7], [9]]), size=16)
    assert len(set(few.cells(np.array([[5], [7], [9]])).tolist())) == 3
    many = Grid.of(np.arange(10_000)[:, None], size=16)
    cells = many.cells(np.arange(10_000)[:, None])
    assert (cells == cells[0]).sum() == 1
    assert (cells == cells[-1]).sum() == 1
    assert many.size <= 20


@pytest.mark.parametrize(
    ("samples", "confidence", "message"),
    [(99, 0.999, "samples must be at least 100"), (1000, 1.0, "confidence must be in"), (1000, 0.1, "confidence must")],
)
def test_wrong_use_is_refused(samples, confidence, message):
    with pytest.raises(InvalidInput, match=message):
        audit(audits()["permute-and-flip"](ONE, 0)[0], samples, confidence)
