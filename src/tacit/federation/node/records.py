"""The records of a node: read into memory once, or counted in place by an engine.

Records in memory are those of one state of their file; a changed file is read again. They are checked when the operator
starts the node. A file that is changed later is read while a question waits, whose answer must not tell whether a
record is usable: a record that is not casts an empty vote, and of a file that cannot be read the last state is kept.
The operator's log says so.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput
from tacit.core.samples import match_names
from tacit.datasets.frame import Frame, as_numbers, require_column
from tacit.datasets.image_files import image_files, read_images
from tacit.datasets.table import UNSEEN, RowNumbers, Table, class_indices, class_places, plain, row_number
from tacit.datasets.table_files import OPEN_ENDED, suffix_of
from tacit.datasets.tables import read_data, read_table
from tacit.encoders.encoded import packed_table
from tacit.engines.engine import ENGINES
from tacit.engines.records import StreamedRecords, streamed_records
from tacit.engines.source import RecordSource
from tacit.federation.processes import failure_in_words
from tacit.federation.settings import NodeFile
from tacit.private.records import Private, Records, require_usable

__all__ = ["LoadedArrays", "node_records"]

_log = logging.getLogger("tacit.node")

Arrays = Mapping[str, NDArray[Any]]


class LoadedArrays:
    """A cache of arrays read from files, in memory only; a file is read again if it was changed.

    >>> import tempfile
    >>> source, made = Path(tempfile.mkdtemp()) / "records.csv", []
    >>> _ = source.write_text("1,2")
    >>> def read():
    ...     made.append("read")
    ...     return {"samples": np.array([1.0, 2.0])}
    >>> arrays = LoadedArrays()
    >>> [arrays.of(source, "as numbers", read)["samples"].tolist() for _ in range(2)], made
    ([[1.0, 2.0], [1.0, 2.0]], ['read'])
    """

    def __init__(self) -> None:
        self._loaded: dict[Path, tuple[tuple[object, ...], dict[str, _Held]]] = {}
        self.reads = 0

    def of(
        self, source: Path, how: str, make: Callable[[], Arrays], again: Callable[[], Arrays] | None = None
    ) -> Arrays:
        """The arrays that ``make`` reads from a file; ``how`` names everything else that they depend on.

        With ``again`` a file that was changed is read by it, and if that fails the last arrays are kept. Writing into
        the arrays does not change the cache.
        """
        found = source.stat()
        state = (
            how, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, *_files_in(source)
        )  # fmt: skip
        known = self._loaded.get(source)
        if known is None or known[0] != state:
            if again is None:
                # The old arrays are freed before the new ones are read: memory may suffice for one of them only.
                known = None
                self._loaded.pop(source, None)
            try:
                made = make() if known is None or again is None else again()
            except Exception as error:
                if known is None or known[0][0] != how:
                    raise
                _log.error("the records cannot be read again; the last ones are kept: %s", failure_in_words(error))
                known = state, known[1]
            else:
                known = state, {name: _Held(array) for name, array in made.items()}
                self.reads += 1
            self._loaded[source] = known
        return {name: each.view() for name, each in known[1].items()}


class _Held:
    """An array in anonymous shared memory; views are copy-on-write."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._dtype, self._shape, self._content = array.dtype, array.shape, np.ascontiguousarray(array)
        self._file: int | None = None
        if array.nbytes and hasattr(os, "memfd_create"):
            self._file = os.memfd_create("tacit")
            weakref.finalize(self, os.close, self._file)
            os.truncate(self._file, array.nbytes)
            with mmap.mmap(self._file, array.nbytes) as memory:
                memory[:] = self._content.tobytes()
            self._content = np.empty(0, dtype=array.dtype)

    def view(self) -> NDArray[Any]:
        if self._file is None:
            return self._content.copy()
        memory = mmap.mmap(self._file, 0, access=mmap.ACCESS_COPY)
        return np.frombuffer(memory, dtype=self._dtype).reshape(self._shape)


def node_records(
    file: NodeFile, person: str | None, arrays: LoadedArrays
) -> tuple[Private[Any], tuple[str, ...] | None]:
    """The node's records, in memory or streamed, and the names of their columns; errors are for the node's operator."""
    if file.engine is not None:
        stream = _stream(file, person)
        return Private(stream), stream.source.columns
    how = repr((file.label, person, file.classes, file.features, file.kind, file.shape))
    read = {None: _checked, "mixed": _checked_raw, "images": _checked_images}[file.kind]
    found = arrays.of(file.data, how, lambda: read(file, person, True), lambda: read(file, person, False))
    features = tuple(map(str, found["features"])) if "features" in found else None
    return Private(Records(found["samples"], found["labels"], found.get("persons"))), features


def _checked(file: NodeFile, person: str | None, strict: bool) -> dict[str, NDArray[Any]]:
    """The records of a node; errors name file, row and column. Only if ``strict`` unusable records are errors."""
    table, labels = _labeled(file, person, strict)
    samples = table.samples
    features = table.columns if table.named else None
    if file.features is not None:
        order = match_names(table.columns, file.features, str(file.data), "the node's file")
        samples, features = samples.reshape(len(samples), len(table.columns))[:, order], file.features
    _require_usable(Records(samples, labels, table.persons), file, strict)
    persons = None if table.persons is None else plain(table.persons)
    names = None if features is None else np.array(features)
    every = {"samples": samples, "labels": labels, "persons": persons, "features": names}
    return {name: array for name, array in every.items() if array is not None}


def _require_usable(records: Records, file: NodeFile, strict: bool) -> None:
    try:
        require_usable(Private(records), len(file.classes))
    except InvalidInput as error:
        if strict:
            raise
        _log.error("the records were changed, and some cast empty votes: %s", error)


