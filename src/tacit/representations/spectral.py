"""A map of the public samples by their neighbour graph: what many short steps connect comes together.

Clusters need not be round to be found on such a map. On handwritten digits twenty clusters of it are as pure as a
few hundred of the features it was made from, so labels cost a fraction of the budget.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.neighbors import nearest_queries
from tacit.representations.interpolated import Interpolated
from tacit.representations.scaled import flat

__all__ = ["neighbor_graph", "spectral_map"]


def neighbor_graph(public: NDArray[Any], neighbors: int = 10) -> Any:  # noqa: ANN401
    """The symmetric sparse matrix of how alike each public sample and its nearest ones are, from 0 to 1.

    How near counts as near is each sample's own: the distance of its last neighbour. So dense and sparse
    regions are equally well connected.

    >>> neighbor_graph(np.array([[0.0], [1.0], [3.0]]), neighbors=1).toarray().round(2).tolist()
    [[0.0, 0.37, 0.0], [0.37, 0.0, 0.07], [0.0, 0.07, 0.0]]
    """
    from scipy.sparse import csr_array

    rows = flat(public).astype(np.float32)
    if not 1 <= neighbors < len(rows):
        raise InvalidInput(
            f"the neighbour graph links each public sample with {neighbors} others, and there are {len(rows)} in all: "
            "bring more, or do without the graph"
        )
    own = np.repeat(np.arange(len(rows)), neighbors + 1)
    other = nearest_queries(rows, rows, neighbors + 1).ravel()
    difference = rows[own].astype(np.float64) - rows[other]
    squared = (difference * difference).sum(axis=1)
    reach = np.sqrt(squared.reshape(len(rows), -1).max(axis=1))
    scale = reach[own] * reach[other]
    alike = np.exp(-squared / np.where(scale > 0, scale, 1.0))
    graph = csr_array((np.where(own == other, 0.0, alike), (own, other)), shape=(len(rows), len(rows)))
    # A link that only one end counts among its nearest is half as strong.
    return (graph + graph.T) / 2


def spectral_map(public: NDArray[Any], components: int = 12, neighbors: int = 10) -> Interpolated:
    """The slowest modes of a random walk on the neighbour graph, each public sample on the unit sphere.

    >>> rings = np.array([[r * np.cos(t), r * np.sin(t)] for r in (1, 3) for t in np.arange(0, 6.28, 0.1)])
    >>> fitted = spectral_map(rings.astype(np.float32), components=2, neighbors=4)
    >>> inner, near, outer = fitted.encode(np.array([[0.0, 1.1], [0.1, 1.1], [0.0, 2.8]]))
    >>> bool(np.linalg.norm(inner - near) < np.linalg.norm(inner - outer))
    True
    """
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import eigsh

    if not 1 <= components < len(public):
        raise InvalidInput(
            f"components must be at least 1 and below the {len(public)} public samples, got {components}"
        )
    graph = neighbor_graph(public, neighbors)
    inverse = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    walk = diags_array(inverse) @ graph @ diags_array(inverse)
    # A start that is not an eigenvector itself, and full precision: unconnected parts have equal modes, and a
    # sloppy search finds one of them only.
    start = np.cos(np.arange(len(public)))
    values, slowest = eigsh(walk, components, which="LA", v0=start)
    # Order does not matter for distances, but a fixed one makes the map repeatable.
    slowest = slowest[:, np.argsort(-values)]
    places = slowest / np.maximum(np.linalg.norm(slowest, axis=1, keepdims=True), 1e-12)
    return Interpolated.fit(public, places)
