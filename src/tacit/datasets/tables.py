"""Tables of numbers with a label column, from CSV and npz files.

Every complaint names the file, the row and the column. Rows are counted as an editor counts lines: the header
is row 1.
"""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["Table", "align", "read_table", "rows_in_common"]

ROWS_AT_A_TIME = 20_000


@dataclass(frozen=True)
class Table:
    """Samples with named feature columns, and the label and person columns that were asked for."""

    source: str
    columns: tuple[str, ...]
    samples: NDArray[np.float64]
    labels: NDArray[Any] | None = None
    persons: NDArray[Any] | None = None
    first_row: int = 2


def read_table(path: str | Path, label: str | None = None, person: str | None = None) -> Table:
    """The table in a ``.csv`` file with a header, or an ``.npz`` file with an array ``X`` beside the named ones.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text("age,dose,outcome\\n61,2.5,well\\n")
    >>> read_table(file, label="outcome").labels.tolist()
    ['well']
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    match path.suffix.lower():
        case ".csv":
            table = _read_csv(path, label, person)
        case ".npz":
            table = _read_npz(path, label, person)
        case other:
            raise InvalidInput(f"{path}: cannot read {other or 'a file without a suffix'}; give a .csv or .npz file")
    if not len(table.samples):
        raise InvalidInput(f"{path}: the file has no rows")
    if not table.samples.shape[1]:
        raise InvalidInput(f"{path}: no feature columns are left beside the label")
    bad = np.argwhere(~np.isfinite(table.samples))
    if len(bad):
        row, column = bad[0]
        raise InvalidInput(
            f"{path}: row {row + table.first_row}, column {table.columns[column]!r}: "
            f"{table.samples[row, column]} is not a finite number; remove or fill in missing values"
        )
    return table


def _read_csv(path: Path, label: str | None, person: str | None) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = next(reader, None)
            if not header:
                raise InvalidInput(f"{path}: the file is empty; the first row must name the columns")
            if len(set(header)) < len(header):
                repeated = next(name for name in header if header.count(name) > 1)
                raise InvalidInput(f"{path}: two columns are named {repeated!r}")
            for name in (label, person):
                if name is not None and name not in header:
                    raise InvalidInput(f"{path}: no column {name!r}; the columns are {', '.join(header)}")
            features = [index for index, name in enumerate(header) if name not in (label, person)]
            chunks: list[NDArray[np.float64]] = []
            rows: list[list[str]] = []
            labels: list[str] = []
            persons: list[str] = []
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise InvalidInput(f"{path}: row {reader.line_num} has {len(row)} cells, the header {len(header)}")
                rows.append([row[index] for index in features])
                if label is not None:
                    labels.append(row[header.index(label)])
                if person is not None:
                    if not row[header.index(person)].strip():
                        raise InvalidInput(f"{path}: row {reader.line_num}, column {person!r}: whose record is this?")
                    persons.append(row[header.index(person)])
                if len(rows) == ROWS_AT_A_TIME:
                    chunks.append(_numbers(path, rows, [header[index] for index in features], sum(map(len, chunks))))
                    rows = []
            chunks.append(_numbers(path, rows, [header[index] for index in features], sum(map(len, chunks))))
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: not a text file in UTF-8") from None
    except csv.Error as error:
        raise InvalidInput(f"{path}: row {reader.line_num}: {error}") from None
    return Table(
        str(path),
        tuple(header[index] for index in features),
        np.concatenate(chunks),
        np.array(labels) if label is not None else None,
        np.array(persons) if person is not None else None,
    )


def _numbers(path: Path, rows: list[list[str]], columns: list[str], before: int) -> NDArray[np.float64]:
    """The cells as numbers, or an error at the first that is none."""
    try:
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(columns))
    except ValueError:
        for index, row in enumerate(rows):
            for column, cell in zip(columns, row, strict=True):
                try:
                    float(cell)
                except ValueError:
                    shown = repr(cell) if cell.strip() else "an empty cell"
                    raise InvalidInput(
                        f"{path}: row {before + index + 2}, column {column!r}: {shown} is not a number"
                    ) from None
        raise


def _read_npz(path: Path, label: str | None, person: str | None) -> Table:
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in ("X", label, person):
                if name is not None and name not in archive:
                    raise InvalidInput(f"{path}: no array {name!r}; the arrays are {', '.join(archive)}")
            samples = archive["X"]
            labels = None if label is None else archive[label]
            persons = None if person is None else archive[person]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path}: not an npz file of plain arrays ({error})") from None
    if samples.ndim < 2 or samples.dtype.kind not in "fiub":
        raise InvalidInput(
            f"{path}: array 'X' must hold numbers, one row a sample; it is {samples.dtype}{samples.shape}"
        )
    for name, column in ((label, labels), (person, persons)):
        if column is not None and column.shape != (len(samples),):
            raise InvalidInput(f"{path}: array {name!r} has shape {column.shape} for {len(samples)} samples")
    rows = samples.reshape(len(samples), -1).astype(np.float64)
    return Table(str(path), tuple(f"X[{i}]" for i in range(rows.shape[1])), rows, labels, persons, first_row=0)


def align(private: Table, public: Table) -> Table:
    """The private table with its columns in the public table's order, or an error that names the difference.

    >>> a = Table("a.csv", ("x", "y"), np.array([[1.0, 2.0]]))
    >>> b = Table("b.csv", ("y", "x"), np.array([[5.0, 6.0]]))
    >>> align(a, b).samples.tolist()
    [[2.0, 1.0]]
    """
    if len(private.columns) != len(public.columns) or set(private.columns) != set(public.columns):
        missing = [name for name in private.columns if name not in public.columns]
        extra = [name for name in public.columns if name not in private.columns]
        details = [f"only in the private file: {', '.join(missing)}"] if missing else []
        details += [f"only in the public file: {', '.join(extra)}"] if extra else []
        raise InvalidInput(
            f"{private.source} has {len(private.columns)} feature columns and {public.source} has "
            f"{len(public.columns)}; they must be the same ({'; '.join(details)})"
        )
    order = [private.columns.index(name) for name in public.columns]
    return Table(
        private.source, public.columns, private.samples[:, order], private.labels, private.persons, private.first_row
    )


def rows_in_common(private: NDArray[Any], public: NDArray[Any]) -> int:
    """How many public rows are exact copies of a private one.

    >>> rows_in_common(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    1
    """
    known = {hash(row.tobytes()) for row in np.ascontiguousarray(private, dtype=np.float64)}
    return sum(hash(row.tobytes()) in known for row in np.ascontiguousarray(public, dtype=np.float64))
