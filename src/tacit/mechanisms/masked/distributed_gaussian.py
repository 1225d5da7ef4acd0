"""Discrete Gaussian noise in shares, for masked sums of whole numbers that are bounded in length.

A sum of discrete Gaussians is not one, but so close to one that the difference is accounted for to the last digit, as
long as no share is small. Rounding small continuous shares instead would lose nearly all of the noise: of a hundred
rounded shares of a total deviation of 1 a variance of .00006 is left. So shares are drawn as integers, and small ones
are refused.

What every noise in shares has in common is here, too: who must be in a sum, and in how many bits sums never wrap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import DiscreteGaussian, Integers, InvalidInput, Randomness, Rule, Sensitivity
from tacit.core.rational import Number, exact, positive, rounded_up
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
# The deviation of a share below which sums of shares are no Gaussian any more.
SMALLEST_SHARE = 2
_TWO_THIRDS = Fraction(2, 3)


def require_shares(holders: int, threshold: int, honest: int, most: int, colluding: int | None = None) -> None:
    """Refuse a quorum that protects nobody, or counts that no mask is made for.

    >>> require_shares(holders=9, threshold=6, honest=4, most=100)
    """
    if not 2 <= threshold <= holders:
        raise InvalidInput(f"threshold must be between 2 and the {holders} holders, got {threshold}")
    if not 1 <= honest <= threshold:
        raise InvalidInput(f"honest must be between 1 and the threshold {threshold}, got {honest}")
    if threshold + honest <= holders:
        raise InvalidInput(
            f"threshold + honest must be above the {holders} holders, got {threshold} + {honest}: with fewer, a server "
            "and colluding holders could learn both secrets of one holder by asking two groups differently"
        )
    if colluding is not None and not 0 <= colluding <= threshold - honest:
        raise InvalidInput(
            f"colluding must be from 0 to threshold − honest = {threshold - honest} holders, got {colluding}: the "
            "noise of the others must suffice"
        )
    if not 1 <= most <= _LARGEST_COUNT:
        raise InvalidInput(f"most must be between 1 and 2^40, got {most}")


def trusted_in_words(holders: int, threshold: int, honest: int, colluding: int | None) -> str:
    """Who is trusted with what in a sum of shares.

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
    """Noise in shares needs ``honest`` holders, of whom the node is one; a bound on who colludes needs all others.

    >>> relied_on(9, 4, None), relied_on(1000, 500, 100).others
    (Reliance(others=3, share=Fraction(1, 4)), 899)
    """
    return Reliance((honest if colluding is None else holders - colluding) - 1, Fraction(1, honest))


def sum_width(largest: int, holders: int, most: int, bits: int | None = None) -> int:
    """In how many bits sums that are nowhere beyond ``largest`` never wrap: the fewest, or those that are asked for.

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
    """How many holders must be in a sum, and how many of those honest, where these fractions are.

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
    """The sum that is meant by a sum modulo 2^bits.

    >>> opened_sum(np.array([65535, 7], dtype=np.uint64), 16).tolist()
    [-1, 7]
    """
    within = np.asarray(total).astype(WIDTHS[bits])
    return within.view(np.dtype(f"i{bits // 8}")).astype(np.int64)


def closeness(share: Fraction, shares: int) -> float:
    """How far the log-probability of a sum of this many discrete Gaussians is from that of one, at most, everywhere.

    Let X, Y be discrete Gaussians of parameters s² and t². P(X + Y = x) is e^(−x²/2(s²+t²)) times the sum over all
    integers y of e^(−(y − cx)²/2v), v = s²t²/(s² + t²), up to a constant. By Poisson's summation that sum is a
    constant times 1 + 2Σₘ e^(−2π²m²v)·cos(2πmcx), which lies within 1 ± η, η = 2Σₘ e^(−2π²m²v). Both laws have mass 1,
    so their ratio lies within (1 ± η)/(1 ∓ η). Adding one share of variance σ² after another to k shares has
    v = σ²k/(k+1), and what the first k are off by stays what it is when one more is added: logarithms add up. From
    the second step on v is at least 2σ²/3.

    >>> closeness(Fraction(2), 10) < 1e-16, closeness(Fraction(1, 2), 2) > 0.1
    (True, True)
    """

    def step(part: float) -> float:
        one = math.exp(-2 * (math.pi * float(share)) ** 2 * part)
        # The terms are powers 1, 4, 9, … of the first, and below those of a geometric series of its third power.
        eta = 2 * one / (1 - one**3)
        return math.inf if eta >= 1 else math.log1p(eta) - math.log1p(-eta)

    if shares < 2:
        return 0.0
    return (step(1 / 2) + (shares - 2) * step(2 / 3)) * (1 + 1e-9)


