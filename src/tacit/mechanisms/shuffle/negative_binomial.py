"""Noise that can be cut into shares: negative binomial variables of any positive shape, drawn exactly.

Independent NB(ρ₁, p) and NB(ρ₂, p) add up to NB(ρ₁ + ρ₂, p), so n clients that each draw NB(1/n, p) make one
geometric variable together, and the difference of two such sums is discrete Laplace. A share is almost always
zero; what is drawn is therefore the few jumps of which all the shares of a client consist.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness, uniform_below
from tacit.core.rational import Number, positive
from tacit.mechanisms.description import EXACT, Parameters
from tacit.mechanisms.exact import UnboundedTable, exp, precision

__all__ = ["Jumps", "NegativeBinomial", "log_complement"]

# Below, tables would grow past what fits in memory; above, a jump larger than one never happens.
SMALLEST, _LARGEST = Fraction(1, 10**4), 100


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
    """P(k) ∝ μ^k / k! on 0, 1, …, μ = −factor·ln(1 − e^−ε), which must be at most 2: how many jumps there are."""

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
    """Where the noise of many clients is not zero: ``size`` more in ``slot`` of ``client``, one row a jump."""

    client: Integers
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
        if not SMALLEST <= self.epsilon <= _LARGEST:
            raise InvalidInput(f"epsilon must be in [{float(SMALLEST)}, {_LARGEST}], got {epsilon}")

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

    def scatter(self, clients: int, slots: int, randomness: Randomness) -> Jumps:
        """One independent draw for every slot of every client, in time and space of what is not zero.

        >>> from tacit.core.randomness import SeededRandomness
        >>> jumps = NegativeBinomial("1/100", 1).scatter(100, 5, SeededRandomness(1))
        >>> len(jumps.size), int(jumps.size.sum())
        (1, 1)
        """
        # A Poisson number of a large mean is the sum of this many with a mean of at most one or so.
        pieces = max(1, math.ceil(slots * self.shape * Fraction(float(log_complement(self.epsilon, 12)))))
        table = _poisson(self.epsilon, slots * self.shape / pieces)
        counts = table.sample(clients * pieces, randomness).reshape(clients, pieces).sum(axis=1)
        total = int(counts.sum())
        return Jumps(
            client=np.repeat(np.arange(clients), counts),
            slot=uniform_below(slots, total, randomness),
            size=_logarithmic(self.epsilon).sample(total, randomness),
        )
