"""Fragments of CSV and Arrow files that are read in flat memory, however large a file is.

pyarrow's own scanner reads dozens of blocks of a CSV file ahead, and the pages of a mapped Arrow file stay with the
process that has read them. Here a CSV file is read piece by piece, each parsed by itself, and pages of an Arrow file
are given back block by block.
"""

from __future__ import annotations

import csv
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.core import InvalidInput
from tacit.datasets.table_files import SEPARATORS
from tacit.engines.fragments import BLOCK, RecordBlock, reblocked, record_blocks

__all__ = ["LONGEST_LINE", "ArrowFileFragment", "CsvFragment", "csv_columns", "csv_parts"]

# Bytes of a CSV file that are parsed at a time.
PIECE = 2**21
# A line of a CSV file that is longer than this is refused when the file is opened.
LONGEST_LINE = 2**24


@dataclass(frozen=True)
class CsvFragment:
    """Lines of a CSV file, from the byte ``start`` to the byte ``stop``, in files with these columns."""

    number: int
    name: str
    file: Path
    start: int
    stop: int
    names: tuple[str, ...]
    separator: str

    def blocks(self, columns: Sequence[str] | None, label: str | None, person: str | None) -> Iterator[RecordBlock]:
        """Tables of exactly ``BLOCK`` rows, the last one shorter; cells are bytes."""
        named = [*(columns or ()), *(name for name in (label, person) if name is not None)]
        parse = _Parser(self.names, self.separator, named)
        batches = (batch for piece in _pieces(self.file, self.start, self.stop) for batch in parse(piece).to_batches())
        yield from record_blocks(reblocked(batches, BLOCK), columns, label, person)


def csv_columns(file: Path) -> tuple[tuple[str, ...], str, int]:
    """The names of a CSV file's columns, what separates them, and the byte at which its records begin."""
    try:
        with file.open("rb") as opened:
            line = opened.readline(LONGEST_LINE)
            text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"{file}: not a text file in UTF-8; save it as UTF-8 and try again") from None
    # Lines may end with a carriage return alone.
    if (first := text.find("\r")) >= 0:
        line, text = line[: line.index(b"\r") + 1], text[:first]
    separator = next((each for each in SEPARATORS if each in text), ",")
    return tuple(next(csv.reader([text], delimiter=separator), [])), separator, len(line)


def csv_parts(file: Path, most_rows: int) -> Iterator[tuple[int, int, int]]:
    """The file's lines in parts of about ``most_rows`` rows: first byte, last byte and rows of each.

    Every line is parsed, because one that cannot be would fail others after the payment.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text("age,outcome\\n61,ill\\n50,well\\n")
    >>> list(csv_parts(file, 10))
    [(12, 27, 2)]
    """
    names, separator, start = csv_columns(file)
    parse, rows, at = _Parser(names, separator, names[:1]), 0, start
    for piece in _pieces(file, start, file.stat().st_size):
        rows, at = rows + parse(piece).num_rows, at + len(piece)
        if rows >= most_rows:
            yield start, at, rows
            start, rows = at, 0
    if rows:
        yield start, at, rows


class _Parser:
    """Parses whole lines. Cells stay bytes until each is read by itself: a bad cell must not fail the others."""

    def __init__(self, names: Sequence[str], separator: str, wanted: Sequence[str]) -> None:
        import pyarrow as pa
        import pyarrow.csv as separated

        self._names = list(names)
        self._parse = separated.ParseOptions(delimiter=separator)
        self._convert = separated.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            include_columns=list(dict.fromkeys(wanted)),
            check_utf8=False,
            strings_can_be_null=False,
            null_values=[],
        )

    def __call__(self, piece: bytes) -> Any:  # noqa: ANN401
        """The piece as a table."""
        import pyarrow as pa
        import pyarrow.csv as separated

        read = separated.ReadOptions(use_threads=False, block_size=len(piece) + 1, column_names=self._names)
        return separated.read_csv(pa.py_buffer(piece), read, self._parse, self._convert)


def _pieces(file: Path, start: int, stop: int) -> Iterator[bytes]:
    """Whole lines of a file, about ``PIECE`` bytes at a time; the same lines together from every start of a piece."""
    with file.open("rb") as opened:
        opened.seek(start)
        rest, left = b"", stop - start
        while left:
            found = opened.read(min(PIECE, left))
            if not found:
                raise InvalidInput("the file has become shorter")
            left -= len(found)
            rest += found
            cut = _cut(rest) if left else len(rest)
            if not cut and len(rest) > LONGEST_LINE:
                # A quotation mark that opens nothing, as in 5", leaves no line break outside of quotes.
                cut = rest.rfind(_ends(rest)) + 1
                if not cut:
                    raise InvalidInput("a line is too long")
            if cut:
                yield rest[:cut]
                # What is left over is read again with the next piece, so that pieces do not depend on earlier ones.
                left += len(rest) - cut
                opened.seek(cut - len(rest), 1)
                rest = b""


def _cut(text: bytes) -> int:
    """Behind the last line that is complete: the last line break that is not within quotes, or 0.

    >>> _cut(b'1,2\\n3,"two\\nlines"\\n4'), _cut(b'1,2\\n3,"two\\nlin'), _cut(b"1,2")
    (18, 4, 0)
    """
    ends = _ends(text)
    at = text.rfind(ends) + 1
    quotes = text.count(b'"', 0, at)
    while at and quotes % 2:
        before = text.rfind(ends, 0, at - 1) + 1
        quotes -= text.count(b'"', before, at)
        at = before
    return at


def _ends(text: bytes) -> bytes:
    """What lines end with, at least."""
    return b"\n" if b"\n" in text else b"\r"


@dataclass(frozen=True)
class ArrowFileFragment:
    """A whole Arrow file, mapped into memory."""

    number: int
    name: str
    file: Path

    def blocks(self, columns: Sequence[str] | None, label: str | None, person: str | None) -> Iterator[RecordBlock]:
        """Tables of exactly ``BLOCK`` rows, the last one shorter; pages that were read are released."""
        with self.file.open("rb") as opened:
            memory = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        for block in record_blocks(reblocked(_batches(memory), BLOCK), columns, label, person):
            yield block
            if hasattr(memory, "madvise"):
                memory.madvise(mmap.MADV_DONTNEED)


def _batches(memory: mmap.mmap) -> Iterator[Any]:
    """The record batches of an Arrow file, in parts that do not depend on who wrote it."""
    import pyarrow as pa

    # All columns are named, and none is read by that: a choice of columns would be copied, a whole batch at a time.
    file = pa.ipc.open_file(pa.py_buffer(memory), options=pa.ipc.IpcReadOptions(use_threads=False))
    for number in range(file.num_record_batches):
        batch = file.get_batch(number)
        for start in range(0, batch.num_rows, BLOCK):
            yield batch.slice(start, BLOCK)
