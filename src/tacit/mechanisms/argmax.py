"""How often a noisy winner is the wrong one: exact laws for four ways of selecting a label.

Gaps are measured in units of the noise: 1/rate for permute-and-flip and the exponential mechanism, the scale b
for Laplace and σ for Gaussian noise. The laws of the first two are those of the shipped mechanisms. Laplace and
Gaussian noise is continuous here, to which integer noise comes close once its scale is a few counts: then ties,
the only difference, are rare.

For two labels at a gap x the errors have closed forms: Laplace (2 + x)e^(−x)/4, permute-and-flip e^(−x)/2,
exponential mechanism 1/(1 + e^x), Gaussian Φ(−x/√2).
"""

from __future__ import annotations

import math
from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

from tacit.core.errors import InvalidInput
from tacit.core.rational import Number, positive
from tacit.mechanisms.central.exponential_mechanism import ExponentialMechanism
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip

__all__ = ["Selection", "argmax_pmf", "error_probability", "gap_needed"]

Selection = Literal["laplace", "permute-and-flip", "exponential", "gaussian"]
Reals = NDArray[np.float64]

# A noisy winner is this many units away from the largest score with a probability below 1e-17.
REACH = 45.0
SMALLEST_ERROR = 1e-15


def argmax_pmf(selection: Selection, scores: NDArray[Any], unit: Number) -> Reals:
    """The probability of every label for one vector of scores, ``unit`` being the scale of the noise.

    >>> argmax_pmf("laplace", np.array([5, 3, 4]), 2).round(6).tolist()
    [0.519651, 0.174643, 0.305706]
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or not scores.size:
        raise InvalidInput(f"scores must be one vector, got shape {scores.shape}")
    scale = positive(unit, "unit")
    shifted: Reals = (scores - scores.max()) / float(scale)
    # Labels with equal scores share one integral.
    levels, place, counts = np.unique(shifted, return_inverse=True, return_counts=True)
    match selection:
        case "permute-and-flip":
            return PermuteAndFlip(1, 1).pmf(shifted)
        case "exponential":
            return ExponentialMechanism(1, 1).pmf(shifted)
        case "laplace":
            return _laplace(levels, counts)[place]
        case "gaussian":
            return _gaussian(levels, counts)[place]
        case _:
            assert_never(selection)


def _integrate(weights: Reals, log_density: Reals, log_below: Reals, counts: NDArray[np.intp]) -> Reals:
    """∫ f(v − q_y) ∏_{j≠y} F(v − q_j) dv for every level, from log f and log F at nodes (rows) and levels (columns)."""
    others = (log_below @ counts)[:, None] - log_below
    return np.asarray(weights @ np.exp(log_density + others))


def _laplace(levels: Reals, counts: NDArray[np.intp]) -> Reals:
    # The integrand is smooth between the scores, so Gauss-Legendre quadrature on short pieces that end at them.
    ends = np.union1d(np.arange(-REACH, REACH + 0.5, 0.5), levels[levels > -REACH])
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(ends)[:, None] / 2
    values = (ends[:-1, None] + half * (nodes + 1)).ravel()[:, None] - levels  # (nodes, levels)
    # log F: log of ½e^v below zero, of 1 − ½e^−v above.
    distance = np.abs(values)
    log_below = np.where(values < 0, -distance - math.log(2), np.log1p(-np.exp(-distance) / 2))
    return _integrate((half * weights).ravel(), -distance - math.log(2), log_below, counts)


def _gaussian(levels: Reals, counts: NDArray[np.intp]) -> Reals:
    # The integrand is analytic and vanishes at both ends: the trapezoidal rule converges faster than any power.
    step = 0.02
    values = np.arange(-REACH, REACH, step)[:, None] - levels  # (nodes, levels)
    log_density = -values * values / 2 - math.log(2 * math.pi) / 2
    return _integrate(np.full(len(values), step), log_density, log_ndtr(values), counts)


def error_probability(selection: Selection, classes: int, gap: float) -> float:
    """The probability that the true winner loses when every rival is behind by the same ``gap``, in units.

    >>> round(error_probability("permute-and-flip", 2, 3.0), 9)
    0.024893534
    """
    if classes < 2:
        raise InvalidInput(f"classes must be at least 2, got {classes}")
    if not 0 <= gap < math.inf:
        raise InvalidInput(f"gap must be at least 0 and finite, got {gap}")
    scores = np.full(classes, -float(gap))
    scores[0] = 0.0
    # The rivals' probabilities are summed, because one minus the winner's would lose all digits of a small error.
    return float(argmax_pmf(selection, scores, 1)[1:].sum())


def gap_needed(selection: Selection, classes: int, error: float) -> float:
    """The gap, in units of the noise, at which the winner loses with probability ``error``, rivals being level.

    >>> [round(gap_needed(each, 10, 0.01), 6) for each in ("laplace", "permute-and-flip", "exponential", "gaussian")]
    [7.334604, 6.103292, 6.792344, 4.245557]
    """
    largest = 1 - 1 / classes
    if not SMALLEST_ERROR <= error < largest:
        raise InvalidInput(f"error must be in [{SMALLEST_ERROR:g}, {largest:g}) for {classes} classes, got {error}")

    def excess(gap: float) -> float:
        return math.log(error_probability(selection, classes, gap)) - math.log(error)

    # At this gap each rival's chance is below e^−gap·(2 + gap), which makes the sum smaller than the error.
    far = 8 + math.log(classes / error)
    return float(brentq(excess, 0.0, far, xtol=1e-12, rtol=1e-12))
