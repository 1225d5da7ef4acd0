"""A privacy guarantee as one value, which prints itself in plain words.

An ε alone means nothing. It comes with δ, the privacy unit, adjacency, trust model and public-data assumption, and with
caveats (a simulation, classes read from private labels, a large ε).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeVar

from tacit.core.errors import not_one_of
from tacit.core.rational import Number, positive, probability, whole

__all__ = [
    "ONE_PLACE",
    "PUBLIC_DATA",
    "Adjacency",
    "Guarantee",
    "Trust",
    "Unit",
    "decimal",
    "enum_member",
    "large_delta",
    "read_terms",
    "weakness",
]  # fmt: skip


_Member = TypeVar("_Member", bound=StrEnum)


class Adjacency(StrEnum):
    """Which two data sets must be indistinguishable."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"


class Trust(StrEnum):
    """Who is trusted with what."""

    CENTRAL = "central"
    LOCAL = "local"
    SHUFFLE = "shuffle"
    MASKED = "masked"


def read_terms(epsilon: Number | None, delta: Number, adjacency: str, trust: str | None) -> dict[str, Any]:
    """The user's ε, δ, adjacency and trust model, checked.

    >>> read_terms(1, 0, "replace-one", "centrall")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: trust must be one of central, local, shuffle, masked, got 'centrall'; did you mean \
'central'?
    """
    return {
        "epsilon": None if epsilon is None else positive(epsilon, "epsilon"),
        "delta": probability(delta, "delta"),
        "adjacency": enum_member(Adjacency, adjacency, "adjacency"),
        "trust": None if trust is None else enum_member(Trust, trust, "trust"),
    }


def enum_member(kind: type[_Member], name: str, what: str) -> _Member:
    """The member of this name, or an error that suggests the nearest."""
    if name not in tuple(kind):
        raise not_one_of(what, kind, name)
    return kind(name)


TRUST_IN_WORDS = {
    Trust.CENTRAL: "a trusted curator sees the private records; nobody else does",
    Trust.LOCAL: "nobody is trusted: each holder randomizes its own answer before it leaves",
    Trust.SHUFFLE: "a shuffler is trusted to mix messages and not to collude with the coordinator",
    Trust.MASKED: "no party is trusted alone: holders add noise shares and masks, only the sum is seen",
}
# The same sentence for every run. That public samples are copies of private records is said on the operator's screen
# only: a statement that said so only when it is true would reveal who is among the records.
PUBLIC_DATA = (
    "assumed to contain no private record and not to be chosen by looking at one; the features of a record that is "
    "also among the public samples are not protected"
)
ONE_PLACE = (
    "this process saw all records: it played every holder in one place, so whoever ran it was trusted with them; the "
    "trust model holds only where each holder runs its own part"
)
# From ε = 10 on, the odds of a guess about a record may grow by a factor of more than e^10 ≈ 22,000.
WEAK, _NOTHING = 10, 50
# A failure probability that is not negligible.
LARGE_DELTA = Fraction(1, 1000)


@dataclass(frozen=True)
class Unit:
    """Whose presence is hidden: one record, one person with at most ``records`` records, or a holder and all it has.

    >>> Unit.person("patient", 3).in_words
    'one person (column "patient", at most 3 records each)'
    """

    column: str | None = None
    records: int = 1
    holder: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", whole(self.records, "records per person"))

    @classmethod
    def person(cls, column: str, records: int) -> Unit:
        """A person who may have several records, identified by a column."""
        return cls(column, records)

    @classmethod
    def whole_holder(cls) -> Unit:
        """A holder with all its records, however many: the unit that local randomization of a whole answer protects.

        >>> Unit.whole_holder().in_words
        'one holder with all its records'
        """
        return cls(holder=True)

    @property
    def in_words(self) -> str:
        """The unit as a noun phrase."""
        if self.holder:
            return "one holder with all its records"
        if self.column is None:
            return "one record"
        plural = "" if self.records == 1 else "s"
        return f'one person (column "{self.column}", at most {self.records} record{plural} each)'


def decimal(number: Fraction | float) -> str:
    """A number as short decimal text, rounded up so that a printed ε or δ is never too small.

    >>> decimal(Fraction(1, 3)), decimal(Fraction(1, 10**6)), decimal(Fraction(1))
    ('0.333334', '1e-06', '1')
    """
    text = f"{float(number):.6g}"
    if Fraction(text) < Fraction(number):
        # One unit in the sixth significant digit.
        exponent = int(f"{float(number):.5e}".split("e")[1]) - 5
        text = f"{float(Fraction(text) + Fraction(10) ** exponent):.6g}"
    return text


