"""A table: samples a row, with the label and the person of each where they were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Integers

__all__ = ["Rows", "Table", "row_number"]

Rows = int | Integers  # the number of every row in its file, or of the first where they follow one another


@dataclass(frozen=True)
class Table:
    """Samples with named feature columns, and the label and person columns that were asked for.

    Samples are (n, features), or images as they were given: (n, height, width) or with channels. ``rows`` is how
    the file numbers them, for complaints.
    """

    source: str
    columns: tuple[str, ...]
    samples: NDArray[np.float64]
    labels: NDArray[Any] | None = None
    persons: NDArray[Any] | None = None
    rows: Rows = 0


def row_number(rows: Rows, index: int) -> int:
    """What the file calls the row at an index.

    >>> row_number(2, 5), row_number(np.array([2, 4, 7]), 1)
    (7, 4)
    """
    return rows + index if isinstance(rows, int) else int(rows[index])
