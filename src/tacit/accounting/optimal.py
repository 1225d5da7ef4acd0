"""The exact price of repeating one mechanism: n times (ε, δ), or n randomized responses over several classes.

Law: when an (ε₀, δ₀)-DP mechanism runs n times, the worst case is n independent binary randomized responses, each
revealed with probability δ₀. With p = e^ε₀/(1+e^ε₀) the loss is ε₀(2K − n), K ~ Bin(n, p), so

    δ(ε) = 1 − (1−δ₀)ⁿ + (1−δ₀)ⁿ · E[(1 − e^(ε − ε₀(2K−n)))₊]

and no accountant can prove less. It needs nothing but logarithms, so pure budgets never load a numeric library.

Source: Kairouz, Oh & Viswanath 2015, Theorem 3.3.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.rational import exact, positive, probability

__all__ = ["repeated_epsilon", "response_epsilon", "smallest_epsilon"]

# Summing n logarithms in float64 loses about n·1e-16 of each probability; beyond this many the sum is too long.
LARGEST_COUNT = 10**6
# Beyond this e^−ε is no number any more, and nobody is protected.
LARGEST_EPSILON = 700
# The part of δ that is not used, a thousand times what rounding can move.
MARGIN = 1e-7


def _check(count: int, delta: Fraction) -> None:
    if not 0 < exact(delta) < 1:
        raise InvalidInput(f"delta must be in (0, 1), got {delta}")
    if count < 1:
        raise InvalidInput(f"count must be at least 1, got {count}")


def repeated_epsilon(epsilon: Fraction, own_delta: Fraction, count: int, delta: Fraction) -> float:
    """The smallest ε of ``count`` runs of an (``epsilon``, ``own_delta``)-DP mechanism at ``delta``.

    Infinite when their own δ do not fit, or when ``count`` is too large to be summed reliably.

    >>> round(repeated_epsilon(Fraction(1), Fraction(0), 100, Fraction(1, 10**6)), 3)
    83.531
    """
    epsilon, own_delta = positive(epsilon, "epsilon"), probability(own_delta, "own_delta")
    _check(count, delta)
    # (1−δ₀)ⁿ ≥ 1 − nδ₀, so the δ that is left is at least (δ − nδ₀)/(1 − nδ₀).
    spent = count * own_delta
    if spent >= delta or count > LARGEST_COUNT:
        return math.inf
    left = float((delta - spent) / (1 - spent)) * (1 - MARGIN)
    single = float(epsilon)
    failures = np.arange(count + 1)
    # log P(count − failures successes) from the largest loss down, by the ratio of neighbouring terms.
    steps = np.log((count - failures[1:] + 1) / failures[1:]) - single
    log_mass = np.concatenate([[0.0], np.cumsum(steps)]) - count * math.log1p(math.exp(-single))
    losses = single * (count - 2 * failures).astype(np.float64)
    return smallest_epsilon(losses, log_mass, left)


def response_epsilon(epsilon: Fraction, classes: int, count: int, delta: Fraction) -> float:
    """The smallest ε of ``count`` randomized responses over so many classes at ``delta``, exactly.

    The loss is ε₀ times a sum of ``count`` independent steps +1, 0, −1 with odds e^ε₀ : C − 2 : 1. Its generating
    function is the n-th power of a trinomial, whose neighbouring coefficients have the quotient

        r(k) = (z(n − k) + d(2n − k + 1)/r(k − 1)) / (u(k + 1)),   u, z, d the odds of up, zero, down,

    counted from n steps up; by symmetry the lower half has the same quotients with u and d exchanged. Every term is
    positive, so nothing cancels, and n answers take n steps.

    >>> round(response_epsilon(Fraction(1), 10, 100, Fraction(1, 10**6)), 3)
    39.902
    """
    if classes == 2:
        return repeated_epsilon(epsilon, Fraction(0), count, delta)
    epsilon = positive(epsilon, "epsilon")
    _check(count, delta)
    if count > LARGEST_COUNT or epsilon > LARGEST_EPSILON:
        return math.inf
    single = float(epsilon)
    zero, down = (classes - 2) * math.exp(-single), math.exp(-single)  # beside odds of 1 for a step up
    total = count * math.log(1 + zero + down)
    upper = _half(1.0, zero, down, count) - total  # sums n, n − 1, …, 0
    lower = _half(down, zero, 1.0, count) - total - count * single  # sums −n, −n + 1, …, 0
    log_mass = np.concatenate([upper, lower[-2::-1]])
    losses = single * np.arange(count, -count - 1, -1).astype(np.float64)
    return smallest_epsilon(losses, log_mass, float(delta) * (1 - MARGIN))


def _half(first: float, middle: float, last: float, count: int) -> NDArray[np.float64]:
    """Logarithms of the first count + 1 coefficients of (first + middle·x + last·x²)^count, over the first one."""
    quotients = np.empty(count)
    quotient = math.inf
    for k in range(count):
        quotient = (middle * (count - k) + last * (2 * count - k + 1) / quotient) / (first * (k + 1))
        quotients[k] = quotient
    return np.concatenate([[0.0], np.cumsum(np.log(quotients))])


def smallest_epsilon(losses: NDArray[np.float64], log_mass: NDArray[np.float64], delta: float) -> float:
    """The smallest ε at δ of a loss with so few values, the largest first, and the logarithm of each one's mass.

    >>> round(smallest_epsilon(np.array([1.0, -1.0]), -np.log1p(np.exp([-1.0, 1.0])), 0.1), 6)
    0.852905
    """
    above = np.cumsum(np.exp(log_mass))
    log_below = np.logaddexp.accumulate(log_mass - losses)
    # With the i largest losses above ε: δ(ε) = above_i − e^ε·below_i, valid down to the next smaller loss.
    with np.errstate(divide="ignore"):
        candidates = np.log(np.maximum(above - delta, 0)) - log_below
    reached = np.flatnonzero(candidates >= np.append(losses[1:], -np.inf))
    return max(0.0, float(candidates[reached[0]]))
