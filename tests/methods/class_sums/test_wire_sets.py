"""How far sums of label sets move, against every pair of records with every pair of sets on a small grid."""

from itertools import product

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.class_sums.holder import SumHolder, class_sums
from tacit.methods.class_sums.wire import LARGEST_RADIUS, SumAsk, set_sensitivity, set_shift, sum_sensitivity
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
NAMES = ("a", "b", "c", "d", "e")


def asked(radius, count, norm, classes, labels, centered, mechanism=None):
    return SumAsk(
        Identity(2), 2, 1.0, radius, norm, count, NAMES[:classes], "c0ffee", mechanism, "sums", "r-1", centered, labels
    )


def every_set(classes):
    return np.array(list(product([False, True], repeat=classes)))


def contributions(ask):
    """The tables of all single records: points in and around the radius, no number, with all sets, also too large."""
    steps = np.arange(-ask.radius - 1, ask.radius + 2) + 0.0
    points = [*map(np.array, product(steps, steps)), np.array([np.nan, 0.0])]
    found = {
        class_sums(ask, Records(point[None], labels[None])).tobytes()
        for point in points
        for labels in every_set(ask.classes)
    }
    return np.array([np.frombuffer(each, dtype=np.int64) for each in found])


def worst(every, others):
    """The largest L1, squared L2 and L∞ distance between two tables."""
    found = np.zeros(3, dtype=np.int64)
    for one in every:
        moved = np.abs(others - one)
        found = np.maximum(found, [moved.sum(axis=1).max(), (moved**2).sum(axis=1).max(), moved.max()])
    return found.tolist()


def claimed(ask, adjacency, unit=Unit()):  # noqa: B008
    found = ask.sensitivity(unit, adjacency)
    return [found.l1, found.l2_squared, found.linf]


CASES = [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3)]


@pytest.mark.parametrize("centered", [False, True], ids=["plain", "centered"])
@pytest.mark.parametrize(("classes", "labels"), CASES)
@pytest.mark.parametrize(("radius", "count", "norm"), [(1, 1, "l2"), (2, 1, "l2"), (2, 0, "l2"), (2, 1, "l1")])
def test_no_pair_of_records_with_sets_is_farther_apart_than_claimed(radius, count, norm, classes, labels, centered):
    ask = asked(radius, count, norm, classes, labels, centered)
    every = contributions(ask)
    nothing = np.zeros((1, every.shape[1]), dtype=np.int64)
    assert (every == 0).all(axis=1).any(), "the empty record is an input like any other"
    replaced, added = worst(every, every), worst(every, nothing)
    limits = claimed(ask, REPLACE)
    assert all(found <= limit for found, limit in zip(replaced, limits, strict=True))
    assert replaced[1] == limits[1], "the bound in L2 is reached"
    limits = claimed(ask, ADD)
    assert all(found <= limit for found, limit in zip(added, limits, strict=True))
    assert added[1] == limits[1]
    if norm == "l1":
        assert added[0] == limits[0]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("centered", [False, True], ids=["plain", "centered"])
def test_persons_with_sets_move_as_often_as_they_have_records(adjacency, centered):
    ask = asked(1, 1, "l2", 3, 2, centered)
    every = contributions(ask)
    persons = np.unique((every[:, None] + every[None]).reshape(-1, every.shape[1]), axis=0)
    others = persons if adjacency is REPLACE else np.zeros((1, every.shape[1]), dtype=np.int64)
    found, limits = worst(persons, others), claimed(ask, adjacency, Unit.person("patient", 2))
    assert all(each <= limit for each, limit in zip(found, limits, strict=True))
    assert found[1] == limits[1]


@pytest.mark.parametrize("centered", [False, True], ids=["plain", "centered"])
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_sets_of_one_label_are_single_labels(norm, adjacency, centered):
    sets = set_sensitivity(3, 10, 5, 4, 1, norm, adjacency=adjacency, centered=centered)
    single = sum_sensitivity(3, 10, 5, norm, adjacency=adjacency, centered=4 if centered else None)
    assert sets == single
    points, labels = np.array([[1.0, 2.0], [30.0, 40.0], [0.0, -3.0]]), np.array([0, 2, 1])
    one = asked(10, 5, norm, 3, None, centered)
    many = asked(10, 5, norm, 3, 1, centered)
    table = class_sums(many, Records(points, np.eye(3, dtype=bool)[labels]))
    assert np.array_equal(class_sums(one, Records(points, labels)), table)


