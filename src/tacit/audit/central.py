"""Targets of the mechanisms that a trusted curator runs on counts, each with its most telling pair of inputs.

A row of a table is an independent run of the mechanism, so a table of equal rows gives as many draws as it has rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.calibrate import gaussian_sigma
from tacit.accounting.compose import Rule, total
from tacit.audit.bounds import provable_epsilon
from tacit.audit.checks import Target
from tacit.core.protocols import Integers, Mechanism
from tacit.core.randomness import Randomness
from tacit.core.rational import rounded_up
from tacit.core.spend import Spend
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.exponential_mechanism import ExponentialMechanism
from tacit.mechanisms.central.pate import ConfidenceScreen, GaussianVotes, LaplaceVotes, SampledVotes
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip

__all__ = [
    "MOVED",
    "SELECTED",
    "accounted",
    "confidence_screen",
    "difference",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential_mechanism",
    "gaussian_votes",
    "laplace_votes",
    "permute_and_flip",
    "rowwise",
    "sampled_noise",
    "sampled_votes",
]

PURE = Fraction(0)
# One record changes its label: a label that is behind draws level.
SELECTED = ((2, 0), (1, 1))
# One record changes its label: the only vote moves from a cell to another.
MOVED = ((1, 0), (0, 1))


Read = Callable[[NDArray[Any]], Integers]


def rowwise(
    name: str,
    claim: tuple[Fraction, Fraction],
    mechanism: Callable[[int], Mechanism[Integers, Any]],
    inputs: tuple[Sequence[int], Sequence[int]],
    read: Read = np.asarray,
) -> Target:
    """A mechanism that treats every row of a table alike: ``mechanism(rows)`` makes it for so many rows.

    ``read`` makes features of what it releases.
    """

    def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
        return read(mechanism(count).sample(np.tile(np.array(row), (count, 1)), randomness))

    return Target(name, *claim, inputs, draw)


def difference(table: Integers) -> Integers:
    """The first column minus the second: what remains of two cells that are compared.

    >>> difference(np.array([[5, 3]])).tolist()
    [2]
    """
    return table[:, 0] - table[:, 1]


def accounted(spend: Spend, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The (ε, δ) that Tacit's accountants state for a spend: the claim that is audited.

    >>> from tacit.core.spend import Pure
    >>> accounted(Pure("1/2"), Fraction(0))
    (Fraction(1, 2), Fraction(0, 1))
    """
    return Fraction(total([spend], delta, Rule.PLANNED).epsilon), delta


def permute_and_flip(epsilon: Fraction) -> Target:
    """Two labels with 2 votes to 0, or 1 to 1: the second is chosen e^ε times as often, exactly."""
    mechanism = PermuteAndFlip.for_epsilon(epsilon, row_range=2)
    return rowwise("permute-and-flip", (mechanism.spend.epsilon, PURE), lambda rows: mechanism, SELECTED)


def exponential_mechanism(epsilon: Fraction) -> Target:
    """Two labels, one ahead: the further, the nearer to ε, and the rarer the event that shows it."""
    mechanism = ExponentialMechanism.for_epsilon(epsilon, row_range=2)
    leads = np.unique(np.geomspace(1, 2 + 10 / float(mechanism.rate), 100).astype(np.int64))
    behind, level = (mechanism.pmf(np.stack([leads - one, 0 * leads + one], axis=1))[:, 1] for one in (0, 1))
    ahead = int(leads[provable_epsilon(level, behind).argmax()])
    inputs = ((ahead, 0), (ahead - 1, 1))
    return rowwise("exponential-mechanism", (mechanism.spend.epsilon, PURE), lambda rows: mechanism, inputs)


def discrete_laplace(epsilon: Fraction) -> Target:
    """One vote moves from a cell to another: both noisy cells, each on the right side, reach ε."""
    mechanism = DiscreteLaplaceNoise.for_epsilon(epsilon, l1=2)
    return rowwise("discrete-laplace", (mechanism.spend.epsilon, PURE), lambda rows: mechanism, MOVED)


