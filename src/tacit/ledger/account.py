"""An account: the ceiling its site set, what it has paid, and whether it can pay once more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tacit.accounting.compose import Rule, Total, total
from tacit.accounting.parts import basic_epsilon, own_delta, parts_of
from tacit.core.errors import BudgetExceeded
from tacit.core.guarantee import Adjacency, Unit, decimal
from tacit.core.rational import Number, positive, probability
from tacit.core.spend import Repeated, Spend

__all__ = ["Balance", "Ceiling", "Tally", "require", "require_all"]

ONE_RECORD = Unit()


@dataclass(frozen=True)
class Ceiling:
    """The most an account may ever spend, for whom it counts, and how its charges may be added up.

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
        unit: Unit = ONE_RECORD,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(delta, "delta"))
        object.__setattr__(self, "rule", Rule(rule))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "adjacency", Adjacency(adjacency))

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
            # Only where it holds: accounts of records and persons are written as they always were.
            "unit": {"column": self.unit.column, "records": self.unit.records}
            | ({"holder": True} if self.unit.holder else {}),
            "adjacency": str(self.adjacency),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Ceiling:
        """The ceiling that ``to_json`` wrote."""
        unit = Unit(value["unit"]["column"], value["unit"]["records"], value["unit"].get("holder", False))
        return cls(value["epsilon"], value["delta"], Rule(value["rule"]), unit, Adjacency(value["adjacency"]))


class Tally:
    """What one account has paid, grouped so that the ten-thousandth charge costs no more than the first.

    >>> from tacit.core.spend import Pure
    >>> tally = Tally()
    >>> tally.add(Pure(0.1), 3)
    >>> tally.total(Ceiling(1)).epsilon
    Fraction(3, 10)
    """

    def __init__(self) -> None:
        self.payments = 0
        # In the order of first payment; free spends are left out, they change nothing.
        self._counts: dict[Spend, int] = {}
        # The plain sum, for as long as every spend is pure.
        self._sum: Fraction | None = Fraction(0)

    def add(self, spend: Spend, count: int = 1) -> None:
        """Take in payments that were made."""
        self.payments += count
        own = pure_epsilon(spend)
        if own != 0:
            self._counts[spend] = self._counts.get(spend, 0) + count
            self._sum = None if own is None or self._sum is None else self._sum + count * own

    def copy(self) -> Tally:
        """A tally of its own that starts from here."""
        other = Tally()
        other.payments, other._counts, other._sum = self.payments, dict(self._counts), self._sum
        return other

    def total(self, ceiling: Ceiling) -> Total:
        """What the payments amount to at the ceiling's δ, by the tightest accountant its rule allows."""
        return composed(tuple(self._counts.items()), ceiling.delta, ceiling.rule)

    def excess(self, spend: Spend, ceiling: Ceiling) -> Total | None:
        """The total that one more spend would bring, if it is above the ceiling; nothing if it fits.

        The sum of pure spends is valid under every rule, so while it fits no accountant is asked: a charge to
        a pure account costs the same however many came before it.
        """
        own = pure_epsilon(spend)
        if own is not None and self._sum is not None and self._sum + own <= ceiling.epsilon:
            return None
        counts = {**self._counts, spend: self._counts.get(spend, 0) + 1}
        after = composed(tuple(counts.items()), ceiling.delta, ceiling.rule)
        return after if after.epsilon > ceiling.epsilon else None


def pure_epsilon(spend: Spend) -> Fraction | None:
    """The ε of a spend that is pure throughout, or nothing.

    >>> from tacit.core.spend import Pure
    >>> pure_epsilon(Repeated(Pure(0.2), 2))
    Fraction(2, 5)
    """
    parts = parts_of([spend])
    return basic_epsilon(parts) if own_delta(parts) == 0 else None


