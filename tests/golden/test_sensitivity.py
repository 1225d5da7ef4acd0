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


def every_with_rows(queries, classes, neighbors, labels):
    """Every record's votes with at most this many labels, and the rows it votes in even without a label."""
    for rows in combinations(range(queries), neighbors):
        for count in range(labels + 1):
            for columns in combinations(range(classes), count):
                table = np.zeros((queries, classes), dtype=int)
                table[np.ix_(rows, columns)] = 1
                yield table, list(rows)


def with_voters(table, rows):
    voters = np.zeros((len(table), 1), dtype=int)
    voters[rows] = 1
    return np.hstack([table, voters])


def moved(table):
    rise = table.max(axis=1).clip(min=0)
    fall = (-table).max(axis=1).clip(min=0)
    return abs(table).sum(), (table**2).sum(), abs(table).max(), (rise + fall).sum()


SHAPES = [
    *[(3, 2, 1, 1), (3, 2, 2, 1), (3, 3, 2, 2), (4, 3, 2, 2), (4, 2, 3, 1)],
    *[(3, 3, 3, 2), (5, 2, 1, 1), (2, 3, 2, 3), (4, 4, 3, 2), (3, 4, 2, 3)],
]


@pytest.mark.parametrize(("queries", "classes", "neighbors", "labels"), SHAPES)
def test_the_reference_formula_is_exact_for_exactly_so_many_labels(queries, classes, neighbors, labels):
    every = list(tables(queries, classes, neighbors, labels))
    worst = np.max([moved(a - b) for a in every for b in every], axis=0)
    forced = max(0, 2 * neighbors - queries) * max(0, 2 * labels - classes)
    assert worst[0] == worst[1] == 2 * (neighbors * labels - forced)
    # What is claimed covers records with fewer labels too.
    assert vote_sensitivity(queries, classes, neighbors, labels).l1 >= worst[0]


@pytest.mark.parametrize("voters", [False, True])
@pytest.mark.parametrize(("queries", "classes", "neighbors", "labels"), [*SHAPES, (3, 1, 2, 1), (2, 1, 2, 1)])
def test_replace_one_is_exact_for_at_most_so_many_labels(queries, classes, neighbors, labels, voters):
    if classes == 1 and not voters:
        return
    every = [each for count in range(labels + 1) for each in tables(queries, classes, neighbors, count)]
    if voters:
        every = [with_voters(each, rows) for each, rows in every_with_rows(queries, classes, neighbors, labels)]
    every.append(np.zeros_like(every[0]))  # the empty vote
    worst = np.max([moved(a - b) for a in every for b in every], axis=0)
    claimed = vote_sensitivity(queries, classes, neighbors, labels, voters=voters)
    assert claimed.l1 == worst[0]
    assert claimed.l2_squared == worst[1]
    assert claimed.linf == worst[2] == 1
    assert claimed.row_range >= worst[3]
    if not voters:
        common = max(0, 2 * neighbors - queries)
        assert claimed.l1 == max(
            neighbors * min(2 * labels, classes),
            2 * (neighbors * labels - common * max(0, 2 * labels - classes)),
        )


def test_exactly_so_many_labels_would_be_charged_too_little():
    """Three labels of three, both queries: exactly three cannot move, at most three can vanish."""
    exactly = list(tables(2, 3, 2, 3))
    assert [moved(a - b)[0] for a in exactly for b in exactly] == [0]
    assert vote_sensitivity(2, 3, 2, 3).l1 == 6


def test_an_empty_vote_moves_further_than_exactly_so_many_labels_can():
    """Two queries, both of them nearest, three labels of four: the formula for exactly three labels says 4."""
    exactly = list(tables(2, 4, 2, 3))
    assert max(moved(a - b)[0] for a in exactly for b in exactly) == 4
    assert max(moved(a)[0] for a in exactly) == 6
    assert vote_sensitivity(2, 4, 2, 3).l1 >= 6
    # Voters of common queries cancel between two records, and do not against an empty vote.
    assert vote_sensitivity(2, 1, 2, 1, voters=True).l1 == 4


@pytest.mark.parametrize("voters", [False, True])
@pytest.mark.parametrize(("neighbors", "labels"), [(1, 1), (2, 1), (2, 2)])
def test_add_remove_is_exact(neighbors, labels, voters):
    every = every_with_rows(4, 3, neighbors, labels)
    worst = np.max([moved(with_voters(table, rows) if voters else table) for table, rows in every], axis=0)
    claimed = vote_sensitivity(4, 3, neighbors, labels, replace=False, voters=voters)
    assert (claimed.l1, claimed.l2_squared, claimed.linf, claimed.row_range) == tuple(worst)


def test_persons_with_voters_are_covered():
    every = [np.zeros((2, 2), dtype=int)]  # a person may own fewer records
    every += [with_voters(table, rows) for table, rows in every_with_rows(2, 1, 2, 1)]
    worst = np.max([moved(a + b - c - d) for a, b, c, d in product(every, repeat=4)], axis=0)
    claimed = vote_sensitivity(2, 1, 2, 1, records=2, voters=True)
    assert claimed.l1 >= worst[0]
    assert claimed.l2_squared >= worst[1]
    assert claimed.linf == worst[2]
    assert claimed.row_range >= worst[3]


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
    """All queries are common to two single records, yet a person of two records may be replaced by one of one."""
    assert vote_sensitivity(queries=1, classes=2, neighbors=1, labels=2, voters=True).l1 == 3
    assert vote_sensitivity(queries=1, classes=2, neighbors=1, labels=2, records=2, voters=True).l1 >= 4
