"""Composition of a list of charges: the smallest ε that a valid accountant proves at a given δ; and running totals.

Which accountants are valid depends on when the spends were chosen.

Planned. All spends are known before the first release (what is *asked* may still depend on earlier answers). Every
accountant holds and the smallest wins: the exact sum of ε; the Rényi curve at its best order; optimal composition
of one repeated (ε, δ), or of one repeated randomized response; the privacy-loss distribution. Parts that carry a δ of
their own use it up first.

Adaptive. Each spend may be chosen after seeing earlier releases, which is what a ledger must assume. Then
``total`` is a filter: a ledger with ceiling ε* admits a charge when the total with it is at most ε*, and this is
proven for a δ fixed in advance as follows. Let L be the loss of a whole course of events, and split the courses by
what admitted them.

1. Courses within the ceiling by the exact sum of pure ε have L ≤ ε* and add nothing to δ.
2. Courses admitted by the Rényi filter, at the one order α that ε* and δ fix (``rdp.filter_epsilon``):
   e^((α−1)(L − ΣR(α))) is a supermartingale, so together they add at most the δ of the conversion at α. Rule 1
   uses no δ, which is why the smaller of the two may be taken course by course.
3. δ that parts carry themselves adds its largest sum. A course that spends δ this way and one that spends it by
   conversion are different courses, so the two shares must be fixed in advance: the first charge, chosen before
   anything was released, settles them. If it carries δ and needs no conversion, all of δ is kept for such parts;
   if it needs conversion and carries none, all is kept for conversion; otherwise each gets half. A charge that
   needs more of one share than there is has no finite total.
4. A single charge was fixed before anything was released, so it is planned. If the filter admits it as well,
   nothing changes; if not, the filter admits no longer list either, for its curve only grows, and the single
   charge stands alone.

An ε is never stated below that of one of its pure parts. This only raises a bound, and it makes totals monotone:
they never fall when a charge is added.

Source: Feldman & Zrnic 2021 (Rényi filters); Whitehouse, Ramdas, Rogers & Wu 2023 (fully adaptive composition);
Rogers, Roth, Ullman & Vadhan 2016 (basic composition stays valid under adaptivity).

A running total is what was charged so far, in a space and at a cost that do not grow with the number of charges.
The first ``TABLE`` different parts are counted exactly. What is different from all of them goes into a ``Rest``, which
is rounded up. An account with few kinds of charges, the usual one, is therefore composed exactly for ever; one with
very many gets sums and a Rényi curve that are at most one part in 10^9 above the truth.
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
from tacit.core.account import Rule, Total
from tacit.core.rational import probability, rounded_up
from tacit.core.spend import Approximate, Pure, RandomizedResponse, Spend, spend_from_json, spend_to_json

__all__ = ["TABLE", "Running", "Share", "least_total", "share_of", "total", "total_of"]

# Numeric bounds become fractions rounded up at this digit, so that comparing them with a ceiling is safe.
_DIGITS = 9
# Floats hold neither a much larger ε nor a much smaller δ; there only the exact sum is offered.
_LARGEST_EPSILON = 10**6
_SMALLEST_DELTA = Fraction(1, 10**300)
TABLE = 16


class Share(StrEnum):
    """For what δ is kept: for the δ that parts carry themselves, for conversion, or half for each.

    >>> Share.HALF.kept(Fraction(1, 10))
    Fraction(1, 20)
    """

    OWN = "own"
    CONVERSION = "conversion"
    HALF = "half"

    def kept(self, delta: Fraction) -> Fraction:
        """How much of δ is kept for the δ that parts carry themselves; the rest is for conversion."""
        return {Share.OWN: delta, Share.CONVERSION: Fraction(0), Share.HALF: delta / 2}[self]


Candidate = tuple[Fraction | float, str]
_NOTHING: Candidate = (math.inf, "none")


def total(spends: Sequence[Spend], delta: Fraction, rule: Rule = Rule.ADAPTIVE) -> Total:
    """The smallest ε proven at δ for these charges, in the order they were made, and by which accountant.

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
    # Post-processing is free and reveals nothing, so it does not count as a charge.
    charges = (charge for spend in spends if (charge := parts_of([spend])))
    first, second = next(charges, {}), next(charges, None)
    return total_of(parts, delta, rule, second is None, share_of(first))


def least_total(spends: Sequence[Spend], delta: Fraction) -> Total:
    """What planned spends come to: with no δ, or with all that is allowed where that makes ε smaller.

    >>> least_total([Pure("1/3")], Fraction(1, 10**6))
    Total(epsilon=Fraction(1, 3), delta=Fraction(0, 1), accountant='pure composition')
    """
    return min((total(spends, each, Rule.PLANNED) for each in (Fraction(0), delta)), key=lambda each: each.epsilon)


def total_of(
    parts: SpendParts, delta: Fraction, rule: Rule, single: bool, share: Share, rest: Rest | None = None
) -> Total:
    """The total of counted parts and of a rest that was rounded up, when they were one ``single`` charge or more.

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
    # min returns the first of equals: an exact sum is named before a numeric bound that only reaches it.
    epsilon, accountant = min(candidates, key=lambda candidate: candidate[0], default=_NOTHING)
    return Total(max(epsilon, largest_epsilon(parts), rest.largest if rest else Fraction(0)), delta, accountant)


def _sum(parts: SpendParts, delta: Fraction) -> list[Candidate]:
    """The exact sum of ε, when every part has one and their own δ fit."""
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
                # Its loss is known exactly, so no other accountant can do better.
                exact = response_epsilon(epsilon, classes, count, delta)
                return [*candidates, _numeric(exact, "optimal composition")]
    from tacit.accounting.rdp import curve, filter_epsilon, improved_epsilon

    divergence = curve(parts)
    # The filter's order may fall between two of the grid and be better by a hair; it makes totals monotone.
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
    """Whether a numeric accountant can be asked at this δ."""
    return delta >= _SMALLEST_DELTA and largest_epsilon(parts) <= _LARGEST_EPSILON


def share_of(first: SpendParts) -> Share:
    """How the first charge divides δ.

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
    # The factor covers what float arithmetic may have lost on the way.
    return (rounded_up(epsilon * (1 + 1e-12), _DIGITS), accountant) if math.isfinite(epsilon) else _NOTHING


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
