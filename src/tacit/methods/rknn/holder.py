"""The side that sees records: count the votes, and let them out through the gate only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency
from tacit.core.protocols import Integers
from tacit.core.release import Release
from tacit.core.sensitivity import ANYTHING, vote_sensitivity
from tacit.methods.rknn.wire import VoteAsk
from tacit.neighbors import nearest_queries, vote_counts
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, combine

__all__ = ["VoteCrowd", "VoteHolder"]

# Rows encoded at a time: enough to keep matrix products busy, little enough to forget the size of the data set.
CHUNK = 8192


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
        self._records = list(records)
        self._gate = gate
        self._progress = progress

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """The mechanism's view of the votes, paid for."""
        moves = vote_sensitivity(
            queries=len(ask.queries),
            classes=ask.classes,
            neighbors=ask.neighbors,
            records=self._gate.unit.records,
            replace=self._gate.adjacency is Adjacency.REPLACE_ONE,
        )
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
        self._records = list(records)
        self._gate = gate
        self._progress = progress

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """The messages of all holders, paid for."""
        cells = combine([part.map(partial(self._cells, ask)) for part in self._records], np.concatenate)
        return self._gate.release(cells, ANYTHING, ask.mechanism, ask.purpose, ask.request, ask.question)

    def _cells(self, ask: VoteAsk, records: Records) -> Integers:
        chunks = encoded_chunks(ask, records.samples)
        near = nearest_queries(chunks, ask.queries, ask.neighbors, progress=self._progress)
        cells: Integers = near.astype(np.int64) * ask.classes + records.labels[:, None]
        return cells


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
