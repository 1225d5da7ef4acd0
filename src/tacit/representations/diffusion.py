"""A map of the public samples' neighbourhood graph: near means connected by many short steps.

Classes are often long curved clouds that straight distances cut across. Walking from neighbour to neighbour follows
them. The slowest directions of that walk (a diffusion map) spread the clouds apart, so that fewer and purer clusters
cover them: fewer questions, more votes for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.representations.scaled import flat, same_width

__all__ = ["DiffusionMap"]


@dataclass(frozen=True)
class DiffusionMap:
    """Where a random walk among the public samples puts a sample after one step.

    Public samples are joined to their ``neighbors`` nearest with weights exp(−d²/(r_a r_b)), r being the distance
    to the last neighbour; ``coordinates`` are the leading eigenvectors of the walk. Any other sample gets the
    weighted mean of its nearest public samples' coordinates (Nyström's extension), which depends on it alone.

    >>> ring = np.array([[np.cos(a), np.sin(a)] for a in np.linspace(0, 6.2, 60)])
    >>> DiffusionMap.fit(ring, neighbors=4, components=2).encode(ring[:3] * 1.01).shape
    (3, 2)
    """

    public: NDArray[np.float64]  # (m, features)
    reach: NDArray[np.float64]  # (m,), the distance to the last neighbour
    coordinates: NDArray[np.float64]  # (m, components)
    neighbors: int

    @classmethod
    def fit(cls, public: NDArray[Any], neighbors: int = 6, components: int = 16) -> DiffusionMap:
        """Find the neighbourhood graph of the public samples and its slowest directions."""
        from scipy.sparse import coo_array, diags_array
        from scipy.sparse.linalg import eigsh

        rows = np.unique(flat(public).astype(np.float64), axis=0)
        if neighbors < 2 or components < 1:
            raise InvalidInput(f"neighbors must be at least 2 and components 1, got {neighbors} and {components}")
        if len(rows) < max(neighbors, components) + 3:
            raise InvalidInput(
                f"a neighbourhood graph of {neighbors} neighbors and {components} components needs at least "
                f"{max(neighbors, components) + 3} distinct public samples, got {len(rows)}"
            )
        distances, nearest = _nearest(rows, rows, neighbors)
        reach = distances[:, -1]
        weights = _weights(distances, reach, reach[nearest])
        place = np.repeat(np.arange(len(rows)), neighbors + 1)
        one_way = coo_array((weights.ravel(), (place, nearest.ravel())), shape=(len(rows), len(rows))).tocsr()
        graph = one_way.maximum(one_way.T)
        scale = 1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
        walk = diags_array(scale) @ graph @ diags_array(scale)
        # A fixed start makes the result repeatable; the first direction is constant and says nothing.
        values, vectors = eigsh(walk, k=components + 1, which="LA", v0=np.ones(len(rows)))
        leading = np.argsort(-values)[1:]
        return cls(rows, reach, vectors[:, leading] * scale[:, None] * np.sqrt(len(rows)), neighbors)

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        rows = same_width(samples, self.public.shape[1]).astype(np.float64)
        distances, nearest = _nearest(self.public, rows, self.neighbors)
        weights = _weights(distances, distances[:, -1], self.reach[nearest])
        weights /= weights.sum(axis=1, keepdims=True)
        placed: Floats = np.einsum("nk,nkc->nc", weights, self.coordinates[nearest]).astype(np.float32)
        return placed


def _nearest(
    public: NDArray[np.float64], rows: NDArray[np.float64], neighbors: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    from sklearn.neighbors import NearestNeighbors

    distances, nearest = NearestNeighbors(n_neighbors=neighbors + 1, algorithm="brute").fit(public).kneighbors(rows)
    return distances, nearest


def _weights(
    distances: NDArray[np.float64], own: NDArray[np.float64], other: NDArray[np.float64]
) -> NDArray[np.float64]:
    """exp(−d²/(r_a r_b)); samples at no distance at all are joined as closely as can be."""
    scale = np.maximum(own[:, None] * other, np.finfo(np.float64).tiny)
    joined: NDArray[np.float64] = np.exp(-np.minimum(distances**2 / scale, 700))
    return joined
