"""Queries: cluster centers of the public samples, the choice of later queries, and propagation of labels to samples.

Later queries are public samples of which the student is uncertain, or clusters that are finer where it is uncertain.
Labels are propagated from queries to samples by cluster, by a student's predictions, or over the neighbor graph. All of
it is post-processing of releases and public samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, Integers, InvalidInput, Reals
from tacit.neighbors import nearest_queries

__all__ = [
    "SELECTIONS",
    "UNASKED",
    "Clusters",
    "cluster",
    "diverse",
    "iterative_proportional_fitting",
    "keep_surest",
    "lead",
    "least_sure",
    "margins",
    "propagate",
    "suggest_queries",
    "unsureness",
]

# The weight of the neighbors' beliefs in each step of propagation.
FROM_NEIGHBORS = 0.9
_STEPS = 100
# The uniform part of every prediction, so that the votes can contradict a student that rules a class out.
LEFT_OPEN = 1e-3
FITTINGS = 20
_LARGE = 1_000_000
# The membership of a public sample that belongs to no query.
UNASKED = -1
# The weight of a sample of which the student is certain, relative to 1 for an uncertain one. Records near certain
# samples need their own queries, or they would vote for those of uncertain samples.
_SURE = 0.1


def propagate(graph: Any, beliefs: Reals) -> Reals:  # noqa: ANN401
    """Class probabilities of the public samples after label propagation over a neighbor graph.

    ``graph`` is the symmetric matrix of similarities, ``beliefs`` a row of class weights per sample, zeros if it has no
    label. Each step mixes a sample's own belief with those of its neighbors (Zhou et al. 2003, local and global
    consistency).

    >>> from scipy.sparse import csr_array
    >>> chain = csr_array(np.array([[0, 1.0, 0, 0], [1, 0, 0.1, 0], [0, 0.1, 0, 1], [0, 0, 1, 0]]))
    >>> known = np.array([[1.0, 0], [0, 0], [0, 0], [0, 1]])
    >>> propagate(chain, known).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    from scipy.sparse import diags_array

    if graph.shape != (len(beliefs), len(beliefs)):
        raise InvalidInput(f"the graph has {graph.shape[0]} samples, and there are beliefs for {len(beliefs)}")
    inverse = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    walk = FROM_NEIGHBORS * (diags_array(inverse) @ graph @ diags_array(inverse))
    start = (1 - FROM_NEIGHBORS) * beliefs
    mixed = start
    for _ in range(_STEPS):
        mixed = start + walk @ mixed
    # Class mass normalization, so that frequent classes do not dominate.
    scaled = mixed / np.maximum(mixed.sum(axis=0), 1e-300) * np.maximum(beliefs.sum(axis=0), 1e-300)
    total = scaled.sum(axis=1, keepdims=True)
    result: Reals = np.where(total > 0, scaled / np.where(total > 0, total, 1), 1 / beliefs.shape[1])
    return result


def iterative_proportional_fitting(proportions: Reals, membership: Integers, guesses: Reals) -> Reals:
    """Class probabilities of every sample, from the class proportions of its cluster and a student's predictions.

    Votes give the proportions of a cluster, not the class of a sample; predictions give the class of a sample, and may
    have wrong proportions. So the predictions of a cluster are weighted, class by class, until they sum to its
    proportions (iterative proportional fitting): the nearest table to the predictions with these sums.

    >>> guesses = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.5, 0.5]])
    >>> shares = iterative_proportional_fitting(np.array([[0.5, 0.5]]), np.zeros(4, dtype=np.int64), guesses)
    >>> shares.argmax(axis=1).tolist(), shares.mean(axis=0).round(3).tolist()
    ([0, 0, 1, 1], [0.5, 0.5])
    """
    open_guesses = (1 - LEFT_OPEN) * guesses + LEFT_OPEN / guesses.shape[1]
    weights = np.ones_like(proportions)
    sizes = np.bincount(membership, minlength=len(proportions))
    by_cluster = np.argsort(membership, kind="stable")
    filled = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[filled]
    rows, owners = open_guesses[by_cluster], membership[by_cluster]
    for _ in range(FITTINGS):
        weighted = rows * weights[owners]
        weighted /= weighted.sum(axis=1, keepdims=True)
        means = np.add.reduceat(weighted, starts) / sizes[filled, None]
        weights[filled] *= proportions[filled] / np.maximum(means, 1e-300)
    weighted = rows * weights[owners]
    shares: Reals = np.empty_like(weighted)
    shares[by_cluster] = weighted / weighted.sum(axis=1, keepdims=True)
    return shares


