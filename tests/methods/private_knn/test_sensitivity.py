"""How far votes of the nearest move, counted out on small grids with many ties."""

from fractions import Fraction

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.private_knn import Sampling, SubsampledGNMax, SubsampledScreen
from tacit.methods.private_knn.holder import NeighborHolder, gathered
from tacit.methods.private_knn.wire import NeighborAsk, neighbor_sensitivity
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

CLASSES = ("a", "b", "c")


def ask(queries, neighbors, mechanism=None, **more):
    points = np.asarray(queries, dtype=np.float32)
    return NeighborAsk(
        points, Identity(points.shape[1]), neighbors, CLASSES, "c0ffee", mechanism, "votes", "r-1", **more
    )


def grid(rng, count):
    """Records on a coarse grid, so that ties are common."""
    return rng.integers(0, 3, size=(count, 2)).astype(float), rng.integers(0, 3, size=count)


def counted(question, samples, labels, persons=None):
    voters = gathered(question, Records(samples, labels, persons), persons is not None)
    return np.stack([voters.votes(query, np.arange(voters.voters)) for query in range(len(question.queries))])


@pytest.mark.parametrize("neighbors", [1, 2, 3, 7])
def test_any_two_of_without_with_and_with_another_are_within_the_sensitivity(neighbors):
    rng = np.random.default_rng(neighbors)
    question, moves = ask([[1.0, 1.0]], neighbors), neighbor_sensitivity(neighbors)
    farthest = 0
    for _ in range(150):
        samples, labels = grid(rng, 6)
        own, other = grid(rng, 1), grid(rng, 1)
        place = int(rng.integers(0, 7))
        tables = [counted(question, samples, labels)]
        for sample, label in (own, other):
            with_it = np.insert(samples, place, sample, axis=0), np.insert(labels, place, label)
            tables.append(counted(question, *with_it))
        for one in tables:
            for two in tables:
                assert np.square(one - two).sum() <= moves.l2_squared
                assert np.abs(one - two).max() <= moves.linf
                assert abs(one.max() - two.max()) <= moves.linf
                farthest = max(farthest, int(np.square(one - two).sum()))
    assert farthest == moves.l2_squared == 2


@pytest.mark.parametrize(("neighbors", "records"), [(1, 2), (2, 2), (4, 2), (4, 3)])
def test_a_person_moves_the_votes_as_far_as_its_records_can(neighbors, records):
    rng = np.random.default_rng(10 * neighbors + records)
    question, moves = ask([[1.0, 1.0]], neighbors), neighbor_sensitivity(neighbors, Unit.person("patient", records))
    farthest = 0
    for _ in range(250):
        samples, labels = grid(rng, 6)
        people = np.array(["ada", "ada", "bob", "cyd", "cyd", "dan"])
        tables = [counted(question, samples, labels, people)]
        for size in rng.integers(1, records + 1, size=2):
            near, named = grid(rng, size)
            # A person's records may all be of one class, which moves farthest.
            named[:] = named[0]
            joined = np.concatenate([near, samples]), np.concatenate([named, labels])
            tables.append(counted(question, *joined, np.concatenate([np.repeat("eve", size), people])))
        for one in tables:
            for two in tables:
                assert np.square(one - two).sum() <= moves.l2_squared
                assert np.abs(one - two).max() <= moves.linf
                farthest = max(farthest, int(np.square(one - two).sum()))
    assert farthest == moves.l2_squared == 2 * min(neighbors, records) ** 2


