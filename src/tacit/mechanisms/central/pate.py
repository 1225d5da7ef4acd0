"""The mechanisms of PATE: LNMax, GNMax, and the confidence screen of Confident-GNMax.

The first two release noisy votes, not only the winner: additive noise protects the complete histogram, so the label
(``winners``) is post-processing. The spend never depends on the votes; the smaller data-dependent ε of the literature
is itself private and is never charged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Number, Randomness, Sensitivity, exact, rounded_up
from tacit.core.spend import DiscreteGaussian, Pure, Repeated
from tacit.mechanisms.auditing import MOVED, PURE, Check, accounted, difference, provable_epsilon, rowwise
from tacit.mechanisms.central.counts import count_rows
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise, gaussian_integers
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.description import COUNT, EXACT, WHOLE, Checks, Described, NoiseLaw, Parameters
from tacit.mechanisms.forms import Flags

__all__ = [
    "ConfidentScreen",
    "GNMax",
    "LNMax",
    "asked_queries",
    "audited_sigma",
    "in_range",
    "winners",
]


def winners(votes: NDArray[Any]) -> Integers:
    """The label with the most noisy votes in every row (report noisy max); ties go to the lower index.

    >>> winners(np.array([[3, 9, 9], [1, 0, 0]])).tolist()
    [1, 0]
    """
    labels: Integers = np.argmax(votes, axis=1)
    return labels


def in_range(value: Number, name: str, smallest: Number, largest: Number) -> Fraction:
    """A parameter as an exact number, refused outside its limits.

    >>> in_range("1/20", "gamma", "1e-12", "1e6")
    Fraction(1, 20)
    """
    number = exact(value, name)
    if not exact(smallest) <= number <= exact(largest):
        raise InvalidInput(f"{name} must be in [{smallest}, {largest}], got {value}")
    return number


def asked_queries(queries: int) -> int:
    """A number of queries, refused below one.

    >>> asked_queries(3)
    3
    """
    if queries < 1:
        raise InvalidInput(f"queries must be at least 1, got {queries}")
    return int(queries)


def _rows(table: NDArray[Any], queries: int) -> Integers:
    rows = count_rows(table)
    if len(rows) != queries:
        raise InvalidInput(f"table must have one row for each of the {queries} queries, got {len(rows)}")
    return rows


@dataclass(frozen=True)
class LNMax(Described):
    """Teachers' votes on ``queries`` queries with discrete Laplace noise of scale 1/γ; LNMax's answer is the winners.

    **Law.** Independent discrete Laplace noise of scale 1/γ on every cell.

    **Spend.** Replacing one record changes one teacher, whose vote may change in every row: 2·queries cells by one
    each. That is ``Repeated(Pure(γ), 2·queries)``. The sum is the literature's 2γ per query; counted by cells it also
    composes more tightly.

    **Proof.** The noise of cells is independent, and a cell that changes by one is γ-DP by the proof of
    ``DiscreteLaplaceNoise``; at most 2·queries of them change.

    **Source.** N. Papernot et al., Semi-supervised knowledge transfer for deep learning from private training
    data, ICLR 2017.

    >>> LNMax("1/20", queries=1000).spend
    Repeated(spend=Pure(epsilon=Fraction(1, 20)), count=2000)
    """

    name = "laplace-votes"
    statistic = "table"
    releases = "counts"
    parameters: ClassVar[Parameters] = {"gamma": EXACT, "queries": COUNT}

    gamma: Fraction
    queries: int

    def __init__(self, gamma: Number, queries: int) -> None:
        object.__setattr__(self, "gamma", in_range(gamma, "gamma", "1e-12", "1e6"))
        object.__setattr__(self, "queries", asked_queries(queries))

    @property
    def spend(self) -> Repeated:
        """The cost of all rows."""
        return Repeated(Pure(self.gamma), 2 * self.queries)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the votes."""
        return Sensitivity(l1=2 * self.queries, linf=1)

    @property
    def _noise(self) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise(1 / self.gamma, 2 * self.queries)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The noisy votes, one row per query."""
        return self._noise.sample(_rows(value, self.queries), randomness)

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise on each vote."""
        return self._noise.noise_law

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """LNMax's noisy votes: one teacher changes its vote."""

        def moved(epsilon: Fraction, delta: Fraction) -> list[Check]:
            # The noise of a row does not depend on the number of rows; the claim is for one.
            claim = accounted(cls(epsilon / 2, queries=1).spend, PURE)
            return [rowwise("pate-lnmax", claim, partial(cls, epsilon / 2), MOVED)]

        return {"pate-lnmax": moved}


