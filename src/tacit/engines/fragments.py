"""Fragments: parts of a holder's records that one task reads. Row groups of Parquet files, ranges of arrays.

CSV and Arrow files have fragments of their own (``file_fragments``).

A fragment's name is its place in the files. Partial tables and the choice of a person's records depend on that name, so
neither depends on the engine, on the order, or on how often a task runs. A fragment yields blocks of ``BLOCK`` rows, of
which only the last one is shorter, whatever the size of the batches in which its file is read.
Each cell, from Arrow or numpy, becomes a number, a class or a name by itself; none fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers
from tacit.datasets.frame import Frame, as_numbers, cells_of
from tacit.datasets.table import class_places
from tacit.neighbors.search import drop_pages

__all__ = [
    "BLOCK",
    "ArrayFragment",
    "ArrowFragment",
    "Fragment",
    "RecordBlock",
    "class_column",
    "coded",
    "frame_of_bytes",
    "number_table",
    "reblocked",
    "record_blocks",
]

# Rows that are encoded and counted at a time, by every engine.
BLOCK = 4096
# Rows that are read from a file at a time: a few blocks, so that memory does not depend on the size of a row group.
_BATCH = 8 * BLOCK


@dataclass(frozen=True)
class RecordBlock:
    """Some rows as stored: an Arrow table or an array of samples, and the columns of labels and persons."""

    start: int
    samples: Any
    labels: Any
    persons: Any

    def __len__(self) -> int:
        return len(self.labels)


class Fragment(Protocol):
    """A part of a source that one task reads."""

    @property
    def number(self) -> int:
        """Its index among the source's fragments."""
        ...

    @property
    def name(self) -> str:
        """Its file and position, which are the same in every run over the same files."""
        ...

    def blocks(self, columns: Sequence[str] | None, label: str | None, person: str | None) -> Iterator[RecordBlock]:
        """Its rows, ``BLOCK`` at a time; without a label only the persons are read."""
        ...


@dataclass(frozen=True)
class ArrowFragment:
    """Rows of an Arrow data set: row groups of a Parquet file, or a whole file of another format.

    ``part`` is pyarrow's own fragment, which is sent to workers as the path of a file, without a record.
    """

    number: int
    name: str
    part: Any
    batch_rows: int = _BATCH

    def blocks(self, columns: Sequence[str] | None, label: str | None, person: str | None) -> Iterator[RecordBlock]:
        """Tables of exactly ``BLOCK`` rows, the last one shorter, whatever the batches of the file."""
        named = [*(columns or ()), *(name for name in (label, person) if name is not None)]
        batches = self.part.to_batches(
            columns=list(dict.fromkeys(named)),
            batch_size=self.batch_rows,
            batch_readahead=1,
            fragment_readahead=1,
            fragment_scan_options=self._frugal,
            use_threads=False,
            cache_metadata=False,
        )
        yield from record_blocks(reblocked(batches, BLOCK), columns, label, person)

    @cached_property
    def _frugal(self) -> Any:  # noqa: ANN401
        """Options to read Parquet page by page instead of a whole row group at once."""
        import pyarrow.dataset as dataset

        if getattr(getattr(self.part, "format", None), "default_extname", "") != "parquet":
            return None
        return dataset.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=2**16, pre_buffer=False)


def record_blocks(
    tables: Iterator[Any], columns: Sequence[str] | None, label: str | None, person: str | None
) -> Iterator[RecordBlock]:
    """The blocks of a fragment, from its tables of ``BLOCK`` rows."""
    start = 0
    for table in tables:
        persons = None if person is None else table.column(person)
        labels = persons if label is None else table.column(label)
        yield RecordBlock(start, table.select(list(columns or ())), labels, persons)
        start += table.num_rows