def weakness(epsilon: Fraction, unit: Unit) -> str | None:
    """A sentence that says how weak a large ε is; None if ε is not large.

    >>> print(weakness(Fraction(60), Unit()))
    epsilon = 60 is practically no protection: what is released may reveal everything about one record
    """
    whom = "one holder" if unit.holder else "one record" if unit.column is None else "one person"
    if epsilon >= _NOTHING:
        return (
            f"epsilon = {decimal(epsilon)} is practically no protection: what is released may reveal everything about "
            f"{whom}"
        )
    if epsilon >= WEAK:
        factor = math.exp(epsilon)
        digit = 10 ** math.floor(math.log10(factor))
        return (
            f"epsilon = {decimal(epsilon)} is weak: seeing what is released may multiply the odds of a guess about "
            f"{whom} by up to {math.ceil(factor / digit) * digit:,}"
        )
    return None


def large_delta(unit: Unit) -> str:
    """The caveat for a δ of at least 1/n: a mechanism that exposes one unit completely could satisfy it.

    >>> large_delta(Unit()).partition(":")[0]
    'delta is not below one over the number of records'
    """
    whom = "holders" if unit.holder else "records"
    return f"delta is not below one over the number of {whom}: exposing one of them outright would meet this definition"


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee with everything it depends on.

    >>> print(Guarantee(Fraction(1), Fraction(0), Unit(), Adjacency.REPLACE_ONE, Trust.CENTRAL))  # doctest: +ELLIPSIS
    Differential privacy: epsilon = 1, delta = 0 (pure).
    Protects: one record (two data sets are neighbors when one is replaced by another).
    Trust (central): a trusted curator sees the private records; nobody else does.
    Public data: assumed to contain no private record and not to be chosen by looking at one; the features ...
    Covers: this run alone; what else is released about the same records adds to it.
    """

    epsilon: Fraction
    delta: Fraction
    unit: Unit
    adjacency: Adjacency
    trust: Trust
    accountant: str = "pure composition"
    public_data: str = PUBLIC_DATA
    caveats: tuple[str, ...] = ()
    simulation: bool = False

    def with_caveat(self, caveat: str) -> Guarantee:
        """The same guarantee with one more caveat."""
        return replace(self, caveats=(*self.caveats, caveat))

    @property
    def weak(self) -> bool:
        """Whether ε or δ is so large that little is protected.

        >>> Guarantee(Fraction(12), Fraction(0), Unit(), Adjacency.REPLACE_ONE, Trust.CENTRAL).weak
        True
        """
        return self.epsilon >= WEAK or self.delta >= LARGE_DELTA

    def __str__(self) -> str:
        """The guarantee in plain words."""
        if self.simulation:
            lines = [
                "SIMULATION, NO PRIVACY GUARANTEE: the noise came from a seeded generator that anyone can replay.",
                f"With system randomness this run would have: epsilon = {decimal(self.epsilon)}, "
                f"delta = {decimal(self.delta)} ({self._kind}).",
            ]
        else:
            lines = [
                f"Differential privacy: epsilon = {decimal(self.epsilon)}, "
                f"delta = {decimal(self.delta)} ({self._kind})."
            ]
        change = (
            "one is replaced by another"
            if self.adjacency is Adjacency.REPLACE_ONE
            else "one is added or removed; the number of records is then private too"
        )
        lines += [
            f"Protects: {self.unit.in_words} (two data sets are neighbors when {change}).",
            f"Trust ({self.trust}): {TRUST_IN_WORDS[self.trust]}.",
            f"Public data: {self.public_data}.",
        ]
        lines.append("Covers: this run alone; what else is released about the same records adds to it.")
        large = weakness(self.epsilon, self.unit)
        said = self.caveats if large is None else (large, *self.caveats)
        lines += [f"Caveat: {caveat}." for caveat in said]
        return "\n".join(lines)

    @property
    def _kind(self) -> str:
        return "pure" if self.delta == 0 else f"by {self.accountant}"

    def to_json(self) -> dict[str, Any]:
        """The guarantee as JSON values, with the statement in words beside the numbers."""
        return {
            "epsilon": decimal(self.epsilon),
            "delta": decimal(self.delta),
            "epsilon_exact": str(self.epsilon),
            "delta_exact": str(self.delta),
            "unit": {
                "column": self.unit.column,
                "records": self.unit.records,
                "holder": self.unit.holder,
                "in_words": self.unit.in_words,
            },
            "adjacency": str(self.adjacency),
            "trust": str(self.trust),
            "accountant": self.accountant,
            "public_data": self.public_data,
            "caveats": list(self.caveats),
            "weak": self.weak,
            "simulation": self.simulation,
            "statement": str(self),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Guarantee:
        """The guarantee that ``to_json`` wrote."""
        return cls(
            epsilon=Fraction(value["epsilon_exact"]),
            delta=Fraction(value["delta_exact"]),
            unit=Unit(value["unit"]["column"], value["unit"]["records"], value["unit"].get("holder", False)),
            adjacency=Adjacency(value["adjacency"]),
            trust=Trust(value["trust"]),
            accountant=value["accountant"],
            public_data=value["public_data"],
            caveats=tuple(value["caveats"]),
            simulation=value["simulation"],
        )
