"""Which mechanisms may answer which statistic; and the choice of a local one.

The coordinator chooses the mechanism. One that is private for its own statistic may reveal everything about another: a
local randomizer states the cost of one participant's message, whatever its input. So every holder, curator and step of
a node has a list of allowed mechanisms, with its own list for the inside of each wrapper. Any other is refused from the
question alone, before a record is read.

A new mechanism of Tacit is added to the lists where it belongs. One of another package needs no entry: it is allowed if
the operator's policy names it and the list has another that randomizes the same statistic and releases the same kind of
answer. Of the local mechanisms the most accurate one whose messages are short enough is chosen, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from tacit.core import InvalidInput, LocalMechanism, Number
from tacit.mechanisms.central.counts import SealedTable
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.description import Statistic
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing, possible_sizes
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, RandomizedLabels, Responses
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
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
    "Alternative",
    "Kinds",
    "LocalChoice",
    "allowed_for_labels",
    "allowed_for_predictions",
    "allowed_for_records",
    "allowed_for_tables",
    "choose",
    "require_current_name",
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


# Names of earlier versions.
_RENAMED = {
    "generalized response": "generalized randomized response",
    "local hashing": "optimal local hashing",
    "local hashing, linear": "linear hashing",
    "bit response, asymmetric": "optimized unary encoding",
    "bit response, symmetric": "symmetric unary encoding",
}


def require_current_name(name: str) -> None:
    """Refuse a mechanism's name of an earlier version, and give the new one.

    >>> require_current_name("local hashing")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the local mechanism 'local hashing' is called 'optimal local hashing' now
    """
    if name in _RENAMED:
        raise InvalidInput(f"the local mechanism {name!r} is called {_RENAMED[name]!r} now")


@dataclass(frozen=True)
class Alternative:
    """A mechanism that was considered, with its error and message size."""

    name: str
    mechanism: LocalMechanism
    mean_squared_error: float
    message_bits: int
    allowed: bool


@dataclass(frozen=True)
class LocalChoice:
    """The chosen mechanism, the reason in words, and everything that was considered, best first."""

    mechanism: LocalMechanism
    reason: str
    alternatives: tuple[Alternative, ...]

    @property
    def table(self) -> str:
        """The alternatives as lines of text.

        >>> print(choose(cells=100, ones=1, epsilon=4).table)
        mechanism                        error per cell   message bits
        generalized randomized response       0.0714032              7
        subset selection                      0.0714032            100
        linear hashing                        0.0855729             18
        optimized unary encoding              0.0860218            100
        optimal local hashing                 0.0860992            134
        symmetric unary encoding               0.181015            100
        discrete Laplace                       0.362031           6400
        """
        lines = [f"{'mechanism':<32} {'error per cell':>14} {'message bits':>14}"]
        lines += [
            f"{each.name:<32} {each.mean_squared_error:>14.6g} {each.message_bits:>14}"
            + ("" if each.allowed else "  too long")
            for each in self.alternatives
        ]
        return "\n".join(lines)


def _candidates(cells: int, ones: int, epsilon: Number) -> dict[str, LocalMechanism]:
    """Every unbiased mechanism on a table of cells, by name; of two equally good ones the first is taken."""
    candidates: dict[str, LocalMechanism] = {
        "generalized randomized response": GeneralizedRandomizedResponse(cells, ones, epsilon)
    }
    if ones == 1 and possible_sizes(cells):
        candidates["linear hashing"] = LinearHashing(cells, ones, epsilon)
    candidates["optimal local hashing" if ones == 1 else "Collision"] = Collision(cells, ones, epsilon)
    candidates["subset selection"] = SubsetSelection(cells, ones, epsilon)
    candidates["optimized unary encoding"] = UnaryEncoding(cells, ones, epsilon)
    candidates["symmetric unary encoding"] = UnaryEncoding(cells, ones, epsilon, symmetric=True)
    candidates["discrete Laplace"] = LocalLaplace(cells, ones, epsilon)
    return candidates


def choose(cells: int, ones: int, epsilon: Number, largest_message_bits: int | None = None) -> LocalChoice:
    """The most accurate local mechanism for participants with ``ones`` of ``cells``, within a limit on message size.

    Accuracy is the expected squared error that one participant adds to a cell, averaged over all cells, which for many
    cells is the variance on zeros. All alternatives spend the same ε. Separation and Concatenation are not among them:
    Collision is better than the first, which splits ε, and than the second, which is biased as published, after its
    correction.

    >>> choice = choose(cells=100, ones=1, epsilon=1)
    >>> choice.mechanism
    SubsetSelection(cells=100, ones=1, epsilon=Fraction(1, 1), size=27)
    >>> print(choice.reason)
    subset selection has the smallest error per cell (3.59953) of 7 mechanisms at epsilon = 1
    >>> print(choose(cells=5000, ones=2, epsilon=1, largest_message_bits=200).reason)
    Collision has the smallest error per cell (8.55525) of the 2 mechanisms at epsilon = 1 with messages of at most \
200 bits; subset selection would have 7.94631 with 5000 bits
    """
    limit = largest_message_bits
    if limit is not None and limit < 1:
        raise InvalidInput(f"largest_message_bits must be at least 1, got {limit}")
    candidates = _candidates(cells, ones, epsilon)
    listed = [
        Alternative(name, each, each.mean_squared_error, each.message_bits, limit is None or each.message_bits <= limit)
        for name, each in candidates.items()
    ]
    # Errors that are equal up to rounding count as equal, so that the shorter message is preferred.
    ranked = sorted(listed, key=lambda each: (float(f"{each.mean_squared_error:.9g}"), each.message_bits))
    allowed = [each for each in ranked if each.allowed]
    if not allowed:
        least = min(each.message_bits for each in ranked)
        raise InvalidInput(f"largest_message_bits must be at least {least} for {cells} cells, got {limit}")
    best = allowed[0]
    reason = f"{best.name} has the smallest error per cell ({best.mean_squared_error:.6g}) of"
    reason += f" {len(allowed)} mechanisms" if limit is None else f" the {len(allowed)} mechanisms"
    reason += f" at epsilon = {float(best.mechanism.epsilon):g}"
    if limit is not None:
        reason += f" with messages of at most {limit} bits"
    if best is not ranked[0]:
        first = ranked[0]
        reason += f"; {first.name} would have {first.mean_squared_error:.6g} with {first.message_bits} bits"
    return LocalChoice(best.mechanism, reason, tuple(ranked))
