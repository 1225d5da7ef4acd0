"""A linear layer that puts neighbours into one group and fills all groups: as many groups as there are classes.

The idea is that of SCAN (Van Gansbeke et al., 2020): a sample and one of its nearest neighbours should fall into the
same group surely, and groups should be of equal size on average. Photographs seen by a pretrained network have no
round clusters, and k-means cuts their classes; this layer does not. It sees the public samples and no label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.neighbors import nearest_queries
from tacit.representations.grid import blocks
from tacit.representations.scaled import flat, same_width
from tacit.representations.shares import axes, measurable, require_groups, shares

__all__ = ["ClusteringHead"]

Reals = NDArray[np.float64]
# How much equal groups count beside neighbours that agree.
EVENNESS = 3.0
MOST_NEIGHBORS = 30
STEPS, BATCH, RATE = 900, 1000, 5e-3
# What a logarithm is taken of is never smaller.
FLOOR = 1e-9


@dataclass(frozen=True)
class ClusteringHead:
    """A sample's share in each group; ``queries`` are the axes of this space.

    Assumes that the classes are about equally frequent among the public samples.

    >>> rng = np.random.default_rng(0)
    >>> public = np.concatenate([rng.normal(size=(60, 2)) + centre for centre in ([0, 9], [9, 0], [-9, -9])])
    >>> fitted = ClusteringHead.fit(public, groups=3, neighbors=5, starts=2)
    >>> groups = fitted.encode(public).argmax(axis=1).reshape(3, 60)
    >>> [len(set(each)) for each in groups.tolist()], len(set(groups[:, 0].tolist()))
    ([1, 1, 1], 3)
    """

    weights: Reals  # (groups, features)
    offsets: Reals  # (groups,)

    @classmethod
    def fit(
        cls,
        public: NDArray[Any],
        groups: int,
        neighbors: int | None = None,
        starts: int = 12,
        seed: int = 0,
    ) -> ClusteringHead:
        """Train a layer from each of several starts on the public samples, and keep the one of least loss.

        Without ``neighbors`` a sample has 30, and no more than half of what a group of equal size holds.
        """
        rows = measurable(flat(public), "the public samples have")
        require_groups(rows, groups)
        if neighbors is None:
            neighbors = max(1, min(MOST_NEIGHBORS, len(rows) // (2 * groups)))
        if not 1 <= neighbors < len(rows):
            raise InvalidInput(f"neighbors must be at least 1 and below the {len(rows)} samples, got {neighbors}")
        if starts < 1:
            raise InvalidInput(f"starts must be at least 1, got {starts}")
        narrow = rows.astype(np.float32)
        # Each sample is its own nearest one, or an equal one is.
        nearest = nearest_queries(narrow, narrow, neighbors + 1)[:, 1:]
        mean, spread = rows.mean(axis=0), float(rows.std()) or 1.0
        centred = (rows - mean) / spread
        trained = (_train(centred, nearest, groups, np.random.default_rng((seed, start))) for start in range(starts))
        best = min(trained, key=lambda each: each.loss)
        weights = best.weights / spread
        return cls(weights, best.offsets - weights @ mean)

    @property
    def queries(self) -> Floats:
        """What to ask: one query a group."""
        return axes(len(self.weights))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 shares a sample."""
        rows = same_width(samples, self.weights.shape[1])
        result = np.empty((len(rows), len(self.weights)), dtype=np.float32)
        for block in blocks(len(rows)):
            # einsum adds each row up by itself, always in the same order, whatever rows are around it.
            scores = np.einsum("nf,gf->ng", measurable(rows[block]), self.weights)
            result[block] = shares(-(scores + self.offsets))
        return result


@dataclass(frozen=True)
class _Trained:
    weights: Reals
    offsets: Reals
    loss: float


def _train(rows: Reals, nearest: NDArray[Any], groups: int, rng: np.random.Generator) -> _Trained:
    """One layer from a random start, by Adam; its loss is the mean of the last pass."""
    width, batch = rows.shape[1], min(BATCH, len(rows))
    # The offset is the weight of a feature that is always 1.
    weights = np.concatenate([rng.uniform(-1, 1, (groups, width)) / np.sqrt(width), np.zeros((groups, 1))], axis=1)
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    first, second, step = np.zeros_like(weights), np.zeros_like(weights), 0
    losses: list[float] = []
    while step < STEPS:
        losses.clear()
        order = rng.permutation(len(rows))
        for own in np.array_split(order, max(1, len(rows) // batch)):
            other = nearest[own, rng.integers(nearest.shape[1], size=len(own))]
            loss, slope = _loss(weights, rows[own], rows[other])
            losses.append(loss)
            step += 1
            first += 0.1 * (slope - first)
            second += 0.001 * (slope * slope - second)
            weights -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return _Trained(weights[:, :-1], weights[:, -1], float(np.mean(losses)))


def _loss(weights: Reals, own: Reals, other: Reals) -> tuple[float, Reals]:
    """How little neighbours agree and how uneven the groups are, and how that changes with the weights."""
    mine, theirs = softmax(own @ weights.T, axis=1), softmax(other @ weights.T, axis=1)
    agree = np.maximum((mine * theirs).sum(axis=1, keepdims=True), FLOOR)
    sizes = np.maximum((mine + theirs).mean(axis=0) / 2, FLOOR)
    loss = -float(np.log(agree).mean()) + EVENNESS * float((sizes * np.log(sizes)).sum())
    even = EVENNESS * (np.log(sizes) + 1) / 2
    slopes = []
    for shown, shares_of, others in ((own, mine, theirs), (other, theirs, mine)):
        by_share = even - others / agree
        by_score = shares_of * (by_share - (shares_of * by_share).sum(axis=1, keepdims=True))
        slopes.append(by_score.T @ shown)
    return loss, (slopes[0] + slopes[1]) / len(own)
