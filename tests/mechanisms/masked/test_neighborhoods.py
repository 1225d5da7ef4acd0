"""Neighborhoods come from exact tails: compared with counting, with every set of a tiny graph, and at their edges."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.core.codec import StrictReader
from tacit.core.errors import InvalidInput
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.masked.neighborhoods import (
    CORRECTNESS,
    SECURITY,
    Neighborhood,
    exposure,
    failure,
    neighborhood_of,
    witnesses,
)
from tacit.mechanisms.registry import mechanism_fields, read_mechanism


def counted(others, marked, degree, least):
    """How many of all draws have at least this many marked ones, by looking at each."""
    draws = list(itertools.combinations(range(others), degree))
    return Fraction(sum(sum(each < marked for each in draw) >= least for draw in draws), len(draws))


@pytest.mark.parametrize(
    ("holders", "honest", "colluding", "degree", "shares"),
    [(14, 4, 3, 5, 5), (12, 5, 3, 4, 4), (14, 2, 5, 5, 5), (14, 2, 5, 5, 4)],
)
def test_the_bound_is_the_sum_over_sets_of_powers_of_the_tail(holders, honest, colluding, degree, shares, monkeypatch):
    wanted = sum(
        math.comb(holders, size) * counted(holders - 1, size - 1 + colluding, degree, shares) ** size
        for size in range(1, honest)
    )
    assert 0 < wanted < 1
    # The bound stops counting where one size alone is too likely; here all of it is wanted.
    monkeypatch.setattr("tacit.mechanisms.masked.neighborhoods.SECURITY", 100.0)
    found = exposure(holders, honest, colluding, Neighborhood(degree, shares))
    assert found == pytest.approx(math.log2(wanted), abs=1e-4)
    assert found >= math.log2(wanted)


def test_the_chance_to_fail_is_that_too_many_of_somebody_s_neighbors_are_lost():
    wanted = 9 * counted(8, 2, 5, 2)
    assert failure(9, 7, Neighborhood(5, 4)) == min(0.0, math.log2(wanted))
    wanted = 40 * Fraction(math.comb(35, 0) * math.comb(4, 4), math.comb(39, 4))
    assert failure(40, 36, Neighborhood(4, 1)) == pytest.approx(math.log2(wanted), abs=1e-5)
    assert failure(9, 7, Neighborhood(5, 3)) == -math.inf


@pytest.mark.parametrize(
    ("holders", "threshold", "honest", "colluding"),
    [(100, 90, 50, 10), (200, 180, 100, 20), (300, 240, 150, 15), (1000, 900, 500, 100)],
)
def test_a_neighborhood_is_safe_outlives_dropouts_and_is_the_smallest(holders, threshold, honest, colluding):
    found = neighborhood_of(holders, threshold, honest, colluding)
    assert exposure(holders, honest, colluding, found) <= SECURITY - 1
    assert failure(holders, threshold, found) <= CORRECTNESS
    found.require(holders, threshold, honest, colluding)
    for shares in range(1, found.degree):
        smaller = Neighborhood(found.degree - 1, shares)
        safe = exposure(holders, honest, colluding, smaller) <= SECURITY - 1
        assert not (safe and failure(holders, threshold, smaller) <= CORRECTNESS)


def test_one_share_fewer_than_is_safe_is_refused():
    shares = min(each for each in range(1, 48) if exposure(200, 100, 20, Neighborhood(48, each)) <= SECURITY - 1)
    Neighborhood(48, shares).require(200, 180, 100, 20)
    with pytest.raises(InvalidInput, match="not safe among 200 holders of whom 20 may collude"):
        Neighborhood(48, shares - 1).require(200, 180, 100, 20)


@pytest.mark.parametrize("seed", range(4))
def test_no_small_set_of_a_drawn_graph_is_closed(seed):
    """Every set of honest holders in a graph of twelve is looked at: fewer than ``honest`` are never uncovered."""
    holders, honest, colluding = 12, 3, 1
    found = neighborhood_of(holders, 10, honest, colluding)
    source = np.random.default_rng(seed)
    drawn = [
        set(source.choice([each for each in range(holders) if each != node], found.degree, replace=False).tolist())
        for node in range(holders)
    ]
    enemies = set(range(holders - colluding, holders))
    closed = [
        len(chosen)
        for size in range(1, holders - colluding + 1)
        for chosen in itertools.combinations(range(holders - colluding), size)
        if all(len(drawn[node] & (enemies | set(chosen))) >= found.shares for node in chosen)
    ]
    # All honest holders together are closed, or no sum would ever come out.
    assert max(closed) == holders - colluding
    assert min(closed) >= honest


@pytest.mark.parametrize(("holders", "threshold", "colluding"), [(12, 10, 1), (1000, 900, 100), (5000, 4500, 500)])
def test_witnesses_are_as_many_as_the_tail_asks_for(holders, threshold, colluding):
    drawn, few = witnesses(holders, threshold, colluding), (holders + colluding) // 2

    def missed(count):
        return holders * Fraction(math.comb(few, count), math.comb(threshold, count))

    assert missed(drawn) <= Fraction(1, 2**41) < missed(drawn - 1)


def test_no_majority_no_agreement():
    with pytest.raises(InvalidInput, match="not a majority"):
        witnesses(100, 60, 20)


@pytest.mark.parametrize(
    "plan",
    [
        DistributedLaplace(2, 2, 1000, 900, 500, 10, colluding=100),
        DistributedLaplace(2, 2, 1000, 900, 500, 10, colluding=0),
        DistributedGaussian(3, 2, 10, 1000, 900, 500, 10, colluding=100),
    ],
)
def test_a_plan_says_how_many_may_collude_and_travels_with_it(plan):
    fields = mechanism_fields(plan)
    assert fields["colluding"] == plan.colluding
    assert read_mechanism(StrictReader(fields, "plan")) == plan
    assert plan.reliance(1).others == 999 - plan.colluding
    assert f"up to {plan.colluding} of all 1000 holders" in plan.in_words


def test_a_plan_without_a_bound_is_written_as_ever():
    plan = DistributedLaplace(2, 2, 9, 6, 4, 100)
    assert "colluding" not in mechanism_fields(plan)
    assert plan.reliance(1).others == 3
    assert "up to 2 others" in plan.in_words


def test_more_than_the_noise_allows_may_not_collude():
    for wrong in (-1, 401):
        with pytest.raises(InvalidInput, match=r"colluding must be from 0 to threshold − honest = 400"):
            DistributedLaplace(2, 2, 1000, 900, 500, 10, colluding=wrong)
