"""Distributed discrete Laplace noise for secure aggregation: the shares of honest holders together are enough.

A holder's table with its own share of the noise alone is not private. It leaves the holder only under a mask that
cancels in the sum of all holders' tables (``MaskedShare``), and that sum is private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Number, Pure, Randomness, Sensitivity, Spend, positive
from tacit.mechanisms.central.counts import count_table
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.description import (
    CAPACITY,
    COUNT,
    EXACT,
    OPTIONAL_COUNT,
    Described,
    NoiseLaw,
    Parameters,
    Reliance,
)
from tacit.mechanisms.masked.distributed_gaussian import (
    WIDTHS,
    DistributedGaussian,
    opened_sum,
    quorum_of,
    relied_on,
    require_shares,
    sum_width,
    trusted_in_words,
)
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial

__all__ = ["DistributedLaplace", "MaskedShare"]

# Each geometric part of the noise exceeds this many scales with probability e^-64.
_REACH = 64
TWO_THIRDS = Fraction(2, 3)


@dataclass(frozen=True)
class DistributedLaplace(Described):
    """Sums over ``holders`` holders with discrete Laplace noise that ``honest`` of them together add.

    Sums are shown only if at least ``threshold`` holders are in them. Of those, at most ``threshold − honest`` may
    collude with whoever sees the sum: they know their own noise and can subtract it. If ``colluding`` is given, at most
    that many of all holders collude, and sums over many holders need fewer masks. A cell of one holder is within
    ±``most``. Sums are taken modulo 2^``bits``, large enough that they never overflow.

    **Law.** Each holder adds Z⁺ − Z⁻ to every cell, Z⁺ and Z⁻ ~ NB(1/honest, e^(−1/b)), where b is ``scale``. The sum
    over ``honest`` holders is exactly discrete Laplace noise of scale b, because the shapes of negative binomials add
    up to 1 and the difference of two geometric variables is discrete Laplace. More holders add more noise.

    **Spend.** ``Pure(l1 / scale)`` of every holder's own account, for a record (or person) of one holder, against
    whoever sees the sum, all messages, and what the dishonest holders know.

    **Proof.** Take all that dishonest holders know as given, and subtract it. What remains is the sum over the honest
    holders, of whom at least ``honest`` are in any sum that is shown. The noise of ``honest`` of them is discrete
    Laplace and independent of everything else: with it alone the sum is (l1/b)-DP by the proof of
    ``DiscreteLaplaceNoise``; adding the others' tables and noise is post-processing. Clipping a cell to [−most, most]
    increases no distance between neighboring tables. Masks ensure that nothing but the sum is seen.

    **Source.** B. Ghazi et al., Private counting from anonymous messages, ICML 2020, for the shares; S. Goryczka and
    L. Xiong, A comprehensive comparison of multiparty secure additions with differential privacy, 2017.

    >>> plan = DistributedLaplace.for_epsilon(1, l1=2, holders=9, most=1000)
    >>> plan.threshold, plan.honest, plan.scale, plan.bits, plan.spend
    (6, 4, Fraction(2, 1), 16, Pure(epsilon=Fraction(1, 1)))
    """

    name = "distributed-laplace"
    statistic = "share"
    releases = "sealed"
    parameters: ClassVar[Parameters] = {
        "scale": EXACT,
        "l1": COUNT,
        "holders": COUNT,
        "threshold": COUNT,
        "honest": COUNT,
        "most": CAPACITY,
        "bits": COUNT,
        "colluding": OPTIONAL_COUNT,
    }

    scale: Fraction
    l1: int
    holders: int
    threshold: int
    honest: int
    most: int
    bits: int
    colluding: int | None

    def __init__(
        self,
        scale: Number,
        l1: int,
        holders: int,
        threshold: int,
        honest: int,
        most: int,
        bits: int | None = None,
        colluding: int | None = None,
    ) -> None:
        if l1 < 1:
            raise InvalidInput(f"l1 must be at least 1, got {l1}")
        require_shares(holders, threshold, honest, most, colluding)
        object.__setattr__(self, "scale", positive(scale, "scale"))
        object.__setattr__(self, "l1", int(l1))
        object.__setattr__(self, "holders", int(holders))
        object.__setattr__(self, "threshold", int(threshold))
        object.__setattr__(self, "honest", int(honest))
        object.__setattr__(self, "most", int(most))
        object.__setattr__(self, "bits", sum_width(self._largest, holders, most, bits))
        object.__setattr__(self, "colluding", colluding)
        # A scale for which shares cannot be drawn is refused here and not at the first sum.
        _ = self.share_law

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        l1: int,
        holders: int,
        most: int,
        surviving: Number = TWO_THIRDS,
        honest: Number = TWO_THIRDS,
        colluding: int | None = None,
    ) -> DistributedLaplace:
        """The mechanism that spends ε if ``surviving`` of the holders stay and ``honest`` of those are honest."""
        threshold, enough = quorum_of(holders, surviving, honest)
        scale = l1 / positive(epsilon, "epsilon")
        return cls(scale, l1, holders, threshold, enough, most, colluding=colluding)

    @property
    def _largest(self) -> int:
        """The largest absolute sum: all counts at their largest, and noise beyond any that practically occurs."""
        return self.holders * self.most + math.ceil(
            _REACH * self.scale * math.ceil(Fraction(self.holders, self.honest))
        )

    @property
    def spend(self) -> Pure:
        """The cost of the sum for one holder's records."""
        return Pure(self.l1 / self.scale)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of one holder's table."""
        return Sensitivity(l1=self.l1)

    @property
    def share_law(self) -> NegativeBinomial:
        """The law of one holder's Z⁺ and Z⁻ in one cell."""
        return NegativeBinomial(Fraction(1, self.honest), 1 / self.scale)

    @property
    def in_words(self) -> str:
        """The trust assumption, in words."""
        return trusted_in_words(self.holders, self.threshold, self.honest, self.colluding)

    def variance(self, survivors: int) -> float:
        """The variance of one cell's noise when this many holders are in the sum.

        >>> round(DistributedLaplace(2, 2, 3, 3, 3, 100).variance(3), 6)
        7.835396
        """
        return 2 * survivors * self.share_law.variance

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise in the sum of all holders, which has the most; nearly Gaussian for many holders."""
        variance = self.variance(self.holders)
        return NoiseLaw("gaussian", math.sqrt(variance), variance)

    def noise_reach(self, cells: int, holders: int, failure: float) -> float:
        """The shares of n holders, h of which add up to one, are n/h discrete Laplace variables per cell."""
        whole = DiscreteLaplaceNoise(self.scale, self.l1).noise_law
        return whole.reach(cells * holders / self.honest, failure)

    def reliance(self, participants: int) -> Reliance:
        """Distributed noise needs ``honest`` honest holders, the node included.

        >>> DistributedLaplace(2, 2, holders=9, threshold=6, honest=4, most=100).reliance(1)
        Reliance(others=3, share=Fraction(1, 4))
        """
        return relied_on(self.holders, self.honest, self.colluding)

    def share(self, cells: int, randomness: Randomness) -> Integers:
        """One holder's share of the noise for this many cells."""
        return _difference(self.share_law, cells, randomness)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The sum of all holders' tables with the noise of all of them, for a run in one process.

        >>> from tacit.core.randomness import SeededRandomness
        >>> DistributedLaplace(2, 2, 3, 2, 2, 100).sample(np.array([[9, 0]]), SeededRandomness(1)).shape
        (1, 2)
        """
        table = count_table(value)
        law = NegativeBinomial(Fraction(self.holders, self.honest), 1 / self.scale)
        return table + _difference(law, table.size, randomness).reshape(table.shape)

    def opened(self, total: NDArray[Any]) -> Integers:
        """The signed sum that a sum modulo 2^bits represents.

        >>> DistributedLaplace(2, 2, 3, 2, 2, 100).opened(np.array([65535, 7], dtype=np.uint64)).tolist()
        [-1, 7]
        """
        return opened_sum(total, self.bits)


def _difference(law: NegativeBinomial, cells: int, randomness: Randomness) -> Integers:
    """Z⁺ − Z⁻ for every cell."""
    jumps = law.scatter(1, 2 * cells, randomness)
    both = np.zeros(2 * cells, dtype=np.int64)
    np.add.at(both, jumps.slot, jumps.size)
    return both[:cells] - both[cells:]


@dataclass(frozen=True)
class MaskedShare(Described):
    """One holder's table with its noise share, under a mask: secure aggregation.

    **Law.** (clipped table + share + ``mask``) modulo 2^bits, where ``mask`` is uniform for everybody but this holder
    and cancels in the sum over the holders of one ``session``.

    **Spend.** That of the plan.

    **Proof.** That of the plan for the sum; the masked table alone is uniform.

    **Source.** K. Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning, CCS 2017.

    ``session`` identifies the run, the round, the holders and their keys, so that a request that was paid for one
    session is never answered in another: the same table under two masks, or with two draws of noise, would reveal more.
    """

    name = "masked-share"
    statistic = "share"
    releases = "sealed"

    plan: DistributedLaplace | DistributedGaussian
    session: str
    mask: NDArray[np.uint64] = field(repr=False, compare=False)

    @property
    def spend(self) -> Spend:
        """The cost of the sum for this holder's records."""
        return self.plan.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of this holder's table."""
        return self.plan.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """The masked table, of the same shape."""
        table = count_table(value)
        if table.size != self.mask.size:
            raise InvalidInput(f"the mask is for {self.mask.size} cells, and the table has another number of cells")
        noisy = np.clip(table.ravel(), -self.plan.most, self.plan.most) + self.plan.share(table.size, randomness)
        masked: NDArray[Any] = (noisy.astype(np.uint64) + self.mask.ravel()).astype(WIDTHS[self.plan.bits])
        return masked.reshape(table.shape)
