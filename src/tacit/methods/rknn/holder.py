"""The holder, which sees records: count votes, and release them through the gate only.

A holder checks the question alone, tries it on a made-up record, and gives the gate a deferred computation. The gate
pays, and only then are records read. From then on nothing is refused: a record that cannot be encoded or compared casts
an empty vote, or as a one-record holder a made-up one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import ANYTHING, Encodings, Integers, InvalidInput, Randomness, Release, permutations
from tacit.engines.fragments import BLOCK
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.choices import LOCAL, RECORD_VOTES, AllowedMechanisms, allowed_for_records, allowed_for_tables
from tacit.mechanisms.description import require_quorum
from tacit.mechanisms.shuffle.single_message import Shuffled
from tacit.methods.encoding import encoded_block, encoded_chunks, require_encodable
from tacit.methods.held import first_labels, held, release_table
from tacit.methods.rknn.voting_rules import NEAREST, published_votes, similarities
from tacit.methods.rknn.wire import VoteAsk, require_counted
from tacit.neighbors import nearest_queries, vote_counts
from tacit.neighbors.search import Search
from tacit.neighbors.votes import BLOCK_BYTES, block_votes
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext, NodeSide, allowed_by_step
from tacit.private.partition import bounded, one_stream
from tacit.private.records import Private, Records, Schema, combine, inspect, public_size, schema_of

__all__ = ["AT_NODE", "LOCAL_MECHANISMS", "ONE_RECORD", "VOTES", "OneRecordHolders", "VoteHolder"]

# The default method adds the same noise to votes as to sums, so that its cost does not depend on the question.
_TABLE_MECHANISMS = (*RECORD_VOTES, RoundedGaussianNoise)
LOCAL_MECHANISMS = LOCAL
VOTES = allowed_for_tables("a holder of votes", _TABLE_MECHANISMS)
ONE_RECORD = allowed_for_records("a one-record holder")


class VoteHolder:
    """One account over one or more sets of records: a hospital, or a curator trusted with several.

    The votes of all sets are added before the gate, so the answer does not depend on how records are partitioned. The
    privacy unit and the adjacency are those of the gate's account; the gate refuses a mechanism that is calibrated for
    less. At most as many records per person are counted as the unit allows. Encodings of records are cached only if the
    holder passes its own ``cache``.
    """

    def __init__(
        self,
        records: Sequence[Private[Records]],
        gate: Gate,
        progress: Callable[[int], None] | None = None,
        cache: Encodings | None = None,
    ) -> None:
        require_counted(gate.unit)
        self._records: list[Private[Any]] = list(held(records, gate))
        self._gate = gate
        self._progress = progress
        self._cache = cache
        self._streamed = one_stream(records)

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """Pay, and return the mechanism's output for the votes."""
        VOTES.require(ask.mechanism, self._gate.named)
        for part in self._records:
            require_fit(ask, schema_of(part))
        if self._streamed:
            if ask.voting_rule != NEAREST:
                raise InvalidInput(f"{ask.voting_rule} votes need every record in memory at once; nothing was charged")
            inspect(self._records, lambda own: own[0].require_countable(VoteTable(ask)))
        unit, adjacency = self._gate.unit, self._gate.adjacency
        sensitivity = ask.sensitivity(unit, adjacency, lambda: public_size(self._records, unit, adjacency))
        counts = combine(self._records, partial(self._counted, ask))
        return release_table(self._gate, ask, counts, sensitivity)

    def _counted(self, ask: VoteAsk, parts: list[Any]) -> Integers:
        if self._streamed:
            counts: Integers = parts[0].total(VoteTable(ask), self._gate.unit, self._gate.randomness, self._progress)
            return counts
        parts = bounded(parts, self._gate.unit, self._gate.randomness)
        if ask.voting_rule != NEAREST:
            return count_together(ask, self._cache, parts)
        return sum_tables([self._count(ask, part) for part in parts])

    def _count(self, ask: VoteAsk, records: Records) -> Integers:
        if ask.labels is None:
            labels, columns = records.labels, ask.classes
        else:
            sets = first_labels(records.labels, ask.labels)
            labels, columns = np.column_stack([sets, np.ones(len(sets), dtype=np.bool_)]), ask.classes + 1
        return vote_counts(
            encoded_chunks(ask.representation, records.samples, self._cache),
            labels,
            ask.queries,
            ask.neighbors,
            columns,
            progress=self._progress,
            query_offsets=ask.query_offsets,
        )


