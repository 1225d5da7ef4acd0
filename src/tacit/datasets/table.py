"""A table: one sample per row, with the label and the person of each where they were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.samples import Named

__all__ = ["LARGEST", "Rows", "Table", "require_finite", "row_number"]

# Distances are squared and added up in single precision, which ends at 3e38.
LARGEST = 1e18

Rows = int | Integers  # the number of every row in its file, or of the first where they follow one another


@dataclass(frozen=True)
class Table:
    """Samples with named feature columns, and the label and person columns that were asked for.

    Samples are (n, features), or images as they were given: (n, height, width) or with channels. ``rows`` is how
    the file numbers them, for complaints. Columns are ``named`` where the file gives them names; elsewhere their names
    are places.
    """

    source: str
    columns: tuple[str, ...]
    samples: NDArray[np.float64]
    labels: NDArray[Any] | None = None
    persons: NDArray[Any] | None = None
    rows: Rows = 0
    named: bool = False

    @property
    def frame(self) -> Named | NDArray[np.float64]:
        """The samples with the names of their columns, where the file gives them names.

        >>> Table("a.csv", ("x",), np.zeros((1, 1)), named=True).frame.columns
        ('x',)
        """
        return Named(self.samples, self.columns) if self.named else self.samples


def row_number(rows: Rows, index: int) -> int:
    """What the file calls the row at an index.

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
        raise InvalidInput(f"{table.source}: no feature columns are left beside the label")
    flat = table.samples.reshape(len(table.samples), -1)
    # A comparison with nan is false, so this finds what is missing, too.
    bad = np.argwhere(~(np.abs(flat) <= LARGEST))
    if len(bad):
        row, column = map(int, bad[0])
        why = (
            f"too large, the limit is {LARGEST:g}; choose another unit for the column"
            if np.isfinite(flat[row, column])
            else "not a finite number; remove or fill in missing values"
        )
        raise InvalidInput(
            f"{table.source}: row {row_number(table.rows, row)}, column {table.columns[column]!r}: {why}"
        )
    return table