# A charge is followed by reads of the same account, and a refused one by its retries.
@lru_cache(maxsize=16)
def composed(counts: tuple[tuple[Spend, int], ...], delta: Fraction, rule: Rule) -> Total:
    """The total of that many charges of each spend, the first charge first.

    >>> from tacit.core.spend import Pure
    >>> composed(((Pure(0.1), 10),), Fraction(0), Rule.ADAPTIVE).epsilon
    Fraction(1, 1)
    """
    spends: list[Spend] = []
    for spend, count in counts:
        # Many equal charges must not pass for one charge that had fixed its repetitions in advance, so the
        # first charge always stands alone.
        if not spends:
            spends.append(spend)
            count -= 1
        if count:
            spends.append(Repeated(spend, count))
    return total(spends, delta, rule)


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
        """What remains as short decimal text, rounded down: more is never promised than there is."""
        whole, millionths = divmod(math.floor(self.remaining * 10**6), 10**6)
        return f"{whole}.{millionths:06d}".rstrip("0").rstrip(".")

    @property
    def spent_shown(self) -> str:
        """What was spent as short decimal text, rounded up."""
        return "without bound" if self.spent.epsilon == math.inf else decimal(self.spent.epsilon)

    @property
    def in_words(self) -> str:
        """What was spent and what remains."""
        plural = "" if self.payments == 1 else "s"
        return (
            f"spent epsilon {self.spent_shown} of {decimal(self.ceiling.epsilon)} at delta "
            f"{decimal(self.ceiling.delta)} (by {self.spent.accountant}, {self.payments} payment{plural}); "
            f"epsilon {self.remaining_shown} remains"
        )


def require(account: str, ceiling: Ceiling, tally: Tally, spend: Spend) -> None:
    """Refuse a spend that the account cannot pay, naming what remains.

    >>> from tacit.core.spend import Pure
    >>> tally = Tally()
    >>> tally.add(Pure("0.7"))
    >>> require("clinic", Ceiling(1), tally, Pure("0.3"))
    >>> require("clinic", Ceiling(1), tally, Pure("0.4"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.BudgetExceeded: account 'clinic' cannot pay: it would reach epsilon 1.1 ...
    """
    after = tally.excess(spend, ceiling)
    if after is not None:
        raise _refusal(account, ceiling, tally, after)


def require_all(account: str, ceiling: Ceiling, tally: Tally, spends: Sequence[Spend]) -> None:
    """Refuse spends that the account cannot pay one after another, each charged by itself.

    >>> from tacit.core.spend import Pure
    >>> require_all("clinic", Ceiling(1), Tally(), [Pure("0.5"), Pure("0.6")])
    Traceback (most recent call last):
        ...
    tacit.core.errors.BudgetExceeded: account 'clinic' cannot pay: it would reach epsilon 1.1 ...
    """
    # As one charge they could pass for planned in advance, and the ledger will not see them so.
    coming = tally.copy()
    for spend in spends:
        after = coming.excess(spend, ceiling)
        if after is not None:
            raise _refusal(account, ceiling, tally, after)
        coming.add(spend)


def _refusal(account: str, ceiling: Ceiling, tally: Tally, after: Total) -> BudgetExceeded:
    """What the account has, and what it would have reached."""
    if after.epsilon == math.inf:
        reach = f"no accountant bounds what it would have paid at delta {decimal(ceiling.delta)}"
    else:
        reach = f"it would reach epsilon {decimal(after.epsilon)} by {after.accountant}"
    advice = "Ask for less (a smaller epsilon or more noise)"
    if after.epsilon == math.inf and ceiling.delta == 0:
        advice = (
            "The account's delta is 0, and no amount of this noise is worth that: ask with delta 0 for a mechanism "
            "that is pure (permute-and-flip, laplace)"
        )
    balance = Balance(account, ceiling, tally.total(ceiling), tally.payments)
    return BudgetExceeded(
        f"account {account!r} cannot pay: {reach}. It has {balance.in_words}. Nothing was charged and nothing was "
        f"sampled. {advice}; only the site can change the ceiling, with `tacit ledger open`."
    )
