"""The hash is ChaCha8, its buckets are exact intervals, and the compiled code gives the same integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.randomness import SeededRandomness
from tacit.mechanisms.local import keyed_hash
from tacit.mechanisms.local.keyed_hash import (
    bucket_bounds,
    bucket_of,
    count_hits,
    fresh_seeds,
    hit_matrix,
    keystream_words,
)

# First block of the ChaCha8 keystream for a 128-bit key and nonce 0 (draft-strombergson-chacha-test-vectors-01, TC1).
ZERO_KEY = (
    "e28a5fa4a67f8c5defed3e6fb7303486aa8427d31419a729572d777953491120"
    "b64ab8e72b8deb85cd6aea7cb6089a101824beeb08814a428aab1fa2c816081b"
)


def test_the_words_are_the_keystream_of_chacha8():
    words = keystream_words(np.zeros((1, 2), dtype=np.uint64), np.arange(8)[None])
    assert words.astype("<u8").tobytes().hex() == ZERO_KEY


def plain_chacha(key: bytes, counter: int, rounds: int) -> bytes:
    """ChaCha with a 128-bit key, written again with Python integers."""
    constants = b"expand 16-byte k"
    start = [int.from_bytes(part[i : i + 4], "little") for part in (constants, key, key) for i in range(0, 16, 4)]
    start += [counter, 0, 0, 0]
    x = list(start)

    def step(a, b, d, places):
        x[a] = (x[a] + x[b]) % 2**32
        mixed = x[d] ^ x[a]
        x[d] = ((mixed << places) | (mixed >> (32 - places))) % 2**32

    for number in range(rounds):
        for i in range(4):
            shift = number % 2
            a, b, c, d = i, 4 + (i + shift) % 4, 8 + (i + 2 * shift) % 4, 12 + (i + 3 * shift) % 4
            step(a, b, d, 16)
            step(c, d, b, 12)
            step(a, b, d, 8)
            step(c, d, b, 7)
    return b"".join(((word + first) % 2**32).to_bytes(4, "little") for word, first in zip(x, start, strict=True))


def test_every_cell_has_its_place_in_the_keystream():
    seeds = fresh_seeds(5, SeededRandomness(1))
    cells = np.array([[0, 7, 8, 4999], [1, 2, 3, 4], [64, 65, 500, 501], [9, 0, 9, 0], [2**31 - 1, 5, 6, 7]])
    words = keystream_words(seeds, cells)
    for seed, row, found in zip(seeds, cells, words, strict=True):
        key = seed.astype("<u8").tobytes()
        for cell, word in zip(row, found, strict=True):
            block = plain_chacha(key, int(cell) // 8, keyed_hash.ROUNDS)
            place = int(cell) % 8 * 8
            assert int(word) == int.from_bytes(block[place : place + 8], "little")


@given(
    st.integers(2, 2**31 - 1).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))), st.integers(0, 2**64 - 1)
)
def test_a_word_is_in_its_bucket_and_in_no_other(length_and_bucket, word):
    length, bucket = length_and_bucket
    first, width = (int(bound[0]) for bound in bucket_bounds(np.array([bucket]), length))
    assert first == -(-bucket * 2**64 // length)
    assert abs(Fraction(width, 2**64) - Fraction(1, length)) < Fraction(1, 2**64)
    found = int(bucket_of(np.array([word], dtype=np.uint64), length)[0])
    assert found == word * length // 2**64
    assert ((word - first) % 2**64 < width) == (found == bucket)


@pytest.mark.parametrize("cells", [1, 7, 8, 64, 65, 1000])
@pytest.mark.parametrize("length", [2, 3, 9, 1000])
def test_hits_are_equal_buckets(cells, length):
    seeds = fresh_seeds(50, SeededRandomness(cells))
    buckets = np.random.default_rng(length).integers(0, length, 50)
    hashes = bucket_of(keystream_words(seeds, np.tile(np.arange(cells), (50, 1))), length)
    expected = hashes == buckets[:, None]
    assert np.array_equal(hit_matrix(seeds, buckets, length, cells), expected)
    assert np.array_equal(count_hits(seeds, buckets, length, cells), expected.sum(axis=0))


@pytest.mark.parametrize("cells", [1, 63, 64, 65, 513, 5000])
def test_compiled_and_plain_give_the_same_integers(cells):
    pytest.importorskip("numba")
    seeds = fresh_seeds(301, SeededRandomness(cells))
    buckets = np.random.default_rng(0).integers(0, 5, 301)
    plain, compiled = (count_hits(seeds, buckets, 5, cells, compiled=each) for each in (False, True))
    assert plain.dtype == compiled.dtype == np.int64
    assert np.array_equal(plain, compiled)
    assert plain.sum() > 0


def test_large_jobs_work_without_numba(monkeypatch):
    monkeypatch.setattr(keyed_hash, "find_spec", lambda name: None)
    monkeypatch.setattr(keyed_hash, "LARGE", 0)
    seeds = fresh_seeds(3, SeededRandomness(1))
    assert count_hits(seeds, np.zeros(3, dtype=np.int64), 2, 100).shape == (100,)
    nobody = count_hits(seeds[:0], np.zeros(0, dtype=np.int64), 2, 100)
    assert not nobody.any()


def test_an_error_in_a_thread_is_passed_on(monkeypatch):
    compiled = pytest.importorskip("tacit.mechanisms.local.keyed_hash_compiled")

    def broken(*arguments):
        raise MemoryError

    monkeypatch.setattr(compiled, "_count", broken)
    with pytest.raises(MemoryError):
        count_hits(fresh_seeds(3, SeededRandomness(1)), np.zeros(3, dtype=np.int64), 2, 100, compiled=True)
