"""Tables from files: separated values, JSON lines, Parquet, Arrow and Feather.

Text files are UTF-8, plain or compressed according to their suffix. The separator is the comma, semicolon or tab that
the header uses. Row numbers are line numbers, as in an editor: the header is usually row 1. JSON lines have
one object per line and one column per key; a key that a line lacks is a missing value. Parquet, Arrow and Feather are
read where pyarrow is installed. No message shows the content of a cell, because the file may be private.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, listed, nearest
from tacit.core.samples import column_names
from tacit.datasets.frame import Frame, cells_of, frame_of, named_values, require_column

__all__ = ["COMPRESSIONS", "OPEN_ENDED", "open_text", "read_arrow", "read_csv", "read_json_lines", "suffix_of"]

COMPRESSIONS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
# Files without a list of their columns: a row may add one.
OPEN_ENDED = (".jsonl", ".ndjson")
ROWS_AT_A_TIME = 20_000
SEPARATORS = ",;\t"
# A cell that is more likely a number, a date or a missing value than the name of a column.
VALUE = re.compile(r"[\"'<>=~]*[-+−]?[.,]?\d|(n/?an?|null|none|inf|-inf|missing|unknown|[?.*–—-]+)$", re.IGNORECASE)
ADVICE = (
    ". Features must be numbers: turn text into numbers by a rule that does not depend on private records, the same in "
    "both files, or leave the column out"
)
HINT = "; features must be numbers"


def suffix_of(path: Path) -> str:
    """The suffix that names the format, without the one that names the compression.

    >>> suffix_of(Path("records.CSV.gz")), suffix_of(Path("scan.png"))
    ('.csv', '.png')
    """
    whole = path.suffix.lower()
    return Path(path.stem).suffix.lower() if whole in COMPRESSIONS else whole


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """The file as text, with or without a byte order mark."""
    opener = COMPRESSIONS.get(path.suffix.lower(), open)
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
            yield cast(TextIO, file)
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path}: not a text file in UTF-8{_first_bad_byte(path, opener)}; save it as UTF-8 and try again"
        ) from None
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError):
        raise InvalidInput(f"{path}: damaged, or not compressed as its suffix {path.suffix} says") from None


def _first_bad_byte(path: Path, opener: Any) -> str:  # noqa: ANN401
    with opener(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f" (row {number}, byte {error.start + 1})"
    return ""


def read_csv(path: Path, label: str | None, person: str | None) -> Frame:
    """The table in a text file whose first row names the columns.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text('age;"dose";outcome\\n61; 2.5; well\\n')
    >>> read_csv(file, "outcome", None).numbers().samples.tolist()
    [[61.0, 2.5]]
    """
    with open_text(path) as file:
        try:
            return _read(path, file, label, person)
        except csv.Error as error:
            raise InvalidInput(f"{path}: not a table of separated values ({error})") from None


def _read(path: Path, file: TextIO, label: str | None, person: str | None) -> Frame:
    lines = _records(file)
    header = [name.strip() for name in next(lines, (0, []))[1]]
    _check_header(path, header, label, person)
    features = [index for index, name in enumerate(header) if name not in (label, person)]
    columns = tuple(header[index] for index in features)
    chunks: list[list[NDArray[Any]] | NDArray[np.float64]] = []
    cells: list[list[str]] = []
    labels: list[str] = []
    persons: list[str] = []
    numbers: list[int] = []
    for number, row in lines:
        if len(row) == 1 < len(header) and not row[0].strip():
            continue
        if len(row) != len(header):
            raise InvalidInput(f"{path}: row {number} has {len(row)} cells, the header {len(header)}")
        numbers.append(number)
        cells.append([row[index] for index in features])
        if label is not None:
            labels.append(row[header.index(label)].strip())
            if labels[-1].lower() in ("", "nan"):
                raise InvalidInput(f"{path}: row {number}, column {label!r}: the label is missing; remove the row")
        if person is not None:
            persons.append(row[header.index(person)].strip())
            if not persons[-1]:
                raise InvalidInput(
                    f"{path}: row {number}, column {person!r}: the person is missing; fill it in or remove the row"
                )
        if len(cells) == ROWS_AT_A_TIME:
            chunks.append(_chunk(cells, len(columns)))
            cells = []
    chunks.append(_chunk(cells, len(columns)))
    return Frame(
        columns,
        _joined(chunks),
        np.array(labels) if label is not None else None,
        np.array(persons) if person is not None else None,
        str(path),
        np.array(numbers, dtype=np.int64),
        ADVICE if label is not None else f"{ADVICE}. If it is the label, remove it: public samples are unlabeled",
    )


def _chunk(cells: list[list[str]], width: int) -> list[NDArray[Any]] | NDArray[np.float64]:
    """Some rows as one array of numbers, or, if a cell is not a number, as columns of numbers and of text."""
    whole = _numbers(cells)
    if whole is not None:
        return whole.reshape(len(cells), width)
    found = []
    for column in zip(*cells, strict=True):
        read = _numbers(column)
        found.append(np.array(column, dtype=object) if read is None else read)
    return found


def _numbers(cells: Any) -> NDArray[np.float64] | None:  # noqa: ANN401
    """The cells as numbers, if all are; Python reads 1_000 as a thousand, but in a file it is more likely a code."""
    try:
        found = np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    return None if any("_" in "".join(row) for row in (cells if found.ndim > 1 else [cells])) else found


def _joined(chunks: list[list[NDArray[Any]] | NDArray[np.float64]]) -> Any:  # noqa: ANN401
    """The chunks, concatenated by rows."""
    tables = [chunk for chunk in chunks if isinstance(chunk, np.ndarray)]
    if len(tables) == len(chunks):
        return np.concatenate(tables)
    parts = [chunk.T if isinstance(chunk, np.ndarray) else chunk for chunk in chunks if len(chunk)]
    return tuple(np.concatenate([np.asarray(each) for each in column]) for column in zip(*parts, strict=True))


def _records(file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Every row that is not blank, with the number of its first line."""
    start = file.tell()
    header = next((line for line in iter(file.readline, "") if line.strip()), "")
    file.seek(start)
    separator = next((each for each in SEPARATORS if len(next(csv.reader([header], delimiter=each))) > 1), ",")
    reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
    before = 0
    for row in reader:
        number, before = before + 1, reader.line_num
        if row:
            yield number, row


