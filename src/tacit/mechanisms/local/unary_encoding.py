"""Noise on every cell: unary encoding, symmetric (SUE) and optimized (OUE), and local discrete Laplace noise.

All other local mechanisms have a smaller error than local Laplace noise, which is here for comparison.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Estimates, Integers, MessageLaw, Number, Randomness
from tacit.mechanisms.auditing import AUDITED_CELLS, PAIR, SINGLE, Check, first_byte, message_checks
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise, laplace_integers, signs
from tacit.mechanisms.description import FLAG, Checks, Parameters
from tacit.mechanisms.exact import exp, precision
from tacit.mechanisms.forms import REACH
from tacit.mechanisms.local.packed_bits import (
    column_sums,
    get_bits,
    logistic_words,
    packed,
    put_bits,
    row_words,
)
from tacit.mechanisms.local.participants import (
    DOMAIN,
    LAW_DIGITS,
    HitEstimates,
    HitRates,
    LocalMessages,
    checked_messages,
    chunks,
    domain,
    local_epsilon,
    one_participant,
    participant_cells,
)
from tacit.mechanisms.messages import BitsCode, NumbersCode
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = ["LocalLaplace", "UnaryEncoding"]


def _logistic(exponent: Fraction) -> Decimal:
    """1/(e^exponent + 1) to the digits of a law."""
    context = precision(LAW_DIGITS)
    return context.divide(Decimal(1), context.add(exp(exponent, LAW_DIGITS), Decimal(1)))


def _bit_law(cells: int, held: list[int], one: Decimal, zero: Decimal) -> MessageLaw:
    """The law of all rows of bits, where bits of own cells are 1 with probability ``one``, others with ``zero``."""
    context = precision(LAW_DIGITS)
    probabilities = []
    for bits in range(2**cells):
        product = Decimal(1)
        for cell in range(cells):
            rate = one if cell in held else zero
            product = context.multiply(product, rate if (bits >> cell) & 1 else context.subtract(Decimal(1), rate))
        probabilities.append(product)
    return MessageLaw(packed(np.arange(2**cells, dtype=np.uint64)[:, None], cells), tuple(probabilities))


@dataclass(frozen=True)
class UnaryEncoding(HitEstimates):
    """Unary encoding: sends an independently randomized bit for every cell.

    **Law.** Asymmetric (OUE, the default): the bit of an own cell is 1 with probability 1/2, any other is 1 with
    probability f = 1/(e^(ε/c) + 1). Symmetric (SUE, as published for reverse k-NN votes): every bit is flipped with
    probability f = 1/(e^(ε/2c) + 1).

    **Spend.** ``Pure(epsilon)``, between any two sets of c cells.

    **Proof.** Two sets differ in at most c cells that only the first has and c that only the second has.
    Symmetric: on each of the 2c bits the probabilities of an outcome differ by at most (1 − f)/f = e^(ε/2c).
    Asymmetric: on a cell of the first kind a 1 is (1/2)/f times as likely and a 0 less likely; on a cell of the
    second kind a 0 is (1 − f)/(1/2) times as likely; the product over c pairs is ((1 − f)/f)^c = e^ε. Both bounds
    are reached if d ≥ 2c. Most bits are zeros, so it is better to flip zeros rarely than to treat all bits alike.

    **Source.** S. L. Warner, Randomized response, JASA 1965, on each bit; asymmetric: optimized unary encoding,
    T. Wang, J. Blocki, N. Li and S. Jha, Locally differentially private protocols for frequency estimation,
    USENIX Security 2017, for c ones.

    >>> round(UnaryEncoding(cells=100, ones=1, epsilon=1).variance_zero, 6)
    3.682694
    >>> round(UnaryEncoding(cells=100, ones=1, epsilon=1, symmetric=True).variance_zero, 6)
    3.917698
    """

    name = "bit-response"
    parameters: ClassVar[Parameters] = {**DOMAIN, "symmetric": FLAG}

    cells: int
    ones: int
    epsilon: Fraction
    symmetric: bool

    def __init__(self, cells: int, ones: int, epsilon: Number, symmetric: bool = False) -> None:
        cells, ones = domain(cells, ones)
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "ones", ones)
        object.__setattr__(self, "epsilon", local_epsilon(epsilon))
        object.__setattr__(self, "symmetric", bool(symmetric))

    @property
    def message_bits(self) -> int:
        """One bit per cell."""
        return self.cells

    @property
    def exponent(self) -> Fraction:
        """A zero is flipped with probability 1/(e^exponent + 1)."""
        return self.epsilon / (2 * self.ones if self.symmetric else self.ones)

    @property
    def rates(self) -> HitRates:
        """How often the bit of a held cell, and of any other, is set."""
        exponent = float(self.exponent)
        raised = 1 / (math.exp(exponent) + 1)
        # 1/2 − 1/(e^x + 1) = tanh(x/2)/2, and 1 − 2/(e^x + 1) is twice that.
        if self.symmetric:
            return HitRates(1 - raised, raised, math.tanh(exponent / 2))
        return HitRates(0.5, raised, math.tanh(exponent / 2) / 2)

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[np.uint8]:
        """One row of packed bits per participant."""
        held = participant_cells(cells, self.cells, self.ones)
        messages = np.empty((len(held), -(-self.cells // 8)), dtype=np.uint8)
        for part in chunks(len(held), row_words(self.cells)):
            size = part.stop - part.start
            words = logistic_words(self.exponent, size, self.cells, randomness)
            participants = np.arange(size)
            for column in held[part].T:
                kept = ~get_bits(words, participants, column) if self.symmetric else signs(size, randomness)
                put_bits(words, participants, column, kept)
            messages[part] = packed(words, self.cells)
        return messages

    def hit_counts(self, messages: NDArray[Any]) -> Integers:
        """How many messages have each cell's bit."""
        return column_sums(messages, self.cells)

    def law(self, cells: Sequence[int]) -> MessageLaw:
        """The probability of every row of bits; there are 2^cells."""
        held = one_participant(cells, self.cells, self.ones)
        raised = _logistic(self.exponent)
        kept = precision(LAW_DIGITS).subtract(Decimal(1), raised) if self.symmetric else Decimal("0.5")
        return _bit_law(self.cells, held, one=kept, zero=raised)

    @property
    def code(self) -> BitsCode:
        """One bit per cell."""
        return BitsCode(self.cells)

    def blankets(self) -> list[Blanket]:
        """The law of an input is that of the empty input times a quotient of probabilities of its own bit.

        The smaller quotient gives the floor; messages with the bits (1, 0) of the two cells are the likely ones.
        """
        if self.ones != 1:
            return []
        epsilon, raised = float(self.epsilon), self.rates.zero
        if self.symmetric:
            return [Blanket(epsilon, raised**2, raised / (1 - raised))]
        return [Blanket(epsilon, raised / 2, 1 / (2 * (1 - raised)))]

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """All bits of a message."""
        named = {"bits-symmetric": True, "bits-asymmetric": False}

        def sent(name: str, epsilon: Fraction, delta: Fraction) -> list[Check]:
            return message_checks(name, cls(AUDITED_CELLS, 2, epsilon, named[name]), PAIR, first_byte)

        return {name: partial(sent, name) for name in named}


