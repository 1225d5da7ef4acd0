"""Sums of shares of integer Gaussian noise: their law by convolution, their price by divergences, and the trap."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.spend import DiscreteGaussian
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian, closeness
from tacit.mechanisms.masked.distributed_laplace import MaskedShare

RIGHT = {"share_sigma": 5, "squared_shift": 4, "cells": 6, "holders": 6, "threshold": 5, "honest": 4, "most": 100}


def law(sigma, shares, reach=200):
    """The law of a sum of that many discrete Gaussians, by convolution."""
    single = DiscreteGaussianNoise(sigma, 1, True).pmf(np.arange(-reach, reach + 1))
    found = single
    for _ in range(shares - 1):
        found = np.convolve(found, single)
    middle = len(found) // 2
    return found[middle - reach : middle + reach + 1]


@pytest.mark.parametrize(("sigma", "shares"), [("1/2", 2), ("1/2", 5), ("3/5", 3), ("3/5", 8), ("4/5", 4)])
def test_a_sum_of_shares_is_as_close_to_one_gaussian_as_is_stated(sigma, shares):
    """At small shares, where the difference can be seen at all."""
    share = Fraction(sigma)
    exact = law(share, shares)
    variance = shares * float(share) ** 2
    offsets = np.arange(-200, 201)
    single = np.exp(-(offsets**2) / (2 * variance))
    single /= single.sum()
    seen = exact > 1e-13
    off = np.abs(np.log(exact[seen] / single[seen])).max()
    assert 1e-9 < off <= closeness(share, shares)


@pytest.mark.parametrize("shares", [2, 3, 7])
@pytest.mark.parametrize("order", [1.01, 1.5, 2.0, 3.0, 5.0])
def test_the_exact_divergence_of_the_sum_is_within_the_price(shares, order):
    plan = DistributedGaussian(2, 9, 1, shares, shares, shares, most=100)
    noise = law(Fraction(2), shares)
    one, other = noise[3:], noise[:-3]
    # Beyond, convolution in floating point is off by more than what is there; the terms left out are positive and tiny.
    near = (one > 1e-17) & (other > 1e-17)
    divergence = math.log((one[near] ** order * other[near] ** (1 - order)).sum()) / (order - 1)
    assert divergence <= order * float(plan.spend.rho) * (1 + 1e-9)
    assert divergence == pytest.approx(order * float(plan.spend.rho), rel=1e-3)


def test_the_price_counts_honest_shares_only_and_is_never_below_the_truth():
    plan = DistributedGaussian(**RIGHT)
    assert plan.spend.sigma**2 < plan.honest * plan.share_sigma**2
    assert plan.spend.sigma == pytest.approx(10, rel=1e-8)
    assert isinstance(plan.spend, DiscreteGaussian)
    assert not plan.spend.unit_steps
    assert plan.max_sensitivity.l2_squared == 4
    assert plan.variance(6) == 150
    assert plan.reliance(1).others == 3


@pytest.mark.parametrize(("epsilon", "delta"), [(1, "1e-5"), ("1/10", "1e-6"), (8, "1e-3")])
@pytest.mark.parametrize("holders", [3, 100])
def test_a_plan_stays_within_its_budget_and_wastes_little(epsilon, delta, holders):
    plan = DistributedGaussian.for_budget(epsilon, delta, 8192**2, 500, holders, 2**30)
    spent = total([plan.spend], Fraction(delta), Rule.PLANNED).epsilon
    assert float(spent) <= float(Fraction(epsilon))
    assert float(spent) >= 0.999 * float(Fraction(epsilon))


def test_rounding_small_continuous_shares_is_the_trap_and_small_shares_are_refused():
    """100 rounded shares of a total σ = 1 keep a variance of .00006: δ(1) = .9999 where .127 was meant."""
    odd = 2 * norm.sf(0.5, scale=0.1)
    kept = 100 * odd
    assert kept == pytest.approx(0.00006, abs=5e-6)
    # With hardly any noise left the sum shows a shift by one: P(no noise at all) is δ, up to e times nearly nothing.
    assert (1 - odd) ** 100 > 0.9999
    meant = norm.cdf(1 / 2 - 1) - math.e * norm.cdf(-1 / 2 - 1)
    assert meant == pytest.approx(0.127, abs=5e-4)
    with pytest.raises(InvalidInput, match="a holder's share of the noise must have a standard deviation from 2"):
        DistributedGaussian("1/10", 1, 1, 100, 100, 100, most=10)
    with pytest.raises(InvalidInput, match="share of the noise"):
        DistributedGaussian("1.99", 1, 1, 100, 100, 100, most=10)
    # A budget that asks for less gets shares of that size, and more privacy than it paid for.
    assert DistributedGaussian.for_budget(10, "1e-3", 1, 4, 100, most=10).share_sigma == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"threshold": 7}, "threshold must be between 2"),
        ({"honest": 6}, "honest must be between 1"),
        ({"threshold": 3, "honest": 3}, "two different groups"),
        ({"most": 2**41}, "most must be between"),
        ({"squared_shift": 0}, "squared_shift and cells"),
        ({"cells": 0}, "squared_shift and cells"),
        ({"bits": 16, "most": 10**6}, "bits must be one of 32, 64"),
        ({"share_sigma": "1e13"}, "share of the noise"),
    ],
)
def test_wrong_parameters_are_named(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        DistributedGaussian(**RIGHT | wrong)


def test_sums_that_are_below_zero_come_out_of_their_masks():
    plan = DistributedGaussian(5, 4, 3, 3, 3, 3, most=100)
    rows = np.array([[-90, 5, 400], [-90, -7, 3], [-400, 2, 1]])
    words = SeededRandomness(1).words(9).reshape(3, 3)
    masks = words - np.roll(words, 1, axis=0)
    masked = [
        MaskedShare(plan, "s", mask).sample(row, SeededRandomness(number))
        for number, (row, mask) in enumerate(zip(rows, masks, strict=True))
    ]
    shares = sum(plan.share(3, SeededRandomness(number)) for number in range(3))
    seen = plan.opened(sum(each.astype(np.uint64) for each in masked))
    assert seen.tolist() == (np.clip(rows, -100, 100).sum(axis=0) + shares).tolist()


def test_a_table_with_more_cells_than_are_accounted_for_gets_no_share():
    with pytest.raises(InvalidInput, match="accounted for 6 cells"):
        DistributedGaussian(**RIGHT).share(7, SeededRandomness(1))
