"""What mechanisms on tables of counts have in common: checked counts, and a rate where a label is selected per row."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.rational import Number, positive
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Pure
from tacit.mechanisms.description import COUNT, EXACT, Described, Parameters
from tacit.mechanisms.forms import Numbers

__all__ = ["RowSelection", "count_rows", "count_table"]

# Differences of two such counts, and any of them with noise, still fit in 64 bits.
LARGEST = 2**61


def count_table(table: NDArray[Any]) -> Integers:
    """The table as int64; anything but whole numbers of at most 2^61 is refused, never rounded.

    >>> count_table(np.array([1, 2], dtype=np.uint8)).dtype
    dtype('int64')
    """
    table = np.asarray(table)
    if table.dtype.kind not in "iu":
        raise InvalidInput(f"table must hold integers, got {table.dtype}")
    if table.size and (table.max() > LARGEST or table.min() < -LARGEST):
        raise InvalidInput("table must hold integers in [-2^61, 2^61]")
    return table.astype(np.int64)


def count_rows(table: NDArray[Any]) -> Integers:
    """A table with one row per query and one column per label.

    >>> count_rows(np.zeros((2, 3), dtype=int)).shape
    (2, 3)
    """
    rows = count_table(table)
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise InvalidInput(f"table must have one row per query and at least one column, got shape {rows.shape}")
    return rows


@dataclass(frozen=True)
class RowSelection(Described):
    """A selection whose odds move by e^(rate · movement) in every row of a table that moves by ``row_range`` in all.

    The mechanisms built on it prove that of their law; the price then follows.
    """

    statistic = "table"
    releases = "labels"
    parameters: ClassVar[Parameters] = {"rate": EXACT, "row_range": COUNT}

    rate: Fraction
    row_range: int

    def __init__(self, rate: Number, row_range: int) -> None:
        object.__setattr__(self, "row_range", _checked(row_range))
        object.__setattr__(self, "rate", positive(rate, "rate"))

    @classmethod
    def for_epsilon(cls, epsilon: Number, row_range: int) -> Self:
        """The mechanism that spends exactly ε on a table that moves by ``row_range``.

        >>> RowSelection.for_epsilon("1/10", row_range=4).rate
        Fraction(1, 40)
        """
        return cls(positive(epsilon, "epsilon") / _checked(row_range), row_range)

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: Fraction, delta: Fraction) -> Self:
        """The mechanism for a table that moves this far, at this price."""
        return cls.for_epsilon(epsilon, int(sensitivity.row_range))

    @property
    def spend(self) -> Pure:
        """What labels for the whole table cost."""
        return Pure(self.rate * self.row_range)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """How far the table may move."""
        return Sensitivity(row_range=self.row_range)

    def answer_form(self, rows: int, columns: int, limit: int) -> Numbers:
        """One label per row."""
        return Numbers((rows,), 0, columns - 1)


def _checked(row_range: int) -> int:
    if row_range < 1:
        raise InvalidInput(f"row_range must be at least 1, got {row_range}")
    return int(row_range)
