"""Discrete Laplace noise on every cell of every client: dominated by all others, kept for comparison."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Estimates, Integers, MessageLaw
from tacit.core.randomness import Randomness
from tacit.core.rational import Number
from tacit.mechanisms.auditing import AUDITED_CELLS, SINGLE, message_checks
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise, laplace_integers
from tacit.mechanisms.description import Checks, Parameters
from tacit.mechanisms.exact import exp, precision
from tacit.mechanisms.forms import REACH
from tacit.mechanisms.local.clients import (
    DOMAIN,
    LAW_DIGITS,
    LocalMessages,
    chunks,
    client_cells,
    client_rows,
    domain,
    local_epsilon,
    one_client,
)
from tacit.mechanisms.messages import NumbersCode

__all__ = ["LocalLaplace"]


@dataclass(frozen=True)
class LocalLaplace(LocalMessages):
    """Adds two-sided geometric noise to each of the client's d bits and sends the integers.

    **Law.** The client's ones plus independent noise P(x) ∝ e^(−|x|/b) on every cell, b = 2c/ε.

    **Spend.** ``Pure(epsilon)``, between any two sets of c cells.

    **Proof.** Two sets of c cells are at L1 distance at most 2c, and moving a cell by one costs at most 1/b. With
    d ≥ 2c, noise that is not above 0 or not below 1, on the right side each time, reaches the bound.

    **Source.** As ``DiscreteLaplaceNoise``, with each client as its own curator. Its variance, about 8c²/ε², is
    above that of every other local mechanism here for small ε, and its messages are the longest.

    >>> mechanism = LocalLaplace(cells=100, ones=1, epsilon=1)
    >>> round(mechanism.variance_zero, 6)
    7.835396
    """

    name = "local-laplace"
    parameters: ClassVar[Parameters] = DOMAIN
    biased: ClassVar[bool] = False

    cells: int
    ones: int
    epsilon: Fraction

    def __init__(self, cells: int, ones: int, epsilon: Number) -> None:
        cells, ones = domain(cells, ones)
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "ones", ones)
        object.__setattr__(self, "epsilon", local_epsilon(epsilon))

    @property
    def message_bits(self) -> int:
        """A 64-bit integer a cell, since the noise has no bound."""
        return 64 * self.cells

    @property
    def noise(self) -> DiscreteLaplaceNoise:
        """The noise on one client's bits."""
        return DiscreteLaplaceNoise.for_epsilon(self.epsilon, l1=2 * self.ones)

    @property
    def variance_zero(self) -> float:
        """Variance that one client adds to a cell it does not have."""
        return self.noise.variance

    @property
    def variance_one(self) -> float:
        """Variance that one client adds to a cell it has."""
        return self.noise.variance

    @property
    def mean_squared_error(self) -> float:
        """Expected squared error of one client's estimates, averaged over all cells."""
        return self.noise.variance

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> Integers:
        """One row of noisy integers a client."""
        held = client_cells(cells, self.cells, self.ones)
        messages = np.empty((len(held), self.cells), dtype=np.int64)
        for part in chunks(len(held), self.cells):
            rows = held[part]
            noise = laplace_integers(self.noise.scale, len(rows) * self.cells, randomness)
            messages[part] = noise.reshape(len(rows), self.cells)
            messages[part][np.arange(len(rows))[:, None], rows] += 1
        return messages

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """The sums, which are unbiased as they are."""
        rows = client_rows(messages, np.int64, (self.cells,))
        counts = rows.sum(axis=0, dtype=np.float64)
        return Estimates(counts, np.full(self.cells, len(rows) * self.noise.variance))

    def law(self, cells: Sequence[int], reach: int = 2) -> MessageLaw:
        """The probability of every message within [−reach, 1 + reach] on all cells; the rest lies beyond."""
        held = one_client(cells, self.cells, self.ones)
        context = precision(LAW_DIGITS)
        ratio = exp(-1 / self.noise.scale, LAW_DIGITS)
        zero = context.divide(context.subtract(Decimal(1), ratio), context.add(Decimal(1), ratio))
        messages, probabilities = [], []
        for message in itertools.product(range(-reach, reach + 2), repeat=self.cells):
            distance = sum(abs(value - (cell in held)) for cell, value in enumerate(message))
            messages.append(message)
            probabilities.append(context.multiply(context.power(zero, self.cells), context.power(ratio, distance)))
        return MessageLaw(np.array(messages, dtype=np.int64), tuple(probabilities))

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """Any pairs will do, if there are as many."""
        return (self.cells, self.ones) == (queries * classes, neighbors * labels)

    @property
    def code(self) -> NumbersCode:
        """A number per cell, as far as noise reaches.

        >>> LocalLaplace(10, 1, 1).code.reach
        129
        """
        return NumbersCode(self.cells, 1 + int(REACH * float(self.noise.scale)))

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """The two noisy bits that differ."""
        return {
            cls.name: lambda epsilon, delta: message_checks(
                cls.name, cls(AUDITED_CELLS, 1, epsilon), SINGLE, lambda rows: rows[:, :2]
            )
        }
