"""A privacy unit that is not the record: one person, with at most m records.

Before anything else sees the data, each person's records are cut down to m, chosen uniformly with the privacy
randomness. From then on replacing a person replaces at most m records, whatever the person owned before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness, permutations

__all__ = ["bounded_rows"]


def bounded_rows(persons: NDArray[Any], limit: int, randomness: Randomness) -> Integers:
    """Which rows are kept: at most ``limit`` of each person, a uniformly random choice, in their first order.

    >>> from tacit.core.randomness import SystemRandomness
    >>> people = np.array(["ada", "ada", "bob"])
    >>> people[bounded_rows(people, 1, SystemRandomness())].tolist()
    ['ada', 'bob']
    """
    if limit < 1:
        raise InvalidInput(f"records per person must be at least 1, got {limit}")
    order = permutations(1, len(persons), randomness)[0]
    _, person = np.unique(persons[order], return_inverse=True)
    # Group by person, keeping the random order inside each group, and count positions from 0 in every group.
    grouped = np.argsort(person, kind="stable")
    starts = np.flatnonzero(np.diff(person[grouped], prepend=-1))
    position = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    return np.sort(order[grouped[position < limit]])
