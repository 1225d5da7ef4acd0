"""The records of a node: read into memory once, or counted in place by an engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput
from tacit.core.samples import match_names
from tacit.datasets.table import Table, class_indices, plain, row_number
from tacit.datasets.tables import read_table
from tacit.engines.engine import ENGINES
from tacit.engines.records import StreamedRecords, streamed_records
from tacit.engines.source import RecordSource
from tacit.federation.settings import LoadedArrays, NodeFile
from tacit.private.records import Private, Records, require_usable

__all__ = ["node_records"]


def node_records(
    file: NodeFile, person: str | None, arrays: LoadedArrays
) -> tuple[Private[Any], tuple[str, ...] | None]:
    """The node's records, in memory or streamed, and the names of their columns; errors are for the node's operator."""
    if file.engine is not None:
        stream = _stream(file, person)
        return Private(stream), stream.source.columns
    how = repr((file.label, person, file.classes, file.features))
    found = arrays.of(file.data, how, lambda: _checked(file, person))
    features = tuple(map(str, found["features"])) if "features" in found else None
    return Private(Records(found["samples"], found["labels"], found.get("persons"))), features


def _checked(file: NodeFile, person: str | None) -> dict[str, NDArray[Any]]:
    """The records of a node, checked; errors name file, row and column."""
    table, labels = _labeled(file, person)
    samples = table.samples
    features = table.columns if table.named else None
    if file.features is not None:
        order = match_names(table.columns, file.features, str(file.data), "the node's file")
        samples, features = samples.reshape(len(samples), -1)[:, order], file.features
    require_usable(Private(Records(samples, labels, table.persons)), len(file.classes))
    persons = None if table.persons is None else plain(table.persons)
    names = None if features is None else np.array(features)
    every = {"samples": samples, "labels": labels, "persons": persons, "features": names}
    return {name: array for name, array in every.items() if array is not None}


def _labeled(file: NodeFile, person: str | None) -> tuple[Table, NDArray[Any]]:
    """The table of records and their class indices; for multi-label records, a matrix of the classes of each record."""
    if isinstance(file.label, str):
        table = read_table(file.data, file.label, person)
        assert table.labels is not None
        return table, class_indices(table.labels, np.array(file.classes), str(file.data), table.rows)
    table = read_table(file.data, None, person)
    if missing := [name for name in file.classes if name not in table.columns]:
        raise InvalidInput(f"{file.data}: there is no column {missing[0]!r} for the class of this name")
    marked = table.samples[:, [table.columns.index(name) for name in file.classes]]
    if len(bad := np.flatnonzero(~np.isin(marked, (0, 1)).all(axis=1))):
        row = row_number(table.rows, int(bad[0]))
        raise InvalidInput(f"{file.data}: row {row}: a class's column must be 0 or 1")
    kept = [place for place, name in enumerate(table.columns) if name not in file.classes]
    if not kept:
        raise InvalidInput(f"{file.data}: no feature columns are left besides the labels")
    columns = tuple(table.columns[place] for place in kept)
    return replace(table, columns=columns, samples=np.ascontiguousarray(table.samples[:, kept])), marked.astype(bool)


def _stream(file: NodeFile, person: str | None) -> StreamedRecords:
    """The records as a stream, none of which is read here; an engine started here ends with this process."""
    assert isinstance(file.label, str)
    assert file.engine is not None
    source = RecordSource(file.data, file.label, file.features, person).open()
    shape = (source.shape or ()) if source.columns is None else (len(source.columns),)
    engine = file.engine.engine
    at_work = ENGINES.find(engine.name)(engine.workers, engine.address)
    return streamed_records(source, at_work, np.array(file.classes), source.columns, shape)