@dataclass(frozen=True)
class VoteTable:
    """Counts the votes of one block of streamed records; it is sent to an engine's workers and contains no record.

    >>> from tacit.representations.scaled import Identity
    >>> queries = np.array([[0.0], [9.0]], dtype=np.float32)
    >>> ask = VoteAsk(queries, Identity(1), 1, ("a", "b"), "c0ffee", None, "labels", "r-1")
    >>> VoteTable(ask)(np.array([[1.0], [8.0], [0.0]]), np.array([1, 0, -1])).tolist()
    [[0, 1], [1, 0]]
    """

    ask: VoteAsk

    @property
    def shape(self) -> tuple[int, int]:
        """A row per query and a column per class."""
        return self.ask.table_shape

    @cached_property
    def _search(self) -> Search:
        return Search(self.ask.queries, self.ask.neighbors, BLOCK_BYTES, self.ask.query_offsets)

    def __call__(self, samples: NDArray[Any], labels: Integers) -> Integers:
        """The exact votes of these records."""
        encoded = encoded_block(self.ask.representation, samples, BLOCK)
        return block_votes(self._search, encoded, labels, self.ask.classes).reshape(self.shape)


class OneRecordHolders:
    """Many holders with one record each, in one process: every record's own answer is randomized.

    A record's answer is the set of its cells, (query, label) for its k nearest queries; sets of labels are filled up to
    the same size with made-up ones. One account stands for all holders: they have different records, so each of them
    pays the same (parallel composition).

    A record that cannot be encoded or compared, or has another label, answers with random queries and labels. That is a
    mixture of valid inputs, so the guarantee of the mechanism covers it.
    """

    def __init__(
        self,
        records: Sequence[Private[Records]],
        gate: Gate,
        progress: Callable[[int], None] | None = None,
        cache: Encodings | None = None,
    ) -> None:
        if one_stream(records):
            raise InvalidInput("one-record holders need records in memory; a record source gives tables of counts only")
        if gate.unit.records != 1:
            raise InvalidInput("a one-record holder answers for one record: the unit must have one record per person")
        require_counted(gate.unit)
        self._records = held(records, gate, "at least one holder is needed")
        self._gate = gate
        self._progress = progress
        self._cache = cache

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """Pay, and return the messages of all holders."""
        ONE_RECORD.require(ask.mechanism, self._gate.named)
        if ask.voting_rule != NEAREST:
            raise InvalidInput(
                f"{ask.voting_rule} votes need all records in one place; one-record holders each have their own"
            )
        require_domain(ask)
        for part in self._records:
            require_fit(ask, schema_of(part))
        size = public_size(self._records, self._gate.unit, self._gate.adjacency)
        mechanism: Any = ask.mechanism
        require_quorum(size, mechanism.quorum)
        cells = combine(self._records, partial(self._cells, ask))
        return self._gate.release(
            cells,
            lambda: made_up_cells(ask, size, self._gate.randomness),
            ANYTHING,
            ask.mechanism,
            ask.purpose,
            ask.request,
            ask.question,
        )

    def _cells(self, ask: VoteAsk, parts: list[Records]) -> Integers:
        parts = bounded(parts, self._gate.unit, self._gate.randomness)
        cells = np.concatenate([self._own_cells(ask, part) for part in parts])
        empty = np.flatnonzero(cells[:, 0] < 0)
        cells[empty] = made_up_cells(ask, len(empty), self._gate.randomness)
        return cells

    def _own_cells(self, ask: VoteAsk, records: Records) -> Integers:
        """The cells of each record; a row of -1 for a record without cells."""
        if ask.labels is None:
            held, columns = records.labels[:, None], ask.classes
        else:
            held, columns = filled_sets(first_labels(records.labels, ask.labels), ask.labels), ask.classes + ask.labels
        chunks = encoded_chunks(ask.representation, records.samples, self._cache)
        near = nearest_queries(
            chunks, ask.queries, ask.neighbors, progress=self._progress, query_offsets=ask.query_offsets
        )
        cells: Integers = (near[:, :, None] * columns + held[:, None, :]).reshape(len(near), -1)
        named = ((held >= 0) & (held < columns)).all(axis=1)
        cells[(near[:, 0] < 0) | ~named] = -1
        return cells


