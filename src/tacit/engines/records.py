"""A holder's records as a source that an engine counts, in the place of records in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Randomness, SystemRandomness, Unit
from tacit.engines.counting import BlockTable, FragmentCount, FragmentReading, added_up
from tacit.engines.engine import OpenEngine
from tacit.engines.persons import PersonBound, bound_persons, count_persons, fresh_key
from tacit.engines.source import OpenSource
from tacit.private.records import Schema

__all__ = ["StreamedRecords", "streamed_records"]


@dataclass(frozen=True, eq=False)
class StreamedRecords:
    """Records that are counted where they lie. What is public about them is known without reading one."""

    source: OpenSource
    engine: OpenEngine
    reading: FragmentReading
    _bounds: dict[int, PersonBound] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        """Their shape, and that they are streamed."""
        kind = np.float64 if self.reading.encoder is None else np.float32
        return Schema(self.reading.shape, np.dtype(kind), owned=self.reading.person is not None, streamed=True)

    def units(self, unit: Unit) -> int:
        """How many records, or persons, there are: public under replace-one adjacency alone."""
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
            raise InvalidInput("rows of an npy file have no names")
        return replace(self, reading=replace(self.reading, columns=tuple(columns[place] for place in order)))

    def require_sendable(self, table: BlockTable) -> None:
        """Refuse a count that cannot travel to this engine's workers; to be called before anything is paid."""
        self.engine.require_sendable(FragmentCount(self.reading, table))

    def total(
        self,
        table: BlockTable,
        unit: Unit,
        randomness: Randomness,
        progress: Callable[[int], None] | None = None,
    ) -> Integers:
        """The exact table of all records, of a person at most as many as the unit has. For the gate, after it paid."""
        bound = None if unit.column is None else self._bound(unit.records, randomness)
        return added_up(self.engine, FragmentCount(self.reading, table, bound), self.source.fragments, progress)

    def _bound(self, limit: int, randomness: Randomness) -> PersonBound:
        """Which records of each person count, chosen once for all questions of a run with a key of its own."""
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
    """The records of a source with the columns, in the order, that public samples of this shape have.

    Where the public samples have no names, columns are taken as they stand.
    """
    size = int(np.prod(shape))
    if source.columns is None:
        if encoder is not None or source.shape is None or int(np.prod(source.shape)) != size:
            raise InvalidInput(f"{source.where}: its samples are of another shape than the public ones")
    elif columns is None and len(source.columns) != size:
        raise InvalidInput(
            f"{source.where}: has {len(source.columns)} feature columns, and public samples {size} features; name the "
            "feature columns"
        )
    elif columns is not None and (lacking := [name for name in columns if name not in source.columns]):
        raise InvalidInput(f"{source.where}: has no feature column {lacking[0][:80]!r}, and the public samples have")
    wanted = source.columns if columns is None or source.columns is None else columns
    reading = FragmentReading(wanted, source.label, source.given.persons, classes, tuple(shape), encoder)
    return StreamedRecords(source, engine, reading)
