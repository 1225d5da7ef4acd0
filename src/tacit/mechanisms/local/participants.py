"""The common part of local mechanisms: checks of cells and messages, and unbiased counts from hits.

Each participant has ``ones`` different cells out of ``cells`` and sends one message. For most mechanisms a message
either hits a cell or not: a cell that its participant has with probability ``one``, any other with probability
``zero``. Unbiased counts follow from the numbers of hits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tacit.core import (
    ANYTHING,
    Estimates,
    Integers,
    InvalidInput,
    Number,
    Pure,
    RandomizedResponse,
    Randomness,
    Sensitivity,
    positive,
)
from tacit.mechanisms.description import CELLS, EXACT, Described, Parameters
from tacit.mechanisms.forms import MessageCode, Messages
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = [
    "DOMAIN",
    "LAW_DIGITS",
    "HitEstimates",
    "HitRates",
    "LocalMessages",
    "checked_messages",
    "chunks",
    "domain",
    "local_epsilon",
    "one_participant",
    "participant_cells",
]

DOMAIN: Parameters = {"cells": CELLS, "ones": CELLS, "epsilon": EXACT}

# Cells are hashed and counted with plain 64-bit arithmetic, and 2^31 of them already make a table of 16 GB.
_LARGEST_DOMAIN = 2**31
# Below, rounding of the estimates loses e^ε − 1; above, a message is practically the data itself.
SMALLEST_EPSILON, _LARGEST_EPSILON = Fraction(1, 10**6), Fraction(500)
# Significant digits of the probabilities in an exact law: far more than any comparison needs.
LAW_DIGITS = 60


def local_epsilon(epsilon: Number) -> Fraction:
    """The exact ε, refused outside the range of local mechanisms.

    >>> local_epsilon(0.5)
    Fraction(1, 2)
    """
    number = positive(epsilon, "epsilon")
    if not SMALLEST_EPSILON <= number <= _LARGEST_EPSILON:
        raise InvalidInput(f"epsilon must be in [1e-6, 500] for a local mechanism, got {float(number):g}")
    return number


def domain(cells: int, ones: int) -> tuple[int, int]:
    """The number of cells and of a participant's ones, checked: not all cells may be ones.

    >>> domain(10, 2)
    (10, 2)
    """
    if not 2 <= cells <= _LARGEST_DOMAIN:
        raise InvalidInput(f"cells must be in [2, 2^31], got {cells}")
    if not 1 <= ones < cells:
        raise InvalidInput(f"ones must be in [1, {cells - 1}] for {cells} cells, got {ones}")
    return int(cells), int(ones)


def participant_cells(rows: NDArray[Any], cells: int, ones: int) -> Integers:
    """One row of different cell indices per participant, checked and sorted.

    >>> participant_cells(np.array([[3, 1], [0, 2]]), cells=4, ones=2).tolist()
    [[1, 3], [0, 2]]
    """
    rows = np.asarray(rows)
    if rows.dtype.kind not in "iu":
        raise InvalidInput(f"cells must be integers, got {rows.dtype}")
    if rows.ndim != 2 or rows.shape[1] != ones:
        raise InvalidInput(f"cells must have one row per participant and ones = {ones} columns, got shape {rows.shape}")
    if rows.size and (rows.min() < 0 or rows.max() >= cells):
        # The cells themselves are private and not shown.
        raise InvalidInput(f"cells must be in [0, {cells - 1}], and one is outside")
    ordered = np.sort(rows.astype(np.int64), axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise InvalidInput(f"the {ones} cells of one participant must be different, and one is repeated")
    return ordered


def one_participant(row: Sequence[int], cells: int, ones: int) -> list[int]:
    """The cells of a single participant, checked and sorted.

    >>> one_participant([3, 1], cells=4, ones=2)
    [1, 3]
    """
    return [int(cell) for cell in participant_cells(np.array([row]), cells, ones)[0]]


def checked_messages(messages: NDArray[Any], dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Messages, refused unless they are one entry of that type and shape per participant.

    >>> checked_messages(np.zeros((5, 2), dtype=np.uint8), np.uint8, (2,)).shape
    (5, 2)
    """
    messages = np.asarray(messages)
    if messages.ndim != 1 + len(shape) or messages.shape[1:] != shape or messages.dtype != dtype:
        raise InvalidInput(
            f"messages must be an array of {np.dtype(dtype)} with shape (n{''.join(f', {side}' for side in shape)}), "
            f"got {messages.dtype} with shape {messages.shape}"
        )
    return messages


