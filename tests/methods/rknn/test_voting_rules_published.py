"""The published ways to connect records with queries, at what they really cost."""

from itertools import combinations, product

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, ToleranceExceeded
from tacit.core.guarantee import Adjacency
from tacit.core.sensitivity import vote_sensitivity
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.methods.rknn.holder import OneRecordHolders, VoteHolder
from tacit.methods.rknn.voting_rules import (
    PUBLISHED,
    published_sensitivity,
    published_votes,
    similarities,
)
from tacit.private.records import Private, Records
from tests.methods.rknn.test_voting_rules import BOTTOMLESS, EXACT, LABELS, SAMPLES, ask, gate


def best_connections(similarity, neighbors, rule):
    """The definition: every way to connect, the best first; with its value and that of the runner-up."""
    count, size = similarity.shape
    found = []
    for choice in product(combinations(range(size), neighbors), repeat=count):
        score = np.zeros(size)
        for record, queries in enumerate(choice):
            score[list(queries)] += similarity[record, list(queries)]
        worst = score.min()
        found.append((worst if rule == "max-min" or worst == 0 else size / (1 / score).sum(), choice))
    found.sort(key=lambda each: -each[0])
    return found


def votes(choice, labels, queries, classes):
    table = np.zeros((queries, classes), dtype=int)
    for each, label in zip(choice, labels, strict=True):
        table[list(each), label] += 1
    return table


def worst_case(groups, neighbors, sizes):
    """The similarities of the proof: unchanged records in groups between two blocks of queries each, and the last."""
    queries = groups * neighbors
    similarity = np.full((sum(sizes) + 1, queries), 1e-6)
    group = np.repeat(np.arange(groups - 1), sizes)
    for record, each in enumerate(group):
        similarity[record, each * neighbors : (each + 2) * neighbors] = 1 / sizes[each]
    before, after = similarity.copy(), similarity.copy()
    before[-1, -neighbors:] = 1
    after[-1, :neighbors] = 1
    return before, after


@pytest.mark.parametrize("rule", PUBLISHED)
@pytest.mark.parametrize(
    ("groups", "neighbors", "sizes"),
    [
        (2, 1, [1]),
        (2, 1, [3]),
        (2, 1, [6]),
        (3, 1, [1, 1]),
        (3, 1, [2, 3]),
        (4, 1, [1, 2, 1]),
        (2, 2, [1]),
        (2, 2, [2]),
    ],
)
def test_one_record_moves_all_votes_of_all_records(groups, neighbors, sizes, rule):
    """The paper claims 2k. By enumeration of every connection, with the best one unique, it is 2kn."""
    count, queries = sum(sizes) + 1, groups * neighbors
    alternating = np.repeat(np.arange(groups - 1), sizes) % 2
    tables = []
    for similarity, last in zip(worst_case(groups, neighbors, sizes), (groups - 1, 1), strict=True):
        found = best_connections(similarity, neighbors, rule)
        assert found[0][0] > found[1][0] * (1 + 1e-3)
        tables.append(votes(found[0][1], [*alternating, last % 2], queries, 2))
        solved = published_votes(similarity, neighbors, rule)
        assert [tuple(each) for each in solved] == [tuple(each) for each in found[0][1]]
    moved = abs(tables[0] - tables[1])
    assert moved.sum() == published_sensitivity(queries, 2, neighbors, count).l1 == 2 * neighbors * count


def test_the_example_of_the_reference_page():
    """Mathematics 11: one changed record moved the histogram by 8 where 2 was claimed."""
    before, after = worst_case(2, 1, [3])
    labels = [0, 0, 0, 1]
    tables = [votes(best_connections(each, 1, "max-min")[0][1], labels, 2, 2) for each in (before, after)]
    assert abs(tables[0] - tables[1]).sum() == 8 > vote_sensitivity(2, 2, 1).l1 == 2


