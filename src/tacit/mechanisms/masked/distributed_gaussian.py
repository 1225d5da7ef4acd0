"""Distributed discrete Gaussian noise, for secure aggregation of integer vectors with a bounded norm.

A sum of discrete Gaussians is not a discrete Gaussian, but nearly one if no share is small; the difference is accounted
for. Rounding small continuous shares instead would lose nearly all of the noise: a hundred rounded shares of a total
standard deviation of 1 have a variance of .00006. So shares are drawn as integers, and small ones are refused.

Also here, for all distributed noise: the quorum of a sum, and the number of bits in which sums never overflow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import (
    DiscreteGaussian,
    Integers,
    InvalidInput,
    Number,
    Randomness,
    Rule,
    Sensitivity,
    exact,
    positive,
    rounded_up,
)
from tacit.mechanisms.auditing import MOVED, Check, accounted, difference, rowwise
from tacit.mechanisms.central.counts import count_table
from tacit.mechanisms.central.discrete_gaussian import gaussian_integers
from tacit.mechanisms.central.discrete_laplace import LARGEST_NOISE
from tacit.mechanisms.description import (
    CAPACITY,
    CELLS,
    COUNT,
    EXACT,
    OPTIONAL_COUNT,
    Checks,
    Described,
    NoiseLaw,
    Parameters,
    Reliance,
)
from tacit.mechanisms.forms import GAUSSIAN_REACH

__all__ = [
    "SMALLEST_SHARE",
    "WIDTHS",
    "DistributedGaussian",
    "closeness",
    "opened_sum",
    "quorum_of",
    "relied_on",
    "require_shares",
    "sum_width",
    "trusted_in_words",
]

WIDTHS = {16: np.uint16, 32: np.uint32, 64: np.uint64}
_LARGEST_COUNT = 2**40
# The standard deviation of a share below which sums of shares are no longer nearly Gaussian.
SMALLEST_SHARE = 2
_TWO_THIRDS = Fraction(2, 3)


def require_shares(holders: int, threshold: int, honest: int, most: int, colluding: int | None = None) -> None:
    """Refuse a quorum that does not protect, or counts that are too large.

    >>> require_shares(holders=9, threshold=6, honest=4, most=100)
    """
    if not 2 <= threshold <= holders:
        raise InvalidInput(f"threshold must be between 2 and the {holders} holders, got {threshold}")
    if not 1 <= honest <= threshold:
        raise InvalidInput(f"honest must be between 1 and the threshold {threshold}, got {honest}")
    if threshold + honest <= holders:
        raise InvalidInput(
            f"threshold + honest must be above the {holders} holders, got {threshold} + {honest}: with fewer, the "
            "coordinator and colluding holders could learn both secrets of one holder from two different groups"
        )
    if colluding is not None and not 0 <= colluding <= threshold - honest:
        raise InvalidInput(
            f"colluding must be from 0 to threshold − honest = {threshold - honest} holders, got {colluding}: the "
            "others must add enough noise"
        )
    if not 1 <= most <= _LARGEST_COUNT:
        raise InvalidInput(f"most must be between 1 and 2^40, got {most}")


def trusted_in_words(holders: int, threshold: int, honest: int, colluding: int | None) -> str:
    """The trust assumption of a sum with distributed noise, in words.

    >>> trusted_in_words(9, 6, 4, None)[-48:]
    'The coordinator may collude with up to 2 others.'
    >>> trusted_in_words(1000, 900, 500, 100)[-63:]
    'The coordinator may collude with up to 100 of all 1000 holders.'
    """
    among = f"{threshold - honest} others" if colluding is None else f"{colluding} of all {holders} holders"
    return (
        f"No party is trusted alone. Sums are shown of at least {threshold} of {holders} holders, and of "
        f"those at least {honest} must be honest: they add their noise and keep their keys secret. The "
        f"coordinator may collude with up to {among}."
    )


def relied_on(holders: int, honest: int, colluding: int | None) -> Reliance:
    """Distributed noise needs ``honest`` honest holders, the node included; a bound on collusion needs all others.

    >>> relied_on(9, 4, None), relied_on(1000, 500, 100).others
    (Reliance(others=3, share=Fraction(1, 4)), 899)
    """
    return Reliance((honest if colluding is None else holders - colluding) - 1, Fraction(1, honest))


def sum_width(largest: int, holders: int, most: int, bits: int | None = None) -> int:
    """A number of bits in which sums up to ±``largest`` never overflow: the smallest, or ``bits`` if that is enough.

    >>> sum_width(10**6, holders=9, most=10**5), sum_width(10**6, holders=9, most=10**5, bits=64)
    (32, 64)
    """
    needed = [width for width in WIDTHS if largest < 2 ** (width - 1)]
    if not needed:
        raise InvalidInput(f"{holders} holders with counts of up to {most} add up to more than 64 bits hold")
    width = needed[0] if bits is None else int(bits)
    if width not in needed:
        raise InvalidInput(f"bits must be one of {', '.join(map(str, needed))} for sums that never wrap, got {bits}")
    return width


def quorum_of(holders: int, surviving: Number, honest: Number) -> tuple[int, int]:
    """How many holders must be in a sum, and how many of those must be honest, for given fractions.

    >>> quorum_of(9, "2/3", "2/3")
    (6, 4)
    """
    for name, value in (("surviving", surviving), ("honest", honest)):
        if not 0 < exact(value, name) <= 1:
            raise InvalidInput(f"{name} must be a fraction in (0, 1], got {value}")
    if holders < 2:
        raise InvalidInput(f"holders must be at least 2, got {holders}")
    threshold = max(2, math.ceil(exact(surviving) * holders))
    return threshold, math.ceil(exact(honest) * threshold)


def opened_sum(total: NDArray[Any], bits: int) -> Integers:
    """The signed sum that a sum modulo 2^bits represents.

    >>> opened_sum(np.array([65535, 7], dtype=np.uint64), 16).tolist()
    [-1, 7]
    """
    within = np.asarray(total).astype(WIDTHS[bits])
    return within.view(np.dtype(f"i{bits // 8}")).astype(np.int64)


def closeness(share: Fraction, shares: int) -> float:
    """A bound on the difference of log-probabilities between a sum of ``shares`` discrete Gaussians and a single one.

    Let X, Y be discrete Gaussians of parameters s² and t². P(X + Y = x) is e^(−x²/2(s²+t²)) times the sum over all
    integers y of e^(−(y − cx)²/2v), v = s²t²/(s² + t²), up to a constant. By Poisson's summation that sum is a
    constant times 1 + 2Σₘ e^(−2π²m²v)·cos(2πmcx), which lies within 1 ± η, η = 2Σₘ e^(−2π²m²v). Both laws have mass 1,
    so their ratio lies within (1 ± η)/(1 ∓ η). Adding one more share of variance σ² to k shares has v = σ²k/(k+1), and
    the error of the first k does not grow by it: logarithms add. From the second step on v is at least 2σ²/3.

    >>> closeness(Fraction(2), 10) < 1e-16, closeness(Fraction(1, 2), 2) > 0.1
    (True, True)
    """

    def step(part: float) -> float:
        one = math.exp(-2 * (math.pi * float(share)) ** 2 * part)
        # The terms are powers 1, 4, 9, … of the first, bounded by a geometric series in its third power.
        eta = 2 * one / (1 - one**3)
        return math.inf if eta >= 1 else math.log1p(eta) - math.log1p(-eta)

    if shares < 2:
        return 0.0
    return (step(1 / 2) + (shares - 2) * step(2 / 3)) * (1 + 1e-9)


@dataclass(frozen=True)
class DistributedGaussian(Described):
    """Sums over ``holders`` holders with discrete Gaussian noise that ``honest`` of them together add.

    Sums are shown only if at least ``threshold`` holders are in them, of whom ``threshold − honest`` may collude with
    whoever sees the sum, or ``colluding`` of all holders if that is given. A table has at most ``cells`` cells, each
    within ±``most`` at one holder. Sums are taken modulo 2^``bits``, large enough that they never overflow.

    **Law.** Each holder adds a discrete Gaussian of parameter ``share`` to every cell.

    **Spend.** ``DiscreteGaussian(sigma, squared_shift)`` of every holder's own account: zCDP with ρ′ =
    squared_shift/2σ², where σ is slightly below √honest · share, because a sum of shares is not exactly a discrete
    Gaussian.

    **Proof.** Take all that dishonest holders know as given. What remains has the noise of at least ``honest`` shares,
    and adding the others' is post-processing. Let P, Q be the laws of the released table for two neighboring inputs,
    and P₀, Q₀ those with one discrete Gaussian of variance honest · share² instead, which are ρ-zCDP with
    ρ = squared_shift/(2 · honest · share²). By ``closeness`` |ln P/P₀| and |ln Q/Q₀| are at most t everywhere,
    t being cells times that of one cell. Let L₀ = ln P₀/Q₀. For α ≥ 2 the Rényi divergence is at most
    αρ + t(2α − 1)/(α − 1) ≤ α(ρ + 3t/2). For α < 2 the loss ln P/Q is L₀ up to 2t, and because P and P₀ both have mass
    1, E_P f ≤ E_P₀ f + (e^t − 1) · E_P₀ |f − 1| with f = e^((α−1)L₀), where |f − 1| ≤ (α − 1)|L₀|(1 + f). L₀ has mean ρ
    and variance at most 2ρ under P₀, and E_P₀ f² ≤ e^(6ρ), so with Cauchy and Schwarz the divergence is at most
    αρ + 2t + (e^t − 1)(1 + e^(3ρ))√(2ρ + ρ²). Together: ρ′ = ρ + 2t + (e^t − 1)(1 + e^(3ρ))√(2ρ + ρ²).

    **Source.** P. Kairouz, Z. Liu and T. Steinke, The distributed discrete Gaussian mechanism for federated learning
    with secure aggregation, ICML 2021; the bound for the difference is Tacit's own.

    >>> plan = DistributedGaussian.for_budget(1, "1e-5", squared_shift=400, cells=60, holders=9, most=1000)
    >>> plan.threshold, plan.honest, plan.bits, round(float(plan.spend.sigma), 1)
    (6, 4, 16, 80.9)
    """

    name = "distributed-gaussian"
    statistic = "share"
    releases = "sealed"
    needs_delta = True
    parameters: ClassVar[Parameters] = {
        "share_sigma": EXACT,
        "squared_shift": CAPACITY,
        "cells": CELLS,
        "holders": COUNT,
        "threshold": COUNT,
        "honest": COUNT,
        "most": CAPACITY,
        "bits": COUNT,
        "colluding": OPTIONAL_COUNT,
    }

    share_sigma: Fraction
    squared_shift: int
    cells: int
    holders: int
    threshold: int
    honest: int
    most: int
    bits: int
    colluding: int | None

    def __init__(
        self,
        share_sigma: Number,
        squared_shift: int,
        cells: int,
        holders: int,
        threshold: int,
        honest: int,
        most: int,
        bits: int | None = None,
        colluding: int | None = None,
    ) -> None:
        share = positive(share_sigma, "share_sigma")
        if not SMALLEST_SHARE <= share <= LARGEST_NOISE:
            raise InvalidInput(
                f"a holder's share of the noise must have a standard deviation from {SMALLEST_SHARE} to 1e12, got "
                f"{float(share):g}: sums of smaller shares are not nearly Gaussian. Use a finer grid, or fewer holders"
            )
        if squared_shift < 1 or cells < 1:
            raise InvalidInput(f"squared_shift and cells must be at least 1, got {squared_shift} and {cells}")
        require_shares(holders, threshold, honest, most, colluding)
        whole = {
            "squared_shift": squared_shift, "cells": cells, "holders": holders, "threshold": threshold,
            "honest": honest, "most": most,
        }  # fmt: skip
        object.__setattr__(self, "share_sigma", share)
        for name, value in whole.items():
            object.__setattr__(self, name, int(value))
        object.__setattr__(self, "bits", sum_width(self._largest, holders, most, bits))
        object.__setattr__(self, "colluding", colluding)

    @classmethod
    def for_budget(
        cls,
        epsilon: Number,
        delta: Number,
        squared_shift: int,
        cells: int,
        holders: int,
        most: int,
        surviving: Number = _TWO_THIRDS,
        honest: Number = _TWO_THIRDS,
        repetitions: int = 1,
        rule: Rule = Rule.PLANNED,
        colluding: int | None = None,
    ) -> DistributedGaussian:
        """The mechanism that may run ``repetitions`` times within (ε, δ), for these fractions of holders.

        ``surviving`` is the fraction of holders that stay to the end, ``honest`` the fraction of those that are honest.
        """
        # Accountants are slow to import and needed here only.
        from tacit.accounting.calibrate import discrete_gaussian_sigma

        threshold, enough = quorum_of(holders, surviving, honest)
        sigma = discrete_gaussian_sigma(epsilon, delta, squared_shift, False, repetitions, rule)
        share = float(sigma) / math.sqrt(enough)
        rest = (squared_shift, cells, holders, threshold, enough, most, None, colluding)
        made = cls(max(rounded_up(share), Fraction(SMALLEST_SHARE)), *rest)
        while made.spend.sigma < sigma:
            share *= 1 + 1e-9
            made = cls(rounded_up(share), *rest)
        return made

    @property
    def _largest(self) -> int:
        """The largest absolute sum: all cells at their largest, and noise beyond any that practically occurs."""
        reach = GAUSSIAN_REACH * math.sqrt(self.holders) * float(self.share_sigma)
        return self.holders * self.most + math.ceil(reach)

    @property
    def spend(self) -> DiscreteGaussian:
        """The cost of the sum for one holder's records."""
        variance = self.honest * self.share_sigma**2
        rho, off = self.squared_shift / (2 * variance), self.cells * closeness(self.share_sigma, self.honest)
        near = float(rho)
        more = 2 * off + math.expm1(off) * (1 + math.exp(min(3 * near, 700))) * math.sqrt(2 * near + near**2)
        # Rounded down to nine digits, so that the cost is never too small.
        square = self.squared_shift / (2 * (rho + Fraction(more)))
        unit = 10**9
        return DiscreteGaussian(Fraction(math.isqrt(math.floor(square * unit**2)), unit), self.squared_shift, False)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of one holder's table."""
        return Sensitivity(l2_squared=self.squared_shift)

    @property
    def in_words(self) -> str:
        """The trust assumption, in words."""
        return trusted_in_words(self.holders, self.threshold, self.honest, self.colluding)

    def variance(self, survivors: int) -> float:
        """The variance of one cell's noise when this many holders are in the sum."""
        return survivors * float(self.share_sigma) ** 2

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise in the sum of all holders, which has the most noise."""
        variance = self.variance(self.holders)
        return NoiseLaw("gaussian", math.sqrt(variance), variance)

    def noise_reach(self, cells: int, holders: int, failure: float) -> float:
        """A discrete Gaussian has tails no heavier than a continuous one of its parameter, and so have sums of them."""
        return NoiseLaw("gaussian", math.sqrt(self.variance(holders)), self.variance(holders)).reach(cells, failure)

    def reliance(self, participants: int) -> Reliance:
        """Distributed noise needs ``honest`` honest holders, the node included."""
        return relied_on(self.holders, self.honest, self.colluding)

    def share(self, cells: int, randomness: Randomness) -> Integers:
        """One holder's share of the noise for this many cells."""
        if cells > self.cells:
            raise InvalidInput(f"the noise is accounted for {self.cells} cells, the table has more")
        return gaussian_integers(self.share_sigma, cells, randomness)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The sum of all holders' tables with the noise of all of them, for a run in one process.

        >>> from tacit.core.randomness import SeededRandomness
        >>> DistributedGaussian(9, 2, 4, 3, 2, 2, 100).sample(np.array([[9, 0]]), SeededRandomness(1)).shape
        (1, 2)
        """
        table = count_table(value)
        noise = sum((self.share(table.size, randomness) for _ in range(self.holders)), np.zeros(table.size, np.int64))
        return table + noise.reshape(table.shape)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One vote moves between cells, with the noise of three honest holders."""

        def moved(epsilon: Fraction, delta: Fraction) -> list[Check]:
            def plan(rows: int) -> DistributedGaussian:
                return cls.for_budget(epsilon, delta, 2, 2 * rows, 3, most=1, surviving=1, honest=1)

            return [rowwise(cls.name, accounted(plan(1).spend, delta), plan, MOVED, difference)]

        return {cls.name: moved}

    def opened(self, total: NDArray[Any]) -> Integers:
        """The signed sum that a sum modulo 2^bits represents."""
        return opened_sum(total, self.bits)
