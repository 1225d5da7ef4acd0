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
from tacit.core.sensitivity import ANYTHING, Sensitivity, vote_sensitivity
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.central.sealed_table import SealedTable
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.local_laplace import LocalLaplace
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare
from tacit.mechanisms.shuffle.sealed_messages import SealedMessages
from tacit.mechanisms.shuffle.shuffled import Shuffled
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.methods.rknn.connections import NEAREST, published_connections, published_sensitivity, similarities
from tacit.methods.rknn.wire import VoteAsk
from tacit.neighbors import nearest_queries, vote_counts
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, combine
from tacit.representations.encoded_cache import EncodedCache, has_name

__all__ = ["VoteCrowd", "VoteHolder"]

# Rows encoded at a time: enough to keep matrix products busy, little enough to forget the size of the data set.
CHUNK = 8192
CURATOR_MECHANISMS = (
    PermuteAndFlip,
    DiscreteLaplaceNoise,
    DiscreteGaussianNoise,
    DistributedLaplace,
    MaskedShare,
    SealedTable,
)
CROWD_MECHANISMS = (
    BitResponse,
    Collision,
    Concatenation,
    GeneralizedResponse,
    LinearHashing,
    LocalLaplace,
    SealedMessages,
    Separation,
    Shuffled,
    SubsetSelection,
)


class VoteHolder:
    """One account over one or more sets of records: a hospital, or a curator trusted with several.

    Votes of all the sets are added up before the gate, so the answer does not depend on how records are
    spread over the sets. The privacy unit and the adjacency are those of the gate's account; a question whose
    mechanism is calibrated for less is refused by the gate. Encodings of records are kept only where the holder
    passes a ``cache`` of its own.
    """

    def __init__(
        self,
        records: Sequence[Private[Records]],
        gate: Gate,
        progress: Callable[[int], None] | None = None,
        cache: EncodedCache | None = None,
    ) -> None:
        if not records:
            raise InvalidInput("a holder needs at least one set of records")
        require_counted(gate.unit)
        require_bounded(records, gate.unit)
        self._records = list(records)
        self._gate = gate
        self._progress = progress
        self._cache = cache

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """The mechanism's view of the votes, paid for."""
        require_known(ask, CURATOR_MECHANISMS)
        moves = self._moves(ask)
        with telling_nothing():
            if ask.connections == NEAREST:
                counts = combine([part.map(partial(self._count, ask)) for part in self._records], sum_tables)
            else:
                counts = combine(self._records, partial(count_together, ask, self._cache))
        return self._gate.release(counts, moves, ask.mechanism, ask.purpose, ask.request, ask.question)

    def _moves(self, ask: VoteAsk) -> Sensitivity:
        """How far the votes move when one of the account's privacy units changes."""
        unit, replace = self._gate.unit, self._gate.adjacency is Adjacency.REPLACE_ONE
        if ask.connections == NEAREST:
            return vote_sensitivity(
                queries=len(ask.queries),
                classes=ask.classes,
                neighbors=ask.neighbors,
                labels=ask.labels or 1,
                records=unit.records,
                replace=replace,
                voters=ask.labels is not None,
            )
        if not replace or unit.column is not None:
            raise InvalidInput(
                f"{ask.connections} connections move with the number of records, which only replace-one adjacency "
                "between single records makes public"
            )
        sizes: list[int] = []
        for part in self._records:
            part.map(lambda records: sizes.append(len(records.labels)))
        return published_sensitivity(len(ask.queries), ask.classes, ask.neighbors, sum(sizes))

    def _count(self, ask: VoteAsk, records: Records) -> Integers:
        if ask.labels is None:
            labels, columns = class_of_each(records), ask.classes
        else:
            sets = label_sets(ask, records)
            labels, columns = np.column_stack([sets, np.ones(len(sets), dtype=np.bool_)]), ask.classes + 1
        return vote_counts(
            encoded_chunks(ask, records.samples, self._cache),
            labels,
            ask.queries,
            ask.neighbors,
            columns,
            progress=self._progress,
            heights=ask.heights,
        )


class VoteCrowd:
    """Many holders with one record each, in one process: every record's own answer is randomized.

    A record's answer is the set of its cells, (query, label) for its k nearest queries, with sets of labels filled
    up to the same size by made-up ones. The account stands for each of the
    holders: they hold different records, so what one of them pays is what all of them pay.
    """

    def __init__(
        self,
        records: Sequence[Private[Records]],
        gate: Gate,
        progress: Callable[[int], None] | None = None,
        cache: EncodedCache | None = None,
    ) -> None:
        if not records:
            raise InvalidInput("a crowd needs at least one holder")
        if gate.unit.records != 1:
            raise InvalidInput("a holder of a crowd answers for one record; bound persons to one record each")
        require_counted(gate.unit)
        require_bounded(records, gate.unit)
        self._records = list(records)
        self._gate = gate
        self._progress = progress
        self._cache = cache

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """The messages of all holders, paid for."""
        require_known(ask, CROWD_MECHANISMS)
        if ask.connections != NEAREST:
            raise InvalidInput(f"{ask.connections} connections need every record in one place; a crowd has none")
        require_domain(ask)
        with telling_nothing():
            cells = combine([part.map(partial(self._cells, ask)) for part in self._records], np.concatenate)
        return self._gate.release(cells, ANYTHING, ask.mechanism, ask.purpose, ask.request, ask.question)

    def _cells(self, ask: VoteAsk, records: Records) -> Integers:
        if ask.labels is None:
            held, columns = class_of_each(records)[:, None], ask.classes
        else:
            held, columns = filled_sets(label_sets(ask, records), ask.labels), ask.classes + ask.labels
        if held.max(initial=0) >= columns or held.min(initial=0) < 0:
            raise InvalidInput("a label is not among the classes that are asked about")
        chunks = encoded_chunks(ask, records.samples, self._cache)
        near = nearest_queries(chunks, ask.queries, ask.neighbors, progress=self._progress, heights=ask.heights)
        cells = near.astype(np.int64)[:, :, None] * columns + held[:, None, :]
        return cells.reshape(len(cells), -1)