def test_a_distance_does_not_depend_on_who_else_is_there():
    """Sums of a thousand terms round differently in a matrix product, by the company they are in."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(300, 1000)).astype(np.float32) * 10.0 ** rng.integers(-3, 4, size=1000)
    question = ask(rng.normal(size=(1, 1000)), 1)
    voters = gathered(question, Records(samples, np.zeros(300, dtype=int)), persons=False)
    together = voters.distances(0, np.arange(300))
    for size in (1, 2, 7, 33, 128):
        rows = rng.choice(300, size, replace=False)
        assert np.array_equal(voters.distances(0, rows), together[rows])


def test_ties_go_to_the_record_that_stands_first():
    same = np.zeros((4, 1))
    assert counted(ask([[0.0]], 2), same, np.array([1, 2, 0, 0])).tolist() == [[0, 1, 1]]


def test_a_record_that_cannot_be_compared_never_votes():
    samples = np.array([[0.0], [np.nan], [np.nan], [5.0], [0.0]])
    assert counted(ask([[0.0]], 4), samples, np.array([0, 1, 1, 2, 9])).tolist() == [[1, 0, 1]]


@pytest.mark.parametrize("participations", [1, 2, 3])
def test_a_record_moves_as_many_queries_as_it_may_take_part_in(participations):
    rng = np.random.default_rng(participations)
    question = ask(rng.integers(0, 3, size=(8, 2)), 2, reach=np.full(8, 1.0, dtype=np.float32))
    limited, moved = Sampling(Fraction(1), 8, participations), 0
    for _ in range(20):
        samples, labels = grid(rng, 7)

        def table(rows, samples=samples, labels=labels):
            voters = gathered(question, Records(samples[rows], labels[rows]), persons=False)
            called = limited.called(voters, SystemRandomness())
            return np.stack([voters.votes(query, members) for query, members in enumerate(called)])

        for gone in range(7):
            difference = table(np.arange(7)) - table(np.delete(np.arange(7), gone))
            rows = difference.any(axis=1).sum()
            assert rows <= participations
            assert np.square(difference).sum(axis=1).max() <= 2
            moved = max(moved, rows)
    assert moved == participations


def test_a_record_out_of_reach_does_not_vote_and_is_not_touched():
    question = ask([[0.0], [10.0]], 3, reach=np.array([1.0, 1.0], dtype=np.float32))
    voters = gathered(question, Records(np.array([[0.5], [10.0], [4.0]]), np.array([0, 1, 2])), persons=False)
    assert voters.votes(0, np.arange(3)).tolist() == [1, 0, 0]
    assert voters.reached(0).tolist() == [True, False, False]
    assert voters.reached(1).tolist() == [False, True, False]


# What a holder refuses by looking at the question alone


OWN = Private(Records(np.arange(12.0).reshape(6, 2), np.arange(6) % 3, np.arange(6) // 2))


def answered(mechanism, adjacency=Adjacency.REPLACE_ONE, unit=Unit(), queries=2, neighbors=2):  # noqa: B008
    ledger = MemoryLedger({"ada": Ceiling(10**6, "1/10", adjacency=adjacency, unit=unit)})
    holder = NeighborHolder([OWN], Gate(ledger, "ada", SeededRandomness(1)))
    try:
        return holder.answer(ask(np.ones((queries, 2)), neighbors, mechanism)).value.shape
    except (ToleranceExceeded, InvalidInput) as error:
        assert ledger.balance("ada").payments == 0
        return str(error)


REPLACED = {"replace_one": True}


@pytest.mark.parametrize(
    ("mechanism", "more", "said"),
    [
        (SubsampledGNMax("1/2", 9, 2, **REPLACED), {}, (2, 3)),
        (SubsampledScreen("1/2", 9, 1, 2, **REPLACED), {}, (2,)),
        (SubsampledGNMax("1/2", 9, 2, **REPLACED), {"adjacency": Adjacency.ADD_REMOVE}, (2, 3)),
        (SubsampledGNMax("1/2", 9, 2), {"adjacency": Adjacency.ADD_REMOVE}, (2, 3)),
        (SubsampledGNMax("1/2", 9, 2), {}, "accounted under add-remove adjacency, and the account has replace-one"),
        (SubsampledScreen("1/2", 9, 1, 2), {}, "accounted under add-remove adjacency, and the account has replace-one"),
        (SubsampledGNMax("1/2", 9, 3, **REPLACED), {}, "made for 3 queries, and 2 are asked about"),
        (SubsampledGNMax("1/2", 9, 1, **REPLACED), {}, "made for 1 queries, and 2 are asked about"),
        (SubsampledGNMax("1/2", 9, 2, **REPLACED), {"unit": Unit.person("patient", 2)}, "l2_squared changes by 8"),
        (SubsampledGNMax("1/2", 9, 2, 8, **REPLACED), {"unit": Unit.person("patient", 2)}, (2, 3)),
        (SubsampledScreen("1/2", 9, 1, 2, **REPLACED), {"unit": Unit.person("patient", 2)}, "linf changes by 2"),
        (SubsampledScreen("1/2", 9, 1, 2, 4, **REPLACED), {"unit": Unit.person("patient", 2)}, (2,)),
        (SubsampledGNMax("1/2", 9, 2, **REPLACED), {"unit": Unit.whole_holder()}, "not whole holders"),
    ],
)
def test_a_price_that_does_not_count_for_the_account_is_refused_and_nothing_is_charged(mechanism, more, said):
    found = answered(mechanism, **more)
    assert found == said if isinstance(said, tuple) else said in found


def test_a_holder_pays_before_it_looks(monkeypatch):
    """Records whose gathering fails are an electorate of nobody: the question is paid for, and answered with noise."""
    ledger = MemoryLedger({"ada": Ceiling(10**6, "1/10")})
    holder = NeighborHolder([OWN], Gate(ledger, "ada", SeededRandomness(1)))
    monkeypatch.setattr(NeighborHolder, "_gathered", lambda *_: 1 / 0)
    release = holder.answer(ask(np.ones((2, 2)), 2, SubsampledGNMax("1/2", 9, 2, replace_one=True)))
    assert release.value.shape == (2, 3)
    assert ledger.balance("ada").payments == 1


def test_a_person_is_one_voter():
    """All records of a person are called together, and no more of them than the account's unit has."""
    ledger = MemoryLedger({"ada": Ceiling(10**6, "1/10", unit=Unit.person("patient", 2))})
    holder = NeighborHolder([OWN], Gate(ledger, "ada", SeededRandomness(1)))
    crowded = Records(np.arange(14.0).reshape(7, 2), np.arange(7) % 3, np.array([0, 0, 0, 1, 1, 2, 2]))
    voters = holder._gathered(ask(np.ones((2, 2)), 5), [crowded])
    assert voters.voters == 3
    assert np.bincount(voters.voter).tolist() == [2, 2, 2]
    assert voters.votes(0, np.array([1, 2])).sum() == 4
