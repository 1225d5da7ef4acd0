"""Students taught in generations learn from labels of a part, and the last one of every sample."""

import numpy as np
import pytest

pytest.importorskip("torch")

from experiments.generations import Generations, from_text, taught, to_text
from tacit.datasets.published import Parts

SETTINGS = {"network": "perceptron", "batch": 16, "learning_rate": 0.02, "average": 0.5}


def sides(count, seed):
    """Two groups of points, the second one to the right of the first."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    return random.normal(size=(count, 2)).astype(np.float32) / 2 + 3 * labels[:, None], labels


def parts():
    (private, names), (public, truth), (test, told) = (sides(80, seed) for seed in range(3))
    return Parts(private, names, public, truth, test, told, np.arange(2))


def test_unlabeled_samples_are_taught_from_the_second_generation_on():
    samples, labels = sides(80, 0)
    weights = np.where(samples[:, 1] > np.median(samples[:, 1]), 1.0, 0.0)
    made = Generations(2, (5, 5), SETTINGS).fit(samples, labels, weights, seed=0)
    assert [len(each.students) for each, _ in made] == [2, 2]
    first, second = (each.students[0].network_.mean for each, _ in made)
    # Each network's input is scaled by the samples that it was taught.
    assert np.allclose(first.numpy(), samples[weights > 0].mean(axis=0), atol=1e-5)
    assert np.allclose(second.numpy(), samples.mean(axis=0), atol=1e-5)


def test_a_few_wrong_labels_are_corrected_by_groups_of_what_networks_see():
    data = parts()
    labels = data.public_labels.copy()
    labels[:6] = 1 - labels[:6]
    found = taught(Generations(2, (20, 20), SETTINGS), data, labels, np.ones(len(labels)), seed=1)
    assert found["test"] > 0.95
    assert found["last labels"] > float((labels == data.public_labels).mean())


def test_equal_labels_and_seeds_make_equal_figures():
    data = parts()
    plan = Generations(1, (2, 2), SETTINGS)
    weights = np.ones(len(data.public_labels))
    first, again = (taught(plan, data, data.public_labels, weights, seed=3) for _ in range(2))
    assert first == again
    assert from_text(to_text(data.public_labels)).tolist() == data.public_labels.tolist()
