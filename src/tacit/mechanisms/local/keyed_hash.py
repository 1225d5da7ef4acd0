"""A family of hash functions, one per 128-bit seed: word v of the ChaCha8 keystream is the hash of cell v.

The word of cell v under a seed is the v-th 64-bit little-endian word of the ChaCha keystream with 8 rounds, the seed as
128-bit key, nonce 0 and block counter from 0. One block is the hash of eight cells, and any implementation of ChaCha is
compatible.

The bucket of a word among l is floor(word · l / 2^64): the words of a bucket are an interval, and every bucket has a
probability within 2^-64 of 1/l. This biases an estimate, which is divided by a gap p − q, by less than 2^-64/(p − q)
per message: below 2^-50 unless p − q is below 1/16000.

The ε₀ of a message never rests on the hash: it holds for every hash function. That estimates are unbiased, and the
amplification of ε₀ by a shuffler (``collision.hash_blankets``), rest on the assumption that ChaCha8 under a fresh
uniform seed cannot be distinguished from independent uniform words.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, Randomness, Words
from tacit.mechanisms.local.participants import chunks

__all__ = ["bucket_bounds", "bucket_of", "count_hits", "fresh_seeds", "hit_matrix", "keystream_words"]

ROUNDS = 8
# "expand 16-byte k", the constant words of ChaCha with a 128-bit key.
CONSTANTS = (0x61707865, 0x3120646E, 0x79622D36, 0x6B206574)
# Cells whose words come from one block.
BLOCK_CELLS = 8
# Up to this many hashes, numpy is faster than loading the compiled code.
LARGE = 2**24
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))

Seeds = NDArray[np.uint64]


def fresh_seeds(count: int, randomness: Randomness) -> Seeds:
    """A uniform 128-bit seed per message, as two words, independent of the data.

    >>> from tacit.core.randomness import SystemRandomness
    >>> fresh_seeds(3, SystemRandomness()).shape
    (3, 2)
    """
    return randomness.words(2 * count).reshape(count, 2)


def _rotate(words: NDArray[np.uint32], places: int) -> NDArray[np.uint32]:
    rotated: NDArray[np.uint32] = (words << np.uint32(places)) | (words >> np.uint32(32 - places))
    return rotated


def _key_words(seeds: Seeds) -> list[NDArray[np.uint32]]:
    """The four 32-bit key words of each seed, lowest first."""
    halves = [seeds[..., 0], seeds[..., 0] >> np.uint64(32), seeds[..., 1], seeds[..., 1] >> np.uint64(32)]
    return [half.astype(np.uint32) for half in halves]


def _blocks(seeds: Seeds, numbers: NDArray[np.uint64]) -> list[NDArray[np.uint32]]:
    """The sixteen 32-bit words of ChaCha8's block with that number under each seed; shapes are broadcast."""
    shape = np.broadcast_shapes(seeds.shape[:-1], numbers.shape)
    key = _key_words(seeds)
    start: list[NDArray[np.uint32]] = [
        *(np.asarray(constant, dtype=np.uint32) for constant in CONSTANTS),
        *key,
        *key,
        numbers.astype(np.uint32),
        (numbers >> np.uint64(32)).astype(np.uint32),
        np.asarray(0, dtype=np.uint32),
        np.asarray(0, dtype=np.uint32),
    ]
    state = [np.broadcast_to(word, shape).copy() for word in start]
    for _ in range(ROUNDS // 2):
        for a, b, c, d in _COLUMNS + DIAGONALS:
            state[a] += state[b]
            state[d] = _rotate(state[d] ^ state[a], 16)
            state[c] += state[d]
            state[b] = _rotate(state[b] ^ state[c], 12)
            state[a] += state[b]
            state[d] = _rotate(state[d] ^ state[a], 8)
            state[c] += state[d]
            state[b] = _rotate(state[b] ^ state[c], 7)
    return [word + first for word, first in zip(state, start, strict=True)]


def _paired(blocks: list[NDArray[np.uint32]], pair: int) -> Words:
    """The 64-bit word that two neighboring 32-bit words of a block make."""
    high: Words = blocks[2 * pair + 1].astype(np.uint64) << np.uint64(32)
    return high | blocks[2 * pair]


def keystream_words(seeds: Seeds, cells: Integers) -> Words:
    """The hash word of each cell under the seed of its row: seeds (n, 2), cells (n, c), words (n, c).

    >>> seeds = np.zeros((1, 2), dtype=np.uint64)
    >>> f"{int(keystream_words(seeds, np.array([[0]]))[0, 0]):016x}"
    '5d8c7fa6a45f8ae2'
    """
    words = np.empty(cells.shape, dtype=np.uint64)
    for part in chunks(len(cells), cells.shape[1], entries=2**16):
        numbers = (cells[part] // BLOCK_CELLS).astype(np.uint64)
        blocks = _blocks(seeds[part][:, None, :], numbers)
        pairs = np.stack([_paired(blocks, pair) for pair in range(BLOCK_CELLS)])
        words[part] = np.take_along_axis(pairs, (cells[part] % BLOCK_CELLS)[None], axis=0)[0]
    return words


def bucket_of(words: Words, length: int) -> Integers:
    """The bucket floor(word · length / 2^64) of each word, for a length below 2^31.

    >>> bucket_of(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 4).tolist()
    [0, 2, 3]
    """
    high, low = words >> np.uint64(32), words & np.uint64(2**32 - 1)
    size = np.uint64(length)
    return ((high * size + (low * size >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def bucket_bounds(buckets: NDArray[Any], length: int) -> tuple[Words, Words]:
    """The first word of each bucket and its number of words: word w is in it if w − first < width, mod 2^64.

    >>> [int(bound[0]) for bound in bucket_bounds(np.array([1]), 4)] == [2**62, 2**62]
    True
    """

    def first(bucket: Words) -> Words:
        # ceil(bucket · 2^64 / length) by long division, 32 bits at a time; the end of the last bucket wraps to 0.
        size = np.uint64(length)
        upper, rest = np.divmod(bucket << np.uint64(32), size)
        lower, rest = np.divmod(rest << np.uint64(32), size)
        return (upper << np.uint64(32)) + lower + (rest > 0)

    bucket = np.asarray(buckets).astype(np.uint64)
    start = first(bucket)
    return start, first(bucket + np.uint64(1)) - start


def hit_matrix(seeds: Seeds, buckets: Integers, length: int, cells: int) -> NDArray[np.bool_]:
    """Whether each message's bucket is that of each cell under its seed: (n, cells)."""
    first, width = bucket_bounds(buckets, length)
    groups = -(-cells // BLOCK_CELLS)
    hits = np.empty((len(seeds), groups, BLOCK_CELLS), dtype=np.bool_)
    for part in chunks(len(seeds), groups, entries=2**14):
        blocks = _blocks(seeds[part][:, None, :], np.arange(groups, dtype=np.uint64)[None, :])
        for pair in range(BLOCK_CELLS):
            hits[part, :, pair] = _paired(blocks, pair) - first[part, None] < width[part, None]
    return hits.reshape(len(seeds), groups * BLOCK_CELLS)[:, :cells]


def count_hits(seeds: Seeds, buckets: Integers, length: int, cells: int, compiled: bool | None = None) -> Integers:
    """How many messages hit each cell. Large jobs use compiled code and threads if numba is installed.

    Both implementations give the same integers; ``compiled`` selects one of them.

    >>> seeds, buckets = np.zeros((1, 2), dtype=np.uint64), np.array([1])
    >>> count_hits(seeds, buckets, 4, 8).tolist()
    [1, 0, 0, 0, 0, 0, 1, 0]
    """
    if compiled is None:
        compiled = len(seeds) * cells > LARGE and find_spec("numba") is not None
    if compiled:
        # Imported when first needed, because numba takes a second or more.
        from tacit.mechanisms.local.keyed_hash_compiled import count_hits_compiled

        first, width = bucket_bounds(buckets, length)
        return count_hits_compiled(seeds, first, width, cells)
    counts = np.zeros(cells, dtype=np.int64)
    for part in chunks(len(seeds), cells, entries=2**22):
        counts += hit_matrix(seeds[part], buckets[part], length, cells).sum(axis=0)
    return counts
