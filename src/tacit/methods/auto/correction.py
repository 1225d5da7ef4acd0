"""A second question about the same features: by how much the odds that followed from class sums are off at the records.

Odds are fitted to sums of the records and a mean over public samples. These differ: public samples are few, or drawn
in another way than the records. The gradient of the regression at these odds is a mean over records alone, so what
follows from it does not depend on that difference. With many classes it also leads from least squares, which is what
sums determine best, to logistic regression. It is the question of noisy SGD, asked once; all of it after the release is
post-processing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.core.protocols import Integers, Reals
from tacit.core.samples import content_digest, row_digests
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.auto.coordinator import Block, SumFeatures
from tacit.methods.class_sums.coordinator import LinearOdds, Moments, read_logistic
from tacit.methods.noisy_sgd.coordinator import mean_gradient, whole_weights
from tacit.methods.noisy_sgd.gradient import ERRORS, RESOLUTION
from tacit.methods.noisy_sgd.wire import GradientAsk, gradient_sensitivity
from tacit.methods.task import Task

__all__ = [
    "FINE",
    "corrected_block",
    "correction_ask",
    "correction_mechanism",
    "expected_length",
    "gradient_radius",
    "moved_block",
]

# The constant feature's length beside features of length 1: it makes gradients longer, and so their noise larger, but
# proportions of classes are known well from far less.
_OFFSET = 0.25
# Gradients are clipped to the length that this part of them is expected to be within, and not below the least: the
# odds may be surer than they should be.
_WITHIN, _LEAST_CLIP = 0.9, 0.1
# Grid steps in the longest gradient, and how far a table may move for mechanisms to take it.
_RADIUS, _LONGEST_MOVE = 2**17, 2**20
# Grid steps that a gradient needs to be worth asking for: of persons with very many records it has fewer.
FINE = 2**13


def gradient_radius(records: int) -> int:
    """Grid steps in the longest gradient of a record, where a person has this many: the same whatever was released.

    >>> gradient_radius(1), gradient_radius(8)
    (131072, 65536)
    """
    return max(1, min(_RADIUS, _LONGEST_MOVE // (2 * records)))


def correction_mechanism(task: Task, components: int) -> RoundedGaussianNoise:
    """The noise of the question; its price depends on the task alone."""
    cells = len(task.classes) * (components + 1)
    radius = gradient_radius(task.unit.records)
    moves = gradient_sensitivity(cells, radius, "l2", task.unit, task.adjacency)
    return RoundedGaussianNoise.calibrated(moves, task.budget, task.delta)


def expected_length(points: Reals, chances: Reals) -> float:
    """The length that most gradients of records would have if the odds were right.

    >>> even = np.full((10, 2), 0.5)
    >>> round(expected_length(np.zeros((10, 3)), even), 3)  # errors of (1/2, -1/2) times a constant of 1/4
    0.177
    """
    lengths = _lengths(points, chances).ravel()
    order = np.argsort(lengths)
    reached = np.cumsum(chances.ravel()[order])
    place = int(np.searchsorted(reached, _WITHIN * reached[-1]))
    return float(max(lengths[order][min(place, len(order) - 1)], _LEAST_CLIP))


def correction_ask(task: Task, before: Block, odds: LinearOdds) -> GradientAsk:
    """The gradient at these odds, in the features of the block before it."""
    seen, points = before.features, before.public
    assert isinstance(seen, SumFeatures)
    weights = whole_weights(np.vstack([odds.weights, odds.intercepts / _OFFSET]))
    radius = gradient_radius(task.unit.records)
    clip = expected_length(points, _odds(weights).probabilities(points))
    # No finer than the grid of the sums, which was accepted.
    length = int(min(max(1, radius // (ERRORS * clip)), seen.radius))
    return GradientAsk(
        representation=seen.representation,
        scale=seen.scale * length / seen.radius,
        length=length,
        offset=max(1, round(_OFFSET * length)),
        weights=weights,
        radius=radius,
        norm="l2",
        class_names=tuple(map(str, task.classes)),
        space=content_digest(row_digests(points)),
        mechanism=correction_mechanism(task, points.shape[1]),
        purpose="gradient of the odds",
        request=task.request,
    )


def corrected_block(ask: GradientAsk, table: Integers, before: Block) -> Block:
    """What sums and gradient tell together: means of both, weighted by precision.

    The sums that records would have if they were distributed as the public samples are: those of public samples that
    are labeled by the odds, and what the gradient says that the odds are off by.
    """
    chances, told = _told(ask, table, before)
    # Of the sums alone it is unknown how far the mean over public samples is from that over all there could be.
    points = before.public
    drawn = np.square(chances - 1 / ask.classes).T @ np.square(points) / len(points) ** 2
    first, second = 1 / (before.moments.variances + drawn), 1 / told.variances
    together = Moments(
        (before.moments.means * first + told.means * second) / (first + second), told.shares, 1 / (first + second)
    )
    return Block(before.features, points, together, refines=True)


def moved_block(ask: GradientAsk, table: Integers, before: Block) -> Block:
    """The odds of the question, moved as far as the gradient says so above its noise.

    For many components and classes: the odds of the sums are kept where the gradient says little.
    """
    told = _told(ask, table, before)[1]
    moved = read_logistic(told, before.public, _odds(ask.weights))
    return Block(before.features, before.public, told, size=before.size, refines=True, odds=moved)


def _told(ask: GradientAsk, table: Integers, before: Block) -> tuple[Reals, Moments]:
    """The probabilities of public samples by the odds of the question, and the moments that the gradient says."""
    points, classes, size = before.public, ask.classes, before.size
    assert size is not None
    mechanism: Any = ask.mechanism
    chances = _odds(ask.weights).probabilities(points)
    offset = ask.offset / ask.length
    off = -mean_gradient(table, size, ask.length)
    # A record's errors add up to nothing: what is over is noise.
    off -= off.mean(axis=1, keepdims=True)
    noise = mechanism.noise_law.variance * (1 - 1 / classes) / (ERRORS * ask.length * size) ** 2
    # Clipped gradients do not add up to nothing where odds are right: what they are expected to add up to is taken off.
    clip = ask.radius / (ERRORS * ask.length)
    left = chances * np.minimum(1.0, clip / np.maximum(_lengths(points, chances), 1e-12))
    clipped = left - chances * left.sum(axis=1, keepdims=True)
    off -= np.column_stack([points, np.full(len(points), offset)]).T @ clipped / len(points)
    means = chances.T @ points / len(points) + off[:-1].T
    variances = noise + (chances * (1 - chances)).T @ np.square(points) / len(points) / size
    shares = chances.mean(axis=0) + off[-1] / offset
    least = max(1 / size, np.sqrt(noise) / offset)
    shares = np.maximum(shares, min(least, 0.5 / classes))
    return chances, Moments(means, shares / shares.sum(), variances)


def _lengths(points: Reals, chances: Reals) -> Reals:
    """How long a sample's gradient is for each class that it may turn out to have, (samples, classes)."""
    far = np.sqrt(np.square(points).sum(axis=1, keepdims=True) + _OFFSET**2)
    squares = np.square(chances).sum(axis=1, keepdims=True) - 2 * chances + 1
    lengths: Reals = np.sqrt(np.maximum(squares, 0.0)) * far
    return lengths


def _odds(weights: Integers) -> LinearOdds:
    """The odds that a question with these weights is about."""
    real = weights / RESOLUTION
    return LinearOdds(real[:-1], _OFFSET * real[-1])
