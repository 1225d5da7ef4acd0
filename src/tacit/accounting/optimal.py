"""The exact price of repeating one mechanism: optimal composition of n times (ε, δ).

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

from tacit.core.errors import InvalidInput
from tacit.core.rational import exact, positive, probability

__all__ = ["repeated_epsilon"]

# Summing n logarithms in float64 loses about n·1e-16 of each probability; beyond this many the sum is too long.
LARGEST_COUNT = 10**6
# The part of δ that is not used, a thousand times what rounding can move.
MARGIN = 1e-7


def repeated_epsilon(epsilon: Fraction, own_delta: Fraction, count: int, delta: Fraction) -> float:
    """The smallest ε of ``count`` runs of an (``epsilon``, ``own_delta``)-DP mechanism at ``delta``.

    Infinite when their own δ do not fit, or when ``count`` is too large to be summed reliably.

    >>> round(repeated_epsilon(Fraction(1), Fraction(0), 100, Fraction(1, 10**6)), 3)
    83.531
    """
    epsilon, own_delta = positive(epsilon, "epsilon"), probability(own_delta, "own_delta")
    if not 0 < exact(delta) < 1:
        raise InvalidInput(f"delta must be in (0, 1), got {delta}")
    if count < 1:
        raise InvalidInput(f"count must be at least 1, got {count}")
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
    losses = single * (count - 2 * failures)
    above = np.cumsum(np.exp(log_mass))
    log_below = np.logaddexp.accumulate(log_mass - losses)
    # With the i largest losses above ε: δ(ε) = above_i − e^ε·below_i, valid down to the next smaller loss.
    with np.errstate(divide="ignore"):
        candidates = np.log(np.maximum(above - left, 0)) - log_below
    reached = np.flatnonzero(candidates >= np.append(losses[1:], -np.inf))
    return max(0.0, float(candidates[reached[0]]))