@dataclass(frozen=True)
class DistributedGaussian(Described):
    """Sums of ``holders`` parties with integer noise that at least ``honest`` of them make together.

    Sums are shown only when at least ``threshold`` holders are in them, of whom ``threshold − honest`` may work
    together with whoever sees the sum, or ``colluding`` of all holders where that is said. A table has at most
    ``cells`` cells, each within ±``most`` at one holder. Sums are taken modulo 2^``bits``, wide enough that they never
    wrap.

    **Law.** Each holder adds a discrete Gaussian of parameter ``share`` to every cell.

    **Spend.** ``DiscreteGaussian(sigma, squared_shift)`` of every holder's own account: ρ′ = squared_shift/2σ² of
    concentrated privacy, where σ is a hair below √honest · share, for what sums of shares are not.

    **Proof.** Take all that dishonest holders know as given. What remains has the noise of at least ``honest`` shares,
    and adding the others' is post-processing. Let P, Q be the laws of the released table for two neighboring inputs,
    and P₀, Q₀ those with one discrete Gaussian of variance honest · share² instead, which have the concentrated
    privacy ρ = squared_shift/(2 · honest · share²). By ``closeness`` |ln P/P₀| and |ln Q/Q₀| are at most t everywhere,
    t being cells times that of one cell. Let L₀ = ln P₀/Q₀. For α ≥ 2 the Rényi divergence is at most
    αρ + t(2α − 1)/(α − 1) ≤ α(ρ + 3t/2). For α < 2 the loss ln P/Q is L₀ up to 2t, and because P and P₀ both have mass
    1, E_P f ≤ E_P₀ f + (e^t − 1) · E_P₀ |f − 1| with f = e^((α−1)L₀), where |f − 1| ≤ (α − 1)|L₀|(1 + f). L₀ has mean ρ
    and variance at most 2ρ under P₀, and E_P₀ f² ≤ e^(6ρ), so with Cauchy and Schwarz the divergence is at most
    αρ + 2t + (e^t − 1)(1 + e^(3ρ))√(2ρ + ρ²). Together: ρ′ = ρ + 2t + (e^t − 1)(1 + e^(3ρ))√(2ρ + ρ²).

    **Source.** P. Kairouz, Z. Liu and T. Steinke, The distributed discrete Gaussian mechanism for federated learning
    with secure aggregation, ICML 2021, has the idea and another bound for the difference.

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
                f"a holder's share of the noise must have a deviation from {SMALLEST_SHARE} to 1e12, got "
                f"{float(share):g}: sums of smaller ones hide less than the total suggests. Use a finer grid, or fewer "
                "holders"
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
        """The plan within (ε, δ) if at least that fraction of holders survives and that fraction of those is honest.

        It may run ``repetitions`` times.
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
        """What no sum is beyond: all cells at their largest, and noise out of all reach."""
        reach = GAUSSIAN_REACH * math.sqrt(self.holders) * float(self.share_sigma)
        return self.holders * self.most + math.ceil(reach)

    @property
    def spend(self) -> DiscreteGaussian:
        """What the sum costs one holder's records."""
        variance = self.honest * self.share_sigma**2
        rho, off = self.squared_shift / (2 * variance), self.cells * closeness(self.share_sigma, self.honest)
        near = float(rho)
        more = 2 * off + math.expm1(off) * (1 + math.exp(min(3 * near, 700))) * math.sqrt(2 * near + near**2)
        # Rounded down, to nine digits below what is stated: the price is never below the truth.
        square = self.squared_shift / (2 * (rho + Fraction(more)))
        unit = 10**9
        return DiscreteGaussian(Fraction(math.isqrt(math.floor(square * unit**2)), unit), self.squared_shift, False)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """How far the table of one holder may move."""
        return Sensitivity(l2_squared=self.squared_shift)

    @property
    def in_words(self) -> str:
        """Who is trusted with what."""
        return trusted_in_words(self.holders, self.threshold, self.honest, self.colluding)

    def variance(self, survivors: int) -> float:
        """The variance of one cell's noise when this many holders are in the sum."""
        return survivors * float(self.share_sigma) ** 2

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise in the sum of all holders, which has the most."""
        variance = self.variance(self.holders)
        return NoiseLaw("gaussian", math.sqrt(variance), variance)

    def noise_reach(self, cells: int, holders: int, failure: float) -> float:
        """A discrete Gaussian has tails no heavier than a continuous one of its parameter, and so have sums of them."""
        return NoiseLaw("gaussian", math.sqrt(self.variance(holders)), self.variance(holders)).reach(cells, failure)

    def reliance(self, clients: int) -> Reliance:
        """Noise in shares needs ``honest`` holders, of whom the node is one."""
        return relied_on(self.holders, self.honest, self.colluding)

    def share(self, cells: int, randomness: Randomness) -> Integers:
        """One holder's share of the noise for this many cells."""
        if cells > self.cells:
            raise InvalidInput(f"the noise is accounted for {self.cells} cells, the table has more")
        return gaussian_integers(self.share_sigma, cells, randomness)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The sum of all holders' tables with the noise of all of them, for a run in one place.

        >>> from tacit.core.randomness import SeededRandomness
        >>> DistributedGaussian(9, 2, 4, 3, 2, 2, 100).sample(np.array([[9, 0]]), SeededRandomness(1)).shape
        (1, 2)
        """
        table = count_table(value)
        noise = sum((self.share(table.size, randomness) for _ in range(self.holders)), np.zeros(table.size, np.int64))
        return table + noise.reshape(table.shape)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One vote moves between cells, under the noise of three honest holders: all that is counted on."""

        def moved(epsilon: Fraction, delta: Fraction) -> list[Check]:
            def plan(rows: int) -> DistributedGaussian:
                return cls.for_budget(epsilon, delta, 2, 2 * rows, 3, most=1, surviving=1, honest=1)

            return [rowwise(cls.name, accounted(plan(1).spend, delta), plan, MOVED, difference)]

        return {cls.name: moved}

    def opened(self, total: NDArray[Any]) -> Integers:
        """The sum that is meant by a sum modulo 2^bits."""
        return opened_sum(total, self.bits)
