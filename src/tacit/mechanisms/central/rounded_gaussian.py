"""Gaussian noise rounded to whole numbers: integers with the accounting of the continuous Gaussian.

The discrete Gaussian has its own accounting, which does not cover random subsampling. Rounding does: noise that
is rounded after being added to an integer is post-processing, so whatever is proven for the continuous Gaussian,
amplification by sampling included, holds for what is released, to the last bit.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness
from tacit.mechanisms.central.discrete_laplace import geometric, signs
from tacit.mechanisms.exact import WORD, bernoulli, exp

__all__ = ["noise_multiplier", "rounded_gaussian_integers", "rounded_gaussian_pmf"]


def rounded_gaussian_integers(sigma: Fraction, count: int, randomness: Randomness) -> Integers:
    """That many independent draws of a normal variable of standard deviation σ, rounded to the nearest integer.

    **Law.** P(x) = Φ((x + ½)/σ) − Φ((x − ½)/σ), exactly.

    **Proof.** A magnitude m = g + f, with g geometric of scale t = ⌊σ⌋ + 1 and f uniform in [0, 1), has a density
    ∝ e^(−g/t). It is kept with probability e^(−(m − σ²/t)²/2σ² − f/t), and the product is ∝ e^(−m²/2σ²). The
    fraction f is a real number of which only as many bits are drawn as the decision needs. A kept magnitude gets
    a random sign and is rounded by the first bit of f.

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
    """The magnitudes that are kept out of so many, rounded."""
    scale = Fraction(math.floor(sigma) + 1)
    peak, variance = sigma**2 / scale, sigma**2
    whole = geometric(scale, tries, randomness)
    words = randomness.words(tries)
    # Of a fraction, how many bits were drawn and what they are, once 64 were not enough.
    longer: dict[int, tuple[int, int]] = {}

    def refine(index: int, digits: int) -> Decimal:
        # The exponent's slope in f is at most (m + peak)/variance + 1/scale; bits of f are drawn until what is
        # still unknown of it moves the probability by less than a hundredth of the last digit.
        slope = (int(whole[index]) + 1 + peak) / variance + 1 / scale
        bits, value = longer.get(index, (WORD, int(words[index])))
        while 2**bits < slope * 10 ** (digits + 2):
            bits, value = bits + WORD, (value << WORD) | int(randomness.words(1)[0])
        longer[index] = bits, value
        fraction = Fraction(value, 2**bits)
        distance = int(whole[index]) + fraction - peak
        return exp(-(distance**2) / (2 * variance) - fraction / scale, digits + 2)

    # Rounding moves z = distance by a few units in the last place of m/σ, which e^(−z²/2) makes harmless.
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
    law: NDArray[np.float64] = ndtr((magnitude + 0.5) / float(sigma)) - ndtr((magnitude - 0.5) / float(sigma))
    return law


def noise_multiplier(sigma: Fraction, squared_shift: int) -> Fraction:
    """σ/√squared_shift, rounded down to nine digits: the spend is then never below the truth.

    >>> float(noise_multiplier(Fraction(50), 2))
    35.355339059
    """
    unit = 10**9
    square = sigma**2 * unit**2 / squared_shift
    return Fraction(math.isqrt(math.floor(square)), unit)