def _checked_raw(file: NodeFile, person: str | None, strict: bool) -> dict[str, NDArray[Any]]:
    """The raw rows of a node, for an encoder; of a cell nothing is checked, because an encoder reads any cell."""
    found = read_data(file.data, file.label if isinstance(file.label, str) else None, person)
    if not isinstance(found, Frame):
        raise InvalidInput(f"{file.data}: a mixed node needs a table with named columns")
    labels: NDArray[Any]
    if isinstance(file.label, str):
        assert found.labels is not None
        labels = _places(file, found.labels, found.source, found.rows, strict)
    else:
        marked = [as_numbers(found.column(name)) for name in _class_columns(file, found.columns)]
        labels = _marked(file, np.column_stack(marked), found.rows, strict)
        found = found.take([name for name in found.columns if name not in file.classes])
    if file.features is not None:
        found = _declared(found, file.features, suffix_of(file.data) in OPEN_ENDED)
    if not found.columns:
        raise InvalidInput(f"{file.data}: no feature columns are left besides the labels")
    samples = packed_table(found)
    _require_usable(Records(samples, labels, found.persons), file, strict)
    persons = {} if found.persons is None else {"persons": plain(found.persons)}
    return {"samples": samples, "labels": labels, **persons}


def _checked_images(file: NodeFile, person: str | None, strict: bool) -> dict[str, NDArray[Any]]:
    """The images in a folder with a folder per class, each resized by itself to the shape in the node's file.

    One that cannot be read is an error, or casts an empty vote if that must not be told.
    """
    if person is not None:
        raise InvalidInput(f"{file.data}: images in folders have no column {person!r} of persons")
    if not file.data.is_dir():
        raise InvalidInput(f"{file.data}: not a folder with a folder of images per class")
    assert file.shape is not None
    found = image_files(file.data, labeled=True)
    assert found.labels is not None
    labels = _places(file, found.labels, found.source, 0, strict)
    samples, lost = read_images(found.files, file.shape)
    if lost and strict:
        raise InvalidInput(f"{found.files[lost[0]]}: cannot be read as an image; remove or replace it")
    labels[lost] = UNSEEN
    _require_usable(Records(samples, labels, None), file, strict)
    return {"samples": samples, "labels": labels}


def _files_in(folder: Path) -> list[tuple[str, int, int]]:
    """The state of all files in a folder, which the state of the folder itself does not show; empty for a file."""
    if not folder.is_dir():
        return []
    states = []
    for each in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            found = each.stat()
            states.append((str(each), found.st_size, found.st_mtime_ns))
    return states


def _declared(table: Frame, features: Sequence[str], open_ended: bool) -> Frame:
    """The operator's feature columns. One that no record of a file without a header has is missing in all of them."""
    for name in () if open_ended else features:
        require_column(name, table.columns, table.source)
    empty = np.full(len(table), np.nan)
    cells = tuple(table.column(name) if name in table.columns else empty for name in features)
    return replace(table, columns=tuple(features), cells=cells)


def _labeled(file: NodeFile, person: str | None, strict: bool) -> tuple[Table, NDArray[Any]]:
    """The table of records and their class indices; for multi-label records, a matrix of the classes of each record."""
    if isinstance(file.label, str):
        table = read_table(file.data, file.label, person, strict)
        assert table.labels is not None
        return table, _places(file, table.labels, str(file.data), table.rows, strict)
    table = read_table(file.data, None, person, strict)
    places = [table.columns.index(name) for name in _class_columns(file, table.columns)]
    labels = _marked(file, table.samples[:, places], table.rows, strict)
    kept = [place for place, name in enumerate(table.columns) if name not in file.classes]
    if not kept:
        raise InvalidInput(f"{file.data}: no feature columns are left besides the labels")
    columns = tuple(table.columns[place] for place in kept)
    return replace(table, columns=columns, samples=np.ascontiguousarray(table.samples[:, kept])), labels


def _places(file: NodeFile, labels: NDArray[Any], source: str, rows: RowNumbers, strict: bool) -> NDArray[np.int64]:
    """The index of each label among the classes; another label is an error, or no class if that must not be told."""
    classes = np.array(file.classes)
    if strict:
        return class_indices(labels, classes, source, rows)
    found, inverse = np.unique(labels, return_inverse=True)
    return class_places(found.tolist(), classes)[inverse]


def _class_columns(file: NodeFile, columns: Sequence[str]) -> tuple[str, ...]:
    """The classes of multi-label records, each of which must be a column."""
    if missing := [name for name in file.classes if name not in columns]:
        raise InvalidInput(f"{file.data}: there is no column {missing[0]!r} for the class of this name")
    return file.classes


def _marked(file: NodeFile, marked: NDArray[Any], rows: RowNumbers, strict: bool) -> NDArray[np.bool_]:
    """The classes' columns as bool. Others than 0 and 1 are an error, or no labels if that must not be told."""
    if len(bad := np.flatnonzero(~np.isin(marked, (0, 1)).all(axis=1))):
        if strict:
            raise InvalidInput(f"{file.data}: row {row_number(rows, int(bad[0]))}: a class's column must be 0 or 1")
        marked = marked.copy()
        marked[bad] = 0
    return marked.astype(bool)


def _stream(file: NodeFile, person: str | None) -> StreamedRecords:
    """The records as a stream, none of which is read here; an engine started here ends with this process."""
    assert isinstance(file.label, str)
    assert file.engine is not None
    source = RecordSource(file.data, file.label, file.features, person).open()
    shape = (source.shape or ()) if source.columns is None else (len(source.columns),)
    engine = file.engine.engine
    at_work = ENGINES.find(engine.name)(engine.workers, engine.address)
    return streamed_records(source, at_work, np.array(file.classes), source.columns, shape)
