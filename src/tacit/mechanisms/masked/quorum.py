"""What every noise in shares has in common: who must be in a sum, and in how many bits sums never wrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.rational import Number, exact

__all__ = ["WIDTHS", "opened_sum", "quorum_of", "require_shares", "sum_width"]

WIDTHS = {16: np.uint16, 32: np.uint32, 64: np.uint64}
_LARGEST_COUNT = 2**40


def require_shares(holders: int, threshold: int, honest: int, most: int) -> None:
    """Refuse a quorum that protects nobody, or counts that no mask is made for.

    >>> require_shares(holders=9, threshold=6, honest=4, most=100)
    """
    if not 2 <= threshold <= holders:
        raise InvalidInput(f"threshold must be between 2 and the {holders} holders, got {threshold}")
    if not 1 <= honest <= threshold:
        raise InvalidInput(f"honest must be between 1 and the threshold {threshold}, got {honest}")
    if threshold + honest <= holders:
        raise InvalidInput(
            f"threshold + honest must be above the {holders} holders, got {threshold} + {honest}: with fewer, a "
            "server and its friends could learn both secrets of one holder by telling two stories"
        )
    if not 1 <= most <= _LARGEST_COUNT:
        raise InvalidInput(f"most must be between 1 and 2^40, got {most}")


def sum_width(largest: int, holders: int, most: int, bits: int | None = None) -> int:
    """In how many bits sums that are nowhere beyond ``largest`` never wrap: the fewest, or those that are asked for.

    >>> sum_width(10**6, holders=9, most=10**5), sum_width(10**6, holders=9, most=10**5, bits=64)
    (32, 64)
    """
    needed = [width for width in WIDTHS if largest < 2 ** (width - 1)]
    if not needed:
        raise InvalidInput(f"{holders} holders with counts of up to {most} add up to more than 64 bits hold")
    width = needed[0] if bits is None else int(bits)
    if width not in needed:
        raise InvalidInput(f"bits must be one of {', '.join(map(str, needed))} for sums that never wrap, got {bits}")
    return width


def quorum_of(holders: int, surviving: Number, honest: Number) -> tuple[int, int]:
    """How many holders must be in a sum, and how many of those honest, where these fractions are.

    >>> quorum_of(9, "2/3", "2/3")
    (6, 4)
    """
    for name, value in (("surviving", surviving), ("honest", honest)):
        if not 0 < exact(value, name) <= 1:
            raise InvalidInput(f"{name} must be a fraction in (0, 1], got {value}")
    if holders < 2:
        raise InvalidInput(f"holders must be at least 2, got {holders}")
    threshold = max(2, math.ceil(exact(surviving) * holders))
    return threshold, math.ceil(exact(honest) * threshold)


def opened_sum(total: NDArray[Any], bits: int) -> Integers:
    """The sum that is meant by a sum modulo 2^bits.

    >>> opened_sum(np.array([65535, 7], dtype=np.uint64), 16).tolist()
    [-1, 7]
    """
    within = np.asarray(total).astype(WIDTHS[bits])
    return within.view(np.dtype(f"i{bits // 8}")).astype(np.int64)
