"""Contribution bounding over fragments: exactly at most m records per person, in whatever order they are read.

Every record has a rank: a word of a keyed pseudorandom stream at the record's position, so that nobody who writes
records can know which of them are kept. The m records with the smallest ranks are kept. One pass over the column of
persons finds the largest kept rank of each person with more than m records, with at most m + 1 ranks per person in
memory. Then each task decides by itself which of its records count. Persons are represented by keyed digests; two
persons with the same digest, which is unlikely, share m records, so that each still has at most m.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Randomness, Words
from tacit.engines.fragments import Fragment, RecordBlock, coded

__all__ = ["PersonBound", "bound_persons", "count_persons", "fresh_key", "record_ranks"]

KEY_WORDS = 4
# New ranks that are collected, at least, before they are merged with the kept ones.
_WAITING = 2**18
# The most rows of a fragment: positions of records are unique over all fragments.
_PLACES = 2**40


def fresh_key(randomness: Randomness) -> bytes:
    """A secret key of 256 bits from the source of the noise.

    >>> from tacit.core.randomness import SystemRandomness
    >>> len(fresh_key(SystemRandomness()))
    32
    """
    return randomness.words(KEY_WORDS).tobytes()


def record_ranks(key: bytes, name: str, start: int, rows: int) -> Words:
    """The ranks of a block of records: one word each of a keyed stream, unpredictable without the key.

    >>> record_ranks(b"a key", "a.parquet#0", 0, 2).tolist() == record_ranks(b"a key", "a.parquet#0", 0, 5)[:2].tolist()
    True
    """
    stream = hashlib.shake_256(len(key).to_bytes(8, "little") + key + start.to_bytes(8, "little") + name.encode())
    return np.frombuffer(stream.digest(8 * rows), dtype="<u8").astype(np.uint64)


def person_digests(key: bytes, column: Any) -> tuple[Words, NDArray[np.bool_]]:  # noqa: ANN401
    """The keyed digest of each record's person, and whether the record has a person."""
    codes, names = coded(column)
    words = [0 if name is None else _digest(key, name) for name in names]
    # The code -1 of an empty cell selects the last element.
    digests = np.array([*words, 0], dtype=np.uint64)
    known = np.array([*(name is not None for name in names), False], dtype=np.bool_)
    return digests[codes], known[codes]


def _digest(key: bytes, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, key=key).digest(), "little")


@dataclass(frozen=True)
class PersonBound:
    """Which records count: all of a person with at most m records, of others those with the m smallest ranks."""

    key: bytes
    persons: Words  # the digests of persons with more than m records, sorted
    ranks: Words  # the largest kept rank of each
    places: Words  # and its position, in case two ranks are equal

    def kept(self, fragment: Fragment, block: RecordBlock) -> NDArray[np.bool_]:
        """Which of a block's records count; a record without a person does not."""
        digests, known = person_digests(self.key, block.persons)
        if not len(self.persons):
            return known
        ranks, places = _ranked(self.key, fragment, block)
        found = np.minimum(np.searchsorted(self.persons, digests), len(self.persons) - 1)
        bounded = self.persons[found] == digests
        last, place = self.ranks[found], self.places[found]
        stays = (ranks < last) | ((ranks == last) & (places <= place))
        kept: NDArray[np.bool_] = known & (~bounded | stays)
        return kept


def bound_persons(
    fragments: Sequence[Fragment],
    person: str,
    limit: int,
    key: bytes,
    tell: Callable[[int], None] = lambda _: None,
) -> PersonBound:
    """The bound of at most ``limit`` records per person over all fragments, found in one pass."""
    if limit < 1:
        raise InvalidInput(f"records per person must be at least 1, got {limit}")
    smallest = _Smallest(limit + 1)
    done = 0
    for fragment in fragments:
        for block in fragment.blocks(None, None, person):
            digests, known = person_digests(key, block.persons)
            ranks, places = _ranked(key, fragment, block)
            smallest.add(digests[known], ranks[known], places[known])
            done += len(block)
            tell(done)
    persons, ranks, places = smallest.found()
    starts = np.flatnonzero(np.diff(persons, prepend=persons[:1] + np.uint64(1)))
    counts = np.diff(starts, append=len(persons))
    last = starts[counts > limit] + (limit - 1)
    return PersonBound(key, persons[last], ranks[last], places[last])


def count_persons(fragments: Iterable[Fragment], person: str, key: bytes) -> int:
    """The number of persons with records, in memory that grows with the persons and not with their records."""
    smallest = _Smallest(1)
    for fragment in fragments:
        for block in fragment.blocks(None, None, person):
            digests, known = person_digests(key, block.persons)
            nothing = np.zeros(int(known.sum()), dtype=np.uint64)
            smallest.add(digests[known], nothing, nothing)
    return len(smallest.found()[0])


def _ranked(key: bytes, fragment: Fragment, block: RecordBlock) -> tuple[Words, Words]:
    ranks = record_ranks(key, fragment.name, block.start, len(block))
    first = fragment.number * _PLACES + block.start
    return ranks, np.arange(first, first + len(block), dtype=np.uint64)


class _Smallest:
    """The smallest ranks of every person so far, at most ``most`` each, sorted by person and rank."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[tuple[Words, Words, Words]] = []
        self._rows, self._kept = 0, 0

    def add(self, persons: Words, ranks: Words, places: Words) -> None:
        self._waiting.append((persons, ranks, places))
        self._rows += len(persons)
        if self._rows > 2 * self._kept + _WAITING:
            self.found()

    def found(self) -> tuple[Words, Words, Words]:
        empty = (np.empty(0, dtype=np.uint64),) * 3
        columns = [np.concatenate(each) for each in zip(empty, *self._waiting, strict=True)]
        order = np.lexsort((columns[2], columns[1], columns[0]))
        persons, ranks, places = (column[order] for column in columns)
        starts = np.flatnonzero(np.diff(persons, prepend=persons[:1] + np.uint64(1)))
        position = np.arange(len(persons)) - np.repeat(starts, np.diff(starts, append=len(persons)))
        kept = position < self._most
        merged = persons[kept], ranks[kept], places[kept]
        self._waiting = [merged]
        self._rows = self._kept = len(merged[0])
        return merged
