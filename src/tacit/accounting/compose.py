"""Composition of charges: the smallest ε that a valid accountant proves at a given δ; and running totals.

Which accountants are valid depends on when the spends were chosen.

Planned: all spends are known before the first release (the *questions* may still depend on earlier answers). Every
accountant is valid and the smallest ε is taken: the exact sum of ε (basic composition); the Rényi curve at its best
order (RDP); optimal composition of one repeated (ε, δ), or of one repeated randomized response; the privacy-loss
distribution (PLD). The δ that parts have themselves is subtracted first.

Adaptive: each spend may be chosen after seeing earlier releases, which a ledger must assume. Then ``total`` is a
privacy filter: a ledger with ceiling ε* admits a charge if the total with it is at most ε*. Proof, for a δ fixed in
advance: let L be the privacy loss of a complete transcript, and divide the transcripts by what admitted them.

1. Transcripts within the ceiling by the exact sum of pure ε have L ≤ ε* and add nothing to δ.
2. Transcripts admitted by the Rényi filter at the one order α that ε* and δ determine (``rdp.filter_epsilon``):
   e^((α−1)(L − ΣR(α))) is a supermartingale, so together they add at most the δ of the conversion at α. Since rule 1
   uses no δ, the smaller of the two totals may be taken for each transcript.
3. The δ that parts have themselves adds at most its largest sum. A transcript that uses δ in this way and one that uses
   it by conversion are different ones, so the two shares of δ must be fixed in advance: the first charge, chosen before
   anything was released, determines them. If it has a δ and needs no conversion, all of δ is for such parts; if it
   needs conversion and has no δ, all is for conversion; otherwise each gets half. A charge that needs more than one of
   the shares has left has no finite total.
4. A single charge was chosen before anything was released, so it counts as planned. If the filter admits it too,
   nothing changes. If not, the filter admits no list that begins with it either, because the curve only grows.

A total is never below the ε of one of its pure parts. This only raises the bound, and makes totals monotone: they never
decrease when a charge is added.

Source: Feldman & Zrnic 2021 (Rényi filters); Whitehouse, Ramdas, Rogers & Wu 2023 (fully adaptive composition);
Rogers, Roth, Ullman & Vadhan 2016 (basic composition stays valid under adaptivity).

A running total stores the charges so far in a space, and at a cost, that do not grow with their number. The first
``TABLE`` different parts are counted exactly; all further ones go into a ``Rest``, which is rounded up. So an account
with few kinds of charges, the usual case, is always composed exactly; one with very many kinds has sums and a Rényi
curve that are at most one part in 10^9 too large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, cast

from tacit.accounting.parts import Part, SpendParts, basic_epsilon, largest_epsilon, own_delta, parts_of
from tacit.accounting.rest import Rest, deciding_orders, sum_up
from tacit.core import (
    Approximate,
    Pure,
    RandomizedResponse,
    Rule,
    Spend,
    Total,
    probability,
    rounded_up,
    spend_from_json,
    spend_to_json,
)

__all__ = ["TABLE", "Running", "Share", "least_total", "share_of", "total", "total_of"]

# Numeric bounds are rounded up at this decimal digit, so that they may be compared with a ceiling.
_DIGITS = 9
# Beyond these, floats are not precise enough and only the exact sum is used.
_LARGEST_EPSILON = 10**6
_SMALLEST_DELTA = Fraction(1, 10**300)
TABLE = 16


class Share(StrEnum):
    """What an account's δ is reserved for: the δ that parts have themselves, conversion, or half for each.

    >>> Share.HALF.kept(Fraction(1, 10))
    Fraction(1, 20)
    """

    OWN = "own"
    CONVERSION = "conversion"
    HALF = "half"

    def kept(self, delta: Fraction) -> Fraction:
        """How much of δ is reserved for the δ that parts have themselves; the remainder is for conversion."""
        return {Share.OWN: delta, Share.CONVERSION: Fraction(0), Share.HALF: delta / 2}[self]


Candidate = tuple[Fraction | float, str]
_NOTHING: Candidate = (math.inf, "none")


def total(spends: Sequence[Spend], delta: Fraction, rule: Rule = Rule.ADAPTIVE) -> Total:
    """The smallest ε proven at δ for these charges, in their order, and the accountant that proves it.

    >>> from tacit.core.spend import Gaussian
    >>> total([Pure("1/3")] * 3, Fraction(0))
    Total(epsilon=Fraction(1, 1), delta=Fraction(0, 1), accountant='pure composition')
    >>> found = total([Gaussian(20), Gaussian(10)], Fraction(1, 10**5))
    >>> round(float(found.epsilon), 4), found.accountant
    (0.4234, 'Rényi (RDP)')
    >>> total([Gaussian(20)], Fraction(0)).epsilon
    inf
    """
    parts = parts_of(spends)
    # Post-processing costs nothing, so it does not count as a charge.
    charges = (charge for spend in spends if (charge := parts_of([spend])))
    first, second = next(charges, {}), next(charges, None)
    return total_of(parts, delta, rule, second is None, share_of(first))


def least_total(spends: Sequence[Spend], delta: Fraction) -> Total:
    """The total of planned spends at δ = 0, or at the allowed δ if that makes ε smaller.

    >>> least_total([Pure("1/3")], Fraction(1, 10**6))
    Total(epsilon=Fraction(1, 3), delta=Fraction(0, 1), accountant='pure composition')
    """
    return min((total(spends, each, Rule.PLANNED) for each in (Fraction(0), delta)), key=lambda each: each.epsilon)


def total_of(
    parts: SpendParts, delta: Fraction, rule: Rule, single: bool, share: Share, rest: Rest | None = None
) -> Total:
    """The total of counted parts and of a rounded rest; ``single``: whether they were one charge.

    >>> total_of({Pure("1/3"): 3}, Fraction(0), Rule.ADAPTIVE, False, Share.HALF, Rest(Fraction(1, 2))).epsilon
    Fraction(3, 2)
    """
    delta = probability(delta, "delta")
    if rest is not None:
        candidates = _with_rest(parts, delta, rule, share.kept(delta), rest)
    elif rule is Rule.PLANNED or single:
        candidates = _planned(parts, delta)
    else:
        candidates = _adaptive(parts, delta, share.kept(delta))
    # min returns the first of equals, so an exact sum is preferred to an equal numeric bound.
    epsilon, accountant = min(candidates, key=lambda candidate: candidate[0], default=_NOTHING)
    return Total(max(epsilon, largest_epsilon(parts), rest.largest if rest else Fraction(0)), delta, accountant)


def _sum(parts: SpendParts, delta: Fraction) -> list[Candidate]:
    """The exact sum of ε, if every part has an ε and their δ fit."""
    epsilon, own = basic_epsilon(parts), own_delta(parts)
    if epsilon is None or own > delta:
        return []
    return [(epsilon, "basic composition" if own else "pure composition")]


def _planned(parts: SpendParts, delta: Fraction) -> list[Candidate]:
    """Every accountant, for spends that were fixed in advance."""
    candidates = _sum(parts, delta)
    rest = delta - own_delta(parts)
    if not _convertible(parts, rest) or basic_epsilon(parts) == largest_epsilon(parts):
        return candidates
    match list(parts.items()):
        case [(RandomizedResponse(epsilon, classes), count)]:
            from tacit.accounting.planned import LARGEST_COUNT, response_epsilon

            if count <= LARGEST_COUNT:
                # The exact loss: no other accountant can be tighter.
                exact = response_epsilon(epsilon, classes, count, delta)
                return [*candidates, _numeric(exact, "optimal composition")]
    from tacit.accounting.rdp import curve, filter_epsilon, improved_epsilon

    divergence = curve(parts)
    # The filter's order may lie between two orders of the grid and be slightly better; it makes totals monotone.
    for convert in (improved_epsilon, filter_epsilon):
        candidates.append(_numeric(convert(divergence, float(rest)), "Rényi (RDP)"))
    match list(parts.items()):
        case [(Pure(epsilon), count)] if count > 1:
            candidates.append(_optimal(epsilon, Fraction(0), count, delta))
        case [(Approximate(epsilon, own), count)] if count > 1:
            candidates.append(_optimal(epsilon, own, count, delta))
        case _:
            from tacit.accounting.planned import pld_epsilon, supports

            if supports(parts, float(delta)):
                candidates.append(_numeric(pld_epsilon(parts, float(delta)), "privacy-loss distribution (PLD)"))
    return candidates


def _optimal(epsilon: Fraction, own: Fraction, count: int, delta: Fraction) -> Candidate:
    from tacit.accounting.planned import repeated_epsilon

    return _numeric(repeated_epsilon(epsilon, own, count, delta), "optimal composition")


def _adaptive(parts: SpendParts, delta: Fraction, kept: Fraction) -> list[Candidate]:
    """The accountants that hold when each spend may depend on what was released before it."""
    if own_delta(parts) > kept:
        return []
    candidates = _sum(parts, kept)
    if _convertible(parts, delta - kept):
        from tacit.accounting.rdp import curve, filter_epsilon

        candidates.append(_numeric(filter_epsilon(curve(parts), float(delta - kept)), "Rényi (RDP)"))
    return candidates


def _with_rest(parts: SpendParts, delta: Fraction, rule: Rule, kept: Fraction, rest: Rest) -> list[Candidate]:
    """The accountants that need no more than sums and the Rényi curve."""
    epsilon, own = basic_epsilon(parts), own_delta(parts) + rest.delta
    if rule is Rule.PLANNED:
        kept = min(own, delta)
    if own > kept:
        return []
    candidates: list[Candidate] = []
    if epsilon is not None and rest.epsilon is not None:
        candidates.append((epsilon + rest.epsilon, "basic composition" if own else "pure composition"))
    if rest.converts and _convertible(parts, delta - kept) and rest.largest <= _LARGEST_EPSILON:
        from tacit.accounting.rdp import filter_epsilon, improved_epsilon

        divergence = rest.with_table(parts)
        candidates.append(_numeric(filter_epsilon(divergence, float(delta - kept)), "Rényi (RDP)"))
        if rule is Rule.PLANNED:
            candidates.append(_numeric(improved_epsilon(divergence, float(delta - kept)), "Rényi (RDP)"))
    return candidates


def _convertible(parts: SpendParts, delta: Fraction) -> bool:
    """Whether numeric accountants are precise enough at this δ."""
    return delta >= _SMALLEST_DELTA and largest_epsilon(parts) <= _LARGEST_EPSILON


def share_of(first: SpendParts) -> Share:
    """How the first charge divides δ: see rule 3 above.

    >>> share_of({Pure(1): 1})
    <Share.HALF: 'half'>
    """
    carries, converts = own_delta(first) > 0, basic_epsilon(first) is None
    if carries and not converts:
        return Share.OWN
    if converts and not carries:
        return Share.CONVERSION
    return Share.HALF


def _numeric(epsilon: float, accountant: str) -> Candidate:
    # The factor covers the rounding errors of float arithmetic.
    return (rounded_up(epsilon * (1 + 1e-12), _DIGITS), accountant) if math.isfinite(epsilon) else _NOTHING


@dataclass(frozen=True)
class Running:
    """The charges so far. ``charges`` is 0, 1 or 2, where 2 means several.

    >>> from tacit.core.spend import Pure
    >>> Running().plus(Pure("1/3")).plus(Pure("1/3")).total(Fraction(0), Rule.ADAPTIVE).epsilon
    Fraction(2, 3)
    """

    charges: int = 0
    # How δ is divided, determined by the first charge.
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
        """The running total after ``count`` more charges; ``curves``: whether a Rényi curve is needed, not at δ = 0."""
        added = parts_of([spend])
        if not added:
            return self
        share = self.share or share_of(added)
        table, rest = dict(self.parts), self.rest
        for part, times in added.items():
            # A single charge counts as planned, so all its parts are stored.
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
        """The total of the charges at δ, by the tightest accountant that the rule allows."""
        return total_of(dict(self.parts), delta, rule, self.charges < 2, self.share or Share.HALF, self.rest)

    def to_json(self, epsilon: Fraction, delta: Fraction) -> dict[str, Any]:
        """The running total as JSON values, its curve at the orders that this ceiling needs.

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
