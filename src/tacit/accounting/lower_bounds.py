"""What counts of an event prove about ε and δ, with a stated probability of being wrong.

A mechanism is (ε, δ)-private when P₀(S) ≤ e^ε P₁(S) + δ for every event S and every two neighboring inputs. So one
event that is frequent on the first input and rare on the second proves a lower bound on ε or δ. The two
probabilities are bounded by Clopper and Pearson's exact intervals; each may fail with half of the error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Integers

__all__ = [
    "Counts",
    "Reals",
    "delta_bounds",
    "epsilon_bounds",
    "proportion_above",
    "proportion_below",
    "provable_epsilon",
]

Reals = NDArray[np.float64]
Counts = Integers | Reals
# Samples of an event in an ordinary audit.
ORDINARY = 500_000


def proportion_above(hits: Counts | int, trials: int, error: float) -> Reals:
    """What the proportion is above, except with probability ``error``: Clopper and Pearson's lower limit.

    >>> round(float(proportion_above(10, 100, 0.025)), 6), float(proportion_above(0, 100, 0.025))
    (0.049005, 0.0)
    """
    from scipy.special import betaincinv  # slow to import, and only audits need it

    hits = np.asarray(hits)
    limits: Reals = np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), trials - hits + 1, error))
    return limits


def proportion_below(hits: Counts | int, trials: int, error: float) -> Reals:
    """What the proportion is below, except with probability ``error``: Clopper and Pearson's upper limit.

    >>> round(float(proportion_below(10, 100, 0.025)), 6), float(proportion_below(100, 100, 0.025))
    (0.176223, 1.0)
    """
    from scipy.special import betainccinv

    hits = np.asarray(hits)
    limits: Reals = np.where(hits == trials, 1.0, betainccinv(hits + 1, np.maximum(trials - hits, 1), error))
    return limits


def epsilon_bounds(hits: Counts | int, others: Counts | int, trials: int, delta: float, error: float) -> Reals:
    """The ε that is proven at δ by an event with this many hits on one input and on the other, in ``trials`` each.

    >>> round(float(epsilon_bounds(50_000, 18_394, 100_000, delta=0, error=1e-3)), 3)
    0.968
    """
    frequent = proportion_above(hits, trials, error / 2) - delta
    rare = proportion_below(others, trials, error / 2)
    bounds: Reals = np.log(np.maximum(frequent / rare, 1.0))
    return bounds


def provable_epsilon(frequent: Reals, rare: Reals, delta: float = 0.0) -> Reals:
    """The ε that an event with these probabilities on the two inputs proves in an ordinary audit: to choose inputs by.

    >>> provable_epsilon(np.array([0.5, 0.0005]), np.array([0.2, 0.0001])).round(2).tolist()
    [0.9, 0.84]
    """
    return epsilon_bounds(ORDINARY * frequent, ORDINARY * rare, ORDINARY, delta, 1e-4)


def delta_bounds(hits: Counts | int, others: Counts | int, trials: int, epsilon: float, error: float) -> Reals:
    """The δ that is proven at ε by an event with this many hits on one input and on the other, in ``trials`` each.

    >>> round(float(delta_bounds(20_000, 0, 100_000, epsilon=0, error=1e-3)), 3)
    0.196
    """
    frequent = proportion_above(hits, trials, error / 2)
    rare = proportion_below(others, trials, error / 2)
    bounds: Reals = np.maximum(frequent - np.exp(epsilon) * rare, 0.0)
    return bounds