def discrete_gaussian(epsilon: Fraction, delta: Fraction) -> Target:
    """One vote moves from a cell to another: their difference is all that the likelihoods depend on."""
    mechanism = DiscreteGaussianNoise.for_budget(
        epsilon, delta, squared_shift=2, unit_steps=True, repetitions=1, rule=Rule.PLANNED
    )
    claim = accounted(mechanism.spend, delta)
    return rowwise("discrete-gaussian", claim, lambda rows: mechanism, MOVED, difference)


def laplace_votes(epsilon: Fraction) -> Target:
    """LNMAX with its votes: one teacher changes its mind."""

    # The noise of a row does not depend on how many rows there are; the claim is for one.
    def mechanism(rows: int) -> LaplaceVotes:
        return LaplaceVotes(epsilon / 2, queries=rows)

    return rowwise("pate-lnmax", accounted(mechanism(1).spend, PURE), mechanism, MOVED)


def gaussian_votes(epsilon: Fraction, delta: Fraction) -> Target:
    """GNMAX with its votes: one teacher changes its mind."""
    sigma = rounded_up(gaussian_sigma(epsilon, delta, math.sqrt(2)))

    def mechanism(rows: int) -> GaussianVotes:
        return GaussianVotes(sigma, queries=rows)

    return rowwise("pate-gnmax", accounted(mechanism(1).spend, delta), mechanism, MOVED, difference)


def confidence_screen(epsilon: Fraction, delta: Fraction) -> Target:
    """One teacher less agrees with the others, so far above the threshold that a refusal tells most."""
    sigma = rounded_up(gaussian_sigma(epsilon, delta))

    def mechanism(rows: int) -> ConfidenceScreen:
        return ConfidenceScreen(sigma, threshold=0, queries=rows)

    candidates = np.arange(1, 2 + math.ceil(4 * sigma))
    offsets = np.arange(-math.ceil(10 * sigma) - 1, 1)
    refused = DiscreteGaussianNoise(sigma, 1, unit_steps=True).pmf(offsets).cumsum()[::-1]  # P(noise ≤ −index)
    votes = int(candidates[provable_epsilon(refused[candidates], refused[candidates + 1], float(delta)).argmax()])
    return rowwise(
        "pate-confidence", accounted(mechanism(1).spend, delta), mechanism, ((votes, 0), (votes - 1, 0)), as_numbers
    )


def as_numbers(passed: NDArray[Any]) -> Integers:
    """Bits as integers.

    >>> as_numbers(np.array([True, False])).tolist()
    [1, 0]
    """
    return passed.astype(np.int64)


@dataclass(frozen=True)
class Electors:
    """One or two records: where the second is called, it takes the vote from the class that the first stands for."""

    records: int

    def votes(self, query: int, members: Integers) -> Integers:
        """One vote, for class 0, or for class 1 when the second record is called."""
        return np.array([0, 1]) if 1 in members else np.array([1, 0])


def sampled_noise(epsilon: Fraction, delta: Fraction) -> Fraction:
    """σ for votes of half of the records: what is (ε', 2δ) for all of them is (ε, δ) for half, e^ε' − 1 = 2(e^ε − 1).

    >>> round(float(sampled_noise(Fraction(1), Fraction(1, 100))), 3)
    1.757
    """
    return rounded_up(gaussian_sigma(math.log1p(2 * math.expm1(epsilon)), 2 * delta, math.sqrt(2)))


def sampled_votes(epsilon: Fraction, delta: Fraction) -> Target:
    """Private k-NN on half of the records: one record joins, and where it is sampled it turns the vote."""
    sigma = sampled_noise(epsilon, delta)

    def draw(electors: Electors, count: int, randomness: Randomness) -> Integers:
        return difference(SampledVotes("1/2", sigma, queries=count).sample(electors, randomness))

    claim = accounted(SampledVotes("1/2", sigma, queries=1).spend, delta)
    return Target("private-knn", *claim, (Electors(1), Electors(2)), draw, cost=20)
