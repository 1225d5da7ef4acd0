"""Values of an account: its ceiling, the total of its payments, its balance, and the limits of a policy.

No accountant is imported, so a process that only pays starts fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit, decimal, enum_member
from tacit.core.rational import Number, positive, probability
from tacit.core.spend import Spend

__all__ = ["Balance", "Ceiling", "Change", "Limits", "Paid", "Rule", "Total"]

_ONE_RECORD = Unit()


class Rule(StrEnum):
    """Whether spends are chosen adaptively, each after seeing earlier answers, or are all planned in advance."""

    ADAPTIVE = "adaptive"
    PLANNED = "planned"


@dataclass(frozen=True)
class Total:
    """An (ε, δ) and the accountant that proves it; ε is infinite when no accountant bounds it at that δ.

    >>> Total(Fraction(1), Fraction(0), "pure composition").epsilon
    Fraction(1, 1)
    """

    epsilon: Fraction | float
    delta: Fraction
    accountant: str


@dataclass(frozen=True)
class Ceiling:
    """The most an account may ever spend, the privacy unit and adjacency it counts for, and the composition rule.

    >>> print(Ceiling(1, "1e-6"))
    epsilon 1, delta 1e-06 for one record (replace-one, adaptive)
    """

    epsilon: Fraction
    delta: Fraction
    rule: Rule
    unit: Unit
    adjacency: Adjacency

    def __init__(
        self,
        epsilon: Number,
        delta: Number = 0,
        rule: Rule = Rule.ADAPTIVE,
        unit: Unit = _ONE_RECORD,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(delta, "delta"))
        if not isinstance(unit, Unit):
            raise InvalidInput(f"unit must be a tacit.Unit, such as Unit.person('patient', 3), got {unit!r}")
        object.__setattr__(self, "rule", enum_member(Rule, rule, "rule"))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "adjacency", enum_member(Adjacency, adjacency, "adjacency"))

    def __str__(self) -> str:
        return (
            f"epsilon {decimal(self.epsilon)}, delta {decimal(self.delta)} "
            f"for {self.unit.in_words} ({self.adjacency}, {self.rule})"
        )

    def to_json(self) -> dict[str, Any]:
        """The ceiling as JSON values, numbers as exact strings."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "rule": str(self.rule),
            # Written only when true, so that older ledgers of records and persons keep their digests.
            "unit": {"column": self.unit.column, "records": self.unit.records}
            | ({"holder": True} if self.unit.holder else {}),
            "adjacency": str(self.adjacency),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Ceiling:
        """The ceiling that ``to_json`` wrote."""
        unit = Unit(value["unit"]["column"], value["unit"]["records"], value["unit"].get("holder", False))
        return cls(value["epsilon"], value["delta"], Rule(value["rule"]), unit, Adjacency(value["adjacency"]))


# An account, its ceiling before (None where it is new) and after.
Change = tuple[str, Ceiling | None, Ceiling]


@dataclass(frozen=True)
class Balance:
    """An account at one moment.

    >>> spent = Total(Fraction(7, 10), Fraction(0), "pure composition")
    >>> print(Balance("clinic", Ceiling(1), spent, payments=7).in_words)
    spent epsilon 0.7 of 1 at delta 0 (by pure composition, 7 payments); epsilon 0.3 remains
    """

    account: str
    ceiling: Ceiling
    spent: Total
    payments: int

    @property
    def remaining(self) -> Fraction:
        """The ceiling's ε less what was spent, never below 0."""
        if self.spent.epsilon == math.inf:
            return Fraction(0)
        return max(Fraction(0), self.ceiling.epsilon - Fraction(self.spent.epsilon))

    @property
    def remaining_shown(self) -> str:
        """The remaining ε as short decimal text, rounded down."""
        whole, millionths = divmod(math.floor(self.remaining * 10**6), 10**6)
        return f"{whole}.{millionths:06d}".rstrip("0").rstrip(".")

    @property
    def spent_shown(self) -> str:
        """The spent ε as short decimal text, rounded up."""
        return "without bound" if self.spent.epsilon == math.inf else decimal(self.spent.epsilon)

    @property
    def in_words(self) -> str:
        """What was spent and what remains, as a sentence."""
        plural = "" if self.payments == 1 else "s"
        return (
            f"spent epsilon {self.spent_shown} of {decimal(self.ceiling.epsilon)} at delta "
            f"{decimal(self.ceiling.delta)} (by {self.spent.accountant}, {self.payments} payment{plural}); "
            f"epsilon {self.remaining_shown} remains"
        )


@dataclass(frozen=True)
class Paid:
    """Equal payments of an account: purpose, UTC day (such as 2026-01-31), spend, and how many of them."""

    purpose: str
    day: str
    spend: Spend
    count: int


class Limits(Protocol):
    """Limits of a policy besides an account's ceiling."""

    def require(self, spend: Spend, purpose: str, delta: Fraction, paid: Callable[[], Iterable[Paid]]) -> None:
        """Refuse a charge that exceeds a limit, given the account's δ and its earlier payments."""
        ...
