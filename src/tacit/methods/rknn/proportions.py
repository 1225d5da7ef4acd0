"""How the votes of each query are shared among the classes, from noisy counts.

A cluster is seldom of one class. The label with the most votes says nothing of the rest; the proportions do, and they
are also what is known of a sample in the cluster: a cluster of six cats and four dogs holds a cat with probability .6,
however sure it is that cats lead. A student that learns them learns where classes meet.

Law. A cell of the table (a query, a class) has a count that is Poisson with mean μ, seen with noise as z. Which means
there are is common to all cells: weights w(μ) on a grid, fitted to the released counts by expectation maximization.
Then E[μ | z] = Σ_μ μ·w(μ)·K(z|μ) / Σ_μ w(μ)·K(z|μ), with K of ``tacit.methods.rknn.posterior``, and a query's
proportions are those of its cells' expected means. Counts that are no larger than the noise are drawn to what most
cells are, almost nothing, where cutting at a threshold would lose some and keep others.

Post-processing: only released counts and the public law of the noise go in, so it costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.methods.rknn.posterior import Noise, checked_counts, log_kernel

__all__ = ["expected_proportions"]

MEANS, ITERATIONS, ENOUGH = 40, 300, 1e-6
# Of one vote: a query that nobody voted for is of every class alike.
NOTHING = 1e-6


def expected_proportions(noisy_counts: NDArray[Any], noise: Noise) -> NDArray[np.float64]:
    """The expected share of each class in each query's votes, (queries, classes).

    >>> counts = np.array([[61, 38, -3], [2, -4, 95], [1, 88, 4], [-2, 3, 1]])
    >>> expected_proportions(counts, Noise("laplace", 4)).round(2).tolist()
    [[0.6, 0.39, 0.01], [0.01, 0.01, 0.98], [0.01, 0.98, 0.01], [0.28, 0.4, 0.32]]
    """
    counts = checked_counts(noisy_counts)
    values, place, often = np.unique(counts, return_inverse=True, return_counts=True)
    # Even steps of the root are even steps in units of a Poisson count's own spread.
    means = np.linspace(0, np.sqrt(max(1, values[-1])), MEANS) ** 2
    log_evidence = log_kernel(values, means, noise)
    evidence = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))  # (values, means)
    weights, before = np.full(MEANS, 1 / MEANS), -np.inf
    for _ in range(ITERATIONS):
        total = evidence @ weights
        # One imaginary cell that could be anything joins the real ones, so that a few cells rule nothing out.
        weights = (weights * ((often / total) @ evidence) + 1 / MEANS) / (often.sum() + 1)
        reached = float(often @ np.log(total)) / float(often.sum())
        if reached - before < ENOUGH:
            break
        before = reached
    expected = (evidence @ (weights * means) / (evidence @ weights))[place].reshape(counts.shape) + NOTHING
    proportions: NDArray[np.float64] = expected / expected.sum(axis=1, keepdims=True)
    return proportions
