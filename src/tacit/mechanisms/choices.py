"""Which mechanisms may answer which statistic.

The coordinator chooses the mechanism. One that is private for its own statistic may reveal everything about another: a
local randomizer states the cost of one participant's message, whatever its input. So every holder, curator and step of
a node has a list of allowed mechanisms, with its own list for the inside of each wrapper. Any other is refused from the
question alone, before a record is read.

A new mechanism of Tacit is added to the lists where it belongs. One of another package needs no entry: it is allowed if
the operator's policy names it and the list has another that randomizes the same statistic and releases the same kind of
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
    "AllowedMechanisms",
    "Kinds",
    "allowed_for_labels",
    "allowed_for_predictions",
    "allowed_for_records",
    "allowed_for_tables",
    "wrapped",
]

Kinds = tuple[type[Any], ...]
# What a mechanism of another package may randomize: noise shares and encrypted messages are also steps of a protocol.
_OPEN = ("table", "local")


def wrapped(mechanism: Any) -> list[Any]:  # noqa: ANN401
    """The mechanisms inside a mechanism: those of its fields that have a spend or a maximum sensitivity.

    Only the types of the fields are checked: computing a spend may fail, or take long.

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
class AllowedMechanisms:
    """A list of allowed mechanisms, by exact type, and of those allowed ``inside`` each wrapper.

    A wrapper without a list for its inside is refused.

    >>> from tacit.mechanisms.central.selection import PermuteAndFlip
    >>> from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
    >>> from tacit.mechanisms.central.counts import SealedTable
    >>> tables = (PermuteAndFlip, SealedTable)
    >>> allowed = AllowedMechanisms("a holder of votes", tables, {SealedTable: (PermuteAndFlip,)})
    >>> allowed.require(SealedTable(PermuteAndFlip("1/4", 2), "session", len))
    >>> allowed.require(SealedTable(GeneralizedRandomizedResponse(10, 1, 1), "session", len))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a holder of votes does not answer through SealedTable of \
GeneralizedRandomizedResponse; inside SealedTable it knows PermuteAndFlip
    """

    name: str
    listed: Kinds
    inside: Mapping[type, Kinds] = field(default_factory=dict)

    def require(self, mechanism: Any, named: Collection[type] = ()) -> None:  # noqa: ANN401
        """Refuse a mechanism that is not allowed, or that wraps one that is not.

        ``named`` are classes of other packages that the operator's policy names. They are allowed if the list has
        another that randomizes and releases the same, but never as a wrapper.
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
    """Whether an allowed mechanism randomizes and releases the same."""
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
# Noise shares of a securely aggregated sum: of counts, and of vectors with a bounded norm.
VOTE_SHARES: Kinds = (DistributedLaplace,)
SUM_SHARES: Kinds = (DistributedGaussian, DistributedLaplace)


def allowed_for_tables(name: str, choices: Kinds, shares: Kinds = VOTE_SHARES) -> AllowedMechanisms:
    """For a holder of a table: these mechanisms, noise shares under masks, or the table encrypted for a curator."""
    return AllowedMechanisms(
        name,
        (*choices, *shares, MaskedShare, SealedTable),
        {MaskedShare: shares, SealedTable: choices},
    )


def allowed_for_records(name: str) -> AllowedMechanisms:
    """For one-record holders: local mechanisms, with or without a shuffler."""
    return AllowedMechanisms(
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


def allowed_for_predictions(name: str) -> AllowedMechanisms:
    """For a party that randomizes the predictions of its model."""
    return AllowedMechanisms(name, PREDICTIONS, {Responses: (GeneralizedRandomizedResponse, SubsetSelection)})


def allowed_for_labels(name: str) -> AllowedMechanisms:
    """For a holder that randomizes the labels of its model."""
    return AllowedMechanisms(name, _LABELS)
