"""Choosing what to ask: centres of clusters of the public samples."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats, Integers
from tacit.neighbors import nearest_queries

__all__ = ["Clusters", "cluster", "margins", "suggest_queries"]


LARGE = 1_000_000


@dataclass(frozen=True)
class Clusters:
    """Queries and, for every public sample, the query it belongs to."""

    centres: Floats  # (s, features)
    membership: Integers  # (public samples,)


def cluster(public: Floats, queries: int, seed: int = 0, weights: NDArray[np.float64] | None = None) -> Clusters:
    """The public samples in that many groups, by k-means from k-means++ starts; the centres are the queries.

    Where samples have ``weights``, groups are the smaller the heavier their samples.

    >>> groups = cluster(np.array([[0.0], [0.1], [9.0]], dtype=np.float32), 2)
    >>> groups.membership[0] == groups.membership[1] != groups.membership[2]
    np.True_
    """
    from sklearn.cluster import KMeans

    distinct = len(np.unique(public, axis=0))
    if not 1 <= queries <= distinct:
        raise InvalidInput(f"queries must be between 1 and the {distinct} distinct public samples, got {queries}")
    # Many queries or samples make one start as good as ten, and ten times as slow.
    starts = 10 if queries * len(public) <= LARGE else 1
    fitted = KMeans(queries, init="k-means++", n_init=starts, random_state=seed).fit(public, sample_weight=weights)
    return Clusters(fitted.cluster_centers_.astype(np.float32), fitted.labels_.astype(np.int64))


def margins(public: Floats, clusters: Clusters, query_labels: Integers) -> NDArray[np.float64]:
    """How far every public sample is from getting another label: 1 at its query, 0 halfway to one of another label.

    1 − d₁/d₂, where d₁ is the squared distance to the sample's own query and d₂ to the nearest query with a
    different label. It needs public samples and released labels only, so it is free, and a student that is told
    which labels sit on a border learns more from the others.

    >>> points = np.array([[0.0], [4.0], [10.0]], dtype=np.float32)
    >>> groups = Clusters(np.array([[0.0], [10.0]], dtype=np.float32), np.array([0, 0, 1]))
    >>> margins(points, groups, np.array([3, 7])).round(2).tolist()
    [1.0, 0.56, 1.0]
    """
    own = query_labels[clusters.membership]
    result = np.ones(len(public))
    for label in np.unique(own):
        mine, others = own == label, clusters.centres[query_labels != label]
        if len(others):
            near = ((public[mine] - clusters.centres[clusters.membership[mine]]) ** 2).sum(axis=1)
            nearest = nearest_queries(public[mine], others, 1)[:, 0]
            far = ((public[mine] - others[nearest]) ** 2).sum(axis=1)
            result[mine] = 1 - np.divide(near, far, out=np.ones_like(near), where=far > near)
    return result


def suggest_queries(records: int, public: int, classes: int, neighbors: int, gap: float | Fraction) -> int:
    """How many queries to ask: as many as still get, on average, two and a half times the votes that noise may drown.

    ``gap`` is the lead that makes a label 99 % certain under the mechanism. Every figure here is public:
    under replace-one adjacency the number of records is not a secret.

    >>> suggest_queries(records=1000, public=400, classes=10, neighbors=1, gap=12.2)
    32
    """
    # Label accuracy is flat around this figure on data that no reported figure of this method uses (MNIST at 8x8
    # pixels, femnist digits): fewer queries are surer but coarser, more are finer but drown.
    # Without noise to speak of, a query still needs a vote.
    affordable = int(records * neighbors / max(2.5 * float(gap), 1.0))
    return max(min(affordable, public // 5, 1000), min(classes, public), neighbors)
