"""A layer on which neighbors agree: its slope, its choice among starts, and groups that k-means would cut."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tacit.core.errors import InvalidInput
from tacit.neighbors import nearest_queries
from tacit.representations import groups as module
from tacit.representations.groups import ClusteringHead


def test_the_slope_is_that_of_the_loss():
    random = np.random.default_rng(0)
    weights, own, other = random.normal(size=(3, 4)), random.normal(size=(9, 4)), random.normal(size=(9, 4))
    _, slope = module._loss(weights, own, other)
    for place in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[place] = 1e-5
        above, below = (module._loss(weights + sign * step, own, other)[0] for sign in (1, -1))
        assert slope[place] == pytest.approx((above - below) / 2e-5, rel=1e-5, abs=1e-8)


def sheets(count=300):
    """Two wide thin sheets, a little apart in each of ten directions: k-means cuts across both."""
    wide = np.random.default_rng(1).uniform(-4, 4, size=(2 * count, 2))
    sheet = np.repeat([0, 1], count)
    return np.column_stack([wide, *[0.5 * sheet] * 10]), sheet


def agreement(groups, truth):
    return max((groups == truth).mean(), (groups != truth).mean())


def test_neighbors_share_a_group_where_k_means_cuts_it():
    samples, truth = sheets()
    fitted = ClusteringHead.fit(samples, groups=2, neighbors=10, starts=8)
    groups = nearest_queries(fitted.encode(samples), fitted.queries, 1)[:, 0]
    assert agreement(groups, truth) > 0.97
    assert agreement(KMeans(2, n_init=3, random_state=0).fit_predict(samples), truth) < 0.7


def test_the_start_of_least_loss_is_kept(monkeypatch):
    losses = iter([0.3, -1.0, 0.5])

    def trained(rows, nearest, groups, rng):
        loss = next(losses)
        return module._Trained(np.full((groups, rows.shape[1]), loss), np.zeros(groups), loss)

    monkeypatch.setattr(module, "_train", trained)
    samples, _ = sheets(20)
    fitted = ClusteringHead.fit(samples, groups=2, neighbors=3, starts=3)
    assert np.allclose(fitted.weights * samples.std(), -1.0)


def test_a_seed_gives_the_same_layer_and_scale_does_not_matter():
    samples, _ = sheets(60)
    once, again, larger = (ClusteringHead.fit(each, 2, 5, 2) for each in (samples, samples, 1000 * samples + 5))
    assert np.array_equal(once.weights, again.weights)
    assert np.allclose(once.encode(samples), larger.encode(1000 * samples + 5), atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"neighbors": 0}, "neighbors must be"), ({"neighbors": 40}, "neighbors must be"), ({"starts": 0}, "starts must")],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(InvalidInput, match=words):
        ClusteringHead.fit(sheets(20)[0], groups=2, **settings)
