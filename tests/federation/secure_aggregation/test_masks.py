"""Enough shares give the secret, and fewer say nothing about it: counted exactly over a small field."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.federation.secure_aggregation.masks import (
    PRIME,
    element_to_bytes,
    read_element,
    reconstruct_secret,
    split_secret,
)


@given(st.data(), st.integers(0, PRIME - 1), st.integers(1, 8))
def test_any_threshold_of_shares_gives_the_secret(data, secret, holders):
    threshold = data.draw(st.integers(1, holders))
    places = list(range(1, holders + 1))
    shares = split_secret(secret, threshold, places, SystemRandomness())
    chosen = data.draw(st.permutations(places))[: data.draw(st.integers(threshold, holders))]
    assert reconstruct_secret({place: shares[place - 1] for place in chosen}) == secret


class Listed:
    """Words that run through every choice of coefficients."""

    origin = "seeded"

    def __init__(self, words):
        self._words = iter(words)

    def words(self, count):
        import numpy as np

        return np.array([next(self._words) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize("known", list(itertools.combinations([1, 2, 3, 4], 2)))
def test_fewer_shares_are_equally_likely_for_every_secret(known):
    laws = []
    for secret in range(5):
        seen = Counter()
        for coefficients in itertools.product(range(5), repeat=2):
            shares = split_secret(secret, 3, [1, 2, 3, 4], Listed(coefficients), prime=5)
            seen[tuple(shares[place - 1] for place in known)] += 1
        laws.append(seen)
    assert all(law == laws[0] for law in laws)
    assert len(laws[0]) == 25


def test_one_share_too_few_gives_another_number():
    shares = split_secret(42, 3, [1, 2, 3], SeededRandomness(1))
    assert reconstruct_secret({1: shares[0], 2: shares[1]}) != 42


def test_wrong_use_is_explained():
    with pytest.raises(InvalidInput, match="element of the field"):
        split_secret(PRIME, 1, [1], SystemRandomness())
    with pytest.raises(InvalidInput, match="threshold must be"):
        split_secret(1, 3, [1, 2], SystemRandomness())
    with pytest.raises(InvalidInput, match="different places"):
        split_secret(1, 2, [1, 1], SystemRandomness())
    with pytest.raises(InvalidInput, match="at least 1"):
        split_secret(1, 2, [0, 1], SystemRandomness())
    for wrong in (b"", element_to_bytes(1)[:31], b"\xff" * 32):
        with pytest.raises(InvalidInput, match="element of the field"):
            read_element(wrong)
