"""A record's gradient in integers, so that its norm is bounded exactly and not by floating point.

The gradient of a softmax regression is the outer product of errors e = p − y, one per class, and features x. Both are
integers here, so the norm of the outer product is exactly that of e times that of x. The scores x·w are sums of
integers that doubles represent exactly in any order of addition, so that no record's errors depend on the other
records; the rest is integer arithmetic: e^−s comes from a table, and probabilities are rounded quotients. A gradient
above the radius is scaled down, rounded toward zero, and checked in integers.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers
from tacit.methods.class_sums.wire import Norm, on_grid

__all__ = ["ERRORS", "LARGEST_WEIGHT", "RESOLUTION", "errors_of", "gradient_sum", "with_offset"]

# An error of 1 in grid steps, the steps of a score per nat, and the largest weight in such steps. Scores stay below
# 2^52: 2^22 features that are together no longer than 2^20.5, times 2^20. Products of squared lengths stay below 2^63:
# errors of 10^5 classes are no longer than 2^11, features than 2^20.5. Sums over 2^13 records stay below 2^(9+21+13).
ERRORS, RESOLUTION, LARGEST_WEIGHT = 2**8, 2**8, 2**20
# Beyond this s, e^−s is below the last digit of the table.
LOWEST, ONE = 21 * RESOLUTION, 2**30


@cache
def _exponentials() -> Integers:
    """2^30 · e^−s for every step of s, rounded, and 0 at its end."""
    table = [round(ONE * math.exp(-step / RESOLUTION)) for step in range(LOWEST)]
    return np.array([*table, 0], dtype=np.int64)


def with_offset(whole: Integers, offset: int) -> Integers:
    """Features with the constant feature appended.

    >>> with_offset(np.array([[3, 4]]), 7).tolist()
    [[3, 4, 7]]
    """
    return np.column_stack([whole, np.full(len(whole), offset)])


def errors_of(features: Integers, labels: NDArray[Any], weights: Integers, length: int) -> Integers:
    """The errors p − y of each record's class probabilities, (records, classes), in steps of 1/256.

    ``weights`` (features, classes) are in steps of 1/256 nat per ``length`` of a feature.

    >>> errors_of(np.array([[8, 0]]), np.array([1]), np.zeros((2, 2), dtype=np.int64), 8).tolist()
    [[128, -128]]
    >>> errors_of(np.array([[8, 0]]), np.array([1]), np.array([[512, 0], [0, 0]]), 8).tolist()
    [[225, -225]]
    """
    # Integers below 2^53: the product is exact in any order of addition.
    scores = (features.astype(np.float64) @ weights.astype(np.float64)).astype(np.int64)
    behind = np.minimum((scores.max(axis=1, keepdims=True) - scores) // length, LOWEST)
    likely = _exponentials()[behind]
    total = likely.sum(axis=1, keepdims=True)
    errors: Integers = (ERRORS * likely + total // 2) // total
    errors[np.arange(len(labels)), labels] -= ERRORS
    return errors


def _clipped(errors: Integers, features: Integers, radius: int, norm: Norm) -> Integers:
    """The errors, scaled so that each record's gradient has a norm of at most the radius; 0 if it still exceeds it."""

    def longer(found: Integers) -> tuple[Integers, int]:
        if norm == "l1":
            return np.abs(found).sum(axis=1) * np.abs(features).sum(axis=1), radius
        return (found * found).sum(axis=1) * (features * features).sum(axis=1), radius * radius

    lengths, most = longer(errors)
    ratio = most / np.maximum(lengths, most).astype(np.float64)
    factor = ratio if norm == "l1" else np.sqrt(ratio)
    shorter: Integers = np.trunc(errors * factor[:, None]).astype(np.int64)
    shorter[longer(shorter)[0] > most] = 0
    return shorter


def gradient_sum(
    encoded: NDArray[Any],
    labels: NDArray[Any],
    weights: Integers,
    *,
    scale: float,
    length: int,
    offset: int,
    radius: int,
    norm: Norm = "l2",
) -> Integers:
    """The sum of these records' clipped gradients, (classes, features + 1).

    A record that is not finite, or has another class, adds nothing.

    >>> rows, none = np.array([[1.0], [np.nan], [1.0]]), np.zeros((2, 2), dtype=np.int64)
    >>> settings = {"scale": 8.0, "length": 8, "offset": 4, "radius": 10**4}
    >>> gradient_sum(rows, np.array([0, 0, 5]), none, **settings).tolist()
    [[-1024, -512], [1024, 512]]
    """
    whole, there = on_grid(encoded, scale, length, norm)
    there &= (labels >= 0) & (labels < weights.shape[1])
    features, known = with_offset(whole[there], offset), labels[there]
    errors = _clipped(errors_of(features, known, weights, length), features, radius, norm)
    # As above: integers below 2^53.
    total: Integers = (errors.T.astype(np.float64) @ features.astype(np.float64)).astype(np.int64)
    return total
