"""One query per class: the posterior over all assignments of classes to queries, and the most probable assignment.

Post-processing: the inputs are released counts and the public law of their noise.

Law. Queries and classes are matched one to one by an unknown σ, and all n! assignments are equally likely. The count of
a query's own class is Poisson with mean a, that of every other class with mean b ≤ a; z is released, with noise. So
with K as in ``posterior``,

    P(σ | z) ∝ Π_q r(q, σ(q)),   r(q, c) = K(z_qc | a) / K(z_qc | b).

The means are fitted by expectation-maximization (EM), with these probabilities as the expectation.

The most probable assignment. log P(σ | z) is a sum over queries, so it is found exactly as an assignment problem. With
Gaussian noise that exceeds the counts' own deviation, log r is linear in z with a positive slope, whatever a > b: then
it is the assignment with the most votes. With Laplace noise log r is bounded.

Probabilities. P(σ(q) = c | z) is a sum over (n−1)! assignments. Which classes the first queries have matters to the
others only as a set, so sums over sets (2^n of them) are exact: F(S) is the sum over all assignments of the first |S|
queries to the classes S, G(S) that of the other queries to the other classes, and

    P(σ(q) = c | z) · F(all) = Σ_{S, |S| = q, c ∉ S} F(S) · r(q, c) · G(S ∪ {c}).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tacit.core import Integers, Reals
from tacit.methods.rknn.posterior import Noise, checked_counts, log_kernel

__all__ = ["EXACT_CLASSES", "assign_classes", "assignment_probabilities", "best_assignment"]

# Sums over sets of more classes take too long; then every query's probabilities are its own.
EXACT_CLASSES = 16
_ITERATIONS = 50
# Of the noise's deviation: means that move less than this have converged.
_ENOUGH = 1e-3


def assign_classes(noisy_counts: NDArray[Any], noise: Noise) -> tuple[Integers, Reals]:
    """The most probable class of each query, every class once, and the probability of each class for each query.

    >>> labels, chances = assign_classes(np.array([[90, 80, 0], [90, 10, 5], [0, 20, 10]]), Noise("gaussian", 20))
    >>> labels.tolist(), chances.round(2).tolist()
    ([1, 0, 2], [[0.0, 0.99, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.99]])
    """
    counts = checked_counts(noisy_counts)
    values, place = np.unique(counts, return_inverse=True)
    chances = np.zeros(counts.shape)
    labels = best_assignment(counts.astype(np.float64))
    chances[np.arange(len(counts)), labels] = 1
    before = np.full(2, np.inf)
    for _ in range(_ITERATIONS):
        other = max(0.0, float(((1 - chances) * counts).sum() / (1 - chances).sum()))
        means = np.array([max(other, float((chances * counts).sum() / chances.sum())), other])
        kernel = log_kernel(values, means, noise)
        scores = (kernel[:, 0] - kernel[:, 1])[place.reshape(counts.shape)]
        labels, chances = best_assignment(scores), assignment_probabilities(scores)
        if np.abs(means - before).max() < _ENOUGH * noise.deviation:
            break
        before = means
    return labels, chances


def best_assignment(scores: NDArray[Any]) -> Integers:
    """The class of each query, every class once, with the largest sum of scores.

    >>> best_assignment(np.array([[9, 8, 0], [9, 1, 0], [0, 2, 1]])).tolist()
    [1, 0, 2]
    """
    from scipy.optimize import linear_sum_assignment

    assigned: Integers = linear_sum_assignment(-scores)[1].astype(np.int64)
    return assigned


def assignment_probabilities(scores: Reals) -> Reals:
    """The probability of each class for each query over all assignments, whose log-probabilities are sums of scores.

    Of more than ``EXACT_CLASSES`` classes, every query's own scores alone determine its probabilities.

    >>> assignment_probabilities(np.log([[3.0, 1.0], [1.0, 1.0]])).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    count = len(scores)
    if count > EXACT_CLASSES:
        alone: Reals = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
        return alone
    sets = np.arange(1 << count)
    sizes = sum((sets >> place) & 1 for place in range(count))
    # For every query and class: the sets of classes that the queries before it may have.
    free = [[sets[(sizes == query) & ((sets >> name) & 1 == 0)] for name in range(count)] for query in range(count)]
    first, rest = np.full(len(sets), -np.inf), np.full(len(sets), -np.inf)
    first[0] = rest[-1] = 0
    for query in range(count):
        for name, used in enumerate(free[query]):
            larger = used | (1 << name)
            first[larger] = np.logaddexp(first[larger], first[used] + scores[query, name])
    for query in reversed(range(count)):
        for name, used in enumerate(free[query]):
            rest[used] = np.logaddexp(rest[used], rest[used | (1 << name)] + scores[query, name])
    chances = np.empty((count, count))
    for query in range(count):
        for name, used in enumerate(free[query]):
            chances[query, name] = logsumexp(first[used] + rest[used | (1 << name)]) + scores[query, name] - first[-1]
    # Rounding in many sums is removed.
    chances = np.exp(chances)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))
