"""Arithmetic in which the order of additions cannot matter.

A record's features must depend on that record and on public data alone, to the last bit: a rounding that depends
on the other rows of a batch could tip a record from one query to another, and then one changed record moves more
votes than were paid for. A matrix product rounds a row by how many rows there are and where the row stands. So
encoders multiply whole numbers: values are snapped to multiples of a power of two, coarse enough that every
product and every sum is exact. Then every order of additions, batch size and machine gives the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["blocks", "exact_bits", "snapped"]

# Whole numbers up to 2^53 are exact in float64.
EXACT_BITS = 53
BLOCK = 1024


def snapped(values: NDArray[Any], bits: int, limit: float = math.inf) -> NDArray[np.float64]:
    """The values as multiples of 2^-bits, none further from 0 than ``limit``.

    >>> snapped(np.array([0.3, -7.0]), bits=2, limit=4.0).tolist()
    [0.25, -4.0]
    """
    scale = 2.0**bits
    return np.rint(np.clip(values.astype(np.float64), -limit, limit) * scale) / scale


def exact_bits(terms: int, limit: float, other_limit: float, other_bits: int) -> int:
    """How fine a grid may be for sums of ``terms`` products to be exact, the other factor being on its own grid.

    >>> exact_bits(terms=1024, limit=1.0, other_limit=1.0, other_bits=20)
    23
    """
    bits = EXACT_BITS - other_bits - math.ceil(math.log2(terms * limit * other_limit))
    # Coarser than this the features themselves would be lost.
    if bits < 4 - math.ceil(math.log2(limit)):
        raise InvalidInput(f"{terms} features are too many for exact arithmetic: reduce them first")
    return bits


def blocks(rows: int) -> list[slice]:
    """Slices that cover the rows a few at a time, so that memory stays small.

    >>> blocks(1500)
    [slice(0, 1024, None), slice(1024, 1500, None)]
    """
    return [slice(start, min(start + BLOCK, rows)) for start in range(0, rows, BLOCK)]
