"""Accuracy before spending: the probability of a wrong label, and the expected accuracy of labels.

The probability that report noisy max selects a wrong label is exact, for four mechanisms. Gaps are in units of the
noise: 1/rate for permute-and-flip and the exponential mechanism, the scale b for Laplace and σ for Gaussian noise. The
laws of the first two are those of the mechanisms here. Laplace and Gaussian noise is continuous here; discrete noise
differs by ties only, which are rare once its scale is a few counts. For two labels at a gap x the errors have closed
forms: Laplace (2 + x)e^(−x)/4, permute-and-flip e^(−x)/2, exponential mechanism 1/(1 + e^x), Gaussian Φ(−x/√2).

The gap between the winner and the runner-up is not released with a label: for permute-and-flip it is not known to be
private at the cost of the label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Number, Reals, positive
from tacit.core.errors import plural
from tacit.mechanisms.central.selection import ExponentialMechanism, PermuteAndFlip

__all__ = [
    "LabelAccuracy",
    "Selection",
    "argmax_pmf",
    "at_least",
    "error_probability",
    "expected_label_accuracy",
    "gap_needed",
]


Selection = Literal["laplace", "permute-and-flip", "exponential", "gaussian"]

# A noisy winner is this many units away from the largest score with a probability below 1e-17.
_REACH = 45.0
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
    ends = np.union1d(np.arange(-_REACH, _REACH + 0.5, 0.5), levels[levels > -_REACH])
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(ends)[:, None] / 2
    values = (ends[:-1, None] + half * (nodes + 1)).ravel()[:, None] - levels  # (nodes, levels)
    # log F: log of ½e^v below zero, of 1 − ½e^−v above.
    distance = np.abs(values)
    log_below = np.where(values < 0, -distance - math.log(2), np.log1p(-np.exp(-distance) / 2))
    return _integrate((half * weights).ravel(), -distance - math.log(2), log_below, counts)


def _gaussian(levels: Reals, counts: NDArray[np.intp]) -> Reals:
    from scipy.special import log_ndtr

    # The integrand is analytic and vanishes at both ends: the trapezoidal rule converges faster than any power.
    step = 0.02
    values = np.arange(-_REACH, _REACH, step)[:, None] - levels  # (nodes, levels)
    log_density = -values * values / 2 - math.log(2 * math.pi) / 2
    return _integrate(np.full(len(values), step), log_density, log_ndtr(values), counts)


def error_probability(selection: Selection, classes: int, gap: float) -> float:
    """The probability that the true winner is not selected when every other label is behind by ``gap`` units of noise.

    >>> round(error_probability("permute-and-flip", 2, 3.0), 9)
    0.024893534
    """
    if classes < 2:
        raise InvalidInput(f"classes must be at least 2, got {classes}")
    if not 0 <= gap < math.inf:
        raise InvalidInput(f"gap must be at least 0 and finite, got {gap}")
    scores = np.full(classes, -float(gap))
    scores[0] = 0.0
    # A sum over the other labels, because one minus the winner's probability loses all digits of a small error.
    return float(argmax_pmf(selection, scores, 1)[1:].sum())


@cache
def gap_needed(selection: Selection, classes: int, error: float) -> float:
    """The gap, in units of noise, at which the winner is not selected with probability ``error``, others being equal.

    >>> [round(gap_needed(each, 10, 0.01), 6) for each in ("laplace", "permute-and-flip", "exponential", "gaussian")]
    [7.334604, 6.103292, 6.792344, 4.245557]
    """
    largest = 1 - 1 / classes
    if not SMALLEST_ERROR <= error < largest:
        raise InvalidInput(f"error must be in [{SMALLEST_ERROR:g}, {largest:g}) for {classes} classes, got {error}")

    def excess(gap: float) -> float:
        return math.log(error_probability(selection, classes, gap)) - math.log(error)

    from scipy.optimize import brentq

    # At this gap every other label has a probability below e^−gap·(2 + gap), so that the sum is below the error.
    far = 8 + math.log(classes / error)
    return float(brentq(excess, 0.0, far, xtol=1e-12, rtol=1e-12))


def _at_least_one(**parameters: int) -> None:
    for name, value in parameters.items():
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")


@dataclass(frozen=True)
class LabelAccuracy:
    """The expected accuracy of labels, and its assumptions.

    ``queries_right`` is a lower bound of the fraction of queries with the label of most of their voters;
    ``samples_right`` of the fraction of public samples that get their true label by propagation.
    """

    votes: float
    gap: float
    queries_right: float
    samples_right: float
    in_words: str


def at_least(share: float) -> str:
    """A fraction in percent, rounded down, and at most 99.9.

    >>> at_least(0.99999), at_least(0.87654)
    ('99.9 %', '87.6 %')
    """
    return f"{min(math.floor(1000 * share), 999) / 10:.1f} %"


def expected_label_accuracy(
    records: int, queries: int, classes: int, epsilon: Number, neighbors: int, purity: float
) -> LabelAccuracy:
    """A lower bound of the label accuracy to expect from permute-and-flip at this ε under replace-one adjacency.

    ``purity`` is the fraction of a query's voters, and of the public samples it stands for, that have its label. All
    other votes are assumed to go to one rival, which is the worst case: in the form q_y + Exponential noise the label
    wins with probability E ∏_j F(v − q_j), where log F(v − q) = ln(1 − e^(−λ(v − q))) is concave in q, so that for a
    given sum of the rivals' votes the product is smallest at a corner.

    >>> expected_label_accuracy(60_000, 40, 10, "0.01", neighbors=1, purity=0.9).queries_right > 0.98
    True
    """
    _at_least_one(records=records, queries=queries, neighbors=neighbors)
    if classes < 2:
        raise InvalidInput(f"classes must be at least 2, got {classes}")
    if neighbors > queries:
        raise InvalidInput(f"neighbors must be at most the {plural(queries, 'query', 'queries')}, got {neighbors}")
    if not 0 < purity <= 1:
        raise InvalidInput(f"purity must be in (0, 1], got {purity}")
    budget = positive(epsilon, "epsilon")
    votes = records * neighbors / queries
    scores = np.zeros(classes)
    scores[:2] = votes * purity, votes * (1 - purity)
    right = float(PermuteAndFlip.for_epsilon(budget, 2 * neighbors).pmf(scores)[0])
    return LabelAccuracy(
        votes=votes,
        gap=float(scores[0] - scores[1]),
        queries_right=right,
        samples_right=right * purity,
        in_words=(
            f"At epsilon = {float(budget):g} expect at least {at_least(right)} of the "
            f"{plural(queries, 'query', 'queries')}, and {at_least(right * purity)} of the public "
            "samples, to get the right label. This assumes that every query "
            f"receives the same {votes:.0f} of the {plural(records * neighbors, 'vote')}, "
            f"that at least {purity:.0%} of them, and of the samples near the query, have one label, and, as the worst "
            "case, that all other votes go to a single rival. One vote of the whole data set, permute-and-flip, "
            "replace-one adjacency."
        ),
    )
