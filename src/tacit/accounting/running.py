"""A running total: what was charged so far, in a space and at a cost that do not grow with the number of charges.

The first ``TABLE`` different parts are counted exactly. What is different from all of them goes into a ``Rest``, which
is rounded up. An account with few kinds of charges, the usual one, is therefore composed exactly for ever; one with
very many gets sums and a Rényi curve that are at most one part in 10^9 above the truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from tacit.accounting.compose import Share, share_of, total_of
from tacit.accounting.parts import Part, basic_epsilon, own_delta, parts_of
from tacit.accounting.rest import Rest, deciding_orders, sum_up
from tacit.core.account import Rule, Total
from tacit.core.spend import Spend, spend_from_json, spend_to_json

__all__ = ["TABLE", "Running"]

TABLE = 16


@dataclass(frozen=True)
class Running:
    """The charges so far. ``charges`` counts no further than 2: what matters is whether there was more than one.

    >>> from tacit.core.spend import Pure
    >>> Running().plus(Pure("1/3")).plus(Pure("1/3")).total(Fraction(0), Rule.ADAPTIVE).epsilon
    Fraction(2, 3)
    """

    charges: int = 0
    # How δ is divided, settled by the first charge.
    share: Share | None = None
    parts: tuple[tuple[Part, int], ...] = ()
    rest: Rest | None = None

    @classmethod
    def of(cls, spends: Iterable[Spend]) -> Running:
        """The running total of charges made one after another.

        >>> from tacit.core.spend import Pure
        >>> Running.of([Pure(1), Pure(2)]).charges
        2
        """
        running = cls()
        for spend in spends:
            running = running.plus(spend)
        return running

    def plus(self, spend: Spend, count: int = 1, curves: bool = True) -> Running:
        """The running total after that many more charges; ``curves`` is False where δ is 0 and none is needed."""
        added = parts_of([spend])
        if not added:
            return self
        share = self.share or share_of(added)
        table, rest = dict(self.parts), self.rest
        for part, times in added.items():
            # A single charge is composed as one that was planned, so it is kept whole.
            if part in table or len(table) < TABLE or not self.charges:
                table[part] = table.get(part, 0) + times * count
            else:
                rest = (rest or Rest()).plus(part, times * count, curves)
        if self.charges + count > 1:
            for part in list(table)[TABLE:]:
                rest = (rest or Rest()).plus(part, table.pop(part), curves)
        return Running(min(self.charges + count, 2), share, tuple(table.items()), rest)

    @property
    def pure_epsilon(self) -> Fraction | None:
        """The sum of ε, when every charge was pure."""
        table, rest = dict(self.parts), self.rest or Rest()
        epsilon = basic_epsilon(table)
        if epsilon is None or rest.epsilon is None or own_delta(table) or rest.delta:
            return None
        return sum_up(epsilon, rest.epsilon)

    def total(self, delta: Fraction, rule: Rule) -> Total:
        """What the charges amount to at δ, by the tightest accountant that the rule allows."""
        return total_of(dict(self.parts), delta, rule, self.charges < 2, self.share or Share.HALF, self.rest)

    def to_json(self, epsilon: Fraction, delta: Fraction) -> dict[str, Any]:
        """The running total as JSON values, its curve at the orders that a ceiling needs.

        >>> from tacit.core.spend import Pure
        >>> Running().plus(Pure(1)).to_json(Fraction(2), Fraction(0))
        {'charges': 1, 'share': 'half', 'parts': [[{'kind': 'pure', 'epsilon': '1'}, 1]], 'rest': None}
        """
        rest = self.rest
        if rest is not None:
            conversion = delta - (self.share or Share.HALF).kept(delta)
            rest = rest.at(deciding_orders(epsilon, conversion) if conversion > 0 else ())
        return {
            "charges": self.charges,
            "share": None if self.share is None else str(self.share),
            "parts": [[spend_to_json(part), count] for part, count in self.parts],
            "rest": None if rest is None else rest.to_json(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Running:
        """The running total that ``to_json`` wrote.

        >>> Running.from_json(Running().to_json(Fraction(1), Fraction(0))) == Running()
        True
        """
        return cls(
            charges=value["charges"],
            share=None if value["share"] is None else Share(value["share"]),
            parts=tuple((cast(Part, spend_from_json(part)), count) for part, count in value["parts"]),
            rest=None if value["rest"] is None else Rest.from_json(value["rest"]),
        )