@dataclass(frozen=True)
class LocalLaplace(LocalMessages):
    """Adds two-sided geometric noise to each of the participant's d bits and sends the integers.

    **Law.** The participant's ones plus independent noise P(x) ∝ e^(−|x|/b) on every cell, b = 2c/ε.

    **Spend.** ``Pure(epsilon)``, between any two sets of c cells.

    **Proof.** Two sets of c cells have an L1 distance of at most 2c, and changing a cell by one costs at most 1/b. With
    d ≥ 2c, noise of at most 0 on cells of one set and of at least 1 on those of the other reaches the bound.

    **Source.** As ``DiscreteLaplaceNoise``, with each participant as its own curator. Its variance, about 8c²/ε², is
    larger than that of every other local mechanism here for small ε, and its messages are the longest.

    >>> mechanism = LocalLaplace(cells=100, ones=1, epsilon=1)
    >>> round(mechanism.variance_zero, 6)
    7.835396
    """

    name = "local-laplace"
    parameters: ClassVar[Parameters] = DOMAIN
    biased: ClassVar[bool] = False

    cells: int
    ones: int
    epsilon: Fraction

    def __init__(self, cells: int, ones: int, epsilon: Number) -> None:
        cells, ones = domain(cells, ones)
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "ones", ones)
        object.__setattr__(self, "epsilon", local_epsilon(epsilon))

    @property
    def message_bits(self) -> int:
        """A 64-bit integer per cell, since the noise has no bound."""
        return 64 * self.cells

    @property
    def noise(self) -> DiscreteLaplaceNoise:
        """The noise on one participant's bits."""
        return DiscreteLaplaceNoise.for_epsilon(self.epsilon, l1=2 * self.ones)

    @property
    def variance_zero(self) -> float:
        """Variance that one participant adds to a cell it does not have."""
        return self.noise.variance

    @property
    def variance_one(self) -> float:
        """Variance that one participant adds to a cell it has."""
        return self.noise.variance

    @property
    def mean_squared_error(self) -> float:
        """Expected squared error of one participant's estimates, averaged over all cells."""
        return self.noise.variance

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> Integers:
        """One row of noisy integers per participant."""
        held = participant_cells(cells, self.cells, self.ones)
        messages = np.empty((len(held), self.cells), dtype=np.int64)
        for part in chunks(len(held), self.cells):
            rows = held[part]
            noise = laplace_integers(self.noise.scale, len(rows) * self.cells, randomness)
            messages[part] = noise.reshape(len(rows), self.cells)
            messages[part][np.arange(len(rows))[:, None], rows] += 1
        return messages

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """The sums, which are unbiased."""
        rows = checked_messages(messages, np.int64, (self.cells,))
        counts = rows.sum(axis=0, dtype=np.float64)
        return Estimates(counts, np.full(self.cells, len(rows) * self.noise.variance))

    def law(self, cells: Sequence[int], reach: int = 2) -> MessageLaw:
        """The probability of every message within [−reach, 1 + reach] on all cells."""
        held = one_participant(cells, self.cells, self.ones)
        context = precision(LAW_DIGITS)
        ratio = exp(-1 / self.noise.scale, LAW_DIGITS)
        zero = context.divide(context.subtract(Decimal(1), ratio), context.add(Decimal(1), ratio))
        messages, probabilities = [], []
        for message in itertools.product(range(-reach, reach + 2), repeat=self.cells):
            distance = sum(abs(value - (cell in held)) for cell, value in enumerate(message))
            messages.append(message)
            probabilities.append(context.multiply(context.power(zero, self.cells), context.power(ratio, distance)))
        return MessageLaw(np.array(messages, dtype=np.int64), tuple(probabilities))

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """Whether the numbers of cells and of ones agree."""
        return (self.cells, self.ones) == (queries * classes, neighbors * labels)

    @property
    def code(self) -> NumbersCode:
        """One number per cell, clipped where noise practically ends.

        >>> LocalLaplace(10, 1, 1).code.reach
        129
        """
        return NumbersCode(self.cells, 1 + int(REACH * float(self.noise.scale)))

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """The two noisy bits that differ."""
        return {
            cls.name: lambda epsilon, delta: message_checks(
                cls.name, cls(AUDITED_CELLS, 1, epsilon), SINGLE, lambda rows: rows[:, :2]
            )
        }
