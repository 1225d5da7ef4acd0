"""How far sums of gradients move: against every pair of records on a small grid, and in any company."""

from itertools import product

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.noisy_sgd import gradient
from tacit.methods.noisy_sgd.gradient import ERRORS, LARGEST_WEIGHT, errors_of, gradient_sum, with_offset
from tacit.methods.noisy_sgd.holder import GradientHolder, record_gradients
from tacit.methods.noisy_sgd.wire import LARGEST_GRADIENT, GradientAsk, gradient_sensitivity
from tacit.representations.scaled import Identity

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
LENGTH = 4
WEIGHTS = {
    "none": np.zeros((3, 2), dtype=np.int64),
    "some": np.array([[300, -200], [-700, 100], [50, 0]]),
    "the largest": np.full((3, 2), LARGEST_WEIGHT) * np.array([1, -1]),
}


def asked(weights, radius, norm="l2", **more):
    settings = {"scale": 1.0, "length": LENGTH, "offset": 2, "representation": Identity(len(weights) - 1)} | more
    return GradientAsk(
        weights=np.asarray(weights, dtype=np.int64), radius=radius, norm=norm, class_names=("a", "b"), space="c0ffee",
        mechanism=RoundedGaussianNoise(10 * radius, 4 * radius**2), purpose="sgd", request="r-1", **settings,
    )  # fmt: skip


def every_gradient(ask):
    """The tables of all single records: every point of a square that is larger than the length, and no number."""
    steps = np.arange(-LENGTH - 1, LENGTH + 2) + 0.0
    points = [*map(np.array, product(steps, steps)), np.array([np.nan, 0]), np.array([1e38, -1e38])]
    found = {
        record_gradients(ask, [(point[None].astype(np.float32), np.array([label]))]).tobytes()
        for point in points
        for label in (0, 1, 9, -1)
    }
    return [np.frombuffer(each, dtype=np.int64).reshape(ask.table_shape) for each in found]


def moved(table):
    return int(np.abs(table).sum()), int((table**2).sum()), int(np.abs(table).max())


def within(tables, limits):
    return all(
        found <= limit
        for table in tables
        for found, limit in zip(moved(table), (limits.l1, limits.l2_squared, limits.linf), strict=True)
    )


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("radius", [5, 300, 10**4])
def test_no_pair_of_neighbors_is_farther_apart_than_claimed(weights, radius, norm):
    ask = asked(WEIGHTS[weights], radius, norm)
    every = every_gradient(ask)
    assert any((table == 0).all() for table in every), "no gradient is an input like any other"
    longest = sorted(every, key=lambda table: moved(table)[norm == "l2"])[-40:]
    assert within(every, ask.sensitivity(Unit(), ADD))
    assert within([a - b for a in longest for b in longest], ask.sensitivity(Unit(), REPLACE))
    assert within([a + b for a in longest for b in longest], ask.sensitivity(Unit.person("patient", 2), ADD))


def test_the_bound_is_reached_by_opposite_gradients():
    """Where nothing is known yet, the other label turns the gradient around."""
    for norm, radius in (("l2", int(np.sqrt(2) * ERRORS / 2 * LENGTH)), ("l1", ERRORS * LENGTH)):
        ask = asked(np.zeros((2, 2)), radius, norm, offset=0, representation=Identity(1))
        one, other = (
            record_gradients(ask, [(np.array([[LENGTH]], dtype=np.float32), np.array([label]))]) for label in (0, 1)
        )
        l1, l2_squared, _ = moved(one - other)
        claimed = ask.sensitivity(Unit(), REPLACE)
        reached, limit = (l1, claimed.l1) if norm == "l1" else (l2_squared, claimed.l2_squared)
        assert 0.98 * limit <= reached <= limit


def test_sensitivity_golden_vectors():
    """2R for a replaced record, R for one that comes or goes, m times as much for m records of a person."""
    person = Unit.person("patient", 3)
    squares = [
        gradient_sensitivity(12, 100, "l2", unit, adjacency).l2_squared
        for unit in (Unit(), person)
        for adjacency in (REPLACE, ADD)
    ]
    assert squares == [200**2, 100**2, 600**2, 300**2]
    assert [gradient_sensitivity(12, 100, norm).l1 for norm in ("l1", "l2")] == [200, 2 * 346]
    with pytest.raises(InvalidInput, match="not whole holders"):
        gradient_sensitivity(12, 100, unit=Unit.whole_holder())