def lead(probabilities: Reals) -> Reals:
    """The difference between the two largest class probabilities, from 0 to 1.

    >>> lead(np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]])).round(2).tolist()
    [0.5, 0.0]
    """
    ordered = np.sort(probabilities, axis=1)
    leads: Reals = ordered[:, -1] - ordered[:, -2]
    return leads


def keep_surest(confidence: Reals, labels: Integers, share: float) -> Reals:
    """The confidences, with 0 for all but the most certain ``share`` of the samples of each label.

    Per label, so that an uncertain class does not vanish from the training data.

    >>> keep_surest(np.array([0.9, 0.1, 0.5, 0.4]), np.array([0, 0, 1, 1]), 0.5).tolist()
    [0.9, 0.0, 0.5, 0.0]
    """
    if not 0 < share <= 1:
        raise InvalidInput(f"label_fraction must be above 0 and at most 1, got {share}")
    kept = np.zeros(len(confidence))
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        surest = mine[np.argsort(-confidence[mine], kind="stable")[: max(1, round(share * len(mine)))]]
        kept[surest] = confidence[surest]
    return kept


@dataclass(frozen=True)
class Clusters:
    """Queries and, for every public sample, the query it belongs to."""

    centers: Floats  # (s, features)
    membership: Integers  # (public samples,)


def cluster(public: Floats, queries: int, seed: int = 0, weights: NDArray[np.float64] | None = None) -> Clusters:
    """Clusters of the public samples by k-means (k-means++ starts); the centers are the queries.

    With ``weights``, clusters of heavier samples are smaller.

    >>> groups = cluster(np.array([[0.0], [0.1], [9.0]], dtype=np.float32), 2)
    >>> groups.membership[0] == groups.membership[1] != groups.membership[2]
    np.True_
    """
    from sklearn.cluster import KMeans

    distinct = len(np.unique(public, axis=0))
    if not 1 <= queries <= distinct:
        raise InvalidInput(f"queries must be between 1 and the {distinct} distinct public samples, got {queries}")
    # With many queries or samples one start is as good as ten, and ten times as fast.
    starts = 10 if queries * len(public) <= _LARGE else 1
    fitted = KMeans(queries, init="k-means++", n_init=starts, random_state=seed).fit(public, sample_weight=weights)
    return Clusters(fitted.cluster_centers_.astype(np.float32), fitted.labels_.astype(np.int64))


def margins(public: Floats, clusters: Clusters, query_labels: Integers) -> NDArray[np.float64]:
    """The margin of every public sample: 1 at its query, 0 halfway to a query of another label.

    1 − d₁/d₂, where d₁ is the squared distance to the sample's own query and d₂ to the nearest query with a different
    label. It is post-processing of released labels, and serves as a weight for training.

    >>> points = np.array([[0.0], [4.0], [10.0]], dtype=np.float32)
    >>> groups = Clusters(np.array([[0.0], [10.0]], dtype=np.float32), np.array([0, 0, 1]))
    >>> margins(points, groups, np.array([3, 7])).round(2).tolist()
    [1.0, 0.56, 1.0]
    """
    own = query_labels[clusters.membership]
    result = np.ones(len(public))
    for label in np.unique(own):
        mine, others = own == label, clusters.centers[query_labels != label]
        if len(others):
            near = ((public[mine] - clusters.centers[clusters.membership[mine]]) ** 2).sum(axis=1)
            nearest = nearest_queries(public[mine], others, 1)[:, 0]
            far = ((public[mine] - others[nearest]) ** 2).sum(axis=1)
            result[mine] = 1 - np.divide(near, far, out=np.ones_like(near), where=far > near)
    return result


