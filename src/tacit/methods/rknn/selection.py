"""What to ask next: public samples that the student is unsure of, or clusters that are finer where it is unsure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.methods.rknn.propagation import lead
from tacit.methods.rknn.queries import Clusters, cluster

__all__ = ["SELECTIONS", "UNASKED", "diverse", "least_sure", "unsureness"]

Reals = NDArray[np.float64]

# The membership of a public sample that no query stands for.
UNASKED = -1
# How much a sample that the student is sure of counts, beside one it knows nothing of. Records near such samples
# must have queries of their own to vote for, or they would crowd those that are in doubt.
SURE = 0.1


def unsureness(probabilities: Reals, kind: str) -> Reals:
    """How unsure a student is of each sample, from 0 to 1: by entropy, or by how near the second class comes.

    >>> unsureness(np.array([[1.0, 0.0], [0.5, 0.5]]), "entropy").tolist()
    [0.0, 1.0]
    >>> unsureness(np.array([[0.9, 0.1], [0.6, 0.4]]), "margin").round(2).tolist()
    [0.2, 0.8]
    """
    if kind == "margin":
        return 1 - lead(probabilities)
    if kind != "entropy":
        raise InvalidInput(f"unsureness is measured by entropy or by margin, got {kind!r}")
    logarithm = np.log(np.where(probabilities > 0, probabilities, 1))
    entropy: Reals = -(probabilities * logarithm).sum(axis=1) / np.log(probabilities.shape[1])
    return np.maximum(entropy, 0)


def least_sure(public: Floats, probabilities: Reals, queries: int, kind: str) -> Clusters:
    """The samples that the student is least sure of, each a query of its own; ties by public index.

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
    """Clusters of all public samples, the smaller the less sure the student is of what is in them.

    >>> points = np.array([[0.0], [0.1], [5.0], [5.4], [5.8]], dtype=np.float32)
    >>> guesses = np.array([[1, 0], [1, 0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    >>> len(set(diverse(points, guesses, 4).membership[:2]))
    1
    """
    return cluster(public, queries, seed, weights=unsureness(probabilities, "margin") + SURE)


Selection = Callable[[Floats, Reals, int], Clusters]

SELECTIONS: Mapping[str, Selection] = {
    "clusters": lambda public, probabilities, queries: cluster(public, queries),
    "diverse": diverse,
    "entropy": lambda public, probabilities, queries: least_sure(public, probabilities, queries, "entropy"),
    "margin": lambda public, probabilities, queries: least_sure(public, probabilities, queries, "margin"),
}
