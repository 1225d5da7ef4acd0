"""Partition of records into holders, and the bound of m records per person.

A data set is split evenly, by class, by a Dirichlet distribution, or by an owner column. Only simulations need this
(real holders have their own records), so it uses an ordinary seeded generator. With a person column, all records of a
person go to one holder.

A privacy unit may be one person with at most m records. Before any other use of the data, m records of each person are
chosen uniformly with the privacy randomness. From then on, replacing a person replaces at most m records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Randomness, Unit, permutations
from tacit.private.records import Private, Records, schema_of

__all__ = [
    "bounded",
    "bounded_rows",
    "one_stream",
    "require_owned",
    "split_by_class",
    "split_by_dirichlet",
    "split_by_owner",
    "split_evenly",
]


def _check(records: int, holders: int) -> None:
    if not 1 <= holders <= max(records, 1):
        raise InvalidInput(f"holders must be between 1 and the {records} records, got {holders}")


def split_evenly(records: int, holders: int, seed: int = 0, persons: NDArray[Any] | None = None) -> list[Integers]:
    """Rows of each holder after a random shuffle; sizes differ by at most one record (or person, if given).

    >>> [len(rows) for rows in split_evenly(10, 3)]
    [4, 3, 3]
    """
    if persons is None:
        _check(records, holders)
        return [np.sort(rows) for rows in np.array_split(np.random.default_rng(seed).permutation(records), holders)]
    names, person = np.unique(persons, return_inverse=True)
    holder = np.empty(len(names), dtype=np.int64)
    for index, part in enumerate(split_evenly(len(names), holders, seed)):
        holder[part] = index
    return _rows_by_index(holder[person], holders)


def split_by_owner(owners: NDArray[Any]) -> list[Integers]:
    """Rows of each owner, in the order of the owners' sorted names.

    >>> [rows.tolist() for rows in split_by_owner(np.array(["b", "a", "b"]))]
    [[1], [0, 2]]
    """
    names, owner = np.unique(owners, return_inverse=True)
    return _rows_by_index(owner, len(names))


def _rows_by_index(indices: Integers, count: int) -> list[Integers]:
    """The rows with each index below ``count``, by one sort: there may be as many indices as rows."""
    ends = np.cumsum(np.bincount(indices, minlength=count))
    return np.split(np.argsort(indices, kind="stable"), ends[:-1])


def split_by_class(labels: Integers, holders: int, seed: int = 0) -> list[Integers]:
    """Rows sorted by class and cut into equal parts, so that a holder has one or two classes only.

    >>> [rows.tolist() for rows in split_by_class(np.array([1, 0, 1, 0]), 2)]
    [[1, 3], [0, 2]]
    """
    _check(len(labels), holders)
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return [np.sort(rows) for rows in np.array_split(by_class, holders)]


def split_by_dirichlet(labels: Integers, holders: int, alpha: float, seed: int = 0) -> list[Integers]:
    """Rows of each holder when every class is divided by a Dirichlet(alpha) sample; small alpha, skewed holders.

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


def bounded_rows(persons: NDArray[Any], limit: int, randomness: Randomness) -> Integers:
    """The rows that are kept: at most ``limit`` per person, chosen uniformly at random, in their original order.

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


def bounded(parts: Sequence[Records], unit: Unit, randomness: Randomness) -> list[Records]:
    """The parts with at most ``unit.records`` records per person, counted over all parts.

    If no person has more, the parts are returned unchanged.

    >>> from tacit.core.randomness import SystemRandomness
    >>> ada = Records(np.zeros((3, 1)), np.arange(3), np.array(["ada"] * 3))
    >>> [len(part.labels) for part in bounded([ada], Unit.person("patient", 2), SystemRandomness())]
    [2]
    """
    if unit.column is None:
        return list(parts)
    owners = np.concatenate([np.asarray(part.persons) for part in parts])
    if np.unique(owners, return_counts=True)[1].max(initial=0) <= unit.records:
        return list(parts)
    kept = bounded_rows(owners, unit.records, randomness)
    ends = np.cumsum([len(part.labels) for part in parts])
    starts = ends - [len(part.labels) for part in parts]
    # Kept rows are sorted, so each part has a run of them.
    runs = np.split(kept, np.searchsorted(kept, ends[:-1]))
    return [part.take(run - start) for part, run, start in zip(parts, runs, starts, strict=True)]


def one_stream(parts: Sequence[Private[Records]]) -> bool:
    """Whether the records are streamed; a stream must be a holder's only set of records.

    >>> one_stream([Private(Records(np.eye(2), np.arange(2)))])
    False
    """
    streamed = [schema_of(part).streamed for part in parts]
    if any(streamed) and len(parts) > 1:
        raise InvalidInput("a record source is all that a holder has: name all its files in one source")
    return any(streamed)


def require_owned(parts: Sequence[Private[Records]], unit: Unit) -> None:
    """Refuse records without a person column where the account protects persons.

    >>> require_owned([Private(Records(np.eye(2), np.arange(2)))], Unit())
    """
    if unit.column is not None and not all(schema_of(part).owned for part in parts):
        raise InvalidInput("the account protects persons, so every set of records needs its person column")
