"""Records of one file shared out over parties: by an owner column, or over made-up parties that are alike or differ."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.private.partition import split_by_class, split_by_dirichlet, split_by_owner, split_evenly

__all__ = ["WAYS", "split_rows"]

WAYS = ("even", "dirichlet", "class")


def split_rows(
    labels: Integers, parties: int | NDArray[Any], way: str = "even", alpha: float = 0.5, seed: int = 0
) -> list[Integers]:
    """The rows of every party: by owner where ``parties`` is a column, else over that many parties.

    A party that a Dirichlet draw left without records is dropped.

    >>> import numpy as np
    >>> [rows.tolist() for rows in split_rows(np.array([0, 1, 0, 1]), 2, "class")]
    [[0, 2], [1, 3]]
    >>> [rows.tolist() for rows in split_rows(np.array([0, 1, 0]), np.array(["b", "a", "b"]))]
    [[1], [0, 2]]
    """
    if not isinstance(parties, int):
        return split_by_owner(parties)
    match way:
        case "even":
            split = split_evenly(len(labels), parties, seed)
        case "dirichlet":
            split = split_by_dirichlet(labels, parties, alpha, seed)
        case "class":
            split = split_by_class(labels, parties, seed)
        case _:
            raise InvalidInput(f"split must be one of {', '.join(WAYS)}, got {way!r}")
    return [rows for rows in split if len(rows)]
