"""Mathematics 13: how far class sums move, against every pair of records on a small grid, and against mutants."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.class_sums import wire
from tacit.methods.class_sums.holder import class_sums
from tacit.methods.class_sums.wire import SumAsk, longest_l1, on_grid, sum_sensitivity
from tacit.private.records import Records
from tacit.representations.scaled import Identity

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
EMPTY = np.array([np.nan, np.nan])


def asked(radius, count, norm="l2", scale=1.0, components=2, centered=None):
    noise, names = RoundedGaussianNoise(10, 4 * radius**2), ("a", "b", "c", "d")[: centered or 2]
    return SumAsk(
        Identity(components), components, scale, radius, norm, count, names, "c0ffee", noise, "sums", "r-1",
        centered is not None,
    )  # fmt: skip


def every_contribution(radius, count, norm, centered=None):
    """The tables of all single records: every point of a square that is larger than the radius, and no number."""
    ask = asked(radius, count, norm, centered=centered)
    steps = np.arange(-radius - 1, radius + 2) + 0.0
    points = [*map(np.array, product(steps, steps)), EMPTY, np.array([1e38, -1e38])]
    found = {
        class_sums(ask, Records(point[None], np.array([label]))).tobytes()
        for point in points
        for label in (0, 1, centered and 2, 9)
        if label is not None
    }
    return [np.frombuffer(each, dtype=np.int64).reshape(ask.table_shape) for each in found]


def moved(table):
    return int(np.abs(table).sum()), int((table**2).sum()), int(np.abs(table).max())


def worst(pairs):
    return tuple(np.max([moved(a - b) for a, b in pairs], axis=0).tolist())


def claimed(radius, count, norm, unit=Unit(), adjacency=REPLACE, centered=None):  # noqa: B008
    found = sum_sensitivity(2, radius, count, norm, unit, adjacency, centered)
    return found.l1, found.l2_squared, found.linf


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("radius", "count"), [(1, 1), (3, 3), (3, 1), (5, 4), (5, 0)])
def test_no_pair_of_neighbors_is_farther_apart_than_claimed(radius, count, norm):
    every = every_contribution(radius, count, norm)
    nothing = np.zeros_like(every[0])
    assert any((table == 0).all() for table in every), "the empty vector is an input like any other"
    replaced = worst([(a, b) for a in every for b in every])
    added = worst([(a, nothing) for a in every])
    assert all(found <= limit for found, limit in zip(replaced, claimed(radius, count, norm), strict=True))
    assert all(found <= limit for found, limit in zip(added, claimed(radius, count, norm, adjacency=ADD), strict=True))
    # In L2 both bounds are reached, and so is the bound in L1 where that is the norm.
    assert replaced[1] == 4 * radius**2
    assert added[1] == radius**2 + count**2
    if norm == "l1":
        assert (replaced[0], added[0]) == (2 * (radius + count), radius + count)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("radius", "count"), [(1, 1), (2, 0), (2, 1), (3, 2)])
def test_no_pair_of_neighbors_is_farther_apart_than_claimed_of_centered_sums(radius, count, norm, classes):
    every = every_contribution(radius, count, norm, classes)
    assert all((table.sum(axis=0) == 0).all() for table in every)
    replaced = worst([(a, b) for a in every for b in every])
    added = worst([(a, np.zeros_like(a)) for a in every])
    limits = claimed(radius, count, norm, centered=classes)
    assert all(found <= limit for found, limit in zip(replaced, limits, strict=True))
    limits = claimed(radius, count, norm, adjacency=ADD, centered=classes)
    assert all(found <= limit for found, limit in zip(added, limits, strict=True))
    # Both bounds are reached, the one of the same label and the one of another.
    other = 2 * classes**2 * (radius**2 + count**2)
    assert replaced[1] == max(4 * classes * (classes - 1) * radius**2, other)
    assert added[1] == classes * (classes - 1) * (radius**2 + count**2)
    if norm == "l1":
        assert replaced[0] == 4 * (classes - 1) * radius + 2 * classes * count


def test_centered_sums_of_two_classes_need_half_the_variance_at_the_same_price():
    """In the scale of the rows: what is over is known, and nothing is paid for it."""
    plain, centered = sum_sensitivity(2, 4096, 0), sum_sensitivity(2, 4096, 0, centered=2)
    assert centered.l2_squared / 2**2 == plain.l2_squared / 2


def test_centered_sums_that_could_overflow_are_refused():
    with pytest.raises(InvalidInput, match="over the number of other classes"):
        asked(wire.LARGEST_RADIUS, 1, centered=3)
    with pytest.raises(InvalidInput, match="at least 2 classes"):
        sum_sensitivity(2, 10, 10, centered=1)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_persons_move_as_often_as_they_have_records(norm, adjacency):
    """All persons with up to two records, against all others, or against nobody."""
    radius, count = 2, 2
    every = every_contribution(radius, count, norm)
    persons = [a + b for a, b in combinations_with_replacement(every, 2)]
    unique = [np.frombuffer(each, dtype=np.int64).reshape(2, 3) for each in {table.tobytes() for table in persons}]
    others = unique if adjacency is REPLACE else [np.zeros((2, 3), dtype=np.int64)]
    found = worst([(a, b) for a in unique for b in others])
    limits = claimed(radius, count, norm, Unit.person("patient", 2), adjacency)
    assert all(each <= limit for each, limit in zip(found, limits, strict=True))
    assert found[1] == limits[1] == 4 * (4 * radius**2 if adjacency is REPLACE else radius**2 + count**2)


def test_golden_vectors():
    """Same label 2R, other label √(2(R² + c²)), added √(R² + c²); ρ = Δ²/2σ²."""
    ask = asked(100, 60)
    one, same, other = (
        class_sums(ask, Records(np.array([point]), np.array([label])))
        for point, label in (([100.0, 0.0], 0), ([-100.0, 0.0], 0), ([0.0, 100.0], 1))
    )
    assert moved(one - same)[1] == 200**2
    assert moved(one - other)[1] == 2 * (100**2 + 60**2)
    assert moved(one)[1] == 100**2 + 60**2
    assert sum_sensitivity(2, 100, 60).l2_squared == 200**2
    assert sum_sensitivity(2, 100, 60, adjacency=ADD).l2_squared == 100**2 + 60**2
    assert sum_sensitivity(2, 100, 60, unit=Unit.person("p", 3)).l2_squared == 9 * 200**2
    noise = RoundedGaussianNoise(800, 200**2)
    assert 1 / (2 * noise.spend.noise_multiplier**2) == pytest.approx(200**2 / (2 * 800**2))


def test_a_count_above_the_radius_is_refused_because_another_label_would_move_farther():
    assert 2 * (10**2 + 11**2) > (2 * 10) ** 2
    with pytest.raises(InvalidInput, match="count from 0 to the radius"):
        sum_sensitivity(2, 10, 11)
    with pytest.raises(InvalidInput, match="count from 0 to the radius"):
        asked(10, 11)
    with pytest.raises(InvalidInput, match="not whole holders"):
        sum_sensitivity(2, 10, 10, unit=Unit.whole_holder())


def directions(rows, components, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, components)).astype(np.float32) * 50


def longest(whole):
    return int((whole.astype(object) ** 2).sum(axis=1).max())


def test_no_vector_is_longer_than_the_radius_at_1024_dimensions_and_none_is_lost():
    whole, there = on_grid(directions(400, 1024), scale=1.0, radius=64)
    assert longest(whole) <= 64**2
    assert there.all()
    # Rounding toward zero costs a little of the length, and no more.
    assert np.sqrt((whole**2).sum(axis=1)).min() > 0.55 * 64


def nearest(features, scale, radius):
    """The mutant: clip in floating point and round to the nearest, without a check."""
    rows = features.astype(np.float64) * scale
    rows *= np.minimum(1, radius / np.sqrt((rows * rows).sum(axis=1)))[:, None]
    return np.rint(rows).astype(np.int64)


def test_rounding_to_the_nearest_breaks_the_bound_at_1024_dimensions():
    """1.20·R was seen: coordinates of about .7 each become 1."""
    assert longest(nearest(directions(400, 1024), 1.0, 64)) > 64**2
    long = nearest(np.full((1, 1024), 0.7, dtype=np.float32), 1.0, 23)
    assert np.sqrt(longest(long)) > 1.2 * 23
    assert longest(on_grid(np.full((1, 1024), 0.7, dtype=np.float32), 1.0, 23)[0]) == 0


def test_a_vector_that_clipping_leaves_too_long_becomes_zero(monkeypatch):
    """Whatever floating point did before: integers decide."""
    monkeypatch.setattr(wire, "lengths", lambda rows, norm: np.zeros(len(rows)))
    whole, there = on_grid(np.array([[30.0, 40.0], [3.0, 4.0], [1e30, 1.0]]), 1.0, 40)
    assert whole.tolist() == [[0, 0], [3, 4], [0, 0]]
    assert there.tolist() == [False, True, False]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e18])
def test_hostile_features_never_raise_and_never_grow(scale, norm):
    edges = np.array([0.0, -0.0, 1e-45, 1.0, -1.0, 3.4e38, -3.4e38, np.nan, np.inf, -np.inf], dtype=np.float32)
    rows = np.array(list(product(edges, edges)), dtype=np.float32)
    whole, there = on_grid(rows, scale, 1000, norm)
    long = np.abs(whole).sum(axis=1) if norm == "l1" else (whole**2).sum(axis=1)
    assert long.max() <= (1000 if norm == "l1" else 1000**2)
    assert not there[~np.isfinite(rows).all(axis=1)].any()
    assert not whole[~there].any()


def test_a_row_does_not_depend_on_the_rows_around_it():
    rows = directions(257, 33, seed=3)
    together = on_grid(rows, 3.7, 4096)[0]
    alone = np.concatenate([on_grid(row[None], 3.7, 4096)[0] for row in rows])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize(("radius", "components"), [(1, 1), (7, 2), (10, 3), (64, 50)])
def test_the_bound_in_l1_is_that_of_cauchy_and_schwarz(radius, components):
    bound = longest_l1(radius, components, "l2")
    assert bound**2 <= components * radius**2 < (bound + 1) ** 2
