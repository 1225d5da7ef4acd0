"""What the local mechanisms have in common: a client's checked cells, its messages, and counts from hits.

Each client holds ``ones`` different cells out of ``cells`` and sends one message. Most mechanisms come down to
one question per message and cell, "does this message hit this cell?". A message hits a cell its client has with
probability ``one`` and any other cell with probability ``zero``; counts follow by removing that bias.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tacit.core import ANYTHING, Estimates, Integers, InvalidInput, Number, Randomness, Sensitivity, positive
from tacit.core.spend import Pure, RandomizedResponse
from tacit.mechanisms.description import CELLS, EXACT, Described, Parameters
from tacit.mechanisms.forms import MessageCode, Messages
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = [
    "DOMAIN",
    "LAW_DIGITS",
    "HitEstimates",
    "HitRates",
    "LocalMessages",
    "chunks",
    "client_cells",
    "client_rows",
    "domain",
    "local_epsilon",
    "one_client",
]

DOMAIN: Parameters = {"cells": CELLS, "ones": CELLS, "epsilon": EXACT}

# Cells are hashed and counted with plain 64-bit arithmetic, and 2^31 of them already make a table of 16 GB.
_LARGEST_DOMAIN = 2**31
# Below, e^ε − 1 is lost in rounding of the estimates; above, a message is the plain data with any number of digits.
SMALLEST_EPSILON, _LARGEST_EPSILON = Fraction(1, 10**6), Fraction(500)
# Significant digits of the probabilities in an exact law: far more than any comparison needs.
LAW_DIGITS = 60


def local_epsilon(epsilon: Number) -> Fraction:
    """An exact ε that a local mechanism can work with.

    >>> local_epsilon(0.5)
    Fraction(1, 2)
    """
    number = positive(epsilon, "epsilon")
    if not SMALLEST_EPSILON <= number <= _LARGEST_EPSILON:
        raise InvalidInput(f"epsilon must be in [1e-6, 500] for a local mechanism, got {float(number):g}")
    return number


def domain(cells: int, ones: int) -> tuple[int, int]:
    """The number of cells and of a client's ones, checked: with all cells a one there is nothing to estimate.

    >>> domain(10, 2)
    (10, 2)
    """
    if not 2 <= cells <= _LARGEST_DOMAIN:
        raise InvalidInput(f"cells must be in [2, 2^31], got {cells}")
    if not 1 <= ones < cells:
        raise InvalidInput(f"ones must be in [1, {cells - 1}] for {cells} cells, got {ones}")
    return int(cells), int(ones)


def client_cells(rows: NDArray[Any], cells: int, ones: int) -> Integers:
    """One row of different cell indices a client, checked and sorted.

    >>> client_cells(np.array([[3, 1], [0, 2]]), cells=4, ones=2).tolist()
    [[1, 3], [0, 2]]
    """
    rows = np.asarray(rows)
    if rows.dtype.kind not in "iu":
        raise InvalidInput(f"cells must be integers, got {rows.dtype}")
    if rows.ndim != 2 or rows.shape[1] != ones:
        raise InvalidInput(f"cells must have one row per client and ones = {ones} columns, got shape {rows.shape}")
    if rows.size and (rows.min() < 0 or rows.max() >= cells):
        # Which ones they are is the clients' own.
        raise InvalidInput(f"cells must be in [0, {cells - 1}], and a client has one outside")
    ordered = np.sort(rows.astype(np.int64), axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise InvalidInput(f"cells of one client must be {ones} different ones, and one is repeated")
    return ordered


def one_client(row: Sequence[int], cells: int, ones: int) -> list[int]:
    """The cells of a single client, checked and sorted.

    >>> one_client([3, 1], cells=4, ones=2)
    [1, 3]
    """
    return [int(cell) for cell in client_cells(np.array([row]), cells, ones)[0]]


def client_rows(messages: NDArray[Any], dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Messages as they should be: one entry of that type and shape a client.

    >>> client_rows(np.zeros((5, 2), dtype=np.uint8), np.uint8, (2,)).shape
    (5, 2)
    """
    messages = np.asarray(messages)
    if messages.ndim != 1 + len(shape) or messages.shape[1:] != shape or messages.dtype != dtype:
        raise InvalidInput(
            f"messages must be an array of {np.dtype(dtype)} with shape (clients{''.join(f', {n}' for n in shape)}), "
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
    """How often a message hits a cell of its client, any other cell, and how far the two are apart.

    ``gap`` is ``one − zero``, passed because it can be computed without cancellation.

    >>> round(HitRates(0.75, 0.25, 0.5).variance_zero, 6)
    0.75
    """

    one: float
    zero: float
    gap: float

    @property
    def variance_zero(self) -> float:
        """Variance that one client adds to a cell it does not have."""
        return self.zero * (1 - self.zero) / self.gap**2

    @property
    def variance_one(self) -> float:
        """Variance that one client adds to a cell it has."""
        return self.one * (1 - self.one) / self.gap**2

    def mean_squared_error(self, cells: int, ones: int) -> float:
        """Expected squared error of one client's estimates, averaged over all cells."""
        return ((cells - ones) * self.variance_zero + ones * self.variance_one) / cells

    def estimates(self, hits: NDArray[Any], messages: int) -> Estimates:
        """Unbiased counts from the number of messages that hit each cell.

        The variance is that of a true count equal to the estimate, brought into the possible range.

        >>> HitRates(0.75, 0.25, 0.5).estimates(np.array([30, 10]), 40).counts.tolist()
        [40.0, 0.0]
        """
        counts = (hits - messages * self.zero) / self.gap
        present = np.clip(counts, 0, messages)
        return Estimates(counts, present * self.variance_one + (messages - present) * self.variance_zero)


class LocalMessages(Described, ABC):
    """What each client randomizes for itself, in one message that goes into few bytes.

    Whatever a client's cells are, its message hides them up to e^ε: any set may become any other.
    """

    statistic = "local"
    releases = "messages"
    max_sensitivity: ClassVar[Sensitivity] = ANYTHING

    epsilon: Fraction

    @property
    def spend(self) -> Pure | RandomizedResponse:
        """What one client's message costs it: ε, or less where its law is known to be that of randomized response."""
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
        """Whether clients have all pairs of ``neighbors`` of the queries and ``labels`` of the classes as cells."""

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """Messages of one client's cells, or of one row of cells per client."""
        return self.encode(np.atleast_2d(value), randomness)

    def answer_form(self, rows: int, columns: int, limit: int) -> Messages:
        """At most one message per client."""
        return Messages(self.code, limit)

    def blankets(self) -> list[Blanket]:
        """A privacy blanket for each way in which two inputs can overlap; none where none is proven.

        Where a message has either a floor probability or e^ε times that, two numbers say how well shuffled messages
        hide each other (see ``privacy_blanket.py``): the floor's whole mass γ, and its mass a on the messages that one
        of two inputs makes likely and the other does not. Inputs that share j of their c cells have a smaller a; as it
        is not obvious which two are the worst, all cases are listed.
        """
        return []


class HitEstimates(LocalMessages):
    """A flat table of cells whose counts are counts of hits, without the bias; accuracy follows from two rates."""

    biased: ClassVar[bool] = False

    cells: int
    ones: int

    @property
    @abstractmethod
    def rates(self) -> HitRates:
        """How often a message hits a cell that its client has, and any other."""

    @abstractmethod
    def hit_counts(self, messages: NDArray[Any]) -> Integers:
        """How many of the messages hit each cell. Hits of several batches add up; one that is no message is refused."""

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """Unbiased counts of all cells from all clients' messages."""
        return self.rates.estimates(self.hit_counts(messages), len(messages))

    @property
    def variance_zero(self) -> float:
        """Variance that one client adds to a cell it does not have."""
        return self.rates.variance_zero

    @property
    def variance_one(self) -> float:
        """Variance that one client adds to a cell it has."""
        return self.rates.variance_one

    @property
    def mean_squared_error(self) -> float:
        """Expected squared error of one client's estimates, averaged over all cells."""
        return self.rates.mean_squared_error(self.cells, self.ones)

    @property
    def shared_cells(self) -> range:
        """How many of their cells two different inputs can have in common."""
        return range(max(0, 2 * self.ones - self.cells), self.ones)

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """Any pairs will do, if there are as many."""
        return (self.cells, self.ones) == (queries * classes, neighbors * labels)
