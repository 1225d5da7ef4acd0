"""A privacy unit that is not the record: one person, with at most m records.

Before anything else sees the data, each person's records are cut down to m, chosen uniformly with the privacy
randomness. From then on replacing a person replaces at most m records, whatever the person owned before.
"""

from __future__ import annotations

import numpy as np

from tacit.core.errors import InvalidInput
from tacit.core.randomness import Randomness, permutations
from tacit.private.records import Records

__all__ = ["bound_persons"]


def bound_persons(records: Records, limit: int, randomness: Randomness) -> Records:
    """The records with at most ``limit`` of each person, a uniformly random choice, in their first order.

    >>> from tacit.core.randomness import SystemRandomness
    >>> three = Records(np.eye(3), np.array([0, 1, 0]), np.array(["ada", "ada", "bob"]))
    >>> sorted(bound_persons(three, 1, SystemRandomness()).persons.tolist())
    ['ada', 'bob']
    """
    if records.persons is None:
        raise InvalidInput("a person column is needed to bound the records of a person")
    if limit < 1:
        raise InvalidInput(f"records per person must be at least 1, got {limit}")
    order = permutations(1, len(records.persons), randomness)[0]
    _, person = np.unique(records.persons[order], return_inverse=True)
    # Group by person, keeping the random order inside each group, and count positions from 0 in every group.
    grouped = np.argsort(person, kind="stable")
    starts = np.flatnonzero(np.diff(person[grouped], prepend=-1))
    position = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    return records.take(np.sort(order[grouped[position < limit]]))
