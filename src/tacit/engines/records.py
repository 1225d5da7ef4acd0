"""Streamed records: a source that an engine counts in place, instead of records in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Randomness, SystemRandomness, TacitError, Unit
from tacit.engines.counting import BlockTable, FragmentCount, FragmentReading, added_up
from tacit.engines.engine import OpenEngine
from tacit.engines.persons import PersonBound, bound_persons, count_persons, fresh_key
from tacit.engines.source import OpenSource
from tacit.private.records import Schema

__all__ = ["StreamedRecords", "streamed_records"]

_log = logging.getLogger("tacit.engines")


@dataclass(frozen=True, eq=False)
class StreamedRecords:
    """Records that are counted in place. Their public schema is known without reading a record."""

    source: OpenSource
    engine: OpenEngine
    reading: FragmentReading
    _bounds: dict[int, PersonBound] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        """The public shape and type of the samples."""
        kind = np.float64 if self.reading.encoder is None else np.float32
        return Schema(self.reading.shape, np.dtype(kind), owned=self.reading.person is not None, streamed=True)

    def units(self, unit: Unit) -> int:
        """The number of records or persons, which is public under replace-one adjacency only."""
        if self.source.given.units is not None:
            return self.source.given.units
        if unit.column is None:
            return self.source.rows
        assert self.reading.person is not None
        return count_persons(self.source.fragments, self.reading.person, fresh_key(SystemRandomness()))

    def in_order(self, order: list[int]) -> StreamedRecords:
        """The same records with their columns in another order."""
        columns = self.reading.columns
        if columns is None:
            raise InvalidInput("columns of an npy file have no names")
        return replace(self, reading=replace(self.reading, columns=tuple(columns[place] for place in order)))

    def require_countable(self, table: BlockTable) -> None:
        """Refuse a count that this engine's workers cannot be sent, and files that were changed since opening.

        To be called before anything is paid.
        """
        self.source.require_unchanged("Nothing was charged: ask again when nothing writes to the records")
        # The fragments, too: a data set in memory, or on a file system of this process, is nowhere else.
        self.engine.require_sendable((FragmentCount(self.reading, table), self.source.fragments))

    def total(
        self,
        table: BlockTable,
        unit: Unit,
        randomness: Randomness,
        progress: Callable[[int], None] | None = None,
    ) -> Integers:
        """The exact table of all records, at most the unit's number per person. For the gate, after the payment."""
        try:
            bound = None if unit.column is None else self._bound(unit.records, randomness)
            count = FragmentCount(self.reading, table, bound)
            return added_up(self.engine, count, self.source.fragments, progress, self.source.rows)
        finally:
            self._require_unchanged()

    def _require_unchanged(self) -> None:
        """Take back the count of files that were changed meanwhile: persons were bounded in other records."""
        try:
            self.source.require_unchanged("What was counted is not used; the payment stands")
        except TacitError as error:
            # The gate tells the type of an error only. This one quotes no record, and is for the operator.
            _log.error("%s", error)
            raise

    def _bound(self, limit: int, randomness: Randomness) -> PersonBound:
        """The bound on records per person, chosen once for all questions of a run, with a fresh key."""
        if limit not in self._bounds:
            assert self.reading.person is not None
            self._bounds[limit] = bound_persons(
                self.source.fragments, self.reading.person, limit, fresh_key(randomness)
            )
        return self._bounds[limit]

    def __repr__(self) -> str:
        return "StreamedRecords(<private>)"


def streamed_records(
    source: OpenSource,
    engine: OpenEngine,
    classes: NDArray[Any],
    columns: tuple[str, ...] | None,
    shape: tuple[int, ...],
    encoder: Any = None,  # noqa: ANN401
) -> StreamedRecords:
    """The records of a source with the columns of the public samples, in their order.

    If the public samples have no names, the source's own order of columns is used.
    """
    size = int(np.prod(shape))
    if source.columns is None:
        if encoder is not None or source.shape is None or int(np.prod(source.shape)) != size:
            raise InvalidInput(f"{source.where}: its samples do not have the shape of the public samples")
    elif columns is None and len(source.columns) != size:
        raise InvalidInput(
            f"{source.where}: has {len(source.columns)} feature columns, and public samples have {size}; name the "
            "feature columns"
        )
    elif columns is not None and (lacking := [name for name in columns if name not in source.columns]):
        raise InvalidInput(f"{source.where}: has no feature column {lacking[0][:80]!r}, but the public samples have it")
    wanted = source.columns if columns is None or source.columns is None else columns
    reading = FragmentReading(wanted, source.label, source.given.persons, classes, tuple(shape), encoder)
    return StreamedRecords(source, engine, reading)
