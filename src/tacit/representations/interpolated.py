"""A map known at the public samples, carried over to any sample by its nearest public neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.neighbors import nearest_queries
from tacit.representations.grid import blocks
from tacit.representations.scaled import flat, narrowed, same_width

__all__ = ["Interpolated"]


@dataclass(frozen=True)
class Interpolated:
    """A sample's place is the mean of its nearest anchors' places, the nearer the heavier.

    Maps of a whole set (a neighbour graph's, UMAP's) have no formula for a new sample, and their own ways to
    add some place each batch together, so that one sample moves another. Here a sample's place depends on it and
    on the anchors alone: neighbours are found exactly, and the mean is taken neighbour by neighbour.

    >>> line = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
    >>> Interpolated.fit(line, places=10 * line, neighbors=2).encode(np.array([[0.5], [2.0]])).round(1).tolist()
    [[5.0], [20.0]]
    """

    anchors: Floats  # (public samples, features)
    places: Floats  # (public samples, map's dimensions)
    neighbors: int

    @classmethod
    def fit(cls, public: NDArray[Any], places: NDArray[Any], neighbors: int = 8) -> Interpolated:
        """Remember the public samples and their places."""
        anchors = narrowed(flat(public))
        if len(places) != len(anchors) or places.ndim != 2:
            raise InvalidInput(f"places must have a row for each of the {len(anchors)} samples, got {places.shape}")
        if not 1 <= neighbors < len(anchors):
            raise InvalidInput(f"neighbors must be at least 1 and below the {len(anchors)} samples, got {neighbors}")
        return cls(anchors, places.astype(np.float32), neighbors)

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        rows = narrowed(same_width(samples, self.anchors.shape[1]))
        # One neighbour more than counts: its distance is where weights end, so they end without a jump.
        near = nearest_queries(rows, self.anchors, self.neighbors + 1)
        result = np.empty((len(rows), self.places.shape[1]), dtype=np.float32)
        for block in blocks(len(rows)):
            result[block] = self._mean(rows[block], near[block])
        return result

    def _mean(self, rows: Floats, near: NDArray[np.int64]) -> NDArray[np.float64]:
        distance = np.empty(near.shape)
        for rank in range(near.shape[1]):
            difference = rows.astype(np.float64) - self.anchors[near[:, rank]]
            # Over the second axis of a table whose rows lie whole in memory, numpy adds each row in the same order.
            distance[:, rank] = (difference * difference).sum(axis=1)
        far = distance.max(axis=1)
        weight = np.square(1 - distance / np.where(far > 0, far, 1.0)[:, None])
        weight[weight.max(axis=1) == 0] = 1.0  # all equally far
        mean, total = np.zeros((len(rows), self.places.shape[1])), np.zeros((len(rows), 1))
        for rank in range(near.shape[1]):
            mean += weight[:, rank, None] * self.places[near[:, rank]]
            total += weight[:, rank, None]
        placed: NDArray[np.float64] = mean / total
        return placed