def chunks(count: int, width: int, entries: int = 2**20) -> Iterator[slice]:
    """Slices that cover ``count`` rows of ``width`` entries each, with a bounded number of entries at a time.

    >>> [(part.start, part.stop) for part in chunks(5, 10, entries=20)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, entries // max(1, width))
    for start in range(0, count, step):
        yield slice(start, min(count, start + step))


@dataclass(frozen=True)
class HitRates:
    """The probabilities that a message hits a cell of its participant and any other cell, and their difference.

    ``gap`` is ``one − zero``, given because it can be computed without cancellation.

    >>> round(HitRates(0.75, 0.25, 0.5).variance_zero, 6)
    0.75
    """

    one: float
    zero: float
    gap: float

    @property
    def variance_zero(self) -> float:
        """Variance that one participant adds to a cell it does not have."""
        return self.zero * (1 - self.zero) / self.gap**2

    @property
    def variance_one(self) -> float:
        """Variance that one participant adds to a cell it has."""
        return self.one * (1 - self.one) / self.gap**2

    def mean_squared_error(self, cells: int, ones: int) -> float:
        """Expected squared error of one participant's estimates, averaged over all cells."""
        return ((cells - ones) * self.variance_zero + ones * self.variance_one) / cells

    def estimates(self, hits: NDArray[Any], messages: int) -> Estimates:
        """Unbiased counts from the number of messages that hit each cell.

        The variance is that of a true count equal to the estimate, clipped to the possible range.

        >>> HitRates(0.75, 0.25, 0.5).estimates(np.array([30, 10]), 40).counts.tolist()
        [40.0, 0.0]
        """
        counts = (hits - messages * self.zero) / self.gap
        present = np.clip(counts, 0, messages)
        return Estimates(counts, present * self.variance_one + (messages - present) * self.variance_zero)


class LocalMessages(Described, ABC):
    """A local randomizer with one message per participant: any two sets of cells are indistinguishable up to e^ε."""

    statistic = "local"
    releases = "messages"
    max_sensitivity: ClassVar[Sensitivity] = ANYTHING

    epsilon: Fraction

    @property
    def spend(self) -> Pure | RandomizedResponse:
        """The cost of one message: ε, or that of randomized response where this is the law."""
        return Pure(self.epsilon)

    @property
    @abstractmethod
    def code(self) -> MessageCode:
        """How messages are packed and checked."""

    @abstractmethod
    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """One message for each row of cell indices."""

    @abstractmethod
    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """Whether its cells are all pairs of ``neighbors`` of the queries and ``labels`` of the classes."""

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """Messages of one participant's cells, or of one row of cells per participant."""
        return self.encode(np.atleast_2d(value), randomness)

    def answer_form(self, rows: int, columns: int, limit: int) -> Messages:
        """At most one message per participant."""
        return Messages(self.code, limit)

    def blankets(self) -> list[Blanket]:
        """A privacy blanket for each way in which two inputs can overlap; empty if none is proven.

        If every message has either a floor probability or e^ε times that, two numbers determine the amplification by
        shuffling (see ``privacy_blanket.py``): the total mass γ of the floor, and its mass a on the messages that one
        of two inputs makes likely and the other does not. Inputs that share j of their c cells have a smaller a; since
        it is not obvious which pair is the worst, all cases are listed.
        """
        return []


class HitEstimates(LocalMessages):
    """A local mechanism on a table of cells whose unbiased counts follow from the numbers of hits."""

    biased: ClassVar[bool] = False

    cells: int
    ones: int

    @property
    @abstractmethod
    def rates(self) -> HitRates:
        """The probabilities of a hit of a cell that the participant has, and of any other."""

    @abstractmethod
    def hit_counts(self, messages: NDArray[Any]) -> Integers:
        """How many of the messages hit each cell; invalid messages are refused. Hits of several batches add."""

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """Unbiased counts of all cells from all messages."""
        return self.rates.estimates(self.hit_counts(messages), len(messages))

    @property
    def variance_zero(self) -> float:
        """Variance that one participant adds to a cell it does not have."""
        return self.rates.variance_zero

    @property
    def variance_one(self) -> float:
        """Variance that one participant adds to a cell it has."""
        return self.rates.variance_one

    @property
    def mean_squared_error(self) -> float:
        """Expected squared error of one participant's estimates, averaged over all cells."""
        return self.rates.mean_squared_error(self.cells, self.ones)

    @property
    def shared_cells(self) -> range:
        """How many of their cells two different inputs can have in common."""
        return range(max(0, 2 * self.ones - self.cells), self.ones)

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """Whether the numbers of cells and of ones agree."""
        return (self.cells, self.ones) == (queries * classes, neighbors * labels)
