"""How much flooding hides one vote among anonymous messages, and the least of it that is enough.

The coordinator sees, for one cell with x votes, how many (cell, +1) and (cell, −1) messages arrived:
x + A + W and B + W, with A, B geometric of ratio p = e^−ε₁ (their difference is the noise of the count) and W
negative binomial (the flood, which cancels in the difference). Write s(u) = Σ_{v≤u} P(W=v) p^{2(u−v)}. Then
P(i, j) = (1−p)² p^{|i−x−j|} s(min(i−x, j)), and comparing x with x+1 term by term gives:

- x+1 against x: never more than a factor e^ε₁, because s(u) ≥ p² s(u−1);
- x against x+1: a factor e^(ε₁+ε₃) except for a mass of δ = (1−p) Σ_u [s(u) − e^ε₃ s(u−1)]₊.

Without a flood W = 0 and δ = 1 − p whatever ε₃: a vote would show as one +1 message too many.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tacit.core.errors import InvalidInput
from tacit.core.rational import Number, exact, positive, probability
from tacit.mechanisms.exact import exp, precision
from tacit.mechanisms.shuffle.negative_binomial import SMALLEST, NegativeBinomial, log_complement

__all__ = ["cell_delta", "least_noise_messages", "significant_up"]

_DIGITS = 50
# What rounding in the sum below can amount to, with room for a thousand million terms; see ``cell_delta``.
_ROUNDING = Fraction(1, 10**38)
# Far above what rounding can amount to, and far below any δ that is asked for.
_SMALLEST_DELTA = Fraction(1, 10**30)


def significant_up(value: Fraction, digits: int) -> Fraction:
    """A positive value with that many significant digits, rounded up.

    >>> significant_up(Fraction(1, 3000), 3)
    Fraction(167, 500000)
    """
    unit = Fraction(10) ** (math.floor(math.log10(value)) + 1 - digits)
    return math.ceil(value / unit) * unit


def cell_delta(epsilon_noise: Number, epsilon_margin: Number, shape: Number, epsilon_flood: Number) -> Fraction:
    """δ of one cell at ε₁ + ε₃ when a vote is added, for a flood of NB(shape, e^−ε₂): never too small.

    A shape of 0 is no flood. Any other shape must be at least 1: then the probabilities of W are log-concave,
    so are those of W plus a geometric, s(u)/s(u−1) falls, and the sum ends at its first term that is not
    positive: nothing is cut off. What rounding can have hidden is added, and the result rounded up.

    >>> float(cell_delta(0.5, 0.3, 20, 0.2))
    4.05724818061e-06
    >>> float(cell_delta(0.5, 1.5, 0, 1))
    0.393469340288
    """
    noise, margin = positive(epsilon_noise, "epsilon_noise"), positive(epsilon_margin, "epsilon_margin")
    flood, size = positive(epsilon_flood, "epsilon_flood"), exact(shape, "shape")
    if size != 0 and size < 1:
        raise InvalidInput(f"shape of the flood must be at least 1, got {shape}")
    return _cell_delta(noise, margin, size, flood)


@lru_cache(maxsize=256)
def _cell_delta(noise: Fraction, margin: Fraction, shape: Fraction, flood: Fraction) -> Fraction:
    context = precision(_DIGITS)
    # The powers of p² and q below are of an order up to the number of terms, which costs that many roundings.
    carried, ratio, factor = exp(-2 * noise, _DIGITS), exp(-flood, _DIGITS), exp(margin, _DIGITS)
    numerator, denominator = Decimal(shape.numerator), Decimal(shape.denominator)
    log_none = context.multiply(log_complement(flood, _DIGITS), context.divide(numerator, denominator))
    probability_of = context.exp(context.minus(log_none))
    before, total, count = Decimal(0), Decimal(0), 0
    while True:
        current = context.add(probability_of, context.multiply(carried, before))
        term = context.subtract(current, context.multiply(factor, before))
        if term <= 0:
            break
        total, before = context.add(total, term), current
        # P(W = u+1) = P(W = u) q (u + shape)/(u + 1).
        rising = context.divide(context.add(numerator, context.multiply(denominator, Decimal(count))), denominator)
        count += 1
        probability_of = context.divide(
            context.multiply(probability_of, context.multiply(ratio, rising)), Decimal(count)
        )
    complement = context.subtract(Decimal(1), exp(-noise, _DIGITS))
    return significant_up(Fraction(context.multiply(complement, total)) + _ROUNDING, 12)


def _approximate_delta(noise: float, margin: float, shape: float, flood: float) -> float:
    """The same in floating point, for the search alone."""
    from scipy.signal import lfilter  # slow to import, and only planning needs it

    law = NegativeBinomial(shape, flood)
    # Terms are positive only where s still rises, which ends before its mean and a few deviations.
    counts = np.arange(10 + math.ceil(law.mean + math.sqrt(law.variance) + 2 / math.expm1(2 * noise)))
    sums = lfilter([1.0], [1.0, -math.exp(-2 * noise)], law.pmf(counts))
    terms = sums - math.exp(margin) * np.concatenate([[0.0], sums[:-1]])
    return -math.expm1(-noise) * float(np.maximum(terms, 0).sum())


def _least_shape(noise: float, margin: float, flood: float, delta: float) -> float:
    """The smallest shape ≥ 1 with which a flood of this ratio is enough; a larger one only adds free messages."""
    from scipy.optimize import brentq

    def excess(log_shape: float) -> float:
        return math.log(_approximate_delta(noise, margin, math.exp(log_shape), flood) / delta)

    upper = 0.0
    while excess(upper) > 0:
        upper += 1.0
    return math.exp(float(brentq(excess, upper - 1.0, upper, xtol=1e-12))) if upper > 0 else 1.0


def least_noise_messages(epsilon_noise: Number, epsilon_margin: Number, delta: Number) -> NegativeBinomial:
    """The flood of the fewest messages with which δ of one cell at ε₁ + ε₃ is within ``delta``, checked exactly.

    >>> flood = least_noise_messages(0.25, 0.5, 1e-6)
    >>> round(float(flood.shape), 3), round(float(flood.epsilon), 4), round(flood.mean, 2)
    (27.551, 0.3619, 63.19)
    """
    from scipy.optimize import minimize_scalar

    noise, margin = positive(epsilon_noise, "epsilon_noise"), positive(epsilon_margin, "epsilon_margin")
    allowed = probability(delta, "delta")
    if allowed < _SMALLEST_DELTA:
        raise InvalidInput(f"delta must be in [{float(_SMALLEST_DELTA)}, 1), got {delta}")
    # Beyond a ratio of e^−5 a flood is Poisson for every practical purpose, and its mean hardly moves.
    lowest, highest = max(float(SMALLEST), float(margin) / 10), min(5.0, 3 * float(margin))
    if lowest >= highest:
        raise InvalidInput(f"epsilon_margin must be above {float(SMALLEST)}, got {epsilon_margin}")

    def messages(log_flood: float) -> float:
        flood = math.exp(log_flood)
        return _least_shape(float(noise), float(margin), flood, float(allowed)) / math.expm1(flood)

    # The mean is one valley with small ripples, one for each place where the sum can end: look around, then descend.
    points = np.linspace(math.log(lowest), math.log(highest), 12)
    best = int(np.argmin([messages(float(point)) for point in points]))
    around = points[[max(0, best - 1), min(len(points) - 1, best + 1)]]
    found = minimize_scalar(messages, bounds=tuple(around), method="bounded", options={"xatol": 1e-6})
    flood = significant_up(Fraction(math.exp(found.x)), 7)
    shape = significant_up(Fraction(_least_shape(float(noise), float(margin), float(flood), float(allowed))), 7)
    while cell_delta(noise, margin, shape, flood) > allowed:
        shape = significant_up(shape * Fraction(1_000_001, 1_000_000), 7)
    return NegativeBinomial(shape, flood)
