"""The coordinator's part for records with sets of labels: one logistic regression per label, fitted to the noisy sums.

A label's regression needs the labels only through the sum of the records that have it, and their number; public samples
approximate the distribution of all records. All of it is post-processing of the release.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tacit.core import Reals
from tacit.methods.class_sums.coordinator import CAUTION, FIT_STEPS, MOST_ROWS, Moments, ReleasedSums, in_radii, ridge
from tacit.methods.class_sums.wire import SumAsk, on_grid

__all__ = ["label_frequencies", "public_label_chances", "read_label_odds", "set_moments"]


def label_frequencies(noisy: Reals, variance: float, labels: int, records: int) -> Reals:
    """The expected frequency of every label, from noisy ones with noise of this variance.

    Before the release it is known only that a record has at most ``labels`` labels. So the mean frequency is modeled as
    uniform between 0 and labels/classes, and each label's as normal around it, with the variance that the noisy
    frequencies show beyond the noise, at most the square of their mean. If noise hides everything, all are equal.

    >>> label_frequencies(np.array([0.5, 0.1, 0.2, 0.0]), 1e-8, 3, 1000).round(2).tolist()
    [0.5, 0.1, 0.2, 0.0]
    >>> label_frequencies(np.array([0.9, -0.5, 0.4, 0.3]), 1.0, 2, 1000).round(2).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    classes = len(noisy)
    most = labels / classes
    spread, of_mean = most**2 / 12, variance / classes
    mean = most / 2 + (noisy.mean() - most / 2) * spread / (spread + of_mean)
    mean = min(max(mean, 1 / (classes * records)), most)
    seen = float(np.square(noisy - noisy.mean()).sum() / max(1, classes - 1)) - variance
    between = min(max(seen, 0.0), mean**2)
    found = mean + (noisy - mean) * between / (between + variance)
    # Under noise no label is known to be absent, or to be everywhere.
    least = max(1 / records, min(math.sqrt(variance), mean / 2))
    clipped: Reals = np.clip(found, min(least, 0.5), max(1 - least, 0.5))
    return clipped


def set_moments(released: ReleasedSums, ask: SumAsk, variance: float, public: Reals, records: int) -> Moments:
    """The moments in the sums: means of z over the records with each label, times its frequency, and frequencies.

    ``variance`` is that of one answer's noise in one cell.
    """
    assert ask.labels is not None
    factor = ask.classes if ask.centered else 1
    noise = variance * released.answers / factor**2
    table = released.table / factor
    subtracted = ask.shift / factor
    center = public.mean(axis=0)
    weight = ask.count * records
    shares = np.full(ask.classes, ask.labels / (2 * ask.classes))
    if ask.count:
        shares = label_frequencies(table[:, -1] / weight + subtracted, noise / weight**2, ask.labels, records)
    means = table[:, :-1] / (ask.radius * records) + subtracted * center
    # The sampling variance of the means of this many records, and the noise.
    drawn = np.outer(shares * (1 - shares), np.square(public).mean(axis=0)) / records
    return Moments(means, shares, drawn + noise / (ask.radius * records) ** 2)


def read_label_odds(found: Moments, public: Reals) -> tuple[Reals, Reals]:
    """The weights (labels, components) and intercepts of the regressions whose moments are those of the records.

    Label k's likelihood is the mean of −log(1 + exp(score)) over the public samples, + ⟨weights, mean⟩ + intercept ·
    frequency. With a ridge it is concave, and has one maximum for any noise. All labels have one prior variance of the
    weights, which is the likeliest (``ridge``). So every label is as frequent among the public samples as was released.
    """
    from scipy.optimize import minimize

    rows = public[:: -(-len(public) // MOST_ROWS)]
    labels, components = found.means.shape
    base = np.log(found.shares / (1 - found.shares))
    curvature = np.outer(found.shares * (1 - found.shares), np.maximum(np.square(rows).mean(axis=0), 1e-12))
    residual = found.means - np.outer(found.shares, rows.mean(axis=0))
    held = ridge(curvature, residual, found.variances, CAUTION)
    # Preconditioning: in these units the curvature is about equal in every direction.
    unit = 1 / np.sqrt(curvature + held)

    def loss(values: Reals) -> tuple[float, Reals]:
        weights = values[: labels * components].reshape(labels, components) * unit
        intercepts = values[labels * components :] + base
        scores = rows @ weights.T + intercepts
        likely = expit(scores)
        value = np.logaddexp(0, scores).mean(axis=0).sum() - (weights * found.means).sum() - intercepts @ found.shares
        slope = (likely.T @ rows / len(rows) - found.means + held * weights) * unit
        rest = likely.mean(axis=0) - found.shares
        return float(value + (held * weights**2).sum() / 2), np.concatenate([slope.ravel(), rest])

    start = np.zeros(labels * (components + 1))
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": FIT_STEPS}).x
    return best[: labels * components].reshape(labels, components) * unit, best[labels * components :] + base


def public_label_chances(released: ReleasedSums, ask: SumAsk, public: NDArray[Any], records: int) -> Reals:
    """The probability of each label for every public sample, (samples, labels), computed from the release.

    >>> from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
    >>> from tacit.representations.scaled import Identity
    >>> noise = RoundedGaussianNoise(4, 400)
    >>> ask = SumAsk(Identity(1), 1, 1.0, 10, "l2", 10, ("low", "any"), "c0ffee", noise, "sums", "r-1", labels=2)
    >>> sums = ReleasedSums(np.array([[-800, 1000], [0, 1960]]))
    >>> public_label_chances(sums, ask, np.array([[-9.0], [-7.0], [8.0], [8.0]]), 200).round().tolist()
    [[1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    """
    points = in_radii(ask, on_grid(ask.representation.encode(public), ask.scale, ask.radius, ask.norm)[0])
    mechanism: Any = ask.mechanism
    weights, intercepts = read_label_odds(
        set_moments(released, ask, mechanism.noise_law.variance, points, records), points
    )
    chances: Reals = expit(points @ weights.T + intercepts)
    return chances
