"""Drawing a fixed subset of records (NFDP), with an honest price.

Training on k of n records, drawn once and kept secret, was published as (ε, δ)-differential privacy without noise.
What it gives is total-variation stability: with probability δ a record is in the subset, in the clear, and then
nothing protects it, whatever ε is chosen. The published ε is computed here for comparison only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import decimal
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness, permutations, uniform_below
from tacit.core.rational import rounded_up
from tacit.core.sensitivity import ANYTHING, Sensitivity
from tacit.core.spend import Stability

__all__ = ["StratifiedSample", "SubsetSample"]

DIGITS = 15


@dataclass(frozen=True)
class SubsetSample:
    """Releases ``size`` of exactly ``population`` records, chosen uniformly with or without ``replacement``.

    **Law.** Without replacement every subset of k records is equally likely; with replacement each of the k draws
    is an independent uniform record. The records come in the order in which they were drawn.

    **Spend.** ``Stability(δ)`` with δ = k/n without and 1 − (1 − 1/n)^k with replacement. The latter is rounded
    up to 15 decimal digits, because the exact fraction has thousands of digits.

    **Proof.** Two data sets that differ in one record give the same output when the same positions are drawn and
    the differing one is not among them, which fails with probability δ: the total variation distance is at most
    δ, and is δ when the differing record occurs nowhere else. An output that contains it has probability zero on
    the other side, so the hockey-stick divergence is δ for *every* ε ≥ 0.

    **Never below 1/n.** δ = 1/n is what publishing one random record costs, so this never counts as privacy in
    the usual sense; ``caveat`` says so. Drawing again is another spend: draw once, keep the result secret.

    **Source.** L. Sun and L. Lyu, Federated model distillation with noise-free differential privacy, IJCAI 2021,
    theorems 1 and 2, corrected.

    >>> SubsetSample(18, 2880, replacement=False).spend
    Stability(delta=Fraction(1, 160))
    """

    size: int
    population: int
    replacement: bool

    def __post_init__(self) -> None:
        if self.population < 1:
            raise InvalidInput(f"population must be at least 1, got {self.population}")
        if self.size < 1:
            raise InvalidInput(f"size must be at least 1, got {self.size}")
        if not self.replacement and self.size > self.population:
            raise InvalidInput(
                f"size must be at most the population of {self.population} without replacement, got {self.size}"
            )

    @property
    def delta(self) -> Fraction:
        """The probability with which a record is exposed."""
        if not self.replacement:
            return Fraction(self.size, self.population)
        # Factors and products rounded down bound the power from below, and so δ from above.
        context = Context(prec=60, rounding=ROUND_FLOOR)
        factor = context.divide(Decimal(self.population - 1), Decimal(self.population))
        missed, exponent = Decimal(1), self.size
        while exponent:
            if exponent & 1:
                missed = context.multiply(missed, factor)
            factor, exponent = context.multiply(factor, factor), exponent >> 1
        return rounded_up(1 - Fraction(missed), DIGITS)

    @property
    def spend(self) -> Stability:
        """What the subset costs, for as long as it is kept and used."""
        return Stability(self.delta)

    @property
    def tolerates(self) -> Sensitivity:
        """Any change of one record."""
        return ANYTHING

    @property
    def published_epsilon(self) -> float:
        """The ε of the published theorems, in natural logarithm. It is not an ordinary (ε, δ) guarantee.

        >>> sample = SubsetSample(18, 2880, replacement=True)
        >>> round(sample.published_epsilon, 6), round(sample.printed_epsilon, 6)
        (0.006249, 0.002714)
        """
        if self.replacement:
            return self.size * math.log1p(1 / self.population)
        return -math.log1p(-self.size / (self.population + 1))

    @property
    def printed_epsilon(self) -> float:
        """The same ε in the decimal logarithm in which the published table prints it."""
        return self.published_epsilon / math.log(10)

    @property
    def caveat(self) -> str:
        """What must stand beside every mention of this spend."""
        return (
            f"sampling {self.size} of {self.population} records exposes each record in the clear with probability "
            f"{decimal(self.delta)}; this delta is at least 1/n and does not fall for any larger epsilon, so it is "
            "total-variation stability and not an ordinary (epsilon, delta) guarantee"
        )

    def indices(self, randomness: Randomness) -> Integers:
        """Which records are drawn.

        >>> from tacit.core.randomness import SeededRandomness
        >>> sorted(SubsetSample(3, 3, replacement=False).indices(SeededRandomness(1)).tolist())
        [0, 1, 2]
        """
        if self.replacement:
            return uniform_below(self.population, self.size, randomness)
        order: Integers = permutations(1, self.population, randomness)[0]
        return order[: self.size]

    def sample(self, value: Sequence[NDArray[Any]], randomness: Randomness) -> list[NDArray[Any]]:
        """The drawn records, for records given as aligned arrays (samples, labels, …)."""
        for column in value:
            if len(column) != self.population:
                raise InvalidInput(f"population is {self.population}, got an array of {len(column)} records")
        chosen = self.indices(randomness)
        return [column[chosen] for column in value]


@dataclass(frozen=True)
class StratifiedSample:
    """Releases a subset of every class: class c is drawn from by ``strata[c]``.

    **Law.** Each class is sampled independently, as ``SubsetSample`` says.

    **Spend.** ``Stability(max over classes of δ_c)``. The class sizes are parameters and therefore public;
    neighbours replace a record by another *of the same class*.

    **Proof.** Only the class of the differing record gives different outputs, and by ``SubsetSample`` they differ
    with probability δ_c. A record that changed its class would change two classes, and the public sizes with
    them: that is not covered.

    **Source.** As for ``SubsetSample``.

    >>> halves = StratifiedSample((SubsetSample(1, 4, False), SubsetSample(1, 2, False)))
    >>> halves.spend
    Stability(delta=Fraction(1, 2))
    """

    strata: tuple[SubsetSample, ...]

    def __post_init__(self) -> None:
        if not self.strata:
            raise InvalidInput("strata must hold at least 1 class, got 0")

    @property
    def spend(self) -> Stability:
        """What the subset costs, for as long as it is kept and used."""
        return Stability(max(stratum.delta for stratum in self.strata))

    @property
    def tolerates(self) -> Sensitivity:
        """Any change of one record that keeps its class."""
        return ANYTHING

    @property
    def caveat(self) -> str:
        """What must stand beside every mention of this spend."""
        worst = max(self.strata, key=lambda stratum: stratum.delta)
        return f"in the class that is drawn from most, {worst.caveat}; class sizes are taken to be public"

    def sample(self, value: Sequence[NDArray[Any]], randomness: Randomness) -> list[NDArray[Any]]:
        """The drawn records of every class, for aligned arrays of which the last holds the class of each record."""
        labels = value[-1]
        chosen = []
        for label, stratum in enumerate(self.strata):
            members = np.flatnonzero(labels == label)
            if len(members) != stratum.population:
                raise InvalidInput(f"population of class {label} is {stratum.population}, got {len(members)} records")
            chosen.append(members[stratum.indices(randomness)])
        rows = np.concatenate(chosen)
        return [column[rows] for column in value]