def test_a_record_adds_the_same_whatever_records_are_around_it():
    """Bit by bit: floating point rounds products differently in other company, and whole numbers do not."""
    random = np.random.default_rng(3)
    rows, labels = random.normal(size=(257, 33)).astype(np.float32), random.integers(0, 5, 257)
    weights = random.integers(-(2**12), 2**12, (34, 5))
    settings = {"scale": 40.0, "length": 512, "offset": 256, "radius": 3 * 10**4}
    whole = gradient_sum(rows, labels, weights, **settings)
    alone = [gradient_sum(rows[[place]], labels[[place]], weights, **settings) for place in range(len(rows))]
    assert (np.sum(alone, axis=0) == whole).all()
    order = random.permutation(257)
    assert (gradient_sum(rows[order], labels[order], weights, **settings) == whole).all()
    without = gradient_sum(rows[1:], labels[1:], weights, **settings)
    assert (whole - without == alone[0]).all()


def test_the_gradient_is_that_of_a_softmax_regression():
    random = np.random.default_rng(4)
    rows, labels = random.normal(size=(200, 3)).astype(np.float32) / 3, random.integers(0, 4, 200)
    weights = random.normal(size=(4, 4))
    length = 512
    table = gradient_sum(
        rows, labels, np.rint(256 * weights).astype(np.int64), scale=float(length), length=length, offset=length // 2,
        radius=LARGEST_GRADIENT,
    )  # fmt: skip
    kept = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    features = np.column_stack([kept, np.full(200, 0.5)])
    odds = np.exp(features @ weights)
    errors = odds / odds.sum(axis=1, keepdims=True) - np.eye(4)[labels]
    assert np.abs(table / (ERRORS * length) - errors.T @ features).max() < 0.01 * 200 / np.sqrt(200)


def test_errors_stay_in_their_range_at_the_largest_weights_and_lengths():
    features = with_offset(np.array([[2**20, 0], [-(2**20), 0], [2**19, 2**19]]), 2**20)
    weights = np.array([[LARGEST_WEIGHT, -LARGEST_WEIGHT], [-LARGEST_WEIGHT, LARGEST_WEIGHT], [0, 7]])
    errors = errors_of(features, np.array([1, 1, 0]), weights, 2**20)
    assert errors[:2].tolist() == [[256, -256], [0, 0]]
    assert np.abs(errors).max() <= ERRORS


def test_what_clipping_in_floating_point_leaves_too_long_becomes_zero(monkeypatch):
    """Were the factor a hair too large, whole numbers would notice."""
    monkeypatch.setattr(gradient.np, "sqrt", lambda ratio: ratio**0.5 * 1.2)
    table = gradient_sum(
        np.array([[1.0]]), np.array([0]), np.zeros((2, 2), dtype=np.int64), scale=100.0, length=100, offset=50,
        radius=1000,
    )  # fmt: skip
    assert (table == 0).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"radius": LARGEST_GRADIENT + 1}, "radius"),
        ({"radius": 0}, "radius"),
        ({"length": 2**21}, "length"),
        ({"offset": LENGTH + 1}, "offset"),
        ({"scale": 0.0}, "scale"),
        ({"norm": "l3"}, "norm"),
        ({"weights": np.zeros((3, 3), dtype=np.int64)}, "weights"),
        ({"weights": np.full((3, 2), LARGEST_WEIGHT + 1)}, "weights"),
        ({"weights": np.zeros((3, 2))}, "weights"),
        ({"class_names": ("a",)}, "classes"),
    ],
)
def test_a_question_beyond_what_is_exact_is_refused(change, words):
    settings = {
        "representation": Identity(2), "scale": 1.0, "length": LENGTH, "offset": 2,
        "weights": np.zeros((3, 2), dtype=np.int64), "radius": 10, "norm": "l2", "class_names": ("a", "b"),
        "space": "", "mechanism": None, "purpose": "sgd", "request": "r-1",
    }  # fmt: skip
    assert GradientAsk(**settings).table_shape == (2, 3)
    with pytest.raises(InvalidInput, match=words):
        GradientAsk(**(settings | change))


def test_the_digest_of_a_question_tells_weights_apart():
    one, other = (asked(WEIGHTS[name], 10).question for name in ("none", "some"))
    assert one != other
    assert one == asked(WEIGHTS["none"], 10).question


def test_a_holder_needs_records():
    with pytest.raises(InvalidInput, match="at least one set of records"):
        GradientHolder([], None)


def test_a_record_of_no_class_that_was_asked_about_adds_nothing():
    row, none = np.array([[1.0, 2.0]]), np.zeros((3, 2), dtype=np.int64)
    settings = {"scale": 1.0, "length": LENGTH, "offset": 2, "radius": 10**4}
    assert gradient_sum(row, np.array([1]), none, **settings).any()
    for label in (2, 9, -1):
        assert not gradient_sum(row, np.array([label]), none, **settings).any()
