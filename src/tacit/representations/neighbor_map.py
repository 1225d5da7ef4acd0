"""A map of the neighbour graph as a step before a scikit-learn student.

A student behind it learns which places of the map have which label, so samples between labeled ones help it although
nobody labeled them: half of what makes a few private labels enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.representations.interpolated import Interpolated
from tacit.representations.spectral import spectral_map

__all__ = ["NeighborMap"]


class NeighborMap(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Draws a map of the samples that a student is taught, and places every other sample on it by its neighbours.

    >>> rows = np.random.default_rng(0).normal(size=(60, 5))
    >>> NeighborMap(components=4).fit(rows).transform(rows[:3]).shape
    (3, 4)
    """

    def __init__(self, components: int = 20, neighbors: int = 10) -> None:
        self.components = components
        self.neighbors = neighbors

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> NeighborMap:
        """Draw the map of these samples; one that comes several times, for soft labels, counts once."""
        rows = np.unique(np.asarray(X, dtype=np.float32), axis=0)
        if len(rows) <= self.neighbors + 1:
            raise InvalidInput(
                f"a map needs more than {self.neighbors + 1} different samples, got {len(rows)}: choose another student"
            )
        drawn = spectral_map(rows, min(self.components, len(rows) - 2), self.neighbors)
        self.anchors_, self.places_, self.reach_ = drawn.anchors, drawn.places, drawn.neighbors
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Where the samples are on the map, each by itself."""
        rows: NDArray[Any] = np.asarray(X)
        return Interpolated(np.asarray(self.anchors_), np.asarray(self.places_), int(self.reach_)).encode(rows)
