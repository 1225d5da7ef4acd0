"""Discrete Laplace (two-sided geometric) noise on a table of counts, to release counts under pure DP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Number, Pure, Randomness, Sensitivity, positive
from tacit.mechanisms.auditing import MOVED, PURE, Check, rowwise
from tacit.mechanisms.central.counts import count_table
from tacit.mechanisms.description import COUNT, EXACT, Checks, Described, NoiseLaw, Parameters
from tacit.mechanisms.exact import ExactTable, exp, precision

__all__ = ["DiscreteLaplaceNoise", "geometric", "laplace_integers", "signs"]

# Below, noise is practically zero; above, it could exceed 64 bits.
SMALLEST_NOISE, LARGEST_NOISE = Fraction(1, 10**6), Fraction(10**12)
# Outcomes of one digit, and the range of the leading digit of a geometric variable, in scales.
DIGIT, _REACH = 512, 8


def _digit(ratio: Fraction, length: int, tail: bool) -> ExactTable:
    """The law ∝ e^(−i·ratio) on 0 ≤ i < length; with ``tail`` the outcome ``length`` stands for all larger ones."""

    def weights(digits: int) -> list[Decimal]:
        # Each product adds one rounding, and 1 − e^−ratio below cancels as many digits as the ratio is small.
        finer = digits + len(str(length)) + max(0, -math.floor(math.log10(ratio))) + 2
        context = precision(finer)
        step = exp(-ratio, finer)
        listed, weight = [], Decimal(1)
        for _ in range(length):
            listed.append(weight)
            weight = context.multiply(weight, step)
        if tail:
            listed.append(context.divide(weight, context.subtract(Decimal(1), step)))
        return listed

    return ExactTable(weights)


@dataclass(frozen=True)
class _Digits:
    """The independent digits of a geometric variable: (place value, table) of each lower one, and the leading one."""

    lower: tuple[tuple[int, ExactTable], ...]
    place: int
    length: int
    leading: ExactTable


@lru_cache(maxsize=64)
def _digits(scale: Fraction) -> _Digits:
    lower, place = [], 1
    while _REACH * scale > DIGIT * place:
        lower.append((place, _digit(place / scale, DIGIT, tail=False)))
        place *= DIGIT
    length = math.ceil(_REACH * scale / place)
    return _Digits(tuple(lower), place, length, _digit(place / scale, length, tail=True))


def geometric(scale: Fraction, count: int, randomness: Randomness) -> Integers:
    """``count`` independent draws of P(m) ∝ e^(−m/scale) on m = 0, 1, 2, …, exactly.

    Because e^(−(i + Bj)/b) is a product of a function of i and one of j, the digits of m in base B are independent, and
    each is drawn from a table. The last outcome of the leading digit's table means "beyond": since the geometric law is
    memoryless, the same law starts again there.

    >>> from tacit.core.randomness import SeededRandomness
    >>> geometric(Fraction(100), 4, SeededRandomness(1)).tolist()
    [71, 289, 15, 286]
    """
    digits = _digits(scale)
    total = np.zeros(count, dtype=np.int64)
    for place, table in digits.lower:
        total += place * table.sample(count, randomness)
    waiting = np.arange(count)
    while len(waiting):
        drawn = digits.leading.sample(len(waiting), randomness)
        total[waiting] += digits.place * drawn
        waiting = waiting[drawn == digits.length]
    return total


def signs(count: int, randomness: Randomness) -> NDArray[np.bool_]:
    """``count`` independent fair coin flips, 64 from each random word.

    >>> from tacit.core.randomness import SeededRandomness
    >>> signs(3, SeededRandomness(1)).shape
    (3,)
    """
    words = randomness.words(-(-count // 64))
    return np.unpackbits(words.view(np.uint8), count=count).astype(np.bool_)


def laplace_integers(scale: Fraction, count: int, randomness: Randomness) -> Integers:
    """``count`` independent draws of P(x) ∝ e^(−|x|/scale) on all integers, exactly.

    A geometric magnitude with a random sign; a negative zero is drawn again, so that zero does not count twice.

    >>> from tacit.core.randomness import SeededRandomness
    >>> laplace_integers(Fraction(100), 4, SeededRandomness(1)).tolist()
    [71, 289, -15, 286]
    """
    noise = np.empty(count, dtype=np.int64)
    waiting = np.arange(count)
    while len(waiting):
        magnitude = geometric(scale, len(waiting), randomness)
        negative = signs(len(waiting), randomness)
        noise[waiting] = np.where(negative, -magnitude, magnitude)
        waiting = waiting[negative & (magnitude == 0)]
    return noise


@dataclass(frozen=True)
class DiscreteLaplaceNoise(Described):
    """Adds independent two-sided geometric noise to every cell of a table of counts.

    **Law.** P(x) = (1 − p)/(1 + p) · p^|x| on all integers, p = e^(−1/b), where b is ``scale``.

    **Spend.** ``Pure(l1 / scale)``.

    **Proof.** Changing a cell by d multiplies the probability of any outcome by at most e^(|d|/b), because
    |x − d| ≥ |x| − |d|; cells are independent, so the exponents add up to l1/b. Outcomes far to one side reach the
    bound: it is tight.

    **Source.** A. Ghosh, T. Roughgarden and M. Sundararajan, Universally utility-maximizing privacy
    mechanisms, STOC 2009. The sampler is Tacit's own.

    >>> mechanism = DiscreteLaplaceNoise.for_epsilon(1, l1=2)
    >>> mechanism.scale, mechanism.spend
    (Fraction(2, 1), Pure(epsilon=Fraction(1, 1)))
    >>> round(mechanism.variance, 9)
    7.835396178
    """

    name = "discrete-laplace"
    option = "laplace"
    offers = "counts are released with pure privacy"
    statistic = "table"
    releases = "counts"
    parameters: ClassVar[Parameters] = {"scale": EXACT, "l1": COUNT}

    scale: Fraction
    l1: int

    def __init__(self, scale: Number, l1: int) -> None:
        if l1 < 1:
            raise InvalidInput(f"l1 must be at least 1, got {l1}")
        number = positive(scale, "scale")
        if not SMALLEST_NOISE <= number <= LARGEST_NOISE:
            raise InvalidInput(f"scale must be in [1e-6, 1e12], got {float(number):g}")
        object.__setattr__(self, "scale", number)
        object.__setattr__(self, "l1", int(l1))

    @classmethod
    def for_epsilon(cls, epsilon: Number, l1: int) -> Self:
        """The mechanism that spends exactly ε on a table of L1 sensitivity ``l1``.

        >>> DiscreteLaplaceNoise.for_epsilon("1/10", l1=4).scale
        Fraction(40, 1)
        """
        return cls(l1 / positive(epsilon, "epsilon"), l1)

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: Fraction, delta: Fraction) -> Self:
        """The mechanism for a table of this sensitivity, at this cost."""
        return cls.for_epsilon(epsilon, int(sensitivity.l1))

    @property
    def spend(self) -> Pure:
        """The cost of the noisy table."""
        return Pure(self.l1 / self.scale)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the table."""
        return Sensitivity(l1=self.l1)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The table with noise on every cell, of the same shape.

        >>> from tacit.core.randomness import SeededRandomness
        >>> DiscreteLaplaceNoise(2, 2).sample(np.array([[9, 0], [0, 9]]), SeededRandomness(1)).shape
        (2, 2)
        """
        table = count_table(value)
        return table + laplace_integers(self.scale, table.size, randomness).reshape(table.shape)

    def pmf(self, offset: NDArray[Any]) -> NDArray[np.float64]:
        """The probability that the noise is ``offset``."""
        scale = float(self.scale)
        law: NDArray[np.float64] = math.tanh(1 / (2 * scale)) * np.exp(-np.abs(offset) / scale)
        return law

    @property
    def variance(self) -> float:
        """The variance of the noise, 2p/(1 − p)²."""
        ratio = math.exp(-1 / self.scale)
        return 2 * ratio / math.expm1(-1 / self.scale) ** 2

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise on each count."""
        return NoiseLaw("laplace", float(self.scale), self.variance)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One vote moves from one cell to another; both noisy cells together reach ε."""

        def moved(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls.for_epsilon(epsilon, l1=2)
            return [rowwise(cls.name, (mechanism.spend.epsilon, PURE), lambda rows: mechanism, MOVED)]

        return {cls.name: moved}
