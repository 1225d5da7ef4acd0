"""Exact sampling of arrays: floats filter, integers decide.

A probability is a real number that can be computed to any precision. A uniform 64-bit word decides almost every
comparison with it at once; a draw that is too close is extended by more random bits and compared at a higher precision
until it is decided. The result has *exactly* the stated law, tails included: floating point is used only where its
error bound proves the result. The standard library's ``decimal`` rounds ``exp`` correctly, on which the slow path
relies.

A table has finitely many outcomes, and truncation would change the law. So a distribution on infinitely many numbers is
a chain of blocks: the last outcome of each means "beyond", has exactly the mass of everything beyond, and leads to the
next block, which is made when it is first needed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, Randomness

__all__ = ["ExactTable", "UnboundedTable", "bernoulli", "bernoulli_exp", "exp", "precision"]

WORD = 64
# A coin flip closer than this to its probability is decided exactly. An approximation must be twice as precise, which
# allows for the rounding of the comparison itself; float64 arithmetic is a thousand times more precise.
_MARGIN = 2.0**-38
# A table stores the outcome for each value of a word's leading bits, if they decide it.
LEADING = 14
# A product of 10^9 ratios, longer than any block, loses at most this many digits.
LENGTH_DIGITS = 10


def precision(digits: int) -> Context:
    """A decimal context with ten more digits than ``digits``.

    >>> precision(30).prec
    40
    """
    return Context(prec=digits + 10, Emin=-(10**9), Emax=10**9)


def exp(exponent: Fraction, digits: int) -> Decimal:
    """e^exponent, with a relative error below 10^-digits.

    >>> exp(Fraction(-1, 2), 20)
    Decimal('0.606530659712633423603799534991')
    """
    # A relative error r of the exponent x becomes |x|·r of the result, so use digits for |x| as well.
    magnitude = len(str(abs(math.ceil(exponent)) + 1))
    context = precision(digits + magnitude)
    quotient = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    return precision(digits).plus(context.exp(quotient))


def _scaled(value: Decimal, slack: Decimal, bits: int, digits: int, rounding: str) -> int:
    """An integer bound of (value ± slack)·2^bits, rounded outward."""
    context = Context(prec=digits + bits, rounding=rounding, Emin=-(10**9), Emax=10**9)
    moved = context.add(value, slack) if rounding == ROUND_CEILING else context.subtract(value, slack)
    return int(context.to_integral_value(context.multiply(moved, Decimal(2**bits))))


def bernoulli(
    approximate: NDArray[np.float64], refine: Callable[[int, int], Decimal], randomness: Randomness
) -> NDArray[np.bool_]:
    """Independent exact coin flips with the given success probabilities.

    ``approximate`` is within 2^-39 of each probability; ``refine(index, digits)`` gives it with an absolute
    error below 10^-digits. The law depends only on ``refine``.

    >>> from tacit.core.randomness import SeededRandomness
    >>> third = lambda index, digits: precision(digits).divide(Decimal(1), Decimal(3))
    >>> round(float(bernoulli(np.full(10_000, 1 / 3), third, SeededRandomness(1)).mean()), 1)
    0.3
    """
    words = randomness.words(len(approximate))
    # Converting a word to float64 changes it by at most 2^-53, far less than the margin.
    distance = words.astype(np.float64) * 2.0**-WORD - approximate
    heads = distance < 0
    for index in np.flatnonzero(np.abs(distance) <= _MARGIN):
        heads[index] = _settle(int(words[index]), partial(refine, int(index)), randomness)
    return heads


def _settle(word: int, probability: Callable[[int], Decimal], randomness: Randomness) -> bool:
    """Whether a uniform real that begins with these 64 bits is below the probability."""
    bits = WORD
    while True:
        digits = math.ceil(bits * math.log10(2)) + 5
        value, slack = probability(digits), Decimal(f"1e-{digits}")
        if word + 1 <= _scaled(value, slack, bits, digits, ROUND_FLOOR):
            return True
        if word >= _scaled(value, slack, bits, digits, ROUND_CEILING):
            return False
        word = (word << WORD) | int(randomness.words(1)[0])
        bits += WORD


def bernoulli_exp(
    numerators: NDArray[np.int64], denominator: Fraction | int, randomness: Randomness
) -> NDArray[np.bool_]:
    """Independent exact coin flips that succeed with probability e^(-numerator/denominator), numerators ≥ 0.

    The denominator may be a fraction, so that no product has to fit in 64 bits.

    >>> from tacit.core.randomness import SeededRandomness
    >>> bernoulli_exp(np.array([0, 10**6]), 1, SeededRandomness(1)).tolist()
    [True, False]
    """

    def refine(index: int, digits: int) -> Decimal:
        return exp(-int(numerators[index]) / Fraction(denominator), digits)

    return bernoulli(np.exp(-(numerators / float(denominator))), refine, randomness)


class ExactTable:
    """A distribution on 0, …, n-1 proportional to weights that are known to any precision.

    ``weights(digits)`` gives them with a relative error below 10^-digits each. Weights may be zero.

    >>> from tacit.core.randomness import SeededRandomness
    >>> fair = ExactTable(lambda digits: [Decimal(1), Decimal(1)])
    >>> sorted(set(fair.sample(100, SeededRandomness(1)).tolist()))
    [0, 1]
    """

    def __init__(self, weights: Callable[[int], Sequence[Decimal]]) -> None:
        self._weights = weights
        self._finer: dict[int, tuple[list[int], list[int]]] = {}
        lower, upper = self._thresholds(WORD)
        # A bound of 2^64 or more is above every word and is never counted.
        self._lower = np.array([each for each in lower if each < 2**WORD], dtype=np.uint64)
        self._upper = np.array([each for each in upper if each < 2**WORD], dtype=np.uint64)
        # The outcome of all words that begin with the same bits, or -1 if a threshold lies among them.
        first = np.arange(2**LEADING, dtype=np.uint64) << np.uint64(WORD - LEADING)
        last = first | np.uint64(2 ** (WORD - LEADING) - 1)
        certain = np.searchsorted(self._upper, first, side="right")
        touched = np.searchsorted(self._lower, last, side="right")
        self._leading = np.where(certain == touched, certain, -1)

    def _thresholds(self, bits: int) -> tuple[list[int], list[int]]:
        """Integers around 2^bits times the cumulative probability after every outcome but the last."""
        if bits not in self._finer:
            digits = math.ceil(bits * math.log10(2)) + 5
            context = precision(digits + 10)
            weights = self._weights(digits)
            total, running, cumulative = Decimal(0), Decimal(0), []
            for weight in weights:
                total = context.add(total, weight)
            for weight in weights[:-1]:
                running = context.add(running, weight)
                cumulative.append(context.divide(running, total))
            # Each weight, and so each sum, has a relative error of at most 10^-digits, and their quotient 3 times that.
            slack = Decimal(f"3e-{digits}")
            self._finer[bits] = (
                [max(0, _scaled(value, slack, bits, digits, ROUND_FLOOR)) for value in cumulative],
                [_scaled(value, slack, bits, digits, ROUND_CEILING) for value in cumulative],
            )
        return self._finer[bits]

    def sample(self, count: int, randomness: Randomness) -> NDArray[np.int64]:
        """``count`` independent draws, with exactly the stated law."""
        words = randomness.words(count)
        outcomes = self._leading[(words >> np.uint64(WORD - LEADING)).view(np.int64)]
        undecided = np.flatnonzero(outcomes < 0)
        rest = words[undecided]
        # A word w stands for the reals in [w, w+1)/2^64. Outcome i is certain if no threshold's enclosure intersects
        # that interval: as many enclosures end at or below w as begin at or below w.
        certain = np.searchsorted(self._upper, rest, side="right")
        touched = np.searchsorted(self._lower, rest, side="right")
        outcomes[undecided] = certain
        for index in undecided[certain != touched]:
            outcomes[index] = self._settle(int(words[index]), randomness)
        return outcomes

    def _settle(self, word: int, randomness: Randomness) -> int:
        bits = WORD
        while True:
            lower, upper = self._thresholds(bits)
            outcome = bisect_right(upper, word)
            if bisect_right(lower, word) == outcome:
                return outcome
            word = (word << WORD) | int(randomness.words(1)[0])
            bits += WORD


class UnboundedTable:
    """A distribution on first, first + 1, … given by the ratios of successive weights.

    ``ratios(digits)`` gives the function k ↦ weight(k+1) / weight(k), and ``tail(k, digits)`` is the sum of
    weight(j) / weight(k) over all j ≥ k, both with a relative error below 10^-digits.

    >>> from tacit.core.randomness import SeededRandomness
    >>> halves = UnboundedTable(lambda digits: lambda k: Decimal("0.5"), lambda k, digits: Decimal(2))
    >>> halves.sample(8, SeededRandomness(1)).tolist()
    [1, 4, 0, 4, 0, 0, 2, 0]
    """

    def __init__(
        self,
        ratios: Callable[[int], Callable[[int], Decimal]],
        tail: Callable[[int, int], Decimal],
        first: int = 0,
    ) -> None:
        self._ratios = ratios
        self._tail = tail
        self._first = first
        self._blocks: list[ExactTable] = []

    def sample(self, count: int, randomness: Randomness) -> Integers:
        """``count`` independent draws, with exactly the stated law."""
        outcomes = np.empty(count, dtype=np.int64)
        waiting = np.arange(count)
        start, length, depth = self._first, 64, 0
        while len(waiting):
            if depth == len(self._blocks):
                self._blocks.append(self._block(start, length))
            drawn = self._blocks[depth].sample(len(waiting), randomness)
            inside = drawn < length
            outcomes[waiting[inside]] = start + drawn[inside]
            waiting = waiting[~inside]
            # Blocks double in length, so that a long tail needs few of them.
            start, length, depth = start + length, 2 * length, depth + 1
        return outcomes

    def _block(self, start: int, length: int) -> ExactTable:
        """The law of an outcome given that it is at least ``start``: ``length`` outcomes, then all others as one."""

        def weights(digits: int) -> list[Decimal]:
            context = precision(digits + LENGTH_DIGITS)
            ratio = self._ratios(digits + LENGTH_DIGITS)
            listed, weight = [], Decimal(1)
            for k in range(start, start + length):
                listed.append(weight)
                weight = context.multiply(weight, ratio(k))
            return [*listed, context.multiply(weight, self._tail(start + length, digits + LENGTH_DIGITS))]

        return ExactTable(weights)
