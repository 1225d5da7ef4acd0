"""Tables of numbers with a label column, from CSV and npz files.

Every complaint names the file, the row and the column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.datasets.archives import read_npz
from tacit.datasets.delimited import read_csv
from tacit.datasets.table import Table, row_number

__all__ = ["Table", "align", "read_table", "row_marks", "rows_in_common"]

ARRAY_OF_FILE = re.compile(r"(?P<file>.+\.npz):(?P<array>[^:/\\]+)", re.IGNORECASE)
# Distances are squared and added up in single precision, which ends at 3e38.
LARGEST = 1e18
BLOCK = 4096


def read_table(path: str | Path, label: str | None = None, person: str | None = None) -> Table:
    """The table in a ``.csv`` file with a header, or an ``.npz`` file with an array of samples beside the named ones.

    In an npz file the samples are the array ``X``, or the one that is named: ``scans.npz:train_images``.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text("age,dose,outcome\\n61,2.5,well\\n")
    >>> read_table(file, label="outcome").labels.tolist()
    ['well']
    """
    path, array = Path(path), None
    if label is not None and label == person:
        raise InvalidInput(f"{label!r} cannot be the label and the person at once; name two columns")
    try:
        if not path.exists() and (parts := ARRAY_OF_FILE.fullmatch(str(path))):
            path, array = Path(parts["file"]), parts["array"]
        if not path.is_file():
            what = "a folder" if path.is_dir() else "a device or a pipe"
            raise InvalidInput(f"{path}: {f'{what}, not a file' if path.exists() else 'no such file'}")
        match path.suffix.lower():
            case ".csv":
                table = read_csv(path, label, person)
            case ".npz":
                table = read_npz(path, label, person, array)
            case other:
                raise InvalidInput(
                    f"{path}: cannot read {other or 'a file without a suffix'}; give a .csv or .npz file"
                )
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from None
    _check(table)
    return table


def _check(table: Table) -> None:
    if not len(table.samples):
        raise InvalidInput(f"{table.source}: the file has no rows")
    if not table.columns:
        raise InvalidInput(f"{table.source}: no feature columns are left beside the label")
    flat = table.samples.reshape(len(table.samples), -1)
    # A comparison with nan is false, so this finds what is missing, too.
    bad = np.argwhere(~(np.abs(flat) <= LARGEST))
    if len(bad):
        row, column = map(int, bad[0])
        value = flat[row, column]
        why = (
            f"is too large, the limit is {LARGEST:g}; choose another unit for the column"
            if np.isfinite(value)
            else "is not a finite number; remove or fill in missing values"
        )
        number = row_number(table.rows, row)
        raise InvalidInput(f"{table.source}: row {number}, column {table.columns[column]!r}: {value:g} {why}")


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
    if private.columns == public.columns:
        return private
    order = [private.columns.index(name) for name in public.columns]
    flat = private.samples.reshape(len(private.samples), -1)
    return replace(private, columns=public.columns, samples=flat[:, order])


def rows_in_common(private: NDArray[Any], public: NDArray[Any]) -> int:
    """How many public rows are exact copies of a private one.

    >>> rows_in_common(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    1
    """
    known = set(row_marks(private))
    return sum(mark in known for mark in row_marks(public))


def row_marks(samples: NDArray[Any]) -> Iterator[int]:
    """A number for every row, equal for rows of equal numbers whatever their type and shape.

    >>> list(row_marks(np.array([[1, 0]]))) == list(row_marks(np.array([[[1.0], [-0.0]]])))
    True
    """
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        # Adding 0 makes equal zeros of both signs.
        rows = np.ascontiguousarray(block.reshape(len(block), -1), dtype=np.float64) + 0.0
        yield from (hash(row.tobytes()) for row in rows)
