"""Spaces whose axes are the questions: a sample's nearest axis is its group."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

import tacit
from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.neighbors import nearest_queries
from tacit.representations.chained import Chained
from tacit.representations.groups import THINNEST, ClusteringHead, MixtureShares, axes, shares
from tacit.representations.scaled import PrincipalComponents
from tacit.representations.transformed_kmeans import Changes, TransformedShares

PARTS = digits()
PENALTY = st.floats(0, 1e6) | st.floats(0, 20)


@given(st.lists(st.lists(PENALTY, min_size=4, max_size=4), min_size=1, max_size=5))
def test_the_smallest_penalty_has_the_largest_share_and_the_nearest_axis(rows):
    penalties = np.array(rows)
    fractions = shares(penalties)
    assert np.allclose(fractions.sum(axis=1), 1, atol=1e-6)
    smallest = penalties.argmin(axis=1)
    assert (fractions[np.arange(len(rows)), smallest] == fractions.max(axis=1)).all()
    nearest = nearest_queries(fractions, axes(4), 1)[:, 0]
    assert (fractions[np.arange(len(rows)), nearest] == fractions.max(axis=1)).all()


def test_shares_are_close_to_exponential():
    penalties = np.array([[0.0, 0.5, 1.0, 3.0, 8.0]])
    expected = np.exp(-penalties) / np.exp(-penalties).sum()
    assert np.allclose(shares(penalties), expected, rtol=0.05)


def test_a_mixture_says_what_scikit_learn_says():
    public = np.random.default_rng(0).normal(size=(120, 3)) * [5, 1, 1] + np.repeat(
        [[0, 0, 0], [0, 6, 0], [9, 0, 9]], 40, 0
    )
    fitted = MixtureShares.fit(public, groups=3)
    floor = THINNEST * public.var(axis=0).mean()
    reference = GaussianMixture(3, n_init=5, reg_covar=floor, random_state=0).fit(public)
    ours = fitted.encode(public)
    assert np.allclose(ours, reference.predict_proba(public), atol=0.02)
    assert np.array_equal(nearest_queries(ours, fitted.queries, 1)[:, 0], ours.argmax(axis=1))


def test_a_mixture_follows_long_groups_that_k_means_cuts():
    random = np.random.default_rng(1)
    long = random.normal(size=(150, 2)) * [10, 0.5]
    short = random.normal(size=(150, 2)) * [0.5, 0.5] + [0, 5]
    groups = MixtureShares.fit(np.concatenate([long, short]), groups=2).encode(np.concatenate([long, short])).argmax(1)
    truth = np.repeat([0, 1], 150)
    assert max((groups == truth).mean(), (groups != truth).mean()) > 0.99


@pytest.mark.parametrize("groups", [0, 1, 31])
def test_impossible_numbers_of_groups_are_refused(groups):
    samples = np.repeat(PARTS.public_samples[:30], 2, axis=0)
    for fit in (MixtureShares.fit, TransformedShares.fit, ClusteringHead.fit):
        with pytest.raises(InvalidInput, match="between 2 and the 30 distinct public samples"):
            fit(samples, groups=groups)


@pytest.mark.parametrize("fit", [MixtureShares.fit, partial(ClusteringHead.fit, neighbors=5)])
def test_what_is_no_number_is_refused(fit):
    samples = PARTS.public_samples[:30, 20:23].copy()
    fitted = fit(samples, groups=2)
    samples[3, 0] = np.nan
    with pytest.raises(InvalidInput, match="finite"):
        fit(samples, groups=2)
    with pytest.raises(InvalidInput, match="finite"):
        fitted.encode(samples)
    assert np.isfinite(fitted.encode(np.full((1, 3), 1e300))).all()


def purity(groups, labels):
    return sum(np.bincount(labels[groups == group]).max() for group in np.unique(groups)) / len(labels)


def test_groups_of_digits_are_mostly_of_one_digit():
    public, labels = PARTS.public_samples[:250], PARTS.public_labels[:250]
    chain = Chained.fit(
        public, lambda rows: PrincipalComponents.fit(rows, 12), lambda rows: MixtureShares.fit(rows, 10)
    )
    assert purity(chain.encode(public).argmax(axis=1), labels) > 0.65
    fitted = TransformedShares.fit(public, groups=10)
    groups = nearest_queries(fitted.encode(public), fitted.queries, 1)[:, 0]
    assert purity(groups, labels) > 0.65


def turned_bar(degrees, side=15):
    row, column = np.mgrid[0:side, 0:side] - (side - 1) / 2
    angle = np.radians(degrees)
    along, across = np.cos(angle) * row + np.sin(angle) * column, np.cos(angle) * column - np.sin(angle) * row
    return np.clip(2 - np.abs(across), 0, 1) * (np.abs(along) < 5.5)


def test_bars_are_one_group_however_they_lean_within_the_grid():
    upright = [turned_bar(degrees) for degrees in (-18, -12, -6, 0, 6, 12, 18)]
    flat = [turned_bar(degrees) for degrees in (72, 78, 84, 90, 96, 102, 108)]
    public = np.array(upright + flat)
    turning = Changes(turns=(-20, -10, 0, 10, 20), leans=(0,), stretches=(1,))
    fitted = TransformedShares.fit(public, groups=2, changes=turning)
    found = fitted.encode(public).argmax(axis=1)
    assert len(set(found[:7])) == len(set(found[7:])) == 1
    assert found[0] != found[7]
    # The bars at the ends of the range are surer of their group when its center is turned for them.
    still = TransformedShares.fit(public, groups=2, changes=Changes(turns=(0,), leans=(0,), stretches=(1,)))
    assert fitted.encode(public)[0].min() < 0.9 * still.encode(public)[0].min()


def test_changes_that_change_nothing_leave_the_image():
    image = np.random.default_rng(0).integers(0, 128, size=(2, 9, 9, 3))
    image[0, 0, 0, 0], image[1, 0, 0, 0] = 0, 127
    fitted = TransformedShares.fit(image, groups=2, changes=Changes((0,), (0,), (1,)))
    assert sorted(map(bytes, fitted.forms[:, 0])) == sorted(map(bytes, image.reshape(2, -1).astype(np.uint8)))


def test_a_grid_without_changes_is_refused():
    with pytest.raises(InvalidInput, match="at least one amount"):
        TransformedShares.fit(PARTS.public_samples[:10], groups=2, changes=Changes(turns=()))


@pytest.mark.parametrize(("name", "least"), [("mixture", 0.8), ("transformed", 0.6)])
def test_one_query_per_class_is_asked_by_name(name, least):
    parts = digits()
    run = tacit.distill(
        (parts.private_samples, parts.private_labels), parts.public_samples, 1.0, classes=range(10),
        representation=name, queries=10, seed=1,
    )  # fmt: skip
    assert (run.labels == parts.public_labels).mean() > least
