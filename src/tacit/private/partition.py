"""Splitting a data set into holders: evenly, by class, by Dirichlet, or by an owner column.

Only simulations need this (real holders bring their own records), so it uses an ordinary seeded generator.
A person is never split: where a person column is given, all of a person's records go to one holder.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers

__all__ = ["split_by_class", "split_by_dirichlet", "split_by_owner", "split_evenly"]


def _check(records: int, holders: int) -> None:
    if not 1 <= holders <= max(records, 1):
        raise InvalidInput(f"holders must be between 1 and the {records} records, got {holders}")


def split_evenly(records: int, holders: int, seed: int = 0, persons: NDArray[Any] | None = None) -> list[Integers]:
    """Rows of each holder after a random shuffle, sizes differing by at most one (in persons, where given).

    >>> [len(rows) for rows in split_evenly(10, 3)]
    [4, 3, 3]
    """
    if persons is None:
        _check(records, holders)
        return [np.sort(rows) for rows in np.array_split(np.random.default_rng(seed).permutation(records), holders)]
    names, person = np.unique(persons, return_inverse=True)
    return [np.flatnonzero(np.isin(person, part)) for part in split_evenly(len(names), holders, seed)]


def split_by_owner(owners: NDArray[Any]) -> list[Integers]:
    """Rows of each owner, in the order of the owners' sorted names.

    >>> [rows.tolist() for rows in split_by_owner(np.array(["b", "a", "b"]))]
    [[1], [0, 2]]
    """
    names, owner = np.unique(owners, return_inverse=True)
    return [np.flatnonzero(owner == index) for index in range(len(names))]


def split_by_class(labels: Integers, holders: int, seed: int = 0) -> list[Integers]:
    """Rows sorted by class and cut into equal runs, so that a holder sees one or two classes only.

    >>> [rows.tolist() for rows in split_by_class(np.array([1, 0, 1, 0]), 2)]
    [[1, 3], [0, 2]]
    """
    _check(len(labels), holders)
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return [np.sort(rows) for rows in np.array_split(by_class, holders)]


def split_by_dirichlet(labels: Integers, holders: int, alpha: float, seed: int = 0) -> list[Integers]:
    """Rows of each holder when every class is shared out by a Dirichlet(alpha) draw: small alpha, skewed holders.

    >>> sum(len(rows) for rows in split_by_dirichlet(np.arange(100) % 5, 4, alpha=0.5))
    100
    """
    _check(len(labels), holders)
    if alpha <= 0:
        raise InvalidInput(f"alpha must be above 0, got {alpha}")
    generator = np.random.default_rng(seed)
    parts: list[list[Integers]] = [[] for _ in range(holders)]
    for each in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == each))
        cuts = (np.cumsum(generator.dirichlet(np.full(holders, alpha)))[:-1] * len(rows)).astype(np.int64)
        for part, share in zip(parts, np.split(rows, cuts), strict=True):
            part.append(share)
    return [np.sort(np.concatenate(part)) for part in parts]
