"""Where later queries lie, and how labels spread: public samples and releases only, so laws rather than privacy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput
from tacit.methods.rknn.queries import (
    SELECTIONS,
    UNASKED,
    diverse,
    keep_surest,
    lead,
    least_sure,
    propagate,
    unsureness,
)
from tacit.representations.maps import neighbor_graph


def guesses(rows: int, classes: int = 4, seed: int = 0):
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), size=rows)


@pytest.mark.parametrize("kind", ["entropy", "margin"])
def test_unsureness_is_least_for_a_sure_guess_and_most_for_an_even_one(kind):
    rows = np.vstack([np.eye(4)[:1], guesses(50), np.full((1, 4), 0.25)])
    values = unsureness(rows, kind)
    assert values.min() >= 0
    assert values.max() <= 1 + 1e-12
    assert values[0] == values.min() == 0
    assert values[-1] == values.max() == pytest.approx(1)


def test_an_unknown_measure_of_doubt_is_refused():
    with pytest.raises(InvalidInput, match="entropy or by margin"):
        unsureness(guesses(3), "mood")


@pytest.mark.parametrize("kind", ["entropy", "margin"])
def test_least_sure_samples_are_the_queries_and_no_others_are_asked_about(kind):
    public, chances = np.random.default_rng(1).normal(size=(80, 3)), guesses(80)
    clusters = least_sure(public, chances, 10, kind)
    asked = clusters.membership != UNASKED
    assert asked.sum() == 10
    values = unsureness(chances, kind)
    assert values[asked].min() >= values[~asked].max()
    assert np.array_equal(clusters.centers, public[asked].astype(np.float32))
    assert np.array_equal(clusters.membership[asked], np.arange(10))


@pytest.mark.parametrize("queries", [0, 81])
def test_more_queries_than_samples_are_refused(queries):
    with pytest.raises(InvalidInput, match="between 1 and the 80"):
        least_sure(np.zeros((80, 2)), guesses(80), queries, "margin")


def test_diverse_queries_are_denser_where_the_student_is_unsure():
    random = np.random.default_rng(2)
    public = np.vstack([random.normal(0, 1, (200, 2)), random.normal(20, 1, (200, 2))]).astype(np.float32)
    chances = np.vstack([np.tile([1.0, 0.0], (200, 1)), np.tile([0.5, 0.5], (200, 1))])
    centers = diverse(public, chances, 20).centers
    assert (centers[:, 0] > 10).sum() > 1.5 * (centers[:, 0] < 10).sum()
    # Records near samples that the student is sure of still find a query of their own.
    assert (centers[:, 0] < 10).any()


@pytest.mark.parametrize("name", sorted(SELECTIONS))
def test_every_selection_is_repeatable_and_stays_within_the_public_samples(name):
    public, chances = np.random.default_rng(3).normal(size=(60, 3)).astype(np.float32), guesses(60)
    first, second = (SELECTIONS[name](public, chances, 8) for _ in range(2))
    assert np.array_equal(first.centers, second.centers)
    assert np.array_equal(first.membership, second.membership)
    assert first.centers.min() >= public.min()
    assert first.centers.max() <= public.max()
    assert set(first.membership) - {UNASKED} == set(range(8))


def test_labels_propagate_through_a_ring_that_no_straight_border_could_follow():
    angle = np.linspace(0, 2 * np.pi, 120, endpoint=False)
    rings = np.vstack([radius * np.column_stack([np.cos(angle), np.sin(angle)]) for radius in (1.0, 3.0)])
    true = np.repeat([0, 1], 120)
    beliefs = np.zeros((240, 2))
    beliefs[0, 0] = beliefs[120, 1] = 1.0
    spread = propagate(neighbor_graph(rings.astype(np.float32), 4), beliefs)
    assert np.array_equal(spread.argmax(axis=1), true)
    assert np.allclose(spread.sum(axis=1), 1)
    # A mutant that does not listen to neighbors knows two samples only.
    assert (beliefs.argmax(axis=1) == true).mean() < 0.6


def test_a_sample_nobody_reaches_believes_nothing_in_particular():
    from scipy.sparse import csr_array

    alone = propagate(csr_array((3, 3)), np.array([[1.0, 0], [0, 1], [0, 0]]))
    assert alone.tolist() == [[1, 0], [0, 1], [0.5, 0.5]]


def test_a_graph_of_other_samples_is_refused():
    from scipy.sparse import csr_array

    with pytest.raises(InvalidInput, match="has 3 samples, and there are beliefs for 2"):
        propagate(csr_array((3, 3)), np.zeros((2, 2)))


@given(st.integers(1, 60), st.floats(0.01, 1), st.integers(0, 5))
def test_the_surest_of_every_label_are_kept(rows, share, seed):
    random = np.random.default_rng(seed)
    confidence, labels = random.random(rows), random.integers(0, 3, rows)
    kept = keep_surest(confidence, labels, share)
    for label in np.unique(labels):
        mine = labels == label
        assert (kept[mine] > 0).sum() == max(1, round(share * mine.sum()))
        dropped = confidence[mine & (kept == 0)]
        assert not len(dropped) or dropped.max() <= confidence[mine & (kept > 0)].min()


@pytest.mark.parametrize("share", [0, 1.5, -1])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(InvalidInput, match="label_fraction must be above 0"):
        keep_surest(np.ones(3), np.zeros(3, dtype=int), share)


def test_lead_of_a_tie_is_nothing():
    assert lead(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist() == [0, 1]
