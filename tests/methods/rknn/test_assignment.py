"""One query per class: probabilities and the most probable assignment against all assignments, one by one."""

from itertools import permutations

import numpy as np
import pytest

from tacit import distill
from tacit.core import TacitWarning
from tacit.methods.rknn.assignment import (
    EXACT_CLASSES,
    assign_classes,
    assignment_probabilities,
    best_assignment,
)
from tacit.methods.rknn.posterior import Noise, log_kernel


def enumerated(scores):
    """The probability of each class for each query, and the most probable assignment, from every assignment."""
    count = len(scores)
    every = list(permutations(range(count)))
    weights = np.exp([sum(scores[query, name] for query, name in enumerate(each)) for each in every])
    chances = np.zeros((count, count))
    for each, weight in zip(every, weights / weights.sum(), strict=True):
        chances[np.arange(count), each] += weight
    return chances, every[int(weights.argmax())]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_sums_over_sets_are_sums_over_all_assignments(count, scale):
    scores = scale * np.random.default_rng(count).normal(size=(count, count))
    chances, best = enumerated(scores)
    np.testing.assert_allclose(assignment_probabilities(scores), chances, atol=1e-12)
    assert tuple(best_assignment(scores)) == best


def test_extreme_scores_neither_overflow_nor_vanish():
    scores = np.full((6, 6), -4000.0)
    np.fill_diagonal(scores, 3000.0)
    np.testing.assert_allclose(assignment_probabilities(scores), np.eye(6), atol=1e-12)


@pytest.mark.parametrize("noise", [Noise("gaussian", 30.0), Noise("laplace", 20.0)])
def test_counts_are_read_by_the_likelihood_of_every_assignment(noise):
    """At the means that were fitted, the probabilities are those of the model, enumerated."""
    counts = np.random.default_rng(5).integers(-20, 60, size=(4, 4)) + 40 * np.eye(4, dtype=np.int64)
    labels, chances = assign_classes(counts, noise)
    own = (chances * counts).sum() / chances.sum()
    other = max(0.0, ((1 - chances) * counts).sum() / (1 - chances).sum())
    values, place = np.unique(counts, return_inverse=True)
    kernel = log_kernel(values, np.array([own, other]), noise)
    expected, best = enumerated((kernel[:, 0] - kernel[:, 1])[place.reshape(counts.shape)])
    np.testing.assert_allclose(chances, expected, atol=0.01)
    assert tuple(labels) == best


def test_with_gaussian_noise_it_is_the_assignment_with_the_most_votes():
    random = np.random.default_rng(0)
    for _ in range(20):
        counts = random.integers(0, 300, size=(6, 6)) + 200 * np.eye(6, dtype=np.int64)
        assert assign_classes(counts, Noise("gaussian", 900.0))[0].tolist() == best_assignment(counts).tolist()


def test_probabilities_are_calibrated_where_the_model_holds():
    """The mean probability of the labels is about the share that is right, and hardly above it; fixed seeds."""
    random, sure, right = np.random.default_rng(1), [], []
    for _ in range(60):
        truth = random.permutation(5)
        counts = random.poisson(60 + 240 * np.eye(5)[truth]) + np.rint(random.normal(0, 120, (5, 5))).astype(np.int64)
        labels, chances = assign_classes(counts, Noise("gaussian", 120.0))
        sure.append(chances[np.arange(5), labels].mean())
        right.append((labels == truth).mean())
    assert 0.7 < np.mean(right) < 0.98
    assert -0.08 < np.mean(sure) - np.mean(right) < 0.02


def test_without_any_evidence_every_class_is_as_likely():
    chances = assign_classes(np.zeros((4, 4), dtype=np.int64), Noise("gaussian", 10.0))[1]
    np.testing.assert_allclose(chances, 0.25, atol=1e-9)


def test_many_classes_are_assigned_one_to_one():
    count = EXACT_CLASSES + 4
    counts = np.random.default_rng(2).integers(0, 20, size=(count, count)) + 60 * np.eye(count, dtype=np.int64)
    labels, chances = assign_classes(counts, Noise("laplace", 3.0))
    assert labels.tolist() == list(range(count))
    np.testing.assert_allclose(chances.sum(axis=1), 1)


def test_soft_labels_of_one_query_per_class_are_probabilities_over_all_assignments():
    random = np.random.default_rng(0)
    centers, labels = 10 * np.eye(4), random.integers(0, 4, 400)
    private = centers[labels] + random.normal(0, 1, (400, 4))
    public = np.repeat(centers, 20, axis=0) + random.normal(0, 1, (80, 4))
    with pytest.warns(TacitWarning, match="many labels may be wrong"):
        found = distill(
            (private, labels), public, 0.3, classes=range(4), trust="local", queries=4, representation="identity",
            labels="soft", one_query_per_class=True, seed=3,
        )  # fmt: skip
    # Every class belongs to one of four queries with the same number of samples.
    np.testing.assert_allclose(found.probabilities.reshape(4, 20, 4).mean(axis=1).sum(axis=0), 1, atol=1e-6)
    assert 0.25 < found.probabilities.max() < 1
