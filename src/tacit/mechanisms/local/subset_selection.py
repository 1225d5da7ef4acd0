"""Subset selection (PrivSet): sends a random set of w cells, which intersects the participant's own more often."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, MessageLaw, Number, Randomness, Words, permutations, uniform_below
from tacit.mechanisms.auditing import AUDITED_CELLS, PAIR, first_byte, message_checks
from tacit.mechanisms.description import CELLS, Checks, Parameters
from tacit.mechanisms.exact import ExactTable, exp, precision
from tacit.mechanisms.forms import Messages
from tacit.mechanisms.local.packed_bits import (
    column_sums,
    dyadic_words,
    get_bits,
    packed,
    put_bits,
    row_words,
)
from tacit.mechanisms.local.participants import (
    DOMAIN,
    LAW_DIGITS,
    HitEstimates,
    HitRates,
    chunks,
    domain,
    local_epsilon,
    one_participant,
    participant_cells,
)
from tacit.mechanisms.messages import SetCode
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = ["SubsetSelection", "best_subset_size", "subset_rates"]

# Binary places of the density from which a subset is started.
PLACES = 8


def subset_rates(cells: int, ones: int, epsilon: Fraction, size: int) -> HitRates:
    """The probabilities that a subset of ``size`` cells contains an own cell, and any other.

    With t = C(d−c,w)/C(d,w), the probability that a uniform subset misses all c cells, and everything divided by
    e^ε·C(d,w), the quotients of binomials become p = (w/d)/s and p − q = (1 − e^−ε)·t·w/(d − c)/s, where
    s = 1 − (1 − e^−ε)·t.

    >>> round(subset_rates(100, 1, Fraction(1), 27).variance_zero, 6)
    3.58965
    """
    missed = math.prod((cells - size - i) / (cells - i) for i in range(ones))
    rise = -math.expm1(-epsilon)
    total = 1 - rise * missed
    one, gap = size / cells / total, rise * missed * size / (cells - ones) / total
    return HitRates(one, one - gap, gap)


def best_subset_size(cells: int, ones: int, epsilon: Fraction) -> int:
    """The number of cells that makes the variance on zeros smallest.

    The variance first decreases and then increases with the size, so bisection finds the best one. A test compares it
    with all sizes; another size would cost accuracy, never privacy.

    >>> best_subset_size(100, 1, Fraction(1)), best_subset_size(100, 1, Fraction(4))
    (27, 1)
    """

    def variance(size: int) -> float:
        return subset_rates(cells, ones, epsilon, size).variance_zero

    low, high = 1, cells - ones
    while low < high:
        middle = (low + high) // 2
        if variance(middle) <= variance(middle + 1):
            high = middle
        else:
            low = middle + 1
    return low


@lru_cache(maxsize=64)
def _overlaps(cells: int, ones: int, epsilon: Fraction, size: int) -> ExactTable:
    """The number of the participant's own cells in the subset.

    The weights E·C(c,j)·C(d−c,w−j), without E for j = 0, all divided by C(d−c,w) and multiplied by a common
    denominator, are products of c integers each.
    """
    outside = cells - ones - size

    def weights(digits: int) -> list[Decimal]:
        context = precision(digits)
        weight = exp(epsilon, digits)
        listed = []
        for overlap in range(ones + 1):
            falling = math.perm(size, overlap)
            rising = math.prod(outside + 1 + i for i in range(overlap, ones))
            ways = Decimal(math.comb(ones, overlap) * falling * rising)
            listed.append(context.multiply(ways, weight) if overlap else context.plus(ways))
        return listed

    return ExactTable(weights)


@dataclass(frozen=True)
class SubsetSelection(HitEstimates):
    """Sends a set of w cells; each set that intersects the participant's own is e^ε times as likely as any other.

    **Law.** P(S) = e^ε/Ω if S intersects the participant's cells and 1/Ω otherwise, over all S of w cells, with
    Ω = e^ε(C(d,w) − C(d−c,w)) + C(d−c,w).

    **Spend.** ``Pure(epsilon)``, between any two sets of c cells.

    **Proof.** Ω does not depend on the participant's set and every probability is 1/Ω or e^ε/Ω. A subset that
    intersects one of two different sets and not the other exists, as w ≤ d − c, and reaches the bound.

    **Estimate.** An own cell is in S with probability p = e^ε·C(d−1,w−1)/Ω, any other with
    q = (e^ε(C(d−1,w−1) − x) + x)/Ω, x = C(d−1−c,w−1).

    **Source.** M. Ye and A. Barg, Optimal schemes for discrete distribution estimation under locally differential
    privacy, 2018, for c = 1; S. Wang et al., PrivSet: set-valued data analyses with local differential privacy,
    INFOCOM 2018. On zeros it has the smallest variance of all mechanisms here.

    A message is a row of packed bits, one per cell.

    >>> mechanism = SubsetSelection(cells=100, ones=1, epsilon=2)
    >>> mechanism.size, round(mechanism.variance_zero, 6)
    (12, 0.689861)
    """

    name = "subset-selection"
    parameters: ClassVar[Parameters] = {**DOMAIN, "size": CELLS}

    cells: int
    ones: int
    epsilon: Fraction
    size: int

    def __init__(self, cells: int, ones: int, epsilon: Number, size: int | None = None) -> None:
        cells, ones = domain(cells, ones)
        number = local_epsilon(epsilon)
        if size is None:
            size = best_subset_size(cells, ones, number)
        if not 1 <= size <= cells - ones:
            raise InvalidInput(f"size must be in [1, {cells - ones}] for {cells} cells and {ones} ones, got {size}")
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "ones", ones)
        object.__setattr__(self, "epsilon", number)
        object.__setattr__(self, "size", int(size))

    @property
    def message_bits(self) -> int:
        """One bit per cell."""
        return self.cells

    @property
    def rates(self) -> HitRates:
        """How often a held cell, and any other, is in the subset."""
        return subset_rates(self.cells, self.ones, self.epsilon, self.size)

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[np.uint8]:
        """One row of packed bits per participant."""
        held = participant_cells(cells, self.cells, self.ones)
        messages = np.empty((len(held), -(-self.cells // 8)), dtype=np.uint8)
        for part in chunks(len(held), row_words(self.cells), entries=2**18):
            messages[part] = packed(self._subsets(held[part], randomness), self.cells)
        return messages

    def _subsets(self, held: Integers, randomness: Randomness) -> Words:
        """One subset for each row of held cells."""
        count = len(held)
        overlap = _overlaps(self.cells, self.ones, self.epsilon, self.size).sample(count, randomness)
        words = self._others(held, self.size - overlap, randomness)
        chosen = np.take_along_axis(held, permutations(count, self.ones, randomness), axis=1)
        for place in range(self.ones):
            rows = np.flatnonzero(place < overlap)
            put_bits(words, rows, chosen[rows, place], True)
        return words

    def _others(self, held: Integers, sizes: Integers, randomness: Randomness) -> Words:
        """A uniform subset of the cells outside of ``held``, of each row's size.

        Independent bits of any density make a subset that is uniform among those of its size. Then uniform cells are
        added or removed until the size is right, which keeps it uniform.
        """
        # A little below the density that is needed: adding is fast, since most cells are not in the set yet.
        wanted = self.size - 2 * math.sqrt(self.size)
        density = max(0, math.floor(2**PLACES * wanted / self.cells))
        words = dyadic_words(density, PLACES, len(held), self.cells, randomness)
        if self.cells % 64:
            words[:, -1] &= np.uint64(2 ** (self.cells % 64) - 1)
        for column in held.T:
            put_bits(words, np.arange(len(held)), column, False)
        missing = sizes - np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        waiting = np.flatnonzero(missing)
        while len(waiting):
            cell = uniform_below(self.cells, len(waiting), randomness)
            adds = missing[waiting] > 0
            usable = (get_bits(words, waiting, cell) != adds) & (cell[:, None] != held[waiting]).all(axis=1)
            rows = waiting[usable]
            put_bits(words, rows, cell[usable], adds[usable])
            missing[rows] -= np.where(adds[usable], 1, -1)
            waiting = waiting[missing[waiting] != 0]
        return words

    def hit_counts(self, messages: NDArray[Any]) -> Integers:
        """How many subsets have each cell."""
        hits = column_sums(messages, self.cells)
        if not self.code.valid(messages).all():
            raise InvalidInput(f"messages must be subsets of {self.size} cells each")
        return hits

    def law(self, cells: Sequence[int]) -> MessageLaw:
        """The probability of every subset; there are C(cells, size)."""
        held = set(one_participant(cells, self.cells, self.ones))
        context, weight = precision(LAW_DIGITS), exp(self.epsilon, LAW_DIGITS)
        subsets = list(itertools.combinations(range(self.cells), self.size))
        missing = math.comb(self.cells - self.ones, self.size)
        meeting = context.multiply(weight, Decimal(len(subsets) - missing))
        total = context.add(meeting, Decimal(missing))
        meets, misses = context.divide(weight, total), context.divide(Decimal(1), total)
        masks = np.array([sum(2**cell for cell in subset) for subset in subsets], dtype=np.uint64)
        return MessageLaw(
            packed(masks[:, None], self.cells),
            tuple(misses if held.isdisjoint(subset) else meets for subset in subsets),
        )

    @property
    def code(self) -> SetCode:
        """The set, compressed if it is small."""
        return SetCode(self.cells, self.size)

    def exact_form(self, count: int) -> Messages:
        """The form of exactly ``count`` messages."""
        return Messages(self.code, count, exactly=True)

    def hits(self, messages: NDArray[Any]) -> NDArray[np.float64]:
        """For each message and cell, 1 where the cell is in the set."""
        return np.unpackbits(messages, axis=1, count=self.cells, bitorder="little").astype(np.float64)

    def blankets(self) -> list[Blanket]:
        """The floor is 1/Ω on each of the C(d, w) sets.

        C(d−c, w) − C(d−2c+j, w) of them intersect one set of cells and not the other.
        """
        epsilon, ones = float(self.epsilon), self.ones

        def missed(held: int) -> float:
            """C(d−h, w)/C(d, w), the probability that a uniform subset misses h cells, without overflow."""
            terms = range(min(held, self.cells - self.size + 1))
            return math.prod((self.cells - self.size - i) / (self.cells - i) for i in terms)

        floor = 1 / (math.exp(epsilon) - math.expm1(epsilon) * missed(ones))
        return [Blanket(epsilon, (missed(ones) - missed(2 * ones - j)) * floor, floor) for j in self.shared_cells]

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """The complete set."""
        return {
            cls.name: lambda epsilon, delta: message_checks(cls.name, cls(AUDITED_CELLS, 2, epsilon), PAIR, first_byte)
        }
