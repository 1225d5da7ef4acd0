"""The holder, which sees records: sum encoded records per class, and release the sums through the gate only.

A holder checks the question alone, tries it on a made-up record, and gives the gate a deferred computation. The gate
pays, and only then are records read. From then on nothing is refused: a record that cannot be encoded, is not finite,
or has another class adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Encodings, Floats, Integers, Release
from tacit.engines.fragments import BLOCK
from tacit.mechanisms.choices import RECORD_SUMS, SUM_SHARES, allowed_for_tables
from tacit.methods.class_sums.wire import SumAsk, on_grid
from tacit.methods.encoding import encoded_block, encoded_chunks
from tacit.methods.held import first_labels, held, release_table, require_label_sets, require_single_labels
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext, NodeSide, allowed_by_step
from tacit.private.partition import bounded, one_stream
from tacit.private.records import Private, Records, combine, inspect

__all__ = ["AT_NODE", "SUMS", "SumHolder", "class_sums"]

SUMS = allowed_for_tables("a holder of class sums", RECORD_SUMS, SUM_SHARES)


class SumHolder:
    """One account over one or more sets of records: a hospital, or a curator trusted with several.

    The sums of all sets are added before the gate, so the answer does not depend on how records are partitioned. At
    most as many records per person are used as the account's unit allows. Encodings of records are cached only if the
    holder passes its own ``cache``.
    """

    def __init__(
        self,
        records: Sequence[Private[Records]],
        gate: Gate,
        progress: Callable[[int], None] | None = None,
        cache: Encodings | None = None,
    ) -> None:
        self._records: list[Private[Any]] = list(held(records, gate))
        self._gate = gate
        self._progress = progress
        self._cache = cache
        self._streamed = one_stream(records)

    def answer(self, ask: SumAsk) -> Release[Any]:
        """Pay, and return the mechanism's output for the sums."""
        SUMS.require(ask.mechanism, self._gate.named)
        if ask.labels is None:
            require_single_labels(self._records, ask.representation, ask.components, "class sums take")
        else:
            require_label_sets(self._records, ask.representation, ask.components, ask.classes)
        if self._streamed:
            inspect(self._records, lambda own: own[0].require_countable(SumTable(ask)))
        sums = combine(self._records, partial(self._added, ask))
        return release_table(self._gate, ask, sums)

    def _added(self, ask: SumAsk, parts: list[Any]) -> Integers:
        if self._streamed:
            sums: Integers = parts[0].total(SumTable(ask), self._gate.unit, self._gate.randomness, self._progress)
            return sums
        total = np.zeros(ask.table_shape, dtype=np.int64)
        for part in bounded(parts, self._gate.unit, self._gate.randomness):
            total += class_sums(ask, part, self._cache, self._progress)
        return total


@dataclass(frozen=True)
class SumTable:
    """Computes the sums of one block of streamed records; it is sent to an engine's workers and contains no record."""

    ask: SumAsk

    @property
    def shape(self) -> tuple[int, int]:
        """A row per class, a column per component and one of counts."""
        return self.ask.table_shape

    def __call__(self, samples: NDArray[Any], labels: Integers) -> Integers:
        """The exact sums of these records."""
        table = np.zeros(self.shape, dtype=np.int64)
        _add(self.ask, encoded_block(self.ask.representation, samples, BLOCK), labels, table)
        return _centered(self.ask, table)


def class_sums(
    ask: SumAsk,
    records: Records,
    cache: Encodings | None = None,
    progress: Callable[[int], None] | None = None,
) -> Integers:
    """The exact table of these records: a row per class, a column per component and one of counts.

    If ``ask.centered``, each row is multiplied by the number of classes, and the sum of all rows subtracted; for sets
    of labels, ``ask.shift`` times the sum of all records.

    >>> from tacit.representations.scaled import Identity
    >>> ask = SumAsk(Identity(2), 2, 1.0, 10, "l2", 5, ("a", "b"), "c0ffee", None, "sums", "r-1")
    >>> rows = np.array([[1.0, 2.0], [60.0, 80.0], [3.0, np.nan], [1.0, 1.0]])
    >>> class_sums(ask, Records(rows, np.array([0, 0, 1, 7]))).tolist()
    [[7, 10, 10], [0, 0, 0]]
    >>> both = SumAsk(Identity(2), 2, 1.0, 10, "l2", 5, ("a", "b"), "c0ffee", None, "sums", "r-1", labels=2)
    >>> class_sums(both, Records(rows[:2], np.array([[True, True], [False, True]]))).tolist()
    [[1, 2, 5], [7, 10, 10]]
    """
    table = np.zeros(ask.table_shape, dtype=np.int64)
    done = 0
    for chunk in encoded_chunks(ask.representation, records.samples, cache):
        _add(ask, chunk, records.labels[done : done + len(chunk)], table)
        done += len(chunk)
        if progress is not None:
            progress(done)
    return _centered(ask, table)


def _add(ask: SumAsk, encoded: Floats, labels: Integers, table: Integers) -> None:
    """Add encoded records to the rows of their classes; one that is not finite or has another class adds nothing."""
    whole, there = on_grid(encoded, ask.scale, ask.radius, ask.norm)
    if ask.labels is None:
        there &= (labels >= 0) & (labels < ask.classes)
    added = np.column_stack([whole[there], np.full(int(there.sum()), ask.count)])
    if ask.labels is None:
        np.add.at(table, labels[there], added)
        return
    sets = first_labels(labels[there].astype(np.bool_), ask.labels).astype(np.int64)
    table += (ask.classes * sets - ask.shift if ask.centered else sets).T @ added


def _centered(ask: SumAsk, table: Integers) -> Integers:
    """The table with the sum of all rows subtracted; those of label sets are centered record by record."""
    single = ask.centered and ask.labels is None
    centered: Integers = ask.classes * table - table.sum(axis=0) if single else table
    return centered


def answer_at_node(ask: SumAsk, context: NodeContext) -> Release[Any]:
    """The answer of a node."""
    return SumHolder([context.records], context.gate, cache=context.encodings).answer(ask)


AT_NODE = NodeSide(answer_at_node, {SumAsk: allowed_by_step(RECORD_SUMS, "a curator of class sums", SUM_SHARES)})
