"""Which mechanisms may answer which statistic: one table, by which the doors to private records are made.

Whoever asks chooses the mechanism. One that belongs elsewhere may be private there and tell everything here: a local
randomizer states the price of one client's message, whatever it is given. So every holder, curator and step of a node
lists what may go through, with a list of its own for inside each wrapper, and what is not listed is refused by looking
at the question alone.

A mechanism of the package is added to the rows where it belongs; one of another package needs no row, and passes where
an operator's policy names it and the row has others that randomize the same statistic and release the same kind of
answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.mechanisms.central.counts import SealedTable
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.description import Statistic
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, RandomizedLabels, Responses
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare
from tacit.mechanisms.registry import OWN
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.single_message import SealedMessages, Shuffled, SingleMessage

__all__ = [
    "LOCAL",
    "PARTY_VOTES",
    "PREDICTIONS",
    "RECORD_SUMS",
    "RECORD_VOTES",
    "SUM_SHARES",
    "TEACHER_VOTES",
    "VOTE_SHARES",
    "Door",
    "Kinds",
    "label_door",
    "one_record_door",
    "prediction_door",
    "table_door",
    "wrapped",
]

Kinds = tuple[type[Any], ...]
# What a mechanism from outside may randomize: noise in shares and sealed messages are steps of a protocol as well.
_OPEN = ("table", "local")


def wrapped(mechanism: Any) -> list[Any]:  # noqa: ANN401
    """The mechanisms inside a mechanism: whichever of its parts have a price or a tolerance of their own.

    It is the parts' types that are looked at: what a part says of itself may fail, and may take long to find.

    >>> from tacit.mechanisms.central.selection import PermuteAndFlip
    >>> from tacit.mechanisms.central.counts import SealedTable
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

    >>> from tacit.mechanisms.central.selection import PermuteAndFlip
    >>> from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
    >>> from tacit.mechanisms.central.counts import SealedTable
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
    return kind.statistic in _OPEN and any(
        (each.statistic, each.releases) == (kind.statistic, kind.releases) for each in allowed
    )


def _own(statistic: Statistic) -> Kinds:
    return tuple(each for each in OWN if each.statistic == statistic)


RECORD_VOTES: Kinds = (PermuteAndFlip, DiscreteLaplaceNoise, DiscreteGaussianNoise)
RECORD_SUMS: Kinds = (RoundedGaussianNoise, DiscreteGaussianNoise, DiscreteLaplaceNoise)
PARTY_VOTES: Kinds = (PermuteAndFlip, DiscreteLaplaceNoise)
TEACHER_VOTES: Kinds = _own("table")
PREDICTIONS: Kinds = (DiscreteGaussianNoise, DiscreteLaplaceNoise, Responses)
_LABELS: Kinds = (RandomizedLabels,)
LOCAL: Kinds = _own("local")
# Whose shares make the noise of a masked sum: of counts, and of numbers with a bounded length.
VOTE_SHARES: Kinds = (DistributedLaplace,)
SUM_SHARES: Kinds = (DistributedGaussian, DistributedLaplace)


def table_door(name: str, choices: Kinds, shares: Kinds = VOTE_SHARES) -> Door:
    """A holder whose table goes out through one of these, in shares under masks, or sealed for a curator."""
    return Door(
        name,
        (*choices, *shares, MaskedShare, SealedTable),
        {MaskedShare: shares, SealedTable: choices},
    )


def one_record_door(name: str) -> Door:
    """One-record holders that randomize their own answers, with or without a shuffler."""
    return Door(
        name,
        (*LOCAL, SealedMessages, Shuffled),
        {
            Concatenation: (Collision,),
            SealedMessages: (MultiMessageNoise, SingleMessage),
            Separation: (Collision,),
            Shuffled: (MultiMessageNoise, SingleMessage),
            SingleMessage: LOCAL,
        },
    )


def prediction_door(name: str) -> Door:
    """A party that randomizes the predictions of its model."""
    return Door(name, PREDICTIONS, {Responses: (GeneralizedRandomizedResponse, SubsetSelection)})


def label_door(name: str) -> Door:
    """A holder that randomizes the labels its model gives."""
    return Door(name, _LABELS)
