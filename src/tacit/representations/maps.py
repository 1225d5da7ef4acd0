"""Maps of the public samples (spectral embedding, UMAP), extended to any sample by its nearest public neighbors.

A spectral embedding brings samples together that many short edges of the neighbor graph connect, so clusters need not
be round. On handwritten digits twenty clusters of the map are as pure as a few hundred of the original features, so
labels cost a fraction of the budget. UMAP, an optional extra, gives purer clusters and is slower.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput
from tacit.core.codec import StrictReader
from tacit.core.samples import content_digest, row_digests
from tacit.neighbors import nearest_queries
from tacit.representations.arrays import FLOAT32, blocks, parameters, read_finite_array
from tacit.representations.scaled import flat, narrowed, same_width

__all__ = ["Interpolated", "neighbor_graph", "spectral_map", "umap_map"]

# More neighbors of one sample than any map has; a question's are in memory for thousands of records at a time.
_MOST_NEIGHBORS = 1000


@dataclass(frozen=True)
class Interpolated:
    """A sample's place on a map: the mean of its nearest anchors' places, weighted by their nearness.

    Embeddings of a whole set (spectral, UMAP) have no formula for a new sample, and their own methods place a batch
    together, so that one sample changes the place of another. Here a sample's place depends on the sample and the
    anchors alone: neighbors are found exactly, and the mean is summed neighbor by neighbor.

    >>> line = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
    >>> Interpolated.fit(line, places=10 * line, neighbors=2).encode(np.array([[0.5], [2.0]])).round(1).tolist()
    [[5.0], [20.0]]
    """

    name: ClassVar[str] = "interpolated"

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

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> Interpolated:
        """Read as many places as anchors, and fewer neighbors than there are."""
        anchors = read_finite_array(fields, "anchors", FLOAT32, (None, None))
        places = read_finite_array(fields, "places", FLOAT32, (len(anchors), None))
        if len(anchors) < 2:
            raise InvalidInput(f"the {fields.what} needs at least two anchors")
        return cls(anchors, places, fields.integer("neighbors", 1, min(_MOST_NEIGHBORS, len(anchors) - 1)))

    def fitted_to(self, samples: NDArray[Any]) -> bool:
        """Whether its anchors are these samples, in any order."""
        rows = flat(samples)
        return self.anchors.shape == rows.shape and _content(self.anchors) == _content(rows)

    def ground(self, public: NDArray[Any]) -> NDArray[Any]:
        """The features that the map was made from; the map does not preserve distances."""
        return flat(public)

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        rows = narrowed(same_width(samples, self.anchors.shape[1]))
        # One more neighbor, at whose distance the weights reach 0: so they are continuous.
        near = nearest_queries(rows, self.anchors, self.neighbors + 1)
        result = np.empty((len(rows), self.places.shape[1]), dtype=np.float32)
        for block in blocks(len(rows)):
            result[block] = self._mean(rows[block], near[block])
        return result

    def _mean(self, rows: Floats, near: NDArray[np.int64]) -> NDArray[np.float64]:
        distance = np.empty(near.shape)
        for rank in range(near.shape[1]):
            difference = rows.astype(np.float64) - self.anchors[near[:, rank]]
            # Over the last axis of a contiguous array, numpy sums each row in the same order.
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


def _content(rows: NDArray[Any]) -> str:
    return content_digest(row_digests(rows))


def neighbor_graph(public: NDArray[Any], neighbors: int = 10) -> Any:  # noqa: ANN401
    """The symmetric sparse matrix of similarities, from 0 to 1, of each public sample and its nearest neighbors.

    Each sample has its own scale, the distance of its last neighbor, so that dense and sparse regions are equally well
    connected.

    >>> neighbor_graph(np.array([[0.0], [1.0], [3.0]]), neighbors=1).toarray().round(2).tolist()
    [[0.0, 0.37, 0.0], [0.37, 0.0, 0.07], [0.0, 0.07, 0.0]]
    """
    from scipy.sparse import csr_array

    rows = flat(public).astype(np.float32)
    if not 1 <= neighbors < len(rows):
        raise InvalidInput(
            f"the neighbor graph links each public sample with {neighbors} others, and there are {len(rows)} in all: "
            "use more samples, or no graph"
        )
    own = np.repeat(np.arange(len(rows)), neighbors + 1)
    other = nearest_queries(rows, rows, neighbors + 1).ravel()
    difference = rows[own].astype(np.float64) - rows[other]
    squared = (difference * difference).sum(axis=1)
    reach = np.sqrt(squared.reshape(len(rows), -1).max(axis=1))
    scale = reach[own] * reach[other]
    alike = np.exp(-squared / np.where(scale > 0, scale, 1.0))
    graph = csr_array((np.where(own == other, 0.0, alike), (own, other)), shape=(len(rows), len(rows)))
    # An edge that is in the neighbor list of one end only has half the weight.
    return (graph + graph.T) / 2


def spectral_map(public: NDArray[Any], components: int = 12, neighbors: int = 10) -> Interpolated:
    """A spectral embedding: the leading eigenvectors of the normalized neighbor graph, rows scaled to length 1.

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
    # A start that is no eigenvector, and full precision: unconnected parts have equal eigenvalues, of which a rough
    # search finds one only.
    start = np.cos(np.arange(len(public)))
    values, slowest = eigsh(walk, components, which="LA", v0=start)
    # Order does not matter for distances, but a fixed one makes the map repeatable.
    slowest = slowest[:, np.argsort(-values)]
    places = slowest / np.maximum(np.linalg.norm(slowest, axis=1, keepdims=True), 1e-12)
    return Interpolated.fit(public, places)


def umap_map(public: Floats, components: int = 10, neighbors: int = 10) -> Interpolated:
    """A UMAP embedding of the public samples, with a fixed seed.

    UMAP's own ``transform`` is never used on records: it places a whole batch at once, so that one record's place
    depends on the others in the batch.

    >>> umap_map(np.zeros((3, 2), dtype=np.float32), neighbors=5)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: neighbors must be at least 2 and below the 3 public samples, got 5
    """
    if not 2 <= neighbors < len(public):
        raise InvalidInput(f"neighbors must be at least 2 and below the {len(public)} public samples, got {neighbors}")
    if not 1 <= components < len(public) - 2:
        raise InvalidInput(f"components must be at least 1 and below {len(public) - 2}, got {components}")
    with warnings.catch_warnings():
        # The library warns about its dependencies, and that a fixed seed allows one thread only.
        warnings.simplefilter("ignore")
        try:
            from umap import UMAP
        except ImportError:
            raise InvalidInput("UMAP needs an extra: pip install 'tacit[features]'") from None
        fitted = UMAP(neighbors, components, min_dist=0.0, random_state=0, n_jobs=1).fit(public)
    return Interpolated.fit(public, fitted.embedding_)
