"""At most m records of every person over all fragments, exactly, whatever the order they are read in.

Every record has a rank: a word of a keyed stream over where it lies, so that nobody who writes records can know which
of them are kept. The m records of the smallest rank stay. One pass over the persons' column finds, for each person with
more than m records, the last that stays; it keeps at most m + 1 ranks per person in memory. Then each task, wherever it
runs, tells by itself which of its records count. Persons go by keyed digests. Two of them with one digest, which is
unlikely, share their m records, so that each still has at most m.
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
# Ranks that wait to be sorted into those that are kept, at least.
_WAITING = 2**18
# A fragment's rows come after one another in this many places.
_PLACES = 2**40


def fresh_key(randomness: Randomness) -> bytes:
    """A secret key of 256 bits, drawn like noise.

    >>> from tacit.core.randomness import SystemRandomness
    >>> len(fresh_key(SystemRandomness()))
    32
    """
    return randomness.words(KEY_WORDS).tobytes()


def record_ranks(key: bytes, name: str, start: int, rows: int) -> Words:
    """The ranks of a fragment's block of records: a word each of a stream that only who has the key can tell.

    >>> record_ranks(b"a key", "a.parquet#0", 0, 2).tolist() == record_ranks(b"a key", "a.parquet#0", 0, 5)[:2].tolist()
    True
    """
    stream = hashlib.shake_256(len(key).to_bytes(8, "little") + key + start.to_bytes(8, "little") + name.encode())
    return np.frombuffer(stream.digest(8 * rows), dtype="<u8").astype(np.uint64)


def person_digests(key: bytes, column: Any) -> tuple[Words, NDArray[np.bool_]]:  # noqa: ANN401
    """A keyed word for the person of each record, and whether there is one."""
    codes, names = coded(column)
    words = [0 if name is None else _digest(key, name) for name in names]
    # Codes of -1, of a cell without a value, find the last place.
    digests = np.array([*words, 0], dtype=np.uint64)
    known = np.array([*(name is not None for name in names), False], dtype=np.bool_)
    return digests[codes], known[codes]


def _digest(key: bytes, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, key=key).digest(), "little")


@dataclass(frozen=True)
class PersonBound:
    """Which records count: all of a person who has at most m, and of the others those up to the last that stays."""

    key: bytes
    persons: Words  # the digests of those who have more, in order
    ranks: Words  # the rank of the last record that stays
    places: Words  # and its place, should two ranks be equal

    def kept(self, fragment: Fragment, block: RecordBlock) -> NDArray[np.bool_]:
        """Which of a block's records count; one of nobody does not."""
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
    """What keeps at most ``limit`` records of each person over all the fragments, found in one pass."""
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
    """How many persons have records here, in memory that grows with them and not with their records."""
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
    """The smallest ranks of every person so far, at most ``most`` each, in the order of persons and ranks."""

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
