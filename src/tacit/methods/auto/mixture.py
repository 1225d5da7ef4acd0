"""A Gaussian mixture on the public samples, one component per class, that refines the odds from releases.

Embeddings of one class lie around one mean. Noise moves the estimated means away from where public samples are dense; a
few steps of expectation-maximization (EM) move them back. EM starts at the odds from the releases and keeps a part of
them in every step, so that classes cannot be exchanged. All of it is post-processing of releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Reals
from tacit.methods.auto.coordinator import Block
from tacit.methods.class_sums.coordinator import LinearOdds
from tacit.students.wrapped import Projected

__all__ = ["MIXED_KINDS", "PublicMixture", "fit_public_mixture", "refined", "released_misfit"]

# Kinds of samples that form one cluster per class: encoded texts, and embeddings.
MIXED_KINDS = ("text", "embedding")
# The weight of the released odds in every step.
KEPT = 0.5
# Principal components for which the covariance is estimated, limited by the number of samples.
MOST_COMPONENTS, SAMPLES_PER_COMPONENT = 100, 15
_STEPS = 10
# The fraction of the mean variance that is added to every variance.
RIDGE = 1e-4
# The misfit of released sums to those of refined labels is 1 from noise alone, and larger if public samples differ from
# records; with the true labels of the development sets it is 1.1 to 1.6.
LARGEST_MISFIT = 1.25


@dataclass(frozen=True)
class PublicMixture:
    """Refined probabilities of the public samples, and the mixture's linear odds in the principal components."""

    probabilities: Reals  # (samples, classes)
    components: Projected
    odds: LinearOdds


def fit_public_mixture(public: NDArray[Any], begun: Reals) -> PublicMixture | None:
    """The mixture of public samples (n, features), started at probabilities (n, classes); None for too few samples.

    >>> public = np.concatenate([np.eye(30)[:, :2] * 0.1, 4 + np.eye(30)[:, :2] * 0.1])
    >>> begun = np.full((60, 2), 0.5)
    >>> begun[:5], begun[55:] = (0.9, 0.1), (0.1, 0.9)
    >>> fit_public_mixture(public, begun).probabilities.argmax(axis=1).tolist() == [0] * 30 + [1] * 30
    True
    """
    rows = public.reshape(len(public), -1).astype(np.float64)
    count = min(MOST_COMPONENTS, len(rows) // SAMPLES_PER_COMPONENT, rows.shape[1])
    if count < 1 or not np.ptp(rows, axis=0).any():
        return None
    components = Projected.components(rows, count)
    seen = np.asarray(components.transform(rows), dtype=np.float64)
    chances, whole = begun, seen.T @ seen / len(seen)
    for _ in range(_STEPS):
        sizes = np.maximum(chances.sum(axis=0), 1e-9)
        means = chances.T @ seen / sizes[:, None]
        shares = sizes / sizes.sum()
        within = whole - (means.T * shares) @ means
        within += np.eye(count) * (RIDGE * np.trace(whole) / count + 1e-12)
        weights = np.linalg.solve(within, means.T)
        odds = LinearOdds(weights, np.log(shares) - (means.T * weights).sum(axis=0) / 2)
        chances = KEPT * begun + (1 - KEPT) * odds.probabilities(seen)
    return PublicMixture(chances, components, odds)


def released_misfit(blocks: Sequence[Block], chances: Reals) -> float:
    """How much the sums of public samples with these probabilities differ from the released ones; 1 is noise alone.

    >>> from tacit.methods.auto.coordinator import SumFeatures
    >>> from tacit.methods.class_sums.coordinator import Moments
    >>> from tacit.representations.scaled import Identity
    >>> found = Moments(np.array([[-0.5], [0.5]]), np.array([0.5, 0.5]), np.full((2, 1), 1e-4))
    >>> block = Block(SumFeatures(Identity(1), 1.0, 1, "l2"), np.array([[-1.0], [1.0]] * 500), found)
    >>> right, wrong = np.tile(np.eye(2), (500, 1)), np.full((1000, 2), 0.5)
    >>> released_misfit([block], right) < 1e-9, released_misfit([block], wrong) > 100
    (True, True)
    """
    classes, squares, terms = chances.shape[1], 0.0, 0
    for each in blocks:
        means = chances.T @ each.public / len(each.public)
        drawn = (np.square(chances).T @ np.square(each.public) / len(each.public) - np.square(means)) / len(each.public)
        squares += float((np.square(means - each.moments.means) / (each.moments.variances + drawn)).sum())
        terms += means.size
    # The sums over all classes are those of all samples, so one class follows from the others.
    return float(squares / terms * classes / (classes - 1))


def refined(blocks: Sequence[Block], public: NDArray[Any], begun: Reals) -> PublicMixture | None:
    """The mixture, or None if the releases contradict it."""
    found = fit_public_mixture(public, begun)
    if found is None or not np.isfinite(found.probabilities).all():
        return None
    most = max(LARGEST_MISFIT, released_misfit(blocks, begun))
    return found if released_misfit(blocks, found.probabilities) <= most else None
