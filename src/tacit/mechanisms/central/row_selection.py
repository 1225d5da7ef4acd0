"""What mechanisms that select one label a row have in common: a rate, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from tacit.core.errors import InvalidInput
from tacit.core.rational import Number, positive
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Pure

__all__ = ["RowSelection"]


@dataclass(frozen=True)
class RowSelection:
    """A selection whose odds move by e^(rate · movement) in every row of a table that moves by ``row_range`` in all.

    The mechanisms built on it prove that of their law; the price then follows.
    """

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

    @property
    def spend(self) -> Pure:
        """What labels for the whole table cost."""
        return Pure(self.rate * self.row_range)

    @property
    def tolerates(self) -> Sensitivity:
        """How far the table may move."""
        return Sensitivity(row_range=self.row_range)


def _checked(row_range: int) -> int:
    if row_range < 1:
        raise InvalidInput(f"row_range must be at least 1, got {row_range}")
    return int(row_range)
