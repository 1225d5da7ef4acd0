"""What a mechanism accepts as a table of counts: whole numbers, far enough from the end of 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers

__all__ = ["count_rows", "count_table"]

# Differences of two such counts, and any of them with noise, still fit in 64 bits.
LARGEST = 2**61


def count_table(table: NDArray[Any]) -> Integers:
    """The table as int64; anything but whole numbers of at most 2^61 is refused, never rounded.

    >>> count_table(np.array([1, 2], dtype=np.uint8)).dtype
    dtype('int64')
    """
    table = np.asarray(table)
    if table.dtype.kind not in "iu":
        raise InvalidInput(f"table must hold integers, got {table.dtype}")
    if table.size and (table.max() > LARGEST or table.min() < -LARGEST):
        raise InvalidInput("table must hold integers in [-2^61, 2^61]")
    return table.astype(np.int64)


def count_rows(table: NDArray[Any]) -> Integers:
    """A table with one row a query and one column a label.

    >>> count_rows(np.zeros((2, 3), dtype=int)).shape
    (2, 3)
    """
    rows = count_table(table)
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise InvalidInput(f"table must have one row a query and at least one column, got shape {rows.shape}")
    return rows
