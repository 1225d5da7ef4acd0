"""Tables from text files of separated values, as spreadsheets and data frames write them.

Separators are commas, semicolons or tabs, whichever the header has. Cells lose surrounding spaces. Rows are
counted as an editor counts lines, blank ones too: the header is usually row 1.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.datasets.table import Table

__all__ = ["read_csv"]

ROWS_AT_A_TIME = 20_000
SEPARATORS = ",;\t"


def read_csv(path: Path, label: str | None, person: str | None) -> Table:
    """The table in a text file whose first row names the columns.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text('age;"dose";outcome\\n61; 2.5; well\\n')
    >>> read_csv(file, "outcome", None).samples.tolist()
    [[61.0, 2.5]]
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _read(path, file, label, person)
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path}: not a text file in UTF-8{_first_bad_byte(path)}; save it as UTF-8 and try again"
        ) from None
    except csv.Error as error:
        raise InvalidInput(f"{path}: not a table of separated values ({error})") from None


def _read(path: Path, file: TextIO, label: str | None, person: str | None) -> Table:
    lines = _records(file)
    header = [name.strip() for name in next(lines, (0, []))[1]]
    _check_header(path, header, label, person)
    features = [index for index, name in enumerate(header) if name not in (label, person)]
    columns = [header[index] for index in features]
    chunks: list[NDArray[np.float64]] = []
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
                raise InvalidInput(f"{path}: row {number}, column {person!r}: whose record is this?")
        if len(cells) == ROWS_AT_A_TIME:
            chunks.append(_numbers(path, cells, columns, numbers[-len(cells) :], label))
            cells = []
    chunks.append(_numbers(path, cells, columns, numbers[len(numbers) - len(cells) :], label))
    return Table(
        str(path),
        tuple(columns),
        np.concatenate(chunks),
        np.array(labels) if label is not None else None,
        np.array(persons) if person is not None else None,
        np.array(numbers, dtype=np.int64),
    )


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
    if len(set(header)) < len(header):
        repeated = next(name for name in header if header.count(name) > 1)
        raise InvalidInput(f"{path}: two columns are named {repeated!r}; rename one")
    for name in (label, person):
        if name is not None and name not in header:
            raise InvalidInput(f"{path}: no column {name!r}; the columns are {', '.join(header)}")


def _numbers(
    path: Path, cells: list[list[str]], columns: list[str], numbers: list[int], label: str | None
) -> NDArray[np.float64]:
    """The cells as numbers, or an error at the first that is none."""
    try:
        # Python would read 1_000 as a thousand; in a file it is more likely a code.
        if not any("_" in "".join(row) for row in cells):
            return np.array(cells, dtype=np.float64).reshape(len(cells), len(columns))
    except ValueError:
        pass
    for number, row in zip(numbers, cells, strict=True):
        for column, cell in zip(columns, row, strict=True):
            if not _is_number(cell):
                raise InvalidInput(f"{path}: row {number}, column {column!r}: {_advice(cell, label)}")
    raise AssertionError("unreachable: numpy reads what Python reads")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _advice(cell: str, label: str | None) -> str:
    if not cell.strip():
        return "an empty cell is not a number; fill in missing values by a rule, or remove the row"
    if _is_number(cell.replace(",", ".", 1)):
        return f"{cell!r} is not a number; write decimals with a point"
    text = (
        f"{cell!r} is not a number. Features must be numbers: turn text into numbers by a rule that was made without "
        "looking at private records, in both files alike, or leave the column out"
    )
    return text if label is not None else f"{text}. If it is the label, remove it: public samples are unlabeled"


def _first_bad_byte(path: Path) -> str:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f" (row {number} has the byte {line[error.start]:#04x})"
    return ""