def test_no_other_shift_makes_a_contribution_shorter():
    for classes, labels in CASES:
        sets = every_set(classes)
        sets = sets[sets.sum(axis=1) <= labels].astype(int)

        def longest(shift, sets=sets, classes=classes):
            return (np.square(classes * sets - shift)).sum(axis=1).max()

        chosen = set_shift(classes, labels)
        assert longest(chosen) == min(longest(each) for each in range(classes // 2 + 1))


def test_centered_sums_of_sets_need_less_noise_and_no_declared_size():
    """In the scale of the rows: with six labels of which a record may have all, a quarter of the variance."""
    plain, centered = (set_sensitivity(2, 4096, 0, 6, 6, centered=each).l2_squared for each in (False, True))
    assert centered / 6**2 == plain / 4


def test_of_a_set_larger_than_allowed_the_first_labels_count_and_nobody_is_told():
    sets = np.array([[True, True, True], [False, True, True]])
    points = np.array([[1.0, 0.0], [0.0, 2.0]])
    ask = asked(10, 1, "l2", 3, 2, False)
    assert class_sums(ask, Records(points, sets)).tolist() == [[1, 0, 1], [1, 2, 2], [0, 2, 1]]


def answered(ask, records):
    gate = Gate(MemoryLedger({"a": Ceiling(1, "1e-6")}), "a", SeededRandomness(3))
    return SumHolder([Private(records)], gate).answer(ask).value


@pytest.mark.parametrize("centered", [False, True], ids=["plain", "centered"])
def test_a_holder_refuses_noise_for_less_than_its_sets_move(centered):
    ask = asked(10, 5, "l2", 3, 2, centered)
    records = Records(np.ones((4, 2)), np.ones((4, 3), dtype=bool))
    enough = RoundedGaussianNoise.calibrated(ask.sensitivity(Unit(), REPLACE), 1, "1e-6")
    assert answered(asked(10, 5, "l2", 3, 2, centered, enough), records).shape == (3, 3)
    less = RoundedGaussianNoise(enough.sigma, enough.squared_shift - 1)
    with pytest.raises(ToleranceExceeded):
        answered(asked(10, 5, "l2", 3, 2, centered, less), records)


def test_records_of_another_kind_are_refused_before_payment():
    noise = RoundedGaussianNoise.calibrated(set_sensitivity(2, 10, 5, 3, 2), 1, "1e-6")
    ask, single = asked(10, 5, "l2", 3, 2, False, noise), asked(10, 5, "l2", 3, None, False, noise)
    sets = Records(np.ones((4, 2)), np.ones((4, 3), dtype=bool))
    one = Records(np.ones((4, 2)), np.zeros(4, dtype=np.int64))
    other = Records(np.ones((4, 2)), np.ones((4, 2), dtype=bool))
    for question, records in ((ask, one), (ask, other), (single, sets)):
        with pytest.raises(InvalidInput, match="nothing was charged"):
            answered(question, records)


@pytest.mark.parametrize("labels", [0, 4])
def test_more_labels_than_classes_make_no_question(labels):
    with pytest.raises(InvalidInput, match="between 1 and the 3 classes"):
        asked(10, 5, "l2", 3, labels, False)
    with pytest.raises(InvalidInput, match="between 1 and the 3 classes"):
        set_sensitivity(2, 10, 5, 3, labels)


def test_centered_sets_that_could_overflow_are_refused():
    with pytest.raises(InvalidInput, match="over the number of other classes"):
        asked(LARGEST_RADIUS, 1, "l2", 3, 3, True)


@pytest.mark.parametrize("centered", [False, True], ids=["plain", "centered"])
def test_cells_and_totals_are_within_what_a_node_is_checked_for(centered):
    ask = asked(2, 1, "l2", 4, 3, centered)
    every = contributions(ask)
    cell, total = ask.most_votes(1)
    assert np.abs(every).max() <= cell
    assert np.abs(every).sum(axis=1).max() <= total
