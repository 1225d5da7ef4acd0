"""Guesses of a student brought to the proportions that the votes of a cluster say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.methods.rknn.queries import LEFT_OPEN, iterative_proportional_fitting
from tacit.runs.distill import distill


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 5))
@settings(deadline=None, max_examples=60)
def test_every_cluster_adds_up_to_its_proportions(seed, clusters, classes):
    generator = np.random.default_rng(seed)
    membership = generator.integers(0, clusters, size=80)
    guesses = generator.dirichlet(np.full(classes, 1.0), size=80)
    proportions = generator.dirichlet(np.full(classes, 2.0), size=clusters)
    found = iterative_proportional_fitting(proportions, membership, guesses)
    assert found.sum(axis=1) == pytest.approx(np.ones(80))
    for each in np.unique(membership):
        assert found[membership == each].mean(axis=0) == pytest.approx(proportions[each], abs=0.02)


def test_two_classes_are_split_where_the_guesses_rank_them():
    """With two classes the fitting moves one threshold, so samples keep their order and the known root is met."""
    guesses = np.array([0.95, 0.9, 0.7, 0.6, 0.3])
    found = iterative_proportional_fitting(
        np.array([[0.4, 0.6]]), np.zeros(5, dtype=np.int64), np.column_stack([guesses, 1 - guesses])
    )
    assert (np.diff(found[:, 0]) < 0).all()
    opened = (1 - LEFT_OPEN) * guesses + LEFT_OPEN / 2
    odds = opened / (1 - opened)
    # The one factor on all odds whose probabilities add up to .4 of five samples, by bisection.
    low, high = -20.0, 20.0
    for _ in range(100):
        middle = (low + high) / 2
        total = (odds * np.exp(middle) / (1 + odds * np.exp(middle))).sum()
        low, high = (middle, high) if total < 2 else (low, middle)
    exact = odds * np.exp(low) / (1 + odds * np.exp(low))
    assert found[:, 0] == pytest.approx(exact, abs=1e-3)


def test_clusters_do_not_touch_each_other_and_empty_ones_do_no_harm():
    generator = np.random.default_rng(3)
    guesses, proportions = generator.dirichlet(np.ones(3), size=40), generator.dirichlet(np.ones(3), size=4)
    membership = generator.integers(0, 2, size=40) * 3  # two clusters of four have nobody
    found = iterative_proportional_fitting(proportions, membership, guesses)
    alone = iterative_proportional_fitting(
        proportions[3:], np.zeros((membership == 3).sum(), dtype=np.int64), guesses[membership == 3]
    )
    assert found[membership == 3] == pytest.approx(alone)


def test_a_class_that_the_student_rules_out_is_given_where_all_votes_say_so():
    found = iterative_proportional_fitting(
        np.array([[1.0, 0.0]]), np.zeros(2, dtype=np.int64), np.array([[0.0, 1.0], [0.2, 0.8]])
    )
    assert found.argmax(axis=1).tolist() == [0, 0]
    assert np.isfinite(found).all()


def test_a_second_round_tells_the_samples_of_a_mixed_cluster_apart():
    """Six clusters are cut by the border of two classes; votes alone cannot label both sides of it."""
    generator = np.random.default_rng(0)

    def drawn(count):
        samples = generator.uniform(-1, 1, size=(count, 2))
        return samples, (samples @ [1.0, 0.35] > 0).astype(int)

    records, (public, true) = drawn(6000), drawn(2000)
    asked = {"classes": [0, 1], "representation": "identity", "student": "logistic", "iterations": 2, "queries": 6,
             "vote_space": "same", "selection": "clusters", "seed": 1}  # fmt: skip
    right = {
        labels: float((distill(records, public, 2, labels=labels, **asked).labels == true).mean())
        for labels in ("proportions", "soft")
    }
    assert right["soft"] < 0.94  # a label a cluster, as an answer without the student's guesses
    assert right["proportions"] > right["soft"] + 0.04
