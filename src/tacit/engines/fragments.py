"""Fragments: parts of a holder's records that one task reads. Row groups of Parquet files, files, ranges of arrays.

A fragment's name is its place in the files. Partial tables and the choice of a person's records depend on that name, so
neither depends on the engine, on the order, or on how often a task runs. A fragment yields blocks of ``BLOCK`` rows, of
which only the last one is shorter, whatever the size of the batches in which its file is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.neighbors.search import hand_back

__all__ = ["BLOCK", "ArrayFragment", "ArrowFragment", "Fragment", "RecordBlock", "reblocked"]

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
    """Rows of an Arrow data set: row groups of a Parquet file, or a whole CSV or Arrow file.

    ``part`` is pyarrow's own fragment, which is sent to workers as the path of a file, without a record.
    """

    number: int
    name: str
    part: Any
    batch_rows: int = _BATCH

    def blocks(self, columns: Sequence[str] | None, label: str | None, person: str | None) -> Iterator[RecordBlock]:
        """Tables of exactly ``BLOCK`` rows, the last one shorter, whatever the batches of the file."""
        features = list(columns or ())
        named = [*features, *(name for name in (label, person) if name is not None)]
        batches = self.part.to_batches(
            columns=list(dict.fromkeys(named)),
            batch_size=self.batch_rows,
            batch_readahead=1,
            fragment_readahead=1,
            fragment_scan_options=self._frugal,
            use_threads=False,
            cache_metadata=False,
        )
        start = 0
        for table in reblocked(batches, BLOCK):
            labels = table.column(label) if label is not None else table.column(0)
            yield RecordBlock(start, table.select(features), labels, None if person is None else table.column(person))
            start += table.num_rows

    @cached_property
    def _frugal(self) -> Any:  # noqa: ANN401
        """Options to read Parquet page by page instead of a whole row group at once."""
        import pyarrow.dataset as dataset

        if getattr(getattr(self.part, "format", None), "default_extname", "") != "parquet":
            return None
        return dataset.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=2**16, pre_buffer=False)


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
                    hand_back(part)


def _mapped(file: Path) -> NDArray[Any]:
    """The file's array, read-only; empty files cannot be mapped and are read."""
    try:
        return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError):
        return np.asarray(np.load(file, allow_pickle=False))
