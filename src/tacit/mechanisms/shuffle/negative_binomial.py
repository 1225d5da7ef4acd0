"""Negative binomial noise shares of any positive shape, drawn exactly; and the privacy of noise messages.

Independent NB(ρ₁, p) and NB(ρ₂, p) add up to NB(ρ₁ + ρ₂, p), so the draws of NB(1/n, p) of n participants add up to one
geometric variable, and the difference of two such sums is discrete Laplace. A share is almost always zero, so only the
few jumps of a participant's shares are drawn.

Noise messages hide one vote among anonymous messages. For one cell with x votes the coordinator sees the numbers of
(cell, +1) and (cell, −1) messages: x + A + W and B + W, with A, B geometric of ratio p = e^−ε₁ (their difference is the
noise of the count) and W negative binomial (the noise messages, which cancel in the difference). Let
s(u) = Σ_{v≤u} P(W=v) p^{2(u−v)}. Then P(i, j) = (1−p)² p^{|i−x−j|} s(min(i−x, j)), and comparing x with x+1 term by
term gives:

- x+1 against x: never more than a factor e^ε₁, because s(u) ≥ p² s(u−1);
- x against x+1: a factor e^(ε₁+ε₃) except for a mass of δ = (1−p) Σ_u [s(u) − e^ε₃ s(u−1)]₊.

Without noise messages W = 0 and δ = 1 − p for every ε₃: a vote would show as one additional +1 message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Number, Randomness, exact, positive, probability, uniform_below
from tacit.mechanisms.description import EXACT, Parameters
from tacit.mechanisms.exact import UnboundedTable, exp, precision

__all__ = [
    "Jumps", "NegativeBinomial", "cell_delta", "largest_sum", "least_noise_messages", "log_complement",
    "significant_up",
]  # fmt: skip

# Below, tables would not fit in memory; above, a jump larger than one never occurs.
_SMALLEST, _LARGEST = Fraction(1, 10**4), 100
_DIGITS = 50
# A bound on the rounding error of the sum in ``cell_delta``, for up to 10^9 terms.
_ROUNDING = Fraction(1, 10**38)
# Far above the rounding error, and far below any useful δ.
_SMALLEST_DELTA = Fraction(1, 10**30)


def log_complement(epsilon: Fraction, digits: int) -> Decimal:
    """−ln(1 − e^−ε), with a relative error below 10^-digits.

    >>> log_complement(Fraction(1), 20)
    Decimal('0.458675145387081891021643645067')
    """
    # 1 − e^−ε cancels when ε is small, and its logarithm nearly vanishes when ε is large.
    canceled = 2 + abs(round(math.log10(epsilon))) + math.ceil(epsilon)
    context = precision(digits + canceled)
    complement = context.subtract(Decimal(1), exp(-epsilon, digits + canceled + 10))
    return precision(digits).minus(context.ln(complement))


@lru_cache(maxsize=64)
def _logarithmic(epsilon: Fraction) -> UnboundedTable:
    """P(k) ∝ p^k / k on 1, 2, …, p = e^−ε: the size of one jump."""

    def ratios(digits: int) -> Callable[[int], Decimal]:
        context = precision(digits)
        success = exp(-epsilon, digits)
        return lambda k: context.divide(context.multiply(success, Decimal(k)), Decimal(k + 1))

    return UnboundedTable(ratios, lambda k, digits: _logarithmic_tail(epsilon, k, digits), first=1)


def _logarithmic_tail(epsilon: Fraction, k: int, digits: int) -> Decimal:
    """Σ_{j≥k} p^{j−k} k/j.

    The sum is the hypergeometric ₂F₁(1, k; k+1; p) = (1+x) ₂F₁(1, 1; k+1; −x) with x = p/(1−p), whose continued
    fraction by Gauss, 1/(1 + c₁x/(1 + c₂x/(1 + …))), has only positive coefficients: two convergents in a row
    enclose the value. It needs about √(1/ε) steps where the plain sum needs 1/ε.
    """
    context = precision(digits + 10)
    canceled = 2 + abs(round(math.log10(epsilon)))
    odds = context.divide(Decimal(1), context.subtract(exp(epsilon, digits + 10 + canceled), Decimal(1)))
    precise_enough = Decimal(10) ** -(digits + 2)
    # Numerators and denominators of the last two convergents, and the last value.
    above, above_before, below, below_before = Decimal(1), Decimal(0), Decimal(1), Decimal(1)
    value, step = Decimal(1), 0
    while True:
        coefficient = Fraction((step // 2 + 1) * (k + step // 2), (k + step) * (k + step + 1))
        scaled = context.divide(context.multiply(odds, coefficient.numerator), Decimal(coefficient.denominator))
        above, above_before = context.add(above, context.multiply(scaled, above_before)), above
        below, below_before = context.add(below, context.multiply(scaled, below_before)), below
        last, value = value, context.divide(above, below)
        if abs(context.subtract(value, last)) <= context.multiply(precise_enough, value):
            return context.multiply(value, context.add(Decimal(1), odds))
        step += 1


@lru_cache(maxsize=64)
def _poisson(epsilon: Fraction, factor: Fraction) -> UnboundedTable:
    """P(k) ∝ μ^k / k! on 0, 1, …, μ = −factor·ln(1 − e^−ε) ≤ 2: the number of jumps."""

    def ratios(digits: int) -> Callable[[int], Decimal]:
        context = precision(digits)
        log = log_complement(epsilon, digits)
        mean = context.divide(context.multiply(log, Decimal(factor.numerator)), Decimal(factor.denominator))
        return lambda k: context.divide(mean, Decimal(k + 1))

    def tail(k: int, digits: int) -> Decimal:
        # Blocks begin at 64 or later, so each term is below a thirtieth of the one before.
        context, ratio = precision(digits + 2), ratios(digits + 2)
        total = term = Decimal(1)
        while term > Decimal(10) ** -(digits + 2):
            term = context.multiply(term, ratio(k))
            total = context.add(total, term)
            k += 1
        return total

    return UnboundedTable(ratios, tail)


class Jumps(NamedTuple):
    """The nonzero noise of several participants, one row per jump: add ``size`` in ``slot`` of ``participant``."""

    participant: Integers
    slot: Integers
    size: Integers


@dataclass(frozen=True)
class NegativeBinomial:
    """The distribution P(k) = Γ(k+ρ) / (k! Γ(ρ)) · (1−p)^ρ p^k on 0, 1, …, with shape ρ and p = e^−ε.

    **Law.** A Poisson number of jumps, of mean −ρ ln(1−p), each of a Logarithmic(p) size, P(k) ∝ p^k / k.

    **Proof.** The generating function of the sum of those jumps at z is exp(−ρ ln(1−p)·(g(z) − 1)) with
    g(z) = ln(1−pz)/ln(1−p), which is ((1−p)/(1−pz))^ρ, that of the stated probabilities. Jumps of independent
    slots are together one Poisson number of jumps, each in a uniformly chosen slot. Both laws are sampled from
    exact tables, tails included.

    **Source.** M. H. Quenouille, A relation between the logarithmic, Poisson, and negative binomial series,
    Biometrics 5 (1949).

    >>> NegativeBinomial("1/1000", 1).mean
    0.0005819767068693265
    """

    name: ClassVar[str] = "negative-binomial"
    parameters: ClassVar[Parameters] = {"shape": EXACT, "epsilon": EXACT}

    shape: Fraction
    epsilon: Fraction

    def __init__(self, shape: Number, epsilon: Number) -> None:
        object.__setattr__(self, "shape", positive(shape, "shape"))
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        if not _SMALLEST <= self.epsilon <= _LARGEST:
            raise InvalidInput(f"epsilon must be in [{float(_SMALLEST)}, {_LARGEST}], got {epsilon}")

    @property
    def mean(self) -> float:
        """ρ p / (1−p)."""
        return float(self.shape) / math.expm1(self.epsilon)

    @property
    def variance(self) -> float:
        """ρ p / (1−p)²."""
        return self.mean / -math.expm1(-self.epsilon)

    def pmf(self, values: Integers) -> NDArray[np.float64]:
        """The probability of each value, for reports and tests; the sampler does not use it.

        >>> NegativeBinomial(1, "1/2").pmf(np.array([0, 1])).round(6).tolist()
        [0.393469, 0.238651]
        """
        shape, epsilon = float(self.shape), float(self.epsilon)
        from scipy.special import gammaln  # slow to import, and only planning needs it

        counting = gammaln(values + shape) - gammaln(values + 1.0) - gammaln(shape)
        result: NDArray[np.float64] = np.exp(counting + shape * math.log(-math.expm1(-epsilon)) - epsilon * values)
        return result

    def scatter(self, participants: int, slots: int, randomness: Randomness) -> Jumps:
        """One independent draw for every slot of every participant; time and memory grow with the nonzero ones only.

        >>> from tacit.core.randomness import SeededRandomness
        >>> jumps = NegativeBinomial("1/100", 1).scatter(100, 5, SeededRandomness(1))
        >>> len(jumps.size), int(jumps.size.sum())
        (1, 1)
        """
        # A Poisson variable with a large mean is a sum of this many with a mean of about one.
        pieces = max(1, math.ceil(slots * self.shape * Fraction(float(log_complement(self.epsilon, 12)))))
        table = _poisson(self.epsilon, slots * self.shape / pieces)
        counts = table.sample(participants * pieces, randomness).reshape(participants, pieces).sum(axis=1)
        total = int(counts.sum())
        return Jumps(
            participant=np.repeat(np.arange(participants), counts),
            slot=uniform_below(slots, total, randomness),
            size=_logarithmic(self.epsilon).sample(total, randomness),
        )


def significant_up(value: Fraction, digits: int) -> Fraction:
    """A positive value rounded up to ``digits`` significant digits.

    >>> significant_up(Fraction(1, 3000), 3)
    Fraction(167, 500000)
    """
    unit = Fraction(10) ** (math.floor(math.log10(value)) + 1 - digits)
    return math.ceil(value / unit) * unit


def cell_delta(epsilon_noise: Number, epsilon_margin: Number, shape: Number, epsilon_flood: Number) -> Fraction:
    """δ of one cell at ε₁ + ε₃ when a vote is added, for noise messages W ~ NB(shape, e^−ε₂), rounded up.

    A shape of 0 means no noise messages. Any other shape must be at least 1: then the probabilities of W are
    log-concave, so are those of W plus a geometric, s(u)/s(u−1) decreases, and the sum ends at its first term that is
    not positive, without truncation. A bound on the rounding error is added.

    >>> float(cell_delta(0.5, 0.3, 20, 0.2))
    4.05724818061e-06
    >>> float(cell_delta(0.5, 1.5, 0, 1))
    0.393469340288
    """
    noise, margin = positive(epsilon_noise, "epsilon_noise"), positive(epsilon_margin, "epsilon_margin")
    flood, size = positive(epsilon_flood, "epsilon_flood"), exact(shape, "shape")
    if size != 0 and size < 1:
        raise InvalidInput(f"the shape of the noise must be at least 1, got {shape}")
    return _cell_delta(noise, margin, size, flood)


@lru_cache(maxsize=256)
def _cell_delta(noise: Fraction, margin: Fraction, shape: Fraction, flood: Fraction) -> Fraction:
    context = precision(_DIGITS)
    # Powers of p² and q up to the number of terms: one rounding each.
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


def largest_sum(parts: Sequence[tuple[int, NegativeBinomial]], exponent: float) -> int:
    """A number that a sum of multiples of independent variables exceeds with a probability of at most e^−exponent.

    By Chernoff's bound: P(S ≥ s) ≤ E[e^(tS)] e^(−ts), where ln E[e^(tX)] of NB(ρ, p) is ρ ln((1−p)/(1−p e^t)).

    >>> largest_sum([(1, NegativeBinomial(1, 1)), (2, NegativeBinomial(3, "1/2"))], exponent=20)
    122
    """
    # Every t below the smallest ε gives a bound; the best is close to it for small shapes, and small for large ones.
    end = min(float(law.epsilon) / times for times, law in parts)
    t = end / (1 + np.exp(-np.linspace(-20, 8, 225)))
    logs = np.zeros(len(t))
    for times, law in parts:
        epsilon = float(law.epsilon)
        logs += float(law.shape) * (math.log1p(-math.exp(-epsilon)) - np.log1p(-np.exp(times * t - epsilon)))
    # One more than the exponent covers the rounding of floats.
    return math.ceil(float(((logs + 1 + exponent) / t).min()))


def _approximate_delta(noise: float, margin: float, shape: float, flood: float) -> float:
    """The same in floating point, for the search only."""
    from scipy.signal import lfilter  # slow to import, and only planning needs it

    law = NegativeBinomial(shape, flood)
    # Terms are positive only where s still increases, which ends within a few deviations of the mean.
    counts = np.arange(10 + math.ceil(law.mean + math.sqrt(law.variance) + 2 / math.expm1(2 * noise)))
    sums = lfilter([1.0], [1.0, -math.exp(-2 * noise)], law.pmf(counts))
    terms = sums - math.exp(margin) * np.concatenate([[0.0], sums[:-1]])
    return -math.expm1(-noise) * float(np.maximum(terms, 0).sum())


def _least_shape(noise: float, margin: float, flood: float, delta: float) -> float:
    """The smallest shape ≥ 1 with which noise messages of this ratio are enough."""
    from scipy.optimize import brentq

    def excess(log_shape: float) -> float:
        return math.log(_approximate_delta(noise, margin, math.exp(log_shape), flood) / delta)

    upper = 0.0
    while excess(upper) > 0:
        upper += 1.0
    return math.exp(float(brentq(excess, upper - 1.0, upper, xtol=1e-12))) if upper > 0 else 1.0


def least_noise_messages(epsilon_noise: Number, epsilon_margin: Number, delta: Number) -> NegativeBinomial:
    """The fewest noise messages with which δ of one cell at ε₁ + ε₃ is at most ``delta``, checked exactly.

    >>> flood = least_noise_messages(0.25, 0.5, 1e-6)
    >>> round(float(flood.shape), 3), round(float(flood.epsilon), 4), round(flood.mean, 2)
    (27.551, 0.3619, 63.19)
    """
    from scipy.optimize import minimize_scalar

    noise, margin = positive(epsilon_noise, "epsilon_noise"), positive(epsilon_margin, "epsilon_margin")
    allowed = probability(delta, "delta")
    if allowed < _SMALLEST_DELTA:
        raise InvalidInput(f"delta must be in [{float(_SMALLEST_DELTA)}, 1), got {delta}")
    # Beyond a ratio of e^−5 the noise messages are practically Poisson, and their mean hardly changes.
    lowest, highest = max(float(_SMALLEST), float(margin) / 10), min(5.0, 3 * float(margin))
    if lowest >= highest:
        raise InvalidInput(f"epsilon_margin must be above {float(_SMALLEST)}, got {epsilon_margin}")

    def messages(log_flood: float) -> float:
        flood = math.exp(log_flood)
        return _least_shape(float(noise), float(margin), flood, float(allowed)) / math.expm1(flood)

    # The mean has one minimum with small ripples, where the sum can end: first a grid, then a local search.
    points = np.linspace(math.log(lowest), math.log(highest), 12)
    best = int(np.argmin([messages(float(point)) for point in points]))
    around = points[[max(0, best - 1), min(len(points) - 1, best + 1)]]
    found = minimize_scalar(messages, bounds=tuple(around), method="bounded", options={"xatol": 1e-6})
    flood = significant_up(Fraction(math.exp(found.x)), 7)
    shape = significant_up(Fraction(_least_shape(float(noise), float(margin), float(flood), float(allowed))), 7)
    while cell_delta(noise, margin, shape, flood) > allowed:
        shape = significant_up(shape * Fraction(1_000_001, 1_000_000), 7)
    return NegativeBinomial(shape, flood)