def suggest_queries(records: int, public: int, classes: int, neighbors: int, gap: float | Fraction) -> int:
    """The number of queries: as many as get on average two and a half times the votes of a certain lead.

    ``gap`` is the lead that makes a label 99 % certain under the mechanism. All numbers here are public: under
    replace-one adjacency the number of records is not private.

    >>> suggest_queries(records=1000, public=400, classes=10, neighbors=1, gap=12.2)
    32
    """
    # Label accuracy is flat around this number on data that no reported result uses (MNIST at 8x8 pixels, femnist
    # digits): fewer queries are more certain but coarser, more are finer but noisier. A query needs at least one vote.
    affordable = int(records * neighbors / max(2.5 * float(gap), 1.0))
    return max(min(affordable, public // 5, 1000), min(classes, public), neighbors)


def unsureness(probabilities: Reals, kind: str) -> Reals:
    """The uncertainty of each sample's prediction, from 0 to 1, by entropy or by margin.

    >>> unsureness(np.array([[1.0, 0.0], [0.5, 0.5]]), "entropy").tolist()
    [0.0, 1.0]
    >>> unsureness(np.array([[0.9, 0.1], [0.6, 0.4]]), "margin").round(2).tolist()
    [0.2, 0.8]
    """
    if kind == "margin":
        return 1 - lead(probabilities)
    if kind != "entropy":
        raise InvalidInput(f"uncertainty is measured by entropy or by margin, got {kind!r}")
    logarithm = np.log(np.where(probabilities > 0, probabilities, 1))
    entropy: Reals = -(probabilities * logarithm).sum(axis=1) / np.log(probabilities.shape[1])
    return np.maximum(entropy, 0)


def least_sure(public: Floats, probabilities: Reals, queries: int, kind: str) -> Clusters:
    """The samples of which the student is least certain, each its own query; ties by index.

    >>> points, guesses = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0, 0.0], [0.5, 0.5], [0.9, 0.1]])
    >>> least_sure(points, guesses, 2, "margin").membership.tolist()
    [-1, 0, 1]
    """
    if not 1 <= queries <= len(public):
        raise InvalidInput(f"queries must be between 1 and the {len(public)} public samples, got {queries}")
    chosen = np.sort(np.argsort(-unsureness(probabilities, kind), kind="stable")[:queries])
    membership = np.full(len(public), UNASKED)
    membership[chosen] = np.arange(queries)
    return Clusters(public[chosen].astype(np.float32), membership)


def diverse(public: Floats, probabilities: Reals, queries: int, seed: int = 0) -> Clusters:
    """Clusters of all public samples, smaller where the student is less certain.

    >>> points = np.array([[0.0], [0.1], [5.0], [5.4], [5.8]], dtype=np.float32)
    >>> guesses = np.array([[1, 0], [1, 0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    >>> len(set(diverse(points, guesses, 4).membership[:2]))
    1
    """
    return cluster(public, queries, seed, weights=unsureness(probabilities, "margin") + _SURE)


QuerySelection = Callable[[Floats, Reals, int], Clusters]

SELECTIONS: Mapping[str, QuerySelection] = {
    "clusters": lambda public, probabilities, queries: cluster(public, queries),
    "diverse": diverse,
    "entropy": lambda public, probabilities, queries: least_sure(public, probabilities, queries, "entropy"),
    "margin": lambda public, probabilities, queries: least_sure(public, probabilities, queries, "margin"),
}
