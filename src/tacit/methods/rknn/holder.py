"""The side that sees records: count the votes, and let them out through the gate only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.protocols import Integers
from tacit.core.release import Release
from tacit.core.sensitivity import ANYTHING, vote_sensitivity
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.local_laplace import LocalLaplace
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.shuffled import Shuffled
from tacit.methods.rknn.wire import VoteAsk
from tacit.neighbors import nearest_queries, vote_counts
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, combine

__all__ = ["VoteCrowd", "VoteHolder"]

# Rows encoded at a time: enough to keep matrix products busy, little enough to forget the size of the data set.
CHUNK = 8192
CURATOR_MECHANISMS = (PermuteAndFlip, DiscreteLaplaceNoise, DiscreteGaussianNoise)
CROWD_MECHANISMS = (
    BitResponse,
    Collision,
    GeneralizedResponse,
    LinearHashing,
    LocalLaplace,
    Shuffled,
    SubsetSelection,
)


class VoteHolder:
    """One account over one or more sets of records: a hospital, or a curator trusted with several.

    Votes of all the sets are added up before the gate, so the answer does not depend on how records are
    spread over the sets. The privacy unit and the adjacency are those of the gate's account; a question whose
    mechanism is calibrated for less is refused by the gate.
    """

    def __init__(
        self,
        records: Sequence[Private[Records]],
        gate: Gate,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        if not records:
            raise InvalidInput("a holder needs at least one set of records")
        require_bounded(records, gate.unit)
        self._records = list(records)
        self._gate = gate
        self._progress = progress

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """The mechanism's view of the votes, paid for."""
        require_known(ask, CURATOR_MECHANISMS)
        moves = vote_sensitivity(
            queries=len(ask.queries),
            classes=ask.classes,
            neighbors=ask.neighbors,
            records=self._gate.unit.records,
            replace=self._gate.adjacency is Adjacency.REPLACE_ONE,
        )
        with telling_nothing():
            counts = combine([part.map(partial(self._count, ask)) for part in self._records], sum_tables)
        return self._gate.release(counts, moves, ask.mechanism, ask.purpose, ask.request, ask.question)

    def _count(self, ask: VoteAsk, records: Records) -> Integers:
        return vote_counts(
            encoded_chunks(ask, records.samples),
            records.labels,
            ask.queries,
            ask.neighbors,
            ask.classes,
            progress=self._progress,
        )


class VoteCrowd:
    """Many holders with one record each, in one process: every record's own answer is randomized.

    A record's answer is the set of its cells, (query, label) for its k nearest queries. The account stands for
    each of the holders: they hold different records, so what one of them pays is what all of them pay.
    """

    def __init__(
        self, records: Sequence[Private[Records]], gate: Gate, progress: Callable[[int], None] | None = None
    ) -> None:
        if not records:
            raise InvalidInput("a crowd needs at least one holder")
        if gate.unit.records != 1:
            raise InvalidInput("a holder of a crowd answers for one record; bound persons to one record each")
        require_bounded(records, gate.unit)
        self._records = list(records)
        self._gate = gate
        self._progress = progress

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """The messages of all holders, paid for."""
        require_known(ask, CROWD_MECHANISMS)
        with telling_nothing():
            cells = combine([part.map(partial(self._cells, ask)) for part in self._records], np.concatenate)
        return self._gate.release(cells, ANYTHING, ask.mechanism, ask.purpose, ask.request, ask.question)

    def _cells(self, ask: VoteAsk, records: Records) -> Integers:
        if records.labels.max(initial=0) >= ask.classes or records.labels.min(initial=0) < 0:
            raise InvalidInput("a label is not among the classes that are asked about")
        chunks = encoded_chunks(ask, records.samples)
        near = nearest_queries(chunks, ask.queries, ask.neighbors, progress=self._progress)
        cells: Integers = near.astype(np.int64) * ask.classes + records.labels[:, None]
        return cells


def require_known(ask: VoteAsk, mechanisms: tuple[type, ...]) -> None:
    """Refuse a mechanism that is not one of ours: whoever asks could bring one that claims to cost nothing."""
    if not isinstance(ask.mechanism, mechanisms):
        raise InvalidInput(
            f"this holder does not answer through {type(ask.mechanism).__name__}; it knows "
            f"{', '.join(sorted(each.__name__ for each in mechanisms))}"
        )


def require_bounded(parts: Sequence[Private[Records]], unit: Unit) -> None:
    """Refuse records of persons that were not cut down to the number the account's unit allows."""
    if unit.column is None:
        return

    def check(records: list[Records]) -> None:
        owners = [each.persons for each in records if each.persons is not None]
        if len(owners) < len(records):
            raise InvalidInput("the account protects persons, so every set of records needs its person column")
        counts = np.unique(np.concatenate(owners), return_counts=True)[1]
        if counts.max(initial=0) > unit.records:
            raise InvalidInput(f"the account protects persons of at most {unit.records} records; bound them first")

    combine(list(parts), check)


@contextmanager
def telling_nothing() -> Iterator[None]:
    """Work on records whose failure must not say what was in them: an error is a message to whoever asked."""
    try:
        yield
    except Exception:
        raise InvalidInput(
            "the records do not fit the question (its features, its classes or its size); nothing was charged"
        ) from None


def encoded_chunks(ask: VoteAsk, samples: NDArray[Any]) -> Iterator[NDArray[np.float32]]:
    """The samples in the representation's space, a few thousand at a time."""
    for start in range(0, len(samples), CHUNK):
        yield ask.representation.encode(samples[start : start + CHUNK])


def sum_tables(tables: list[Integers]) -> Integers:
    """Tables of votes added up.

    >>> sum_tables([np.array([[1, 0]]), np.array([[0, 2]])]).tolist()
    [[1, 2]]
    """
    total: Integers = np.sum(tables, axis=0, dtype=np.int64)
    return total
