"""Tables from text files of separated values, as spreadsheets and data frames write them.

Separators are commas, semicolons or tabs, whichever the header has. Rows are counted as an editor counts lines, blank
ones too: the header is usually row 1. No message shows what is in a cell: the file may be a private one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, listed, nearest
from tacit.datasets.compressed import open_text
from tacit.datasets.frame import Frame

__all__ = ["read_csv"]

ROWS_AT_A_TIME = 20_000
SEPARATORS = ",;\t"
# A cell that is more likely a number, a date or a missing value than the name of a column.
VALUE = re.compile(r"[\"'<>=~]*[-+−]?[.,]?\d|(n/?an?|null|none|inf|-inf|missing|unknown|[?.*–—-]+)$", re.IGNORECASE)
ADVICE = (
    ". Features must be numbers: turn text into numbers by a rule that was made without looking at private records, "
    "in both files alike, or leave the column out"
)


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
    """Some rows as one table of numbers, or where a cell is none, as columns of numbers and of text."""
    whole = _numbers(cells)
    if whole is not None:
        return whole.reshape(len(cells), width)
    found = []
    for column in zip(*cells, strict=True):
        read = _numbers(column)
        found.append(np.array(column, dtype=object) if read is None else read)
    return found


def _numbers(cells: Any) -> NDArray[np.float64] | None:  # noqa: ANN401
    """The cells as numbers, if all are; Python would read 1_000 as a thousand, in a file it is more likely a code."""
    try:
        found = np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    return None if any("_" in "".join(row) for row in (cells if found.ndim > 1 else [cells])) else found


def _joined(chunks: list[list[NDArray[Any]] | NDArray[np.float64]]) -> Any:  # noqa: ANN401
    """The chunks below one another."""
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
            # Where the header is missing, the first row is a record, and no name to be shown.
            if any(map(VALUE.match, header)):
                raise InvalidInput(
                    f"{path}: no column {name!r}; the first row seems to hold values, and must name the columns"
                )
            close = nearest(name, header)
            meant = f"; is {close!r} meant?" if close else ""
            raise InvalidInput(f"{path}: no column {name!r}; the columns are {listed(header)}{meant}")
    if len(set(header)) < len(header):
        second = next(place for place, name in enumerate(header) if name in header[:place])
        first = header.index(header[second])
        raise InvalidInput(f"{path}: columns {first + 1} and {second + 1} have the same name; rename one")
