"""Gaussian noise rounded to integers, with the accounting of the continuous Gaussian.

The accounting of the discrete Gaussian does not cover subsampling. That of rounded noise does: rounding the sum of an
integer and Gaussian noise is post-processing, so every proof for the continuous Gaussian, amplification by sampling
included, holds exactly for the release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core import Gaussian, Integers, InvalidInput, Number, Randomness, Rule, Sensitivity, positive, rounded_up
from tacit.mechanisms.auditing import MOVED, Check, accounted, difference, rowwise
from tacit.mechanisms.central.counts import count_table
from tacit.mechanisms.central.discrete_laplace import LARGEST_NOISE, SMALLEST_NOISE, geometric, signs
from tacit.mechanisms.description import CAPACITY, EXACT, Checks, Described, NoiseLaw, Parameters
from tacit.mechanisms.exact import WORD, bernoulli, exp

__all__ = ["RoundedGaussianNoise", "noise_multiplier", "rounded_gaussian_integers", "rounded_gaussian_pmf"]


def rounded_gaussian_integers(sigma: Fraction, count: int, randomness: Randomness) -> Integers:
    """``count`` independent draws of a normal variable of standard deviation σ, rounded to the nearest integers.

    **Law.** P(x) = Φ((x + ½)/σ) − Φ((x − ½)/σ), exactly.

    **Proof.** A magnitude m = g + f, with g geometric of scale t = ⌊σ⌋ + 1 and f uniform in [0, 1), has a density
    ∝ e^(−g/t). It is accepted with probability e^(−(m − σ²/t)²/2σ² − f/t), and the product is ∝ e^(−m²/2σ²). Of the
    real number f only as many bits are drawn as the decision needs. An accepted magnitude gets a random sign and is
    rounded by the first bit of f.

    >>> from tacit.core.randomness import SeededRandomness
    >>> rounded_gaussian_integers(Fraction(100), 4, SeededRandomness(1)).tolist()
    [71, -38, 56, -175]
    """
    noise = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        magnitude = _kept(sigma, (count - filled) * 3 // 2 + 8, randomness)[: count - filled]
        negative = signs(len(magnitude), randomness)
        noise[filled : filled + len(magnitude)] = np.where(negative, -magnitude, magnitude)
        filled += len(magnitude)
    return noise


def _kept(sigma: Fraction, tries: int, randomness: Randomness) -> Integers:
    """The accepted ones of ``tries`` magnitudes, rounded."""
    scale = Fraction(math.floor(sigma) + 1)
    peak, variance = sigma**2 / scale, sigma**2
    whole = geometric(scale, tries, randomness)
    words = randomness.words(tries)
    # For fractions that needed more than 64 bits: how many were drawn, and their value.
    longer: dict[int, tuple[int, int]] = {}

    def refine(index: int, digits: int) -> Decimal:
        # The exponent's slope in f is at most (m + peak)/variance + 1/scale; bits of f are drawn until the unknown
        # ones change the probability by less than a hundredth of the last digit.
        slope = (int(whole[index]) + 1 + peak) / variance + 1 / scale
        bits, value = longer.get(index, (WORD, int(words[index])))
        while 2**bits < slope * 10 ** (digits + 2):
            bits, value = bits + WORD, (value << WORD) | int(randomness.words(1)[0])
        longer[index] = bits, value
        fraction = Fraction(value, 2**bits)
        distance = int(whole[index]) + fraction - peak
        return exp(-(distance**2) / (2 * variance) - fraction / scale, digits + 2)

    # Rounding changes z = distance by a few units in the last place of m/σ, a negligible change of e^(−z²/2).
    fraction = words.astype(np.float64) * 2.0**-WORD
    distance = (whole + fraction - float(peak)) / float(sigma)
    kept = bernoulli(np.exp(-distance * distance / 2 - fraction / float(scale)), refine, randomness)
    rounded: Integers = whole + (words >> np.uint64(WORD - 1)).astype(np.int64)
    return rounded[kept]


def rounded_gaussian_pmf(sigma: Fraction, offset: NDArray[np.int64]) -> NDArray[np.float64]:
    """The probability that the noise is ``offset``.

    >>> rounded_gaussian_pmf(Fraction(1), np.array([0])).round(9).tolist()
    [0.382924923]
    """
    # In the left tail, where the difference of two small numbers loses nothing.
    magnitude = -np.abs(np.asarray(offset, dtype=np.float64))
    from scipy.special import ndtr  # slow to import, and only exact laws need it

    law: NDArray[np.float64] = ndtr((magnitude + 0.5) / float(sigma)) - ndtr((magnitude - 0.5) / float(sigma))
    return law


def noise_multiplier(sigma: Fraction, squared_shift: int) -> Fraction:
    """σ/√squared_shift, rounded down to nine digits, so that the spend is never too small.

    >>> float(noise_multiplier(Fraction(50), 2))
    35.355339059
    """
    unit = 10**9
    square = sigma**2 * unit**2 / squared_shift
    return Fraction(math.isqrt(math.floor(square)), unit)


@dataclass(frozen=True)
class RoundedGaussianNoise(Described):
    """Adds Gaussian noise, drawn exactly and rounded, to every cell of a table of integers.

    **Law.** P(x) = Φ((x + ½)/σ) − Φ((x − ½)/σ) on all integers.

    **Spend.** ``Gaussian(σ/√squared_shift)``, rounded down: the cost of the continuous Gaussian for a table of L2
    sensitivity at most √squared_shift, however much single cells change.

    **Proof.** An integer plus a rounded normal variable is their sum, rounded. So the release is that of the continuous
    Gaussian mechanism, rounded: post-processing. The draw is exact, so floating point loses nothing.

    **Source.** B. Balle and Y.-X. Wang, Improving the Gaussian mechanism for differential privacy, ICML 2018, for the
    cost. The sampler is Tacit's own.

    >>> mechanism = RoundedGaussianNoise(sigma=100, squared_shift=400)
    >>> mechanism.spend, mechanism.max_sensitivity.l2_squared
    (Gaussian(noise_multiplier=Fraction(5, 1)), 400)
    """

    name = "rounded-gaussian"
    statistic = "table"
    releases = "counts"
    needs_delta = True
    parameters: ClassVar[Parameters] = {"sigma": EXACT, "squared_shift": CAPACITY}

    sigma: Fraction
    squared_shift: int

    def __init__(self, sigma: Number, squared_shift: int) -> None:
        if squared_shift < 1:
            raise InvalidInput(f"squared_shift must be at least 1, got {squared_shift}")
        number = positive(sigma, "sigma")
        if not SMALLEST_NOISE <= number <= LARGEST_NOISE or noise_multiplier(number, squared_shift) == 0:
            raise InvalidInput(
                f"sigma must be in [1e-6, 1e12] and above a billionth of the sensitivity, got {float(number):g}"
            )
        object.__setattr__(self, "sigma", number)
        object.__setattr__(self, "squared_shift", int(squared_shift))

    @classmethod
    def for_budget(
        cls,
        epsilon: Number,
        delta: Number,
        squared_shift: int,
        repetitions: int = 1,
        rule: Rule = Rule.PLANNED,
    ) -> Self:
        """The mechanism with the least noise that may run ``repetitions`` times within (ε, δ).

        >>> round(float(RoundedGaussianNoise.for_budget(1, "1e-5", 10**6).spend.noise_multiplier), 2)
        3.73
        """
        # Accountants are slow to import and needed here only.
        from tacit.accounting.calibrate import gaussian_multiplier

        multiplier = gaussian_multiplier(epsilon, delta, repetitions, rule)
        # The root is rounded up, so that the multiplier that is charged is not below the calibrated one.
        root = Fraction(math.isqrt(10**12 * squared_shift) + 1, 10**6)
        return cls(rounded_up(multiplier * root), squared_shift)

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: Fraction, delta: Fraction) -> Self:
        """The mechanism for a table of this sensitivity, at this cost."""
        if delta == 0:
            raise InvalidInput("gaussian noise needs delta above 0, for example --delta 1e-6; got 0")
        return cls.for_budget(epsilon, delta, int(sensitivity.l2_squared))

    @property
    def spend(self) -> Gaussian:
        """The cost of the noisy table."""
        return Gaussian(noise_multiplier(self.sigma, self.squared_shift))

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the table."""
        return Sensitivity(l2_squared=self.squared_shift)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The table with noise on every cell, of the same shape.

        >>> from tacit.core.randomness import SeededRandomness
        >>> RoundedGaussianNoise(2, 2).sample(np.array([[9, 0], [0, -9]]), SeededRandomness(1)).shape
        (2, 2)
        """
        table = count_table(value)
        return table + rounded_gaussian_integers(self.sigma, table.size, randomness).reshape(table.shape)

    def pmf(self, offset: NDArray[Any]) -> NDArray[np.float64]:
        """The probability that the noise is ``offset``."""
        return rounded_gaussian_pmf(self.sigma, offset)

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise on each count; rounding adds a twelfth to its variance."""
        variance = float(self.sigma) ** 2 + 1 / 12
        return NoiseLaw("gaussian", math.sqrt(variance), variance)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One vote moves from one cell to another; their difference is a sufficient statistic."""

        def moved(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls.for_budget(epsilon, delta, squared_shift=2)
            return [rowwise(cls.name, accounted(mechanism.spend, delta), lambda rows: mechanism, MOVED, difference)]

        return {cls.name: moved}
