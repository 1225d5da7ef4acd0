"""From features to whole numbers whose length is bounded: where integers decide, not floating point.

Scaling and clipping are done in floating point and may be off by a little; rounding to the nearest number can make a
vector longer, by a fifth and more where there are many coordinates. So coordinates are rounded toward zero, which
makes none longer, and then the length is computed in whole numbers. What is longer than it may be contributes nothing.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Integers

__all__ = ["LARGEST_RADIUS", "MOST_COMPONENTS", "Norm", "lengths", "longest_l1", "on_grid"]

Norm = Literal["l1", "l2"]
# Squares of this many coordinates of this size add up to 2^62 at most, and sums of 10^12 records fit in 64 bits.
LARGEST_RADIUS = 2**20
MOST_COMPONENTS = 2**22


def lengths(vectors: NDArray[Any], norm: Norm) -> NDArray[Any]:
    """How long each row is.

    >>> lengths(np.array([[3.0, -4.0]]), "l2"), lengths(np.array([[3.0, -4.0]]), "l1")
    (array([5.]), array([7.]))
    """
    rows = np.ascontiguousarray(vectors)
    found: NDArray[Any] = np.abs(rows).sum(axis=1) if norm == "l1" else np.sqrt((rows * rows).sum(axis=1))
    return found


def longest_l1(radius: int, components: int, norm: Norm) -> int:
    """The largest sum of absolute coordinates of whole numbers within the radius.

    In L2 it is at most √components · radius, by Cauchy and Schwarz, and a whole number.

    >>> longest_l1(10, 2, "l2"), longest_l1(10, 2, "l1")
    (14, 10)
    """
    return radius if norm == "l1" else math.isqrt(components * radius * radius)


def on_grid(features: NDArray[Any], scale: float, radius: int, norm: Norm = "l2") -> tuple[Integers, NDArray[np.bool_]]:
    """Each row as whole numbers no longer than ``radius``, and whether it is there at all.

    A row that is no number anywhere, or is still too long, is zero and not there. Every row is made by itself, in the
    same way whatever rows are around it.

    >>> on_grid(np.array([[0.29, 0.0], [30.0, 40.0], [np.nan, 0.0]]), scale=10, radius=100)
    (array([[ 2,  0],
           [60, 80],
           [ 0,  0]]), array([ True,  True, False]))
    """
    with np.errstate(all="ignore"):
        rows = np.ascontiguousarray(features, dtype=np.float64) * scale
        rows *= (radius / np.maximum(lengths(rows, norm), radius))[:, None]
        # What was no number, or infinite, is no number now.
        there = np.isfinite(rows).all(axis=1)
        rows[~there] = 0.0
        # What is far beyond the radius, whatever floating point made of it, must not wrap around in whole numbers.
        whole: Integers = np.trunc(np.clip(rows, -radius, radius)).astype(np.int64)
    exact = np.abs(whole).sum(axis=1) if norm == "l1" else (whole * whole).sum(axis=1)
    there &= exact <= (radius if norm == "l1" else radius * radius)
    whole[~there] = 0
    return whole, there