def made_up_cells(ask: VoteAsk, count: int, randomness: Randomness) -> Integers:
    """Random cells of ``count`` participants, with uniform queries and labels, for records without cells.

    >>> from tacit.core.randomness import SeededRandomness
    >>> from tacit.representations.scaled import Identity
    >>> queries = np.zeros((3, 1), dtype=np.float32)
    >>> ask = VoteAsk(queries, Identity(1), 2, ("a", "b"), "c0ffee", None, "labels", "r-1")
    >>> made_up_cells(ask, 2, SeededRandomness(1)).tolist()
    [[1, 5], [1, 5]]
    """
    columns, labels = ask.classes + (ask.labels or 0), ask.labels or 1
    cells = np.empty((count, ask.neighbors * labels), dtype=np.int64)
    for row in range(count):
        near = np.sort(permutations(1, len(ask.queries), randomness)[0][: ask.neighbors])
        held = np.sort(permutations(1, columns, randomness)[0][:labels])
        cells[row] = (near[:, None] * columns + held).ravel()
    return cells


def require_domain(ask: VoteAsk) -> None:
    """Refuse a local mechanism for other numbers of cells, which would fail on some records only."""
    mechanism: Any = ask.mechanism
    queries, columns, labels = len(ask.queries), ask.classes + (ask.labels or 0), ask.labels or 1
    if not mechanism.made_for(queries, columns, ask.neighbors, labels):
        raise InvalidInput(
            f"{type(mechanism).__name__} is not made for {ask.neighbors} of {queries} queries with {labels} of "
            f"{columns} labels each; nothing was charged"
        )


def require_fit(ask: VoteAsk, schema: Schema) -> None:
    """Refuse a question that records of this kind cannot answer, by trying it on a made-up record.

    No record is read, so a refusal depends only on the kind of records, which is public.
    """
    if (schema.sets is None) != (ask.labels is None):
        held = "one label each" if schema.sets is None else "sets of labels"
        raise InvalidInput(f"records have {held}, which the question is not about; nothing was charged")
    if schema.sets is not None and schema.sets != ask.classes:
        raise InvalidInput("records must have sets of the classes that are asked about; nothing was charged")
    require_encodable(ask.representation, schema.blank, ask.queries.shape[1])
    Search(ask.queries, ask.neighbors, block_bytes=1, query_offsets=ask.query_offsets)


def filled_sets(sets: NDArray[np.bool_], size: int) -> Integers:
    """The labels of each record, filled up to ``size`` with made-up labels, (n, size), in increasing order.

    >>> filled_sets(np.array([[True, False, True], [False, True, False], [False, False, False]]), 2).tolist()
    [[0, 2], [1, 3], [3, 4]]
    """
    made_up = np.arange(size) < size - sets.sum(axis=1, keepdims=True)
    return np.nonzero(np.column_stack([sets, made_up]))[1].reshape(len(sets), size).astype(np.int64)


def count_together(ask: VoteAsk, cache: Encodings | None, parts: list[Records]) -> Integers:
    """The votes by a published rule, which chooses the queries of all records together."""
    chunks = [chunk for each in parts for chunk in encoded_chunks(ask.representation, each.samples, cache)]
    features = np.concatenate(chunks)
    labels = np.concatenate([each.labels for each in parts])
    voting = np.isfinite(features).all(axis=1) & (labels >= 0) & (labels < ask.classes)
    near = published_votes(similarities(features[voting], ask.queries), ask.neighbors, ask.voting_rule)
    counts = np.zeros((len(ask.queries), ask.classes), dtype=np.int64)
    np.add.at(counts, (near, labels[voting][:, None]), 1)
    return counts


def sum_tables(tables: list[Integers]) -> Integers:
    """The sum of tables of votes.

    >>> sum_tables([np.array([[1, 0]]), np.array([[0, 2]])]).tolist()
    [[1, 2]]
    """
    total: Integers = np.sum(tables, axis=0, dtype=np.int64)
    return total


def answer_at_node(ask: VoteAsk, context: NodeContext) -> Release[Any]:
    """The answer of a node: its records' votes together, or each record as a one-record holder."""
    mechanism: Any = ask.mechanism
    side = OneRecordHolders if mechanism.statistic in ("local", "shuffle") else VoteHolder
    return side([context.records], context.gate, cache=context.encodings).answer(ask)


AT_NODE = NodeSide(
    answer_at_node,
    {
        VoteAsk: allowed_by_step(_TABLE_MECHANISMS, "a curator of records' votes")
        | {
            "answer": AllowedMechanisms("a plain answer", (*_TABLE_MECHANISMS, *LOCAL_MECHANISMS), ONE_RECORD.inside),
            "submit": AllowedMechanisms("a batch", (*_TABLE_MECHANISMS, Shuffled), ONE_RECORD.inside),
        }
    },
)