@dataclass(frozen=True)
class GNMax(Described):
    """Teachers' votes on ``queries`` queries with discrete Gaussian noise; GNMax's answer is the winners.

    **Law.** Independent discrete Gaussian noise of parameter σ on every cell.

    **Spend.** ``DiscreteGaussian(σ, 2·queries, unit_steps)``: replacing one record changes one teacher, whose vote may
    change in every row, two cells by one each.

    **Proof.** That of ``DiscreteGaussianNoise``.

    **Source.** N. Papernot et al., Scalable private learning with PATE, ICLR 2018, with integer noise.

    >>> GNMax(40, queries=286).spend.rho
    Fraction(143, 800)
    """

    name = "gaussian-votes"
    statistic = "table"
    releases = "counts"
    parameters: ClassVar[Parameters] = {"sigma": EXACT, "queries": COUNT}

    sigma: Fraction
    queries: int

    def __init__(self, sigma: Number, queries: int) -> None:
        object.__setattr__(self, "sigma", in_range(sigma, "sigma", "1e-6", "1e12"))
        object.__setattr__(self, "queries", asked_queries(queries))

    @property
    def _noise(self) -> DiscreteGaussianNoise:
        return DiscreteGaussianNoise(self.sigma, 2 * self.queries, unit_steps=True)

    @property
    def spend(self) -> DiscreteGaussian:
        """The cost of all rows."""
        return self._noise.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the votes."""
        return self._noise.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The noisy votes, one row per query."""
        return self._noise.sample(_rows(value, self.queries), randomness)

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise on each vote."""
        return self._noise.noise_law

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """GNMax's noisy votes: one teacher changes its vote."""

        def moved(epsilon: Fraction, delta: Fraction) -> list[Check]:
            sigma = audited_sigma(epsilon, delta, math.sqrt(2))
            claim = accounted(cls(sigma, queries=1).spend, delta)
            return [rowwise("pate-gnmax", claim, partial(cls, sigma), MOVED, difference)]

        return {"pate-gnmax": moved}


@dataclass(frozen=True)
class ConfidentScreen(Described):
    """Which queries the teachers agree on: the first half of Confident-GNMax.

    **Law.** True where the largest count plus discrete Gaussian noise of parameter σ reaches ``threshold``.

    **Spend.** ``DiscreteGaussian(σ, queries, unit_steps)`` for *every* query screened, whether it passes or not: a
    rejection reveals as much as a pass. The answers are a second mechanism, ``GNMax``, on a fixed number of rows, first
    those that passed, so that its spend is known before anything is sampled.

    **Proof.** One vote changes the largest count of a row by at most one, so the vector of largest counts changes by at
    most one in each of ``queries`` cells, and ``DiscreteGaussianNoise`` covers it. The comparison with a public
    threshold is post-processing.

    **Source.** N. Papernot et al., Scalable private learning with PATE, ICLR 2018, with integer noise.

    >>> ConfidentScreen(150, threshold=200, queries=640).spend.squared_shift
    640
    """

    name = "confidence-screen"
    statistic = "table"
    releases = "flags"
    parameters: ClassVar[Parameters] = {"sigma": EXACT, "threshold": WHOLE, "queries": COUNT}

    sigma: Fraction
    threshold: int
    queries: int

    def __init__(self, sigma: Number, threshold: int, queries: int) -> None:
        object.__setattr__(self, "sigma", in_range(sigma, "sigma", "1e-6", "1e12"))
        object.__setattr__(self, "threshold", int(threshold))
        object.__setattr__(self, "queries", asked_queries(queries))

    @property
    def spend(self) -> DiscreteGaussian:
        """The cost of screening every row."""
        return DiscreteGaussian(self.sigma, self.queries, unit_steps=True)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the votes."""
        return Sensitivity(linf=1)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[np.bool_]:
        """Whether each row passes."""
        largest: Integers = _rows(value, self.queries).max(axis=1)
        passes: NDArray[np.bool_] = largest + gaussian_integers(self.sigma, self.queries, randomness) >= self.threshold
        return passes

    def answer_form(self, rows: int, columns: int, limit: int) -> Flags:
        """Whether each row passes."""
        return Flags(rows)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One teacher fewer agrees; so far above the threshold that a rejection is the best evidence."""

        def screened(epsilon: Fraction, delta: Fraction) -> list[Check]:
            sigma = audited_sigma(epsilon, delta)
            candidates = np.arange(1, 2 + math.ceil(4 * sigma))
            offsets = np.arange(-math.ceil(10 * sigma) - 1, 1)
            refused = DiscreteGaussianNoise(sigma, 1, unit_steps=True).pmf(offsets).cumsum()[::-1]  # P(noise ≤ −index)
            proven = provable_epsilon(refused[candidates], refused[candidates + 1], float(delta))
            votes = int(candidates[proven.argmax()])
            claim = accounted(cls(sigma, 0, queries=1).spend, delta)
            inputs = ((votes, 0), (votes - 1, 0))
            return [
                rowwise("pate-confidence", claim, partial(cls, sigma, 0), inputs, lambda passed: passed.astype(int))
            ]

        return {"pate-confidence": screened}


def audited_sigma(epsilon: Number, delta: Number, shift: float = 1.0) -> Fraction:
    """The σ for which continuous Gaussian noise is (ε, δ)-DP, which audits use.

    >>> round(float(audited_sigma(1, 1e-5)), 3)
    3.731
    """
    # Accountants are slow to import and needed by audits only.
    from tacit.accounting.calibrate import gaussian_sigma

    return rounded_up(gaussian_sigma(epsilon, delta, shift))