def reblocked(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """The rows of record batches as tables of exactly this many rows each, and the rest.

    >>> import pyarrow as pa
    >>> cut = [pa.record_batch({"age": range(size)}) for size in (3, 0, 4)]
    >>> [table.num_rows for table in reblocked(iter(cut), 5)]
    [5, 2]
    """
    import pyarrow as pa

    waiting: list[Any] = []
    count = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            taken = batch.slice(start, rows - count)
            waiting.append(taken)
            start, count = start + taken.num_rows, count + taken.num_rows
            if count == rows:
                yield pa.Table.from_batches(waiting)
                waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


@dataclass(frozen=True)
class ArrayFragment:
    """Rows ``start`` to ``stop`` of an npy file, mapped into memory; labels and persons are npy files, too."""

    number: int
    name: str
    file: Path
    start: int
    stop: int

    def blocks(self, columns: Sequence[str] | None, label: str | None, person: str | None) -> Iterator[RecordBlock]:
        """Slices of the mapped arrays; pages that were read are released."""
        samples = None if columns is None else _mapped(self.file)
        labels = None if label is None else _mapped(Path(label))
        persons = None if person is None else _mapped(Path(person))
        for begin in range(self.start, self.stop, BLOCK):
            rows = slice(begin, min(begin + BLOCK, self.stop))
            parts = [None if each is None else each[rows] for each in (samples, labels, persons)]
            there = next(part for part in (parts[1], parts[2]) if part is not None)
            yield RecordBlock(begin - self.start, parts[0], there, parts[2])
            for part in parts:
                if part is not None:
                    drop_pages(part)


def _mapped(file: Path) -> NDArray[Any]:
    """The file's array, read-only; empty files cannot be mapped and are read."""
    try:
        return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError):
        return np.asarray(np.load(file, allow_pickle=False))


def coded(column: Any) -> tuple[Integers, list[str | None]]:  # noqa: ANN401
    """A column of labels or persons as codes, and the text of each code; -1 or None for a missing value.

    >>> codes, names = coded(np.array([1.0, 2.0, 1.0]))
    >>> [names[code] for code in codes]
    ['1', '2', '1']
    """
    if isinstance(column, np.ndarray):
        values, codes = np.unique(column, return_inverse=True)
        return codes.astype(np.int64).reshape(-1), [_text(each) for each in values.tolist()]
    joined = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    encoded = joined if hasattr(joined, "dictionary") else joined.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), [_text(each) for each in encoded.dictionary.to_pylist()]


def class_column(column: Any, classes: NDArray[Any]) -> Integers:  # noqa: ANN401
    """The index of every label among the classes, -1 for any other label.

    >>> class_column(np.array(["b", "c", "a"]), np.array(["a", "b"])).tolist()
    [1, -1, 0]
    """
    codes, names = coded(column)
    places = class_places(["" if name is None else name for name in names], classes)
    places[[name is None for name in names]] = -1
    return np.append(places, -1)[codes]


def number_table(table: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """The columns of an Arrow table as an array of numbers; NaN for a cell that is missing or not a number.

    >>> import pyarrow as pa
    >>> number_table(pa.table({"age": [61, None], "dose": [b"2.5", b"much"]})).tolist()
    [[61.0, 2.5], [nan, nan]]
    """
    columns = [_numbers(column) for column in table.columns]
    if columns and all(column.dtype == np.float32 for column in columns):
        # One conversion of a narrow table, which takes half the time of one per column.
        return np.array(columns).T.astype(np.float64, order="C")
    found = np.empty((table.num_rows, table.num_columns), dtype=np.float64)
    for place, column in enumerate(columns):
        found[:, place] = column
    return found


def _numbers(column: Any) -> NDArray[Any]:  # noqa: ANN401
    import pyarrow as pa
    import pyarrow.compute as compute

    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return np.asarray(column.to_numpy())
    try:
        if pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind):
            text = compute.cast(column, pa.string()) if pa.types.is_binary(kind) else column
            return np.asarray(compute.cast(text, pa.float64()).to_numpy())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return as_numbers(_cells(column))


def _cells(column: Any) -> NDArray[Any]:  # noqa: ANN401
    """The cells of a column, bytes as text."""
    return cells_of(
        [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in column.to_pylist()]
    )


def frame_of_bytes(table: Any) -> Frame:  # noqa: ANN401
    """An Arrow table as a frame for an encoder, bytes of a CSV file as text.

    >>> import pyarrow as pa
    >>> frame_of_bytes(pa.table({"age": [b"61"], "ward": [b"north"]})).column("ward").tolist()
    ['north']
    """
    # Cells are not converted: the kind of a column must not depend on other rows.
    return Frame(tuple(table.column_names), tuple(map(_cells, table.columns)), source="the records")


def _text(value: Any) -> str | None:  # noqa: ANN401
    """A label or a person as text, in the same form as in tables read into memory; None for a missing value."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    text = str(value).strip()
    return None if text.lower() in ("", "nan") else text
