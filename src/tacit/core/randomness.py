"""The only sources of randomness for privacy noise.

``SystemRandomness`` draws from the operating system's cryptographic generator and is the default.
``SeededRandomness`` can be replayed by anyone who knows the seed, so its results are simulations, and every receipt and
report says so. Samplers take one of the two and work with 64-bit random words, not with floats.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = [
    "Randomness",
    "SeededRandomness",
    "SystemRandomness",
    "integer_below",
    "permutations",
    "uniform_below",
]


class Randomness(Protocol):
    """A source of independent uniform 64-bit words."""

    @property
    def origin(self) -> str:
        """``"system"``, or ``"seeded"`` for a simulation."""
        ...

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words."""
        ...


class SystemRandomness:
    """The operating system's cryptographic generator; safe across forks, never seeded.

    >>> SystemRandomness().words(3).shape
    (3,)
    """

    origin = "system"

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededRandomness:
    """A replayable generator for simulations and tests; it gives no privacy.

    >>> int(SeededRandomness(7).words(1)[0]) == int(SeededRandomness(7).words(1)[0])
    True
    """

    origin = "seeded"

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)


def integer_below(bound: int, randomness: Randomness) -> int:
    """One uniform integer in [0, bound) for a bound of any size, exactly, by rejection.

    >>> 0 <= integer_below(10**30, SystemRandomness()) < 10**30
    True
    """
    if bound < 1:
        raise InvalidInput(f"bound must be at least 1, got {bound}")
    bits = (bound - 1).bit_length()
    while True:
        value = int.from_bytes(randomness.words(max(1, -(-bits // 64))).tobytes(), "little")
        value &= (1 << bits) - 1
        if value < bound:
            return value


def uniform_below(bound: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """``count`` exactly uniform integers in [0, bound), by masking and rejection (no modulo bias).

    >>> bool((uniform_below(10, 1000, SeededRandomness(1)) < 10).all())
    True
    """
    if not 1 <= bound <= 2**63:
        raise InvalidInput(f"bound must be in [1, 2^63], got {bound}")
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
    result = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        # At least half of the masked words are accepted, so a little over twice as many usually suffice.
        words = randomness.words(2 * (count - filled) + 8) & mask
        kept = words[words < np.uint64(bound)][: count - filled]
        result[filled : filled + len(kept)] = kept.astype(np.int64)
        filled += len(kept)
    return result


def permutations(count: int, size: int, randomness: Randomness) -> NDArray[np.int64]:
    """``count`` independent uniform permutations of range(size), one per row.

    Rows of random words are sorted; a row in which two words are equal is drawn again, so all orders are exactly
    equally likely.

    >>> sorted(permutations(1, 4, SystemRandomness())[0].tolist())
    [0, 1, 2, 3]
    """
    orders = np.empty((count, size), dtype=np.int64)
    waiting = np.arange(count)
    while len(waiting):
        words = randomness.words(len(waiting) * size).reshape(len(waiting), size)
        order = np.argsort(words, axis=1, kind="stable")
        ranked = np.take_along_axis(words, order, axis=1)
        distinct = (ranked[:, 1:] != ranked[:, :-1]).all(axis=1)
        orders[waiting[distinct]] = order[distinct]
        waiting = waiting[~distinct]
    return orders
