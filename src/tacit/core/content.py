"""What a set of samples is, as a digest: the same for the same rows in whatever order and number format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["content_digest", "row_digests"]


def row_digests(samples: NDArray[Any]) -> list[bytes]:
    """A digest of each row, as float32 numbers whatever its shape.

    >>> row_digests(np.array([[1, 2]])) == row_digests(np.array([[[1.0], [2.0]]]))
    True
    """
    rows = np.ascontiguousarray(samples, dtype=np.float32).reshape(len(samples), -1)
    return [hashlib.sha256(row.tobytes()).digest() for row in rows]


def content_digest(rows: Iterable[bytes]) -> str:
    """One digest of all the rows' digests, which their order does not change.

    A representation may carry it as ``fitted_on``: ``content_digest(row_digests(samples))`` of what it was fitted on.

    >>> content_digest([b"a", b"b"]) == content_digest([b"b", b"a"]) != content_digest([b"a"])
    True
    """
    return hashlib.sha256(b"".join(sorted(rows))).hexdigest()
