"""Rows of random bits, 64 to a word: drawn exactly, changed cell by cell, and summed column by column.

A bit is one with probability p if a uniform real is below p. The two are compared binary digit by binary digit, for 64
bits at a time; every digit decides half of the open comparisons, so that a bit takes about eight random bits, and not a
64-bit word.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Randomness, Words
from tacit.mechanisms.exact import exp, precision
from tacit.mechanisms.local.participants import checked_messages, chunks

__all__ = [
    "column_sums",
    "dyadic_words",
    "get_bits",
    "logistic_words",
    "packed",
    "put_bits",
    "row_words",
]

_WORD = 64
# Sums of this many single bits fit into a byte, and sums of bytes are the fastest.
BYTE_ROWS = 255


def row_words(columns: int) -> int:
    """The number of words for a row of ``columns`` bits.

    >>> row_words(65)
    2
    """
    return -(-columns // _WORD)


@lru_cache(maxsize=256)
def _expansion(exponent: Fraction, places: int) -> int:
    """The first binary digits of 1/(e^exponent + 1), as the integer floor(2^places · p).

    p is irrational for a rational exponent other than 0, so some precision separates it from every integer.
    """
    digits = places // 3 + 10
    while True:
        context = precision(digits)
        value = Fraction(context.divide(Decimal(1), context.add(exp(exponent, digits), Decimal(1))))
        slack = Fraction(1, 10 ** (digits - 1))
        lower, upper = int((value - slack) * 2**places), int((value + slack) * 2**places)
        if lower == upper:
            return lower
        digits *= 2


def _compared(expansion: Callable[[int], int], count: int, randomness: Randomness) -> Words:
    """Words of independent bits that are one with the probability whose binary digits are given."""
    heads = np.zeros(count, dtype=np.uint64)
    waiting = np.arange(count)
    undecided = np.full(count, 2**_WORD - 1, dtype=np.uint64)
    place = 0
    while len(waiting):
        known = _WORD * (place // _WORD + 1)
        digit = (expansion(known) >> (known - 1 - place)) & 1
        words = randomness.words(len(waiting))
        if digit:
            heads[waiting] |= undecided & ~words
            undecided &= words
        else:
            undecided &= ~words
        still = undecided != 0
        waiting, undecided = waiting[still], undecided[still]
        place += 1
    return heads


def logistic_words(exponent: Fraction, rows: int, columns: int, randomness: Randomness) -> Words:
    """Rows of independent bits, each one with probability exactly 1/(e^exponent + 1), for an exponent above 0.

    Bits beyond the last column are random as well; ``packed`` clears them.

    >>> from tacit.core.randomness import SeededRandomness
    >>> words = logistic_words(Fraction(1), 1000, 64, SeededRandomness(1))
    >>> round(float(np.bitwise_count(words).mean()) / 64, 2)
    0.27
    """
    width = row_words(columns)
    return _compared(lambda places: _expansion(exponent, places), rows * width, randomness).reshape(rows, width)


def dyadic_words(numerator: int, places: int, rows: int, columns: int, randomness: Randomness) -> Words:
    """Rows of independent bits, each one with probability exactly numerator/2^places.

    >>> from tacit.core.randomness import SeededRandomness
    >>> words = dyadic_words(3, 4, 1000, 64, SeededRandomness(1))
    >>> round(float(np.bitwise_count(words).mean()) / 64, 2)
    0.19
    """
    width = row_words(columns)
    bits = np.zeros(rows * width, dtype=np.uint64)
    for place in range(places):
        if not numerator & ((2 << place) - 1):
            continue  # no digit so far: still all zeros
        # From the last binary digit to the first: half of the bits keep what the later digits decided.
        words = randomness.words(rows * width)
        bits = bits | words if (numerator >> place) & 1 else bits & words
    return bits.reshape(rows, width)


def get_bits(words: Words, rows: Integers, columns: Integers) -> NDArray[np.bool_]:
    """The bit of each listed row in its column.

    >>> get_bits(np.array([[4], [4]], dtype=np.uint64), np.array([0, 1]), np.array([2, 1])).tolist()
    [True, False]
    """
    chosen = words[rows, columns >> 6]
    bits: NDArray[np.bool_] = ((chosen >> (columns & 63).astype(np.uint64)) & np.uint64(1)) == 1
    return bits


def put_bits(words: Words, rows: Integers, columns: Integers, values: NDArray[np.bool_] | bool) -> None:
    """Set the bit of each listed row in its column, in place; no row may be listed twice.

    >>> words = np.zeros((2, 1), dtype=np.uint64)
    >>> put_bits(words, np.array([0, 1]), np.array([0, 3]), True)
    >>> words.ravel().tolist()
    [1, 8]
    """
    masks = np.uint64(1) << (columns & 63).astype(np.uint64)
    place = (rows, columns >> 6)
    words[place] = np.where(values, words[place] | masks, words[place] & ~masks)


def packed(words: Words, columns: int) -> NDArray[np.uint8]:
    """The rows as bytes, first column in the lowest bit of the first byte, zeros after the last column.

    >>> packed(np.array([[2**64 - 1]], dtype=np.uint64), columns=10).tolist()
    [[255, 3]]
    """
    size = -(-columns // 8)
    rows = np.ascontiguousarray(words, dtype="<u8").view(np.uint8).reshape(len(words), -1)[:, :size].copy()
    if columns % 8:
        rows[:, -1] &= np.uint8(2 ** (columns % 8) - 1)
    return rows


def column_sums(messages: NDArray[Any], columns: int) -> Integers:
    """How many of the packed rows have a one in each column.

    >>> column_sums(np.array([[255, 3], [1, 0]], dtype=np.uint8), columns=10).tolist()
    [2, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    rows = checked_messages(messages, np.uint8, (-(-columns // 8),))
    if columns % 8 and (rows[:, -1] >> (columns % 8)).any():
        raise InvalidInput(f"messages must have no bit set beyond the {columns} cells")
    sums = np.zeros(columns, dtype=np.int64)
    for part in chunks(len(rows), 8, entries=8 * BYTE_ROWS):
        bits = np.unpackbits(rows[part], axis=1, count=columns, bitorder="little")
        sums += bits.sum(axis=0, dtype=np.uint8)
    return sums
