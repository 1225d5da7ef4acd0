"""A table as it is in its source: named columns of numbers, dates or text; missing values stay missing.

Files, data frames (pandas, polars), Arrow tables and structured arrays all become a ``Frame``; none of those packages
needs to be installed. ``as_numbers``, ``as_dates`` and ``as_levels`` convert one column, each cell by itself; a cell
that they cannot convert becomes a missing value, never an error.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, listed, nearest
from tacit.core.samples import column_names
from tacit.datasets.table import RowNumbers, Table, finite_or_missing, require_finite, row_number

__all__ = [
    "DATE_FORMATS", "Frame", "as_dates", "as_levels", "as_numbers", "as_texts", "cells_of", "frame_of",
    "is_frame", "is_missing", "named_values", "require_column",
]  # fmt: skip

# Float64 with nan, datetime64 with NaT, or objects (text, numbers, dates) with None.
Cells = NDArray[Any]

# Cells that mean a missing value; upper and lower case are the same.
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "<na>", "nat"))
DATE_FORMATS = ("iso", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
EPOCH = datetime.datetime(1970, 1, 1)
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?$")
LONGEST_LEVEL = 200


@dataclass(frozen=True)
class Frame:
    """Named columns with one cell per row, and the label and person columns that were requested.

    ``cells`` is one array per column, or one two-dimensional array of numbers. Error messages name a cell by
    ``source``, the file, and ``rows``, the number of each row in the file.

    >>> Frame(("age", "sex"), (np.array([61.0]), np.array(["f"], dtype=object))).columns
    ('age', 'sex')
    """

    columns: tuple[str, ...]
    cells: Sequence[Cells] | NDArray[np.float64]
    labels: NDArray[Any] | None = None
    persons: NDArray[Any] | None = None
    source: str = "the table"
    rows: RowNumbers = 0
    hint: str = ""

    def __len__(self) -> int:
        if isinstance(self.cells, np.ndarray):
            return len(self.cells)
        return len(self.cells[0]) if self.cells else 0 if self.labels is None else len(self.labels)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: ANN401
        return np.asarray(self.numbers().samples, dtype=dtype)

    def column(self, name: str) -> Cells:
        """The cells of a column."""
        place = self.columns.index(name)
        return self.cells[:, place] if isinstance(self.cells, np.ndarray) else self.cells[place]

    def take(self, names: Sequence[str]) -> Frame:
        """The same rows with these columns, in this order."""
        if tuple(names) == self.columns:
            return self
        if isinstance(self.cells, np.ndarray):
            order = [self.columns.index(name) for name in names]
            return replace(self, columns=tuple(names), cells=np.ascontiguousarray(self.cells[:, order]))
        return replace(self, columns=tuple(names), cells=tuple(self.column(name) for name in names))

    def apart(self, label: str | None, *owners: str | None) -> tuple[Frame, Cells | None, tuple[Cells | None, ...]]:
        """The other columns, and the cells of the label column and of the columns that name the owners of the rows."""
        named = [name for name in (label, *owners) if name is not None]
        for name in named:
            require_column(name, self.columns, self.source)
        rest = self.take([name for name in self.columns if name not in named])
        found = [None if name is None else self.column(name) for name in (label, *owners)]
        return rest, found[0], tuple(found[1:])

    def numbers(self, strict: bool = True) -> Table:
        """The frame as a table of finite numbers; the first cell that is not one raises an error, or becomes NaN.

        >>> Frame(("age", "sex"), (np.array([61.0]), np.array(["f"], dtype=object)), source="a.csv").numbers()
        Traceback (most recent call last):
            ...
        tacit.core.errors.InvalidInput: a.csv: row 0, column 'sex': not a number
        """
        if isinstance(self.cells, np.ndarray):
            values = self.cells
        else:
            read = [as_numbers(column) for column in self.cells]
            if strict:
                self._require_numbers(read)
            values = np.column_stack(read) if read else np.empty((len(self), 0))
        table = Table(self.source, self.columns, values, self.labels, self.persons, self.rows, named=True)
        return require_finite(table) if strict else finite_or_missing(table)

    def _require_numbers(self, read: Sequence[NDArray[np.float64]]) -> None:
        """Refuse the first cell, row by row, that is not a number."""
        first: tuple[int, int] | None = None
        for column, (values, cells) in enumerate(zip(read, self.cells, strict=True)):
            if cells.dtype.kind == "f":
                continue
            # The text "nan" becomes NaN, which require_finite refuses with its own message.
            bad = [row for row in np.flatnonzero(np.isnan(values)).tolist() if not _says_nan(cells[row])]
            if bad and (first is None or bad[0] < first[0]):
                first = bad[0], column
        if first is not None:
            raise InvalidInput(f"{self._place(*first)}: {self._advice(self.cells[first[1]][first[0]])}")

    def _place(self, row: int, column: int) -> str:
        return f"{self.source}: row {row_number(self.rows, row)}, column {self.columns[column]!r}"

    def _advice(self, cell: object) -> str:
        if is_missing(cell):
            blank = (
                "an empty cell is not a number" if isinstance(cell, str) and not cell.strip() else "a value is missing"
            )
            return f"{blank}; fill in missing values by a rule, remove the row, or name the kind: mixed"
        if isinstance(cell, str) and not math.isnan(number(cell.replace(",", ".", 1))):
            return "not a number; write decimals with a point"
        return f"not a number{self.hint}"


def require_column(name: str, columns: Sequence[str], source: str) -> None:
    """Refuse a name that no column has, with the nearest that one has.

    >>> require_column("outcom", ("age", "outcome"), "a.csv")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a.csv: no column 'outcom'; the columns are age, outcome; did you mean 'outcome'?
    """
    if name not in columns:
        close = nearest(name, columns)
        meant = f"; did you mean {close!r}?" if close else ""
        raise InvalidInput(f"{source}: no column {name[:80]!r}; the columns are {listed(columns)}{meant}")


def named_values(column: Cells, source: str, name: str) -> NDArray[Any]:
    """The labels or persons in a column, as text; a missing one is refused.

    >>> named_values(np.array([1.0, 2.5]), "a.parquet", "outcome").tolist()
    ['1', '2.5']
    """
    found = [each.strip() if isinstance(each, str) else _level(each) for each in column.tolist()]
    for row, value in enumerate(found):
        if value is None or value.lower() in ("", "nan"):
            raise InvalidInput(f"{source}: row {row}, column {name!r}: the value is missing; remove the row")
    return np.array(found)


def is_frame(values: object) -> bool:
    """Whether the values are a table with named columns: a frame, a data frame, an Arrow table, a structured array.

    >>> is_frame(np.zeros(2, dtype=[("age", "f8")])), is_frame(np.zeros((2, 1)))
    (True, False)
    """
    if isinstance(values, np.ndarray):
        return values.dtype.names is not None
    found = getattr(values, "column_names", getattr(values, "columns", None))
    return isinstance(values, Frame) or (found is not None and not callable(found))


def frame_of(values: Any, what: str) -> Frame:  # noqa: ANN401
    """The values as a frame; a plain array's columns are numbered.

    >>> frame_of(np.array([["a", 1.5], ["b", None]], dtype=object), "samples").column("1").tolist()
    [1.5, nan]
    """
    if isinstance(values, Frame):
        return values
    if isinstance(values, np.ndarray):
        names = values.dtype.names
        if names is not None:
            return Frame(tuple(names), tuple(cells_of(values[name]) for name in names), source=what)
        return Frame(
            tuple(map(str, range(values.shape[1]))), tuple(cells_of(each) for each in values.T), source=what
        )  # fmt: skip
    names = column_names(values, what)
    if hasattr(values, "iloc"):  # pandas
        columns = [_pandas(values.iloc[:, place]) for place in range(values.shape[1])]
    elif hasattr(values, "get_columns"):  # polars
        columns = [cells_of(np.asarray(each)) for each in values.get_columns()]
    elif hasattr(values, "column_names"):  # Arrow
        columns = [_arrow(values.column(place)) for place in range(values.num_columns)]
    else:
        columns = [cells_of(each) for each in np.asarray(values).T]
    return Frame(names or tuple(map(str, range(len(columns)))), tuple(columns), source=what)


def _pandas(column: Any) -> Cells:  # noqa: ANN401
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf":
        return np.asarray(column.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "M":
        return np.asarray(column.to_numpy(dtype="datetime64[ms]"))
    found = np.array(column.to_numpy(dtype=object), dtype=object)
    found[column.isna().to_numpy()] = None
    return cells_of(found)


def _arrow(column: Any) -> Cells:  # noqa: ANN401
    """A column of an Arrow table; categories are decoded."""
    kind = str(getattr(column, "type", ""))
    if kind.startswith(("int", "uint", "float", "double", "halffloat", "date", "timestamp")):
        return cells_of(np.asarray(column))
    return cells_of(column.to_pylist())


def cells_of(values: Sequence[Any] | NDArray[Any]) -> Cells:
    """One column as numbers, dates, or objects.

    >>> cells_of([True, None, 2]).tolist(), cells_of(["a", float("nan")]).tolist()
    ([1.0, nan, 2.0], ['a', None])
    """
    found = values if isinstance(values, np.ndarray) else _objects(values)
    if found.dtype.kind in "biuf":
        return found.astype(np.float64)
    if found.dtype.kind == "M":
        return found.astype("datetime64[ms]")
    plain = _objects([_plain(each) for each in found.tolist()])
    if all(each is None or isinstance(each, float) for each in plain):
        return np.array([math.nan if each is None else each for each in plain], dtype=np.float64)
    return plain


def _objects(values: Iterable[Any]) -> NDArray[Any]:
    listed_values = list(values)
    found = np.empty(len(listed_values), dtype=object)
    found[:] = listed_values
    return found


def _plain(cell: Any) -> Any:  # noqa: ANN401
    """A cell as a float, text, a date or None."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool | int | float | np.number | np.bool_):
        try:
            value = float(cell)
        except OverflowError:
            return math.inf
        return None if math.isnan(value) else value
    if isinstance(cell, datetime.date):
        return None if cell != cell else cell
    if type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, np.datetime64):
        return cell.astype("datetime64[ms]").item()
    return str(cell)


