"""Maps of the public samples: golden shapes, and what carries them over to records."""

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.representations.arrays import blocks, exact_bits, snapped
from tacit.representations.chained import Chained
from tacit.representations.maps import Interpolated, neighbor_graph, spectral_map
from tacit.representations.scaled import Identity


def ring(radius, count, seed):
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, size=count)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def test_a_spectral_map_separates_two_rings_that_no_line_does():
    inner, outer = ring(1, 200, 0), ring(3, 200, 1)
    fitted = spectral_map(np.concatenate([inner, outer]), components=2, neighbors=8)
    new_inner, new_outer = fitted.encode(ring(1.05, 50, 2)), fitted.encode(ring(2.9, 50, 3))
    within = max(np.linalg.norm(each - each.mean(axis=0), axis=1).max() for each in (new_inner, new_outer))
    between = np.linalg.norm(new_inner.mean(axis=0) - new_outer.mean(axis=0))
    assert between > 1.0
    assert within < 0.05 * between


def test_the_neighbor_graph_is_symmetric_and_without_loops():
    graph = neighbor_graph(digits().public_samples[:100], neighbors=5).toarray()
    assert np.array_equal(graph, graph.T)
    assert not np.diag(graph).any()
    assert ((graph >= 0) & (graph <= 1)).all()
    assert ((graph > 0).sum(axis=1) >= 5).all()


def test_samples_that_are_all_the_same_have_a_map():
    same = np.zeros((20, 3))
    assert np.isfinite(spectral_map(same, components=2, neighbors=4).encode(same)).all()


@pytest.mark.parametrize(
    ("options", "message"), [({"components": 50}, "components"), ({"neighbors": 50}, "neighbor graph")]
)
def test_maps_of_too_few_samples_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        spectral_map(digits().public_samples[:50], **options)


def test_interpolation_is_the_weighted_mean_of_the_nearest_places():
    anchors, places = np.array([[0.0], [1.0], [3.0], [10.0]]), np.array([[0.0], [6.0], [1.0], [99.0]])
    fitted = Interpolated.fit(anchors, places, neighbors=2)
    # From 0.5 squared distances are 1/4, 1/4 and, where weights end, 25/4.
    assert fitted.encode(np.array([[0.5]]))[0, 0] == pytest.approx(3.0, abs=1e-6)
    # From 1: 0, 1 and 4, so weights are 1, 9/16 and 0.
    assert fitted.encode(np.array([[1.0]]))[0, 0] == pytest.approx(6 / (1 + 9 / 16), abs=1e-6)


def test_interpolation_has_no_jumps():
    random = np.random.default_rng(0)
    fitted = Interpolated.fit(random.normal(size=(60, 1)), random.normal(size=(60, 2)), neighbors=3)
    walk = fitted.encode(np.linspace(-1, 1, 20001)[:, None])
    assert np.abs(np.diff(walk, axis=0)).max() < 0.1


def test_equally_far_anchors_count_the_same():
    corners = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    fitted = Interpolated.fit(corners, corners, neighbors=3)
    assert np.allclose(fitted.encode(np.zeros((1, 2))), 0)


@pytest.mark.parametrize(
    ("places", "neighbors", "message"),
    [(np.zeros((3, 2)), 2, "places"), (np.zeros(4), 2, "places"), (np.zeros((4, 2)), 4, "neighbors")],
)
def test_impossible_interpolations_are_refused(places, neighbors, message):
    with pytest.raises(InvalidInput, match=message):
        Interpolated.fit(np.zeros((4, 2)), places, neighbors)


def test_a_chain_fits_each_part_on_what_the_one_before_makes():
    seen = []

    def remember(public):
        seen.append(public.shape)
        return Identity.fit(public)

    chain = Chained.fit(np.ones((5, 2, 2)), remember, remember)
    assert seen == [(5, 2, 2), (5, 4)]
    assert len(chain.parts) == 2
    with pytest.raises(InvalidInput, match="at least one"):
        Chained.fit(np.ones((5, 2)))


def test_sums_on_the_grid_are_exact_in_any_order():
    random = np.random.default_rng(0)
    bits = exact_bits(1000, 4.0, 1.0, 20)
    left, right = snapped(random.normal(size=1000), bits, 4.0), snapped(random.normal(size=1000), 20, 1.0)
    products = left * right
    orders = {float(products[random.permutation(1000)].cumsum()[-1]) for _ in range(50)}
    assert len(orders) == 1
    # Values as they come do not pass.
    plain = random.normal(size=1000) * random.normal(size=1000)
    assert len({float(plain[random.permutation(1000)].cumsum()[-1]) for _ in range(50)}) > 1


def test_a_grid_too_coarse_to_be_of_use_is_refused():
    with pytest.raises(InvalidInput, match="too many for exact arithmetic"):
        exact_bits(2**40, 1.0, 1.0, 20)


def test_blocks_cover_every_row_once():
    for rows in (0, 1, 1024, 1025, 5000):
        assert [row for block in blocks(rows) for row in range(rows)[block]] == list(range(rows))
