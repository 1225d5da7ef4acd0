"""Packed random bits: each is exactly the comparison of a uniform real with the probability."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.mechanisms.exact import exp
from tacit.mechanisms.local.packed_bits import (
    column_sums,
    dyadic_words,
    get_bits,
    logistic_words,
    packed,
    put_bits,
    row_words,
)


class Recorded:
    """Seeded words, remembered in the order in which they were asked for."""

    origin = "seeded"

    def __init__(self, seed):
        self.inner = SeededRandomness(seed)
        self.rounds = []

    def words(self, count):
        self.rounds.append(self.inner.words(count))
        return self.rounds[-1]


@pytest.mark.parametrize("exponent", [Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(9, 2), Fraction(40)])
def test_a_bit_says_whether_a_uniform_real_is_below_the_probability(exponent):
    randomness = Recorded(3)
    words = logistic_words(exponent, 50, 64, randomness).ravel()
    with localcontext() as context:
        context.prec = 60
        probability = Fraction(1 / (exp(exponent, 50) + Decimal(1)))
    waiting = list(range(50))
    reals = {(word, lane): Fraction(0) for word in range(50) for lane in range(64)}
    for place, drawn in enumerate(randomness.rounds, start=1):
        assert len(drawn) == len(waiting)
        for word, value in zip(waiting, drawn, strict=True):
            for lane in range(64):
                reals[word, lane] += Fraction((int(value) >> lane) & 1, 2**place)
        unit = Fraction(1, 2**place)
        # A word waits as long as the digits so far of one of its 64 reals are those of the probability.
        waiting = [
            word
            for word in waiting
            if any(reals[word, lane] <= probability < reals[word, lane] + unit for lane in range(64))
        ]
    assert not waiting
    for (word, lane), real in reals.items():
        assert ((int(words[word]) >> lane) & 1) == (real < probability)


@pytest.mark.parametrize("numerator", range(8))
def test_dyadic_bits_are_one_for_exactly_the_numerator_of_all_digit_patterns(numerator):
    patterns = list(itertools.product((0, 1), repeat=3))
    rounds = [sum(pattern[place] << lane for lane, pattern in enumerate(patterns)) for place in range(3)]

    class Scripted:
        origin = "seeded"

        def words(self, count):
            assert count == 1
            return np.array([rounds.pop(0)], dtype=np.uint64)

    word = int(dyadic_words(numerator, 3, 1, 64, Scripted())[0, 0]) & 0xFF
    assert word.bit_count() == numerator


@given(st.integers(1, 200), st.integers(0, 2**32))
def test_bits_are_put_got_packed_and_summed(columns, seed):
    generator = np.random.default_rng(seed)
    bits = generator.random((17, columns)) < 0.5
    words = np.zeros((17, row_words(columns)), dtype=np.uint64)
    rows = np.arange(17)
    for column in range(columns):
        place = np.full(17, column)
        put_bits(words, rows, place, ~bits[:, column])
        put_bits(words, rows, place, bits[:, column])
        assert np.array_equal(get_bits(words, rows, place), bits[:, column])
    messages = packed(words, columns)
    assert np.array_equal(messages, np.packbits(bits, axis=1, bitorder="little"))
    assert np.array_equal(column_sums(messages, columns), bits.sum(axis=0))


@given(arrays(np.uint8, st.tuples(st.integers(0, 600), st.integers(1, 3))))
def test_column_sums_of_many_rows(messages):
    columns = 8 * messages.shape[1]
    expected = np.unpackbits(messages, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    assert np.array_equal(column_sums(messages, columns), expected)


def test_bits_beyond_the_last_cell_are_refused():
    with pytest.raises(InvalidInput, match="beyond the 3 cells"):
        column_sums(np.array([[8]], dtype=np.uint8), 3)
