"""A table: one sample per row, with the label and the person of each; and the list of classes.

The list of classes is public and declared by the user; a label is an index into it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, listed
from tacit.core.samples import Named

__all__ = [
    "LARGEST_NUMBER", "RowNumbers", "Table", "class_indices", "class_places", "finite_or_missing", "plain",
    "read_classes", "require_finite", "row_number",
]  # fmt: skip

# Distances are squared and added up in single precision, which ends at 3e38.
LARGEST_NUMBER = 1e18
RowNumbers = int | Integers  # the number of every row in its file, or of the first where they follow one another
UNSEEN = -1


@dataclass(frozen=True)
class Table:
    """Samples with named feature columns, and the label and person columns that were requested.

    Samples are (n, features), or images as they were given: (n, height, width) or with channels. ``rows`` are the row
    numbers of the file, for error messages. Sets of labels are a table with one named column per label. Columns are
    ``named`` where the file names them; elsewhere their names are indices.
    """

    source: str
    columns: tuple[str, ...]
    samples: NDArray[np.float64]
    labels: Any = None  # one per sample, or a Named table of sets
    persons: NDArray[Any] | None = None
    rows: RowNumbers = 0
    named: bool = False

    @property
    def frame(self) -> Named | NDArray[np.float64]:
        """The samples with the names of their columns, where the file gives them names.

        >>> Table("a.csv", ("x",), np.zeros((1, 1)), named=True).frame.columns
        ('x',)
        """
        return Named(self.samples, self.columns) if self.named else self.samples


def row_number(rows: RowNumbers, index: int) -> int:
    """The file's own number of the row at an index.

    >>> row_number(2, 5), row_number(np.array([2, 4, 7]), 1)
    (7, 4)
    """
    return rows + index if isinstance(rows, int) else int(rows[index])


def require_finite(table: Table) -> Table:
    """The table, if it has rows and columns and every number is finite and not too large.

    >>> require_finite(Table("a.csv", ("x",), np.array([[1.0], [np.nan]])))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a.csv: row 1, column 'x': not a finite number; remove or fill in missing values
    """
    if not len(table.samples):
        raise InvalidInput(f"{table.source}: the file has no rows")
    if not table.columns:
        raise InvalidInput(f"{table.source}: no feature columns are left besides the label")
    flat = table.samples.reshape(len(table.samples), -1)
    # A comparison with NaN is false, so this finds missing values, too.
    bad = np.argwhere(~(np.abs(flat) <= LARGEST_NUMBER))
    if len(bad):
        row, column = map(int, bad[0])
        why = (
            f"too large, the limit is {LARGEST_NUMBER:g}; choose another unit for the column"
            if np.isfinite(flat[row, column])
            else "not a finite number; remove or fill in missing values"
        )
        raise InvalidInput(
            f"{table.source}: row {row_number(table.rows, row)}, column {table.columns[column]!r}: {why}"
        )
    return table


def finite_or_missing(table: Table) -> Table:
    """The table with NaN in place of every number that ``require_finite`` refuses.

    >>> finite_or_missing(Table("a.csv", ("x",), np.array([[1.0], [np.inf]]))).samples.tolist()
    [[1.0], [nan]]
    """
    if table.samples.dtype.kind != "f":
        return table
    return replace(table, samples=np.where(np.abs(table.samples) <= LARGEST_NUMBER, table.samples, np.nan))


def read_classes(text: str) -> list[str]:
    """Classes as typed, ``a,b,c``, or from a file: ``.txt`` with one per line, ``.json`` with a list of them.

    A JSON file may also be a schema: an object with the list under ``"classes"``.

    >>> read_classes("benign, malignant")
    ['benign', 'malignant']
    """
    path = Path(text)
    try:
        match path.suffix.lower():
            case ".txt":
                names = path.read_text(encoding="utf-8-sig").splitlines()
            case ".json":
                content = json.loads(path.read_text(encoding="utf-8-sig"))
                names = content["classes"] if isinstance(content, dict) else content
                if not isinstance(names, list):
                    raise InvalidInput(f"{path}: 'classes' must be a list")
            case _:
                names = text.split(",")
    except InvalidInput:
        raise
    except OSError as error:
        raise InvalidInput(f"{path}: cannot read the classes ({error.strerror})") from None
    except (ValueError, KeyError) as error:
        raise InvalidInput(f"{path}: cannot read the classes ({type(error).__name__}: {error})") from None
    return check_classes([str(name).strip() for name in names if str(name).strip()])


def check_classes(classes: Sequence[Any]) -> list[Any]:
    """The classes, if there are at least two and all differ."""
    if len(set(classes)) < len(classes):
        raise InvalidInput("a class is listed twice in classes")
    if len(classes) < 2:
        raise InvalidInput("at least two classes are needed; list them all, including those that no record has")
    return list(classes)


def plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as numbers or text: arrays of Python objects, as pandas makes them, become text.

    >>> plain(np.array(["ill", "well"], dtype=object)).dtype.kind
    'U'
    """
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def class_indices(
    labels: NDArray[Any], classes: NDArray[Any], source: str = "labels", rows: RowNumbers = 0, column: str | None = None
) -> Integers:
    """The index of every label in the list of classes; the first label that is not in it raises an error.

    The error names the row, and the column where it is known, but not the label, which is private.

    A label matches the class that is spelled the same. If there is none, it matches the class of equal value, if
    exactly one has it: 1, 1.0, "1" and True are equal, and so are 0, "0.0" and False.

    >>> class_indices(np.array(["b", "a"]), np.array(["a", "b"])).tolist()
    [1, 0]
    >>> class_indices(np.array([1.0, 0.0]), np.array(["0", "1"])).tolist()
    [1, 0]
    """
    where = "" if column is None else f", column {column!r}"
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        row = row_number(rows, int(np.flatnonzero(np.isnan(labels))[0]))
        raise InvalidInput(f"{source}: row {row}{where}: the label is missing (nan); remove the row")
    found, inverse = np.unique(labels, return_inverse=True)
    indices = class_places(found.tolist(), classes)[inverse]
    unseen = np.flatnonzero(indices == UNSEEN)
    if len(unseen):
        row = int(unseen[0])
        raise InvalidInput(
            f"{source}: row {row_number(rows, row)}{where}: the label is not one of the classes "
            f"({listed([str(name) for name in classes.tolist()])})"
        )
    return indices


def class_places(labels: Sequence[Any], classes: NDArray[Any]) -> Integers:
    """The index of each label in the list of classes, -1 where it is not in the list.

    >>> class_places(["b", 1, "?"], np.array(["a", "b", "1.0"])).tolist()
    [1, 2, -1]
    """
    names = check_classes(classes.tolist())
    written = {str(name): index for index, name in enumerate(names)}
    values = [_value(name) for name in names]

    def place(label: Any) -> int:  # noqa: ANN401
        if (exact := written.get(str(label))) is not None:
            return exact
        value = _value(label)
        return values.index(value) if value is not None and values.count(value) == 1 else UNSEEN

    return np.array([place(label) for label in labels], dtype=np.int64)


def _value(name: Any) -> float | None:  # noqa: ANN401
    """A label as a number, None where it is text."""
    text = str(name).strip()
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        value = float(text)
    except ValueError:
        return None
    # Python reads 1_000 as a thousand; as a label it is a name.
    return value if math.isfinite(value) and "_" not in text else None