@pytest.mark.parametrize("rule", PUBLISHED)
@pytest.mark.parametrize(("count", "queries", "neighbors"), [(4, 2, 1), (4, 3, 1), (3, 3, 2), (2, 4, 3)])
def test_no_replacement_moves_more_than_is_charged(count, queries, neighbors, rule):
    claimed = published_sensitivity(queries, 3, neighbors, count)
    generator = np.random.default_rng(5)
    for _ in range(60):
        similarity = generator.integers(1, 5, size=(count, queries)).astype(float)
        changed = similarity.copy()
        changed[0] = generator.integers(1, 9, size=queries)
        labels, relabeled = generator.integers(0, 3, size=(2, count))
        relabeled[1:] = labels[1:]
        difference = votes(best_connections(similarity, neighbors, rule)[0][1], labels, queries, 3) - votes(
            best_connections(changed, neighbors, rule)[0][1], relabeled, queries, 3
        )
        assert abs(difference).sum() <= claimed.l1
        assert (difference**2).sum() <= claimed.l2_squared
        assert abs(difference).max() <= claimed.linf
        assert (difference.clip(0).max(axis=1) + (-difference).clip(0).max(axis=1)).sum() <= claimed.row_range


@pytest.mark.parametrize("rule", PUBLISHED)
@pytest.mark.parametrize(("count", "queries", "neighbors"), [(7, 2, 1), (6, 3, 1), (4, 4, 2)])
def test_the_solver_finds_connections_as_good_as_the_best(count, queries, neighbors, rule):
    for seed in range(3):
        generator = np.random.default_rng(seed)
        similarity = similarities(generator.normal(size=(count, 2)), generator.normal(size=(queries, 2)))
        solved = published_votes(similarity, neighbors, rule)
        score = np.array([similarity[(solved == each).any(axis=1), each].sum() for each in range(queries)])
        value = score.min() if rule == "max-min" else queries / (1 / score).sum()
        assert value >= 0.97 * best_connections(similarity, neighbors, rule)[0][0]
        assert solved.shape == (count, neighbors)


def test_published_rules_are_charged_for_all_records_and_drown():
    samples, labels = SAMPLES[:20, :2], LABELS[:20] % 2
    queries = np.array([[0, 0], [0, 8], [3, 10]], dtype=np.float32)
    sensitivity = published_sensitivity(3, 2, 1, 20)
    enough = DiscreteLaplaceNoise.for_epsilon(1, int(sensitivity.l1))
    assert float(enough.scale) == 40 > 20

    def answer(mechanism, ceiling=BOTTOMLESS, voting_rule="max-min"):
        holder = VoteHolder([Private(Records(samples[:9], labels[:9])), Private(Records(samples[9:], labels[9:]))],
                            gate(ceiling))  # fmt: skip
        return holder.answer(ask(mechanism, queries, names=("0", "1"), voting_rule=voting_rule)).value

    for rule in PUBLISHED:
        assert answer(EXACT, voting_rule=rule).sum() == 20
        assert answer(enough, Ceiling(1), rule).shape == (3, 2)
        with pytest.raises(ToleranceExceeded, match="l1 changes by 40"):
            answer(DiscreteLaplaceNoise.for_epsilon(1, 2), Ceiling(1), rule)
        with pytest.raises(InvalidInput, match="public only under replace-one"):
            answer(enough, Ceiling(1, adjacency=Adjacency.ADD_REMOVE), rule)
    crowd = OneRecordHolders([Private(Records(samples, labels))], gate())
    with pytest.raises(InvalidInput, match="one-record holders each have their own"):
        crowd.answer(ask(SubsetSelection(6, 1, 1), queries, names=("0", "1"), voting_rule="harmonic"))


@pytest.mark.parametrize(
    ("similarity", "neighbors", "rule", "named"),
    [
        (np.ones((3, 2)), 1, "fair", "rule must be one of"),
        (np.ones((3, 2)), 3, "max-min", "neighbors must be in"),
        (np.zeros((3, 2)), 1, "max-min", "above 0 and finite"),
        (np.ones((2, 3)), 1, "max-min", "one record for each"),
        (np.ones((600, 2)), 1, "harmonic", "at most 1000 pairs"),
    ],
)
def test_what_the_published_rules_cannot_do_is_refused(similarity, neighbors, rule, named):
    with pytest.raises(InvalidInput, match=named):
        published_votes(similarity, neighbors, rule)


def test_published_sensitivity_needs_records():
    with pytest.raises(InvalidInput, match="records must be at least 1"):
        published_sensitivity(3, 2, 1, 0)
