"""Proportions of classes from noisy counts: what they are when noise is small, and what they gain when it is not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.rknn.posterior import Noise, expected_proportions
from tacit.runs.distill import distill

tables = st.integers(2, 5).flatmap(
    lambda classes: st.lists(
        st.lists(st.integers(-30, 200), min_size=classes, max_size=classes), min_size=1, max_size=12
    )
)


@pytest.fixture(scope="module")
def mixed() -> tuple[np.ndarray, np.ndarray]:
    """True counts of 300 mixed clusters with ten classes, and the same with discrete Laplace noise of scale 8."""
    generator = np.random.default_rng(5)
    shares = generator.dirichlet(np.full(10, 0.2), size=300)
    counts = generator.poisson(70 * shares)
    noise = DiscreteLaplaceNoise.for_epsilon("0.25", 2).sample(counts, SeededRandomness(3))
    return counts, noise


def off(proportions: np.ndarray, counts: np.ndarray) -> float:
    true = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return float(np.square(proportions - true).sum(axis=1).mean())


@settings(max_examples=60, deadline=None)
@given(tables)
def test_every_row_is_a_law_and_classes_are_treated_alike(rows):
    counts = np.array(rows)
    found = expected_proportions(counts, Noise("laplace", 3))
    assert found.shape == counts.shape
    assert (found > 0).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(len(counts)))
    order = np.arange(counts.shape[1])[::-1]
    assert expected_proportions(counts[:, order], Noise("laplace", 3)) == pytest.approx(found[:, order])


@settings(max_examples=60, deadline=None)
@given(tables)
def test_a_larger_count_never_has_a_smaller_share(rows):
    counts = np.array(rows)
    found = expected_proportions(counts, Noise("gaussian", 4))
    for count, share in zip(counts, found, strict=True):
        assert (np.diff(share[np.argsort(count, kind="stable")]) >= -1e-9).all()


def test_without_noise_to_speak_of_they_are_the_counts_own(mixed):
    counts = 100 * mixed[0]
    assert off(expected_proportions(counts, Noise("laplace", 0.05)), counts) < 1e-3


def test_they_are_nearer_the_truth_than_cutting_anywhere_or_ignoring_the_noise(mixed):
    counts, noisy = mixed
    found = off(expected_proportions(noisy, Noise("laplace", 8)), counts)
    for least in (1, 4, 8, 16):
        cut = np.where(noisy < least, 0, noisy) + 1e-9
        assert found < 0.95 * off(cut / cut.sum(axis=1, keepdims=True), counts)
    # Mutant: the law of the noise is left out of account.
    assert off(expected_proportions(noisy, Noise("laplace", 0.05)), counts) > 1.1 * found


def test_a_query_without_votes_is_of_every_class_alike():
    found = expected_proportions(np.zeros((3, 4), dtype=np.int64), Noise("laplace", 2))
    assert found == pytest.approx(np.full((3, 4), 0.25))


def test_a_student_of_mixed_clusters_learns_more_from_proportions_than_from_labels():
    # Two classes that overlap in clusters: a plane between them is not where clusters end.
    generator = np.random.default_rng(0)

    def drawn(count):
        samples = generator.uniform(-1, 1, size=(count, 2))
        return samples, (samples @ [1.0, 0.35] + generator.normal(scale=0.25, size=count) > 0).astype(int)

    records, (public, _), test = drawn(6000), drawn(2000), drawn(4000)
    found = {}
    for labels in ("hard", "proportions"):
        run = distill(
            records, public, 1, classes=[0, 1], labels=labels, queries=4, representation="identity", student="logistic",
            seed=1,
        )  # fmt: skip
        found[labels] = float((run.student.predict(test[0]) == test[1]).mean())
    assert found["proportions"] > found["hard"] + 0.01


def test_proportions_need_counts_and_stay_in_their_cluster():
    samples = np.random.default_rng(1).normal(size=(200, 3))
    asked = {"classes": [0, 1], "labels": "proportions", "seed": 1}
    for settings_, words in (
        ({"mechanism": "permute-and-flip"}, "releases labels only"),
        ({"propagation": "graph"}, "proportions labels need propagation by clusters"),
    ):
        with pytest.raises(InvalidInput, match=words):
            distill((samples, np.arange(200) % 2), samples + 5, 1, **asked, **settings_)