def is_missing(cell: object) -> bool:
    """Whether a cell is a missing value: None, NaN, or a text such as "n/a".

    >>> is_missing(" N/A "), is_missing(None), is_missing("0")
    (True, True, False)
    """
    return cell is None or (isinstance(cell, float) and cell != cell) or (
        isinstance(cell, str) and cell.strip().lower() in MISSING
    )  # fmt: skip


def _says_nan(cell: object) -> bool:
    return isinstance(cell, str) and cell.strip().lower() == "nan"


def number(cell: object) -> float:
    """A cell as a number, NaN where it is not one; true and false are 1 and 0.

    >>> number(" 2.5 "), number("True"), number("1_000"), number("ill")
    (2.5, 1.0, nan, nan)
    """
    if isinstance(cell, float):
        return cell
    if not isinstance(cell, str):
        return math.nan
    found = as_read(cell)
    return found if isinstance(found, float) else {"true": 1.0, "false": 0.0}.get(cell.strip().lower(), math.nan)


def as_read(cell: object) -> object:
    """A cell as a number, if it is a text that a reader of files takes for one; any other cell is not changed.

    A reader returns numbers for a column of which every cell is one. So that a cell means the same whatever the other
    rows have, its text must mean what the number means.

    >>> as_read("01"), as_read("1_000"), as_read("ill")
    (1.0, '1_000', 'ill')
    """
    if not isinstance(cell, str) or "_" in cell:
        return cell
    try:
        return float(cell)
    except ValueError:
        return cell