def require_known(ask: VoteAsk, mechanisms: tuple[type, ...]) -> None:
    """Refuse a mechanism that is not one of ours: whoever asks could bring one that claims to cost nothing."""
    if not isinstance(ask.mechanism, mechanisms):
        raise InvalidInput(
            f"this holder does not answer through {type(ask.mechanism).__name__}; it knows "
            f"{', '.join(sorted(each.__name__ for each in mechanisms))}"
        )


def require_domain(ask: VoteAsk) -> None:
    """Refuse a crowd's mechanism that is made for other cells: it would fail on some records and not on others."""
    made: Any = ask.mechanism
    if isinstance(made, Shuffled | SealedMessages):
        made = made.inner.mechanism if isinstance(made.inner, SingleMessage) else made.inner
    queries, columns, labels = len(ask.queries), ask.classes + (ask.labels or 0), ask.labels or 1
    if isinstance(made, Separation | Concatenation):
        fits = made.shape == VoteShape(queries, columns, ask.neighbors, labels)
    else:
        fits = (made.cells, made.ones) == (queries * columns, ask.neighbors * labels)
    if not fits:
        raise InvalidInput(
            f"{type(made).__name__} is not made for {ask.neighbors} of {queries} queries with {labels} of {columns} "
            "labels each; nothing was charged"
        )


def require_counted(unit: Unit) -> None:
    """Refuse an account that protects a holder with all its records: all its votes could change, not those of a few.

    >>> require_counted(Unit())
    """
    if unit.holder:
        raise InvalidInput(
            "votes protect records, or persons with a bounded number of them; the account a whole holder"
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


def class_of_each(records: Records) -> Integers:
    """The class index of each record, where each must have one."""
    if records.labels.ndim != 1:
        raise InvalidInput("records carry sets of labels, the question is about one label each")
    labels: Integers = records.labels
    return labels


def label_sets(ask: VoteAsk, records: Records) -> NDArray[np.bool_]:
    """The label sets as a table (n, classes), of a larger set than the question allows only its first labels.

    To refuse would tell whoever asks, for nothing, that there is a record with so many labels.
    """
    sets: NDArray[np.bool_] = records.labels
    if sets.ndim != 2 or sets.dtype != np.bool_ or sets.shape[1] != ask.classes:
        raise InvalidInput("records must carry sets of the classes that are asked about")
    assert ask.labels is not None
    first: NDArray[np.bool_] = sets & (np.cumsum(sets, axis=1) <= ask.labels)
    return first


def filled_sets(sets: NDArray[np.bool_], size: int) -> Integers:
    """The labels of each record and as many made-up ones as bring it to that size, (n, size), in increasing order.

    >>> filled_sets(np.array([[True, False, True], [False, True, False], [False, False, False]]), 2).tolist()
    [[0, 2], [1, 3], [3, 4]]
    """
    made_up = np.arange(size) < size - sets.sum(axis=1, keepdims=True)
    return np.nonzero(np.column_stack([sets, made_up]))[1].reshape(len(sets), size).astype(np.int64)


def count_together(ask: VoteAsk, cache: EncodedCache | None, parts: list[Records]) -> Integers:
    """The votes where the connections of all records are chosen together, by a published rule."""
    features = np.concatenate([chunk for each in parts for chunk in encoded_chunks(ask, each.samples, cache)])
    labels = np.concatenate([class_of_each(each) for each in parts])
    near = published_connections(similarities(features, ask.queries), ask.neighbors, ask.connections)
    counts = np.zeros((len(ask.queries), ask.classes), dtype=np.int64)
    np.add.at(counts, (near, labels[:, None]), 1)
    return counts


def encoded_chunks(
    ask: VoteAsk, samples: NDArray[Any], cache: EncodedCache | None = None
) -> Iterator[NDArray[np.float32]]:
    """The samples in the representation's space, a few thousand at a time; read from the holder's cache, if it has one.

    A sample's features do not depend on the others, so neither does what is cached on how samples fall into chunks.
    """
    kept = cache if cache is not None and has_name(ask.representation) else None
    for start in range(0, len(samples), CHUNK):
        chunk = samples[start : start + CHUNK]
        yield ask.representation.encode(chunk) if kept is None else kept.encode(ask.representation, chunk)


def sum_tables(tables: list[Integers]) -> Integers:
    """Tables of votes added up.

    >>> sum_tables([np.array([[1, 0]]), np.array([[0, 2]])]).tolist()
    [[1, 2]]
    """
    total: Integers = np.sum(tables, axis=0, dtype=np.int64)
    return total
