"""Exact sampling from a distribution on infinitely many numbers.

A table can hold only finitely many outcomes, and cutting the others off would change the law. So a table is a
chain of blocks: the last outcome of each block means "beyond", carries exactly the mass of everything beyond,
and leads to the next block, which is made when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np

from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness
from tacit.mechanisms.exact import ExactTable, precision

__all__ = ["UnboundedTable"]

# A product of 10^9 ratios, longer than any block, loses at most this many digits.
LENGTH_DIGITS = 10


class UnboundedTable:
    """A distribution on first, first + 1, … given by how its weights go on from each outcome.

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
        """That many independent draws, with exactly the stated law."""
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
            # Blocks double, so that a long tail needs few of them.
            start, length, depth = start + length, 2 * length, depth + 1
        return outcomes

    def _block(self, start: int, length: int) -> ExactTable:
        """The law of an outcome known to be at least ``start``: ``length`` outcomes, then all the others as one."""

        def weights(digits: int) -> list[Decimal]:
            context = precision(digits + LENGTH_DIGITS)
            ratio = self._ratios(digits + LENGTH_DIGITS)
            listed, weight = [], Decimal(1)
            for k in range(start, start + length):
                listed.append(weight)
                weight = context.multiply(weight, ratio(k))
            return [*listed, context.multiply(weight, self._tail(start + length, digits + LENGTH_DIGITS))]

        return ExactTable(weights)
