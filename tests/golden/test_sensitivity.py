"""Mathematics 1: how far reverse k-NN counts move, against brute force over every pair of records."""

from itertools import combinations, product

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.sensitivity import vote_sensitivity


def tables(queries, classes, neighbors, labels):
    for rows, columns in product(combinations(range(queries), neighbors), combinations(range(classes), labels)):
        table = np.zeros((queries, classes), dtype=int)
        table[np.ix_(rows, columns)] = 1
        yield table


def moved(table):
    rise = table.max(axis=1).clip(min=0)
    fall = (-table).max(axis=1).clip(min=0)
    return abs(table).sum(), (table**2).sum(), abs(table).max(), (rise + fall).sum()


@pytest.mark.parametrize(
    ("queries", "classes", "neighbors", "labels"),
    [(3, 2, 1, 1), (3, 2, 2, 1), (3, 3, 2, 2), (4, 3, 2, 2), (4, 2, 3, 1), (3, 3, 3, 2), (5, 2, 1, 1)],
)
def test_replace_one_is_exact(queries, classes, neighbors, labels):
    every = list(tables(queries, classes, neighbors, labels))
    worst = np.max([moved(a - b) for a in every for b in every], axis=0)
    claimed = vote_sensitivity(queries, classes, neighbors, labels)
    assert (
        claimed.l1
        == worst[0]
        == 2 * (neighbors * labels - max(0, 2 * neighbors - queries) * max(0, 2 * labels - classes))
    )
    assert claimed.l2_squared == worst[1]
    assert claimed.linf == worst[2] == 1
    assert claimed.row_range >= worst[3]


@pytest.mark.parametrize(("neighbors", "labels"), [(1, 1), (2, 1), (2, 2)])
def test_add_remove_is_exact(neighbors, labels):
    worst = np.max([moved(table) for table in tables(4, 3, neighbors, labels)], axis=0)
    claimed = vote_sensitivity(4, 3, neighbors, labels, replace=False)
    assert (claimed.l1, claimed.l2_squared, claimed.linf, claimed.row_range) == tuple(worst)


def test_a_person_with_two_records_moves_twice_as_far():
    every = list(tables(3, 2, 1, 1))
    worst = np.max([moved(a + b - c - d) for a, b, c, d in product(every, repeat=4)], axis=0)
    claimed = vote_sensitivity(3, 2, 1, records=2)
    assert (claimed.l1, claimed.l2_squared, claimed.linf, claimed.row_range) == tuple(worst)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"neighbors": 5}, "neighbors must be at most the 4 queries"),
        ({"neighbors": 0}, "neighbors must be at least 1"),
        ({"classes": 1}, "classes must be at least 2"),
        ({"labels": 4}, "labels must be at most the 3 classes"),
        ({"records": 0}, "records must be at least 1"),
    ],
)
def test_bad_parameters_are_named(arguments, named):
    with pytest.raises(InvalidInput, match=named):
        vote_sensitivity(**({"queries": 4, "classes": 3, "neighbors": 1} | arguments))


def test_persons_with_fewer_records_do_not_cancel():
    """Every cell is forced for a single record, yet a person of two records may be replaced by one of one."""
    assert vote_sensitivity(queries=1, classes=2, neighbors=1, labels=2).l1 == 0
    assert vote_sensitivity(queries=1, classes=2, neighbors=1, labels=2, records=2).l1 >= 2