def _check_header(path: Path, header: list[str], label: str | None, person: str | None) -> None:
    if not any(header):
        raise InvalidInput(f"{path}: the file is empty; the first row must name the columns")
    if "" in header:
        raise InvalidInput(
            f"{path}: column {header.index('') + 1} has no name; name it, or remove it if it only numbers the rows"
        )
    for name in (label, person):
        if name is not None and name not in header:
            # If the header is missing, the first row is a private record and must not be shown.
            if any(map(VALUE.match, header)):
                raise InvalidInput(
                    f"{path}: no column {name!r}; the first row must name the columns, and seems to contain values"
                )
            close = nearest(name, header)
            meant = f"; did you mean {close!r}?" if close else ""
            raise InvalidInput(f"{path}: no column {name!r}; the columns are {listed(header)}{meant}")
    if len(set(header)) < len(header):
        second = next(place for place, name in enumerate(header) if name in header[:place])
        first = header.index(header[second])
        raise InvalidInput(f"{path}: columns {first + 1} and {second + 1} have the same name; rename one")


def read_json_lines(path: Path, label: str | None, person: str | None) -> Frame:
    """The table in a file of JSON lines; rows are counted as lines, from 1.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> _ = file.write_text('{"age": 61, "outcome": "well"}\\n{"outcome": "ill"}\\n')
    >>> read_json_lines(file, "outcome", None).column("age").tolist()
    [61.0, nan]
    """
    lines: list[dict[str, Any]] = []
    rows: list[int] = []
    with open_text(path) as file:
        for row, line in enumerate(file, start=1):
            if line.strip():
                lines.append(_object(path, row, line))
                rows.append(row)
    if not lines:
        raise InvalidInput(f"{path}: the file has no rows")
    names = tuple(dict.fromkeys(name for line in lines for name in line))
    for name in (label, person):
        if name is not None:
            require_column(name, names, str(path))
    named = {name: _named(path, rows, lines, name) for name in (label, person) if name is not None}
    features = tuple(name for name in names if name not in named)
    return Frame(
        features,
        tuple(cells_of([line.get(name) for line in lines]) for name in features),
        None if label is None else named[label],
        None if person is None else named[person],
        str(path),
        np.array(rows, dtype=np.int64),
        HINT,
    )


def _object(path: Path, row: int, line: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise InvalidInput(f"{path}: row {row} has the same key twice; rename one")
        return found

    try:
        found = json.loads(line, object_pairs_hook=unique)
    except (json.JSONDecodeError, RecursionError):
        raise InvalidInput(f"{path}: row {row} is not JSON; write one object per line") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{path}: row {row} is not an object with one key per column")
    for name, value in found.items():
        if isinstance(value, dict | list):
            raise InvalidInput(f"{path}: row {row}, column {name!r}: a list or an object; give each value its own key")
    return found


def _named(path: Path, rows: list[int], lines: list[dict[str, Any]], name: str) -> Any:  # noqa: ANN401
    """The labels or persons, as text."""
    found = []
    for row, line in zip(rows, lines, strict=True):
        value = line.get(name)
        if value is None or value != value or not str(value).strip():
            raise InvalidInput(f"{path}: row {row}, column {name!r}: the value is missing; remove the row")
        found.append(str(value).strip())
    return np.array(found)


def read_arrow(path: Path, label: str | None, person: str | None) -> Frame:
    """The table in a Parquet, Arrow or Feather file; all columns but the label's and the person's are features.

    Rows count from 0.
    """
    parquet = path.suffix.lower() == ".parquet"
    kind = "a Parquet file" if parquet else "an Arrow file"
    try:
        reader = import_module("pyarrow.parquet" if parquet else "pyarrow.feather")
    except ModuleNotFoundError:
        said = "Parquet" if parquet else "Arrow"
        raise InvalidInput(f"{path}: {said} files need pyarrow: pip install 'tacit[tables]'") from None
    try:
        content = reader.read_table(path)
    except Exception as error:
        # pyarrow raises its own errors for damaged files, and their text may quote the file.
        raise InvalidInput(f"{path}: cannot be read as {kind} ({type(error).__name__})") from None
    names = column_names(content, str(path)) or ()
    for name in (label, person):
        if name is not None:
            require_column(name, names, str(path))
    return Frame(
        tuple(name for name in names if name not in (label, person)),
        tuple(_cells(content, name) for name in names if name not in (label, person)),
        None if label is None else named_values(_cells(content, label), str(path), label),
        None if person is None else named_values(_cells(content, person), str(path), person),
        str(path),
        hint=HINT,
    )


def _cells(content: Any, name: str) -> Any:  # noqa: ANN401
    if hasattr(content, "select"):
        return frame_of(content.select([name]), name).cells[0]
    return cells_of(content.column(name).to_pylist())
