"""A space in which the axes are the questions: a sample's shares in a few groups, nearest to its own group's axis.

Some clusterings have no centre that is nearest to all of its samples: a mixture whose parts are long and thin, or
groups of images that are compared up to a turn. Votes need centres. So a sample is represented by its share in
every group, which adds up to 1; asked with the unit axes as queries, a sample votes for the group it has most of,
because |p − e_l|² = |p|² + 1 − 2p_l.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats

__all__ = ["axes", "measurable", "require_groups", "shares"]

# e^−t as (1 + t/2^10)^−(2^10): a library's exponential may round by where a number stands in an array, ten
# multiplications cannot. It is above e^−t by 5 % at t = 10, and of the same order everywhere.
SQUARINGS = 10
# Beyond this a share is 0 in float32.
LARGEST_PENALTY = 500.0
# Squares stay finite up to here; a sample that far out is in no group anyway.
FARTHEST = 1e100


def shares(penalties: NDArray[np.float64]) -> Floats:
    """For each row, shares that fall as e^−penalty; the smallest penalty has the largest share.

    >>> shares(np.array([[3.0, 3.0, 900.0], [0.0, 1.0, 2.0]])).round(3).tolist()
    [[0.5, 0.5, 0.0], [0.6650000214576721, 0.24500000476837158, 0.09000000357627869]]
    """
    above = np.minimum(penalties - penalties.min(axis=1, keepdims=True), LARGEST_PENALTY)
    likely = 1 / (1 + above / 2**SQUARINGS)
    for _ in range(SQUARINGS):
        likely *= likely
    total = np.zeros(len(likely))
    for column in likely.T:  # group by group, so that every row is added up in the same order
        total += column
    fractions: Floats = (likely / total[:, None]).astype(np.float32)
    return fractions


def measurable(rows: NDArray[Any], whose: str = "a sample has") -> NDArray[np.float64]:
    """The rows as numbers that can be squared; what is no number is refused in the owner's name.

    >>> measurable(np.array([[1e300, -2.0]])).tolist()
    [[1e+100, -2.0]]
    """
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise InvalidInput(f"{whose} a value that is not a finite number")
    return np.clip(rows.astype(np.float64), -FARTHEST, FARTHEST)


def axes(groups: int) -> Floats:
    """The queries of such a space: one a group.

    >>> axes(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(groups, dtype=np.float32)


def require_groups(public: NDArray[Any], groups: int) -> None:
    """Refuse more groups than there are different public samples, and fewer than two."""
    distinct = len(np.unique(public.reshape(len(public), -1), axis=0)) if len(public) else 0
    if not 2 <= groups <= distinct:
        raise InvalidInput(f"groups must be between 2 and the {distinct} distinct public samples, got {groups}")
