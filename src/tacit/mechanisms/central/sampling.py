"""Sampling a fixed subset of records (noise-free DP, NFDP), with the guarantee that it really gives.

Training on k of n records, drawn once and kept secret, was published as (ε, δ)-differential privacy without noise. It
is total-variation stability: with probability δ a record is in the subset, without noise, and then nothing protects
it, for any ε. The published ε is computed here for comparison only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import (
    ANYTHING,
    Integers,
    InvalidInput,
    Randomness,
    Sensitivity,
    Stability,
    decimal,
    permutations,
    rounded_up,
    uniform_below,
)
from tacit.mechanisms.auditing import PURE, Check, Target
from tacit.mechanisms.description import Checks, Described

__all__ = ["StratifiedSample", "SubsetSample", "exposure_target"]

_DIGITS = 15
# What is audited: ten records of twenty.
SIZE, POPULATION = 10, 20


@dataclass(frozen=True)
class SubsetSample(Described):
    """Releases ``size`` of exactly ``population`` records, chosen uniformly with or without ``replacement``.

    **Law.** Without replacement every subset of k records is equally likely; with replacement each of the k draws is an
    independent uniform record. The records are in the order in which they were drawn.

    **Spend.** ``Stability(δ)`` with δ = k/n without and 1 − (1 − 1/n)^k with replacement. The latter is rounded
    up to 15 decimal digits, because the exact fraction has thousands of digits.

    **Proof.** Two data sets that differ in one record give the same output if the same positions are drawn and the
    differing one is not among them, which fails with probability δ: the total variation distance is at most δ, and is δ
    if the differing record occurs nowhere else. An output that contains it has probability zero for the other data
    set, so the hockey-stick divergence is δ for *every* ε ≥ 0.

    **Never below 1/n.** δ = 1/n is the cost of publishing one random record, so this is not privacy in the usual sense;
    ``caveat`` says so. Drawing again is another spend: draw once and keep the result secret.

    **Source.** L. Sun and L. Lyu, Federated model distillation with noise-free differential privacy, IJCAI 2021,
    theorems 1 and 2, corrected.

    >>> SubsetSample(18, 2880, replacement=False).spend
    Stability(delta=Fraction(1, 160))
    """

    name = "subset-sample"
    statistic = "subset"
    releases = "records"
    stratified: ClassVar[bool] = False

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
    def strata(self) -> tuple[SubsetSample, ...]:
        """What is drawn from separately: all records are one stratum."""
        return (self,)

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
        return rounded_up(1 - Fraction(missed), _DIGITS)

    @property
    def spend(self) -> Stability:
        """The cost of the subset, which may be used any number of times."""
        return Stability(self.delta)

    @property
    def max_sensitivity(self) -> Sensitivity:
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

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Ten records of twenty: the probability that a given one is among them is the cost."""
        named = {"nfdp-subset": False, "nfdp-with-replacement": True}

        def exposed(name: str, epsilon: Fraction, delta: Fraction) -> list[Check]:
            sample = cls(SIZE, POPULATION, named[name])
            return [exposure_target(name, sample.spend.delta, sample)]

        return {name: partial(exposed, name) for name in named}


@dataclass(frozen=True)
class StratifiedSample(Described):
    """Releases a subset of every class: class c is drawn from by ``strata[c]``.

    **Law.** Each class is sampled independently, as ``SubsetSample`` says.

    **Spend.** ``Stability(max over classes of δ_c)``. The class sizes are parameters and therefore public;
    neighbors replace a record by another *of the same class*.

    **Proof.** Only the class of the differing record gives different outputs, and by ``SubsetSample`` they differ with
    probability δ_c. A record with another class would change two classes and their public sizes: that is not covered.

    **Source.** As for ``SubsetSample``.

    >>> halves = StratifiedSample((SubsetSample(1, 4, False), SubsetSample(1, 2, False)))
    >>> halves.spend
    Stability(delta=Fraction(1, 2))
    """

    name = "stratified-sample"
    statistic = "subset"
    releases = "records"
    stratified: ClassVar[bool] = True

    strata: tuple[SubsetSample, ...]

    def __post_init__(self) -> None:
        if not self.strata:
            raise InvalidInput("strata must hold at least 1 class, got 0")

    @property
    def spend(self) -> Stability:
        """The cost of the subset, which may be used any number of times."""
        return Stability(max(stratum.delta for stratum in self.strata))

    @property
    def max_sensitivity(self) -> Sensitivity:
        """Any change of one record that keeps its class."""
        return ANYTHING

    @property
    def caveat(self) -> str:
        """What must stand beside every mention of this spend."""
        worst = max(self.strata, key=lambda stratum: stratum.delta)
        return f"in the class with the largest delta, {worst.caveat}; class sizes are assumed to be public"

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

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One record of each of two classes: a record of the smaller class, which is exposed more, changes."""

        def exposed(epsilon: Fraction, delta: Fraction) -> list[Check]:
            sample = cls((SubsetSample(1, 8, replacement=False), SubsetSample(1, 4, replacement=False)))
            labels = np.repeat([0, 1], [8, 4])

            def draw(last: int, count: int, randomness: Randomness) -> Integers:
                records = np.array([*range(11), last])
                drawn = np.array([sample.sample([records, labels], randomness)[0] for _ in range(count)])
                return np.stack([(drawn == each).sum(axis=1) for each in (11, -1)], axis=1)

            return [Target("nfdp-stratified", PURE, sample.spend.delta, (11, -1), draw, cost=40)]

        return {"nfdp-stratified": exposed}


def exposure_target(name: str, claimed: Fraction, sample: SubsetSample, draws: int = 1) -> Target:
    """Records 0, 1, 2, …, or with record 0 replaced by a record −1: is either of the two drawn?"""

    def draw(first: int, count: int, randomness: Randomness) -> Integers:
        records = np.array([first, *range(1, sample.population)])
        rows = [[sample.sample([records], randomness)[0] for _ in range(draws)] for _ in range(count)]
        drawn = np.array(rows).reshape(count, -1)
        return np.stack([(drawn == each).sum(axis=1) for each in (0, -1)], axis=1)

    return Target(name, PURE, claimed, (0, -1), draw, cost=20)
