"""What may go through a door to private records: a list of mechanisms, and a list of its own for inside each wrapper.

Whoever asks chooses the mechanism. One that belongs elsewhere may be private there and tell everything here: a local
randomizer states the price of one client's message, whatever it is given. So every holder, curator and step of a node
lists what may go through, and what is not listed is refused by looking at the question alone. A class from outside the
package is let through only where the operator of the holder has named it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from tacit.core.errors import InvalidInput

__all__ = ["Door", "Kinds", "wrapped"]

Kinds = tuple[type[Any], ...]
# What a mechanism from outside may randomize: noise in shares and sealed messages are steps of a protocol as well.
OPEN = ("table", "local")


def wrapped(mechanism: Any) -> list[Any]:  # noqa: ANN401
    """The mechanisms inside a mechanism: whichever of its parts have a price or a tolerance of their own.

    It is the parts' types that are looked at: what a part says of itself may fail, and may take long to find.

    >>> from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
    >>> from tacit.mechanisms.central.sealed_table import SealedTable
    >>> wrapped(SealedTable(PermuteAndFlip("1/4", 2), "session", len))
    [PermuteAndFlip(rate=Fraction(1, 4), row_range=2)]
    """
    parts = [getattr(mechanism, each.name) for each in fields(mechanism)] if is_dataclass(mechanism) else []
    return [part for part in parts if _priced(type(part))]


def _priced(kind: type) -> bool:
    named = {each.name for each in fields(kind)} if is_dataclass(kind) else set()
    return any(name in named or hasattr(kind, name) for name in ("spend", "max_sensitivity"))


@dataclass(frozen=True)
class Door:
    """The mechanisms that may go through, by exact type, and what may be ``inside`` each that wraps another.

    A wrapper for whose inside nothing is listed does not pass.

    >>> from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
    >>> from tacit.mechanisms.local.generalized_randomized_response import GeneralizedRandomizedResponse
    >>> from tacit.mechanisms.central.sealed_table import SealedTable
    >>> door = Door("a holder of votes", (PermuteAndFlip, SealedTable), {SealedTable: (PermuteAndFlip,)})
    >>> door.require(SealedTable(PermuteAndFlip("1/4", 2), "session", len))
    >>> door.require(SealedTable(GeneralizedRandomizedResponse(10, 1, 1), "session", len))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a holder of votes does not answer through SealedTable of \
GeneralizedRandomizedResponse; inside SealedTable it knows PermuteAndFlip
    """

    name: str
    listed: Kinds
    inside: Mapping[type, Kinds] = field(default_factory=dict)

    def require(self, mechanism: Any, named: Collection[type] = ()) -> None:  # noqa: ANN401
        """Refuse a mechanism that is not listed here, or has something inside that is not.

        ``named`` are classes from outside that the operator's policy names. They pass where others are listed that
        randomize and release the same; never as a wrapper, for whose inside nothing is listed.
        """
        self._require(mechanism, self.listed, "", named)

    def _require(self, mechanism: Any, allowed: Kinds, outer: str, named: Collection[type]) -> None:  # noqa: ANN401
        name = type(mechanism).__name__
        if type(mechanism) not in allowed and not (type(mechanism) in named and _alike(type(mechanism), allowed)):
            known = ", ".join(sorted(each.__name__ for each in allowed)) or "nothing"
            where, what = (f"inside {outer} it knows", f"{outer} of {name}") if outer else ("it knows", name)
            raise InvalidInput(f"{self.name} does not answer through {what}; {where} {known}")
        for part in wrapped(mechanism):
            self._require(part, self.inside.get(type(mechanism), ()), name, named)


def _alike(kind: type[Any], allowed: Kinds) -> bool:
    """Whether one of those that are allowed randomizes and releases the same."""
    return kind.statistic in OPEN and any(
        (each.statistic, each.releases) == (kind.statistic, kind.releases) for each in allowed
    )