def as_numbers(column: Cells) -> NDArray[np.float64]:
    """The cells as numbers, NaN where one is missing or not a number.

    >>> as_numbers(np.array(["1", 2.0, "ill", None], dtype=object)).tolist()
    [1.0, 2.0, nan, nan]
    """
    if column.dtype.kind == "f":
        return column
    return _each(column, number, math.nan, np.float64)


def as_dates(column: Cells, written: str = "iso") -> NDArray[np.float64]:
    """The cells as days since 1970, NaN where one is missing or not a date in the format ``written``.

    >>> as_dates(np.array(["1970-01-02", "soon"], dtype=object)).tolist()
    [1.0, nan]
    >>> as_dates(np.array(["03.01.1970"], dtype=object), "%d.%m.%Y").tolist()
    [2.0]
    """
    if column.dtype.kind == "M":
        days = column.astype("datetime64[ms]").astype(np.int64) / 86_400_000
        return np.where(np.isnat(column), math.nan, days)
    return _each(column, lambda cell: _days(cell, written), math.nan, np.float64)


def as_levels(column: Cells) -> NDArray[Any]:
    """The cells as names of categories, None where one is missing; 1, "01" and 1.0 are the same category.

    >>> as_levels(np.array(["a ", 1.0, "01", "?", "True"], dtype=object)).tolist()
    ['a', '1', '1', None, 'true']
    """
    if column.dtype.kind == "f":
        values, inverse = np.unique(column, return_inverse=True)
        return _objects([_level(float(each)) for each in values])[inverse]
    if column.dtype.kind == "M":
        return _objects([None if np.isnat(each) else str(each) for each in column])
    return _each(column, _level, None, object)


def as_texts(column: Cells) -> list[str]:
    """The cells as texts; a missing one is the empty text, and 3, "03" and 3.0 are the same text.

    >>> as_texts(np.array(["A cough.", None, 3.0, "03"], dtype=object))
    ['A cough.', '', '3', '3']
    """
    return [each if isinstance(each, str) else _level(each) or "" for each in map(as_read, column.tolist())]


def _each(column: Cells, read: Callable[[Any], Any], missing: Any, dtype: Any) -> NDArray[Any]:  # noqa: ANN401
    """The value that ``read`` gives for each cell; equal cells are read once."""
    cells = column.tolist()
    known = {cell: missing if is_missing(cell) else read(cell) for cell in set(cells)}
    found = np.empty(len(cells), dtype=dtype)
    found[:] = [known[cell] for cell in cells]
    return found


def _days(cell: object, written: str) -> float:
    moment: Any = cell
    try:
        if isinstance(cell, str):
            text = cell.strip()
            if written != "iso":
                moment = datetime.datetime.strptime(text, written)
            elif ISO_DATE.match(text):
                moment = datetime.datetime.fromisoformat(text)
        if isinstance(moment, datetime.datetime):
            if moment.tzinfo is not None:
                moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
            return float((moment - EPOCH).total_seconds() / 86_400)
        if isinstance(moment, datetime.date):
            return float((moment - EPOCH.date()).days)
    except (ValueError, OverflowError):
        pass
    return math.nan


def _level(cell: object) -> str | None:
    cell = as_read(cell)
    if is_missing(cell):
        return None
    if isinstance(cell, str):
        text = "".join(each for each in " ".join(cell.split()) if each.isprintable())[:LONGEST_LEVEL]
        return text.lower() if text.lower() in ("true", "false") else text
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)
