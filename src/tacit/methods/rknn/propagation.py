"""From the labels of a few queries to labels of all public samples: by cluster, by guesses, or over the graph.

All of it is post-processing of released labels with public samples, so it costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers

__all__ = ["iterative_proportional_fitting", "keep_surest", "lead", "propagate"]

Reals = NDArray[np.float64]

# How much of a sample's belief comes from its neighbors, at each step of the walk.
FROM_NEIGHBORS = 0.9
STEPS = 100
# How much of every guess is left open: a class that a student rules out can still be what the votes say.
LEFT_OPEN = 1e-3
FITTINGS = 20


def propagate(graph: Any, beliefs: Reals) -> Reals:  # noqa: ANN401
    """What the public samples believe of each class once they have listened to their neighbors, each row adding to 1.

    ``graph`` is the symmetric matrix of how alike samples are, ``beliefs`` a row of class weights a sample; a row of
    zeros believes nothing yet. Each step mixes a sample's own belief with its neighbors' (Zhou et al. 2003, local
    and global consistency).

    >>> from scipy.sparse import csr_array
    >>> chain = csr_array(np.array([[0, 1.0, 0, 0], [1, 0, 0.1, 0], [0, 0.1, 0, 1], [0, 0, 1, 0]]))
    >>> known = np.array([[1.0, 0], [0, 0], [0, 0], [0, 1]])
    >>> propagate(chain, known).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    from scipy.sparse import diags_array

    if graph.shape != (len(beliefs), len(beliefs)):
        raise InvalidInput(f"the graph joins {graph.shape[0]} samples, beliefs are of {len(beliefs)}")
    inverse = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    walk = FROM_NEIGHBORS * (diags_array(inverse) @ graph @ diags_array(inverse))
    start = (1 - FROM_NEIGHBORS) * beliefs
    heard = start
    for _ in range(STEPS):
        heard = start + walk @ heard
    # Classes with many samples are heard from everywhere; what counts is how much more than usual.
    scaled = heard / np.maximum(heard.sum(axis=0), 1e-300) * np.maximum(beliefs.sum(axis=0), 1e-300)
    total = scaled.sum(axis=1, keepdims=True)
    result: Reals = np.where(total > 0, scaled / np.where(total > 0, total, 1), 1 / beliefs.shape[1])
    return result


def iterative_proportional_fitting(proportions: Reals, membership: Integers, guesses: Reals) -> Reals:
    """What each sample is, given how the classes share its cluster and a student's guess at every sample.

    Votes say how many of a cluster are of each class, not which; guesses say which, and may be wrong about how many. So
    the guesses of a cluster are weighted, class by class, until they add up to its proportions (iterative proportional
    fitting): of all tables with these sums it is the one nearest to the guesses.

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
    """By how much the likeliest class leads the next one, from 0 to 1.

    >>> lead(np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]])).round(2).tolist()
    [0.5, 0.0]
    """
    ordered = np.sort(probabilities, axis=1)
    leads: Reals = ordered[:, -1] - ordered[:, -2]
    return leads


def keep_surest(confidence: Reals, labels: Integers, share: float) -> Reals:
    """The confidences, with 0 for all but the surest share of the samples of each label: these abstain.

    Taken label by label, so that a class that is hard to tell does not vanish from what a student learns.

    >>> keep_surest(np.array([0.9, 0.1, 0.5, 0.4]), np.array([0, 0, 1, 1]), 0.5).tolist()
    [0.9, 0.0, 0.5, 0.0]
    """
    if not 0 < share <= 1:
        raise InvalidInput(f"keep must be above 0 and at most 1, got {share}")
    kept = np.zeros(len(confidence))
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        surest = mine[np.argsort(-confidence[mine], kind="stable")[: max(1, round(share * len(mine)))]]
        kept[surest] = confidence[surest]
    return kept
