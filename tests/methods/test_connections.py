"""Connections: even ones that cost nothing more, and the published ones at what they really cost."""

from itertools import combinations, product

import numpy as np
import pytest

import tacit
from tacit.catalog import REPRESENTATIONS
from tacit.core.content import content_digest, row_digests
from tacit.core.errors import InvalidInput, RequestConflict, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import Sensitivity, vote_sensitivity
from tacit.experiment.inputs import refuse_own_encoder
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.shuffle.flooding_plan import plan_flooding
from tacit.mechanisms.shuffle.shuffled import Shuffled
from tacit.methods.rknn.connections import (
    PUBLISHED,
    balanced_heights,
    published_connections,
    published_sensitivity,
    similarities,
)
from tacit.methods.rknn.holder import VoteCrowd, VoteHolder
from tacit.methods.rknn.queries import cluster
from tacit.methods.rknn.wire import VoteAsk
from tacit.neighbors import nearest_queries
from tacit.private.gate import Gate
from tacit.private.partition import split_by_class, split_by_dirichlet, split_evenly
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

PARTS = tacit.digits()
SAMPLES, LABELS = PARTS.private_samples, PARTS.private_labels.astype(np.int64)
PUBLIC = PARTS.public_samples.astype(np.float32)
QUERIES = cluster(PUBLIC, 30).centres
HEIGHTS = balanced_heights(PUBLIC, QUERIES)
NAMES = tuple(map(str, range(10)))
# Noise that vanishes, at an absurd price: lets a test see the counts.
EXACT = DiscreteLaplaceNoise("1e-6", 10**6)
BOTTOMLESS = Ceiling(10**14)


def gate(ceiling=BOTTOMLESS):
    return Gate(MemoryLedger({"a": ceiling}), "a", SeededRandomness(1))


def ask(mechanism=EXACT, queries=QUERIES, neighbors=1, names=NAMES, representation=None, **options):
    chosen = representation or Identity(queries.shape[1])
    return VoteAsk(queries, chosen, neighbors, names, "space", mechanism, "labels", "r", **options)


def counts(parts, question, samples=SAMPLES, labels=LABELS):
    held = [Private(Records(samples[rows], labels[rows])) for rows in parts if len(rows)]
    return VoteHolder(held, gate()).answer(question).value


# Balanced by public prices


def spread(samples, queries, neighbors, heights):
    found = nearest_queries(samples, queries, neighbors, heights=heights)
    count = np.bincount(found.ravel(), minlength=len(queries))
    return count.std() / count.mean()


@pytest.mark.parametrize("neighbors", [1, 3])
def test_heights_make_public_counts_even(neighbors):
    heights = balanced_heights(PUBLIC, QUERIES, neighbors)
    assert heights.dtype == np.float32
    assert heights.min() == 0
    halfway = balanced_heights(PUBLIC, QUERIES, neighbors, evenness=0.5)
    plain, half, even = (spread(PUBLIC, QUERIES, neighbors, each) for each in (None, halfway, heights))
    assert even < 0.1 < half < 0.75 * plain


def test_private_votes_become_more_even_where_there_are_enough_public_samples():
    """Prices are learned from about 60 public samples a query; with the 17 of the other tests they carry over badly."""
    queries = cluster(PUBLIC, 8).centres
    heights = balanced_heights(PUBLIC, queries)
    assert spread(SAMPLES, queries, 1, heights) < 0.8 * spread(SAMPLES, queries, 1, None)


def test_heights_where_there_is_nothing_to_balance():
    assert balanced_heights(PUBLIC, QUERIES, 30).tolist() == [0] * 30
    same = np.zeros((4, 2), dtype=np.float32)
    assert np.isfinite(balanced_heights(same, np.zeros((3, 2), dtype=np.float32))).all()
    for wrong in ({"evenness": 0}, {"evenness": 1.5}, {"neighbors": 31}, {"neighbors": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            balanced_heights(PUBLIC, QUERIES, **wrong)


@pytest.mark.parametrize("heights", [None, HEIGHTS], ids=["nearest", "balanced"])
@pytest.mark.parametrize("neighbors", [1, 2])
@pytest.mark.parametrize(
    "parts",
    [
        split_evenly(1000, 1),
        split_evenly(1000, 10),
        split_evenly(1000, 1000),
        split_by_class(LABELS, 10),
        split_by_class(LABELS, 1000),
        split_by_dirichlet(LABELS, 10, 0.1),
        split_by_dirichlet(LABELS, 1000, 0.1),
    ],
    ids=["1", "10", "1000", "10 by class", "1000 by class", "10 by Dirichlet", "1000 by Dirichlet"],
)
def test_counts_are_exactly_the_same_for_every_split(parts, neighbors, heights):
    question = ask(neighbors=neighbors, heights=heights)
    near = nearest_queries(SAMPLES, QUERIES, neighbors, heights=heights)
    expected = np.zeros((30, 10), dtype=np.int64)
    np.add.at(expected, (near, LABELS[:, None]), 1)
    assert np.array_equal(counts(parts, question), expected)


def test_one_record_moves_balanced_counts_by_two():
    question = ask(heights=HEIGHTS)
    before = counts([np.arange(999)], question)
    for row in (0, 500, 998):
        rows = np.arange(999)
        rows[row] = 999
        assert abs(counts([rows], question) - before).sum() <= vote_sensitivity(30, 10, 1).l1 == 2


def test_balanced_votes_are_paid_like_plain_ones():
    enough = PermuteAndFlip.for_epsilon(1, 2)
    holder = VoteHolder([Private(Records(SAMPLES, LABELS))], gate(Ceiling(1)))
    assert holder.answer(ask(enough, heights=HEIGHTS)).value.shape == (30,)
    # The prices are part of the question: the same request with others is another question.
    for other in (None, HEIGHTS + 1):
        with pytest.raises(RequestConflict):
            holder.answer(ask(enough, heights=other))


def test_everything_that_is_asked_is_in_the_digest():
    questions = [ask(), ask(heights=HEIGHTS), ask(heights=0 * HEIGHTS), ask(labels=1), ask(labels=2),
                 ask(connections="max-min"), ask(connections="harmonic"), ask(neighbors=2)]  # fmt: skip
    assert len({each.question for each in questions}) == len(questions)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"heights": HEIGHTS[:3]}, "heights must be one a query"),
        ({"labels": 0}, "labels must be between 1 and the 10 classes"),
        ({"labels": 11}, "labels must be between 1 and the 10 classes"),
        ({"connections": "fair"}, "connections must be one of nearest, max-min, harmonic"),
        ({"connections": "max-min", "heights": HEIGHTS}, "neither heights nor sets"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(options, named):
    with pytest.raises(InvalidInput, match=named):
        ask(**options)


# What data may look like


def test_a_class_that_no_record_has_gets_no_votes():
    rows = np.flatnonzero(LABELS != 7)
    answer = counts([rows], ask(heights=HEIGHTS))
    assert answer.sum() == len(rows)
    assert not answer[:, 7].any()


def test_a_query_that_no_record_is_near_is_answered_all_the_same():
    far = np.concatenate([QUERIES, np.full((1, 64), 1e4, dtype=np.float32)])
    answer = counts([np.arange(1000)], ask(queries=far))
    assert not answer[30].any()
    labels = VoteHolder([Private(Records(SAMPLES, LABELS))], gate()).answer(
        ask(PermuteAndFlip.for_epsilon(1, 2), queries=far)
    )
    assert labels.value.shape == (31,)


def test_features_that_are_not_numbers_are_refused_unpaid():
    samples = SAMPLES.astype(np.float64)
    samples[3, 5] = np.nan
    ledger = MemoryLedger({"a": Ceiling(1)})
    for side, mechanism in (VoteHolder, PermuteAndFlip.for_epsilon(1, 2)), (VoteCrowd, SubsetSelection(300, 1, 1)):
        with pytest.raises(InvalidInput, match="do not fit the question"):
            side([Private(Records(samples, LABELS))], Gate(ledger, "a")).answer(ask(mechanism, heights=HEIGHTS))
    assert ledger.balance("a").payments == 0


@pytest.mark.parametrize("connections", ["nearest", *PUBLISHED])
def test_more_neighbors_than_queries_are_refused(connections):
    with pytest.raises(InvalidInput, match="neighbors"):
        counts([np.arange(30)], ask(neighbors=31, connections=connections))


# The published rules


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
        solved = published_connections(similarity, neighbors, rule)
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
        solved = published_connections(similarity, neighbors, rule)
        score = np.array([similarity[(solved == each).any(axis=1), each].sum() for each in range(queries)])
        value = score.min() if rule == "max-min" else queries / (1 / score).sum()
        assert value >= 0.97 * best_connections(similarity, neighbors, rule)[0][0]
        assert solved.shape == (count, neighbors)


def test_published_rules_are_charged_for_all_records_and_drown():
    samples, labels = SAMPLES[:20, :2], LABELS[:20] % 2
    queries = np.array([[0, 0], [0, 8], [3, 10]], dtype=np.float32)
    moves = published_sensitivity(3, 2, 1, 20)
    enough = DiscreteLaplaceNoise.for_epsilon(1, int(moves.l1))
    assert float(enough.scale) == 40 > 20

    def answer(mechanism, ceiling=BOTTOMLESS, connections="max-min"):
        holder = VoteHolder([Private(Records(samples[:9], labels[:9])), Private(Records(samples[9:], labels[9:]))],
                            gate(ceiling))  # fmt: skip
        return holder.answer(ask(mechanism, queries, names=("0", "1"), connections=connections)).value

    for rule in PUBLISHED:
        assert answer(EXACT, connections=rule).sum() == 20
        assert answer(enough, Ceiling(1), rule).shape == (3, 2)
        with pytest.raises(ToleranceExceeded, match="l1 moves by 40"):
            answer(DiscreteLaplaceNoise.for_epsilon(1, 2), Ceiling(1), rule)
        with pytest.raises(InvalidInput, match="only replace-one"):
            answer(enough, Ceiling(1, adjacency=Adjacency.ADD_REMOVE), rule)
    crowd = VoteCrowd([Private(Records(samples, labels))], gate())
    with pytest.raises(InvalidInput, match="a crowd has none"):
        crowd.answer(ask(SubsetSelection(6, 1, 1), queries, names=("0", "1"), connections="harmonic"))


@pytest.mark.parametrize(
    ("similarity", "neighbors", "rule", "named"),
    [
        (np.ones((3, 2)), 1, "fair", "rule must be one of"),
        (np.ones((3, 2)), 3, "max-min", "neighbors must be in"),
        (np.zeros((3, 2)), 1, "max-min", "above 0 and finite"),
        (np.ones((2, 3)), 1, "max-min", "a record for each"),
        (np.ones((600, 2)), 1, "harmonic", "at most 1000 pairs"),
    ],
)
def test_what_the_published_rules_cannot_do_is_refused(similarity, neighbors, rule, named):
    with pytest.raises(InvalidInput, match=named):
        published_connections(similarity, neighbors, rule)


def test_published_sensitivity_needs_records():
    with pytest.raises(InvalidInput, match="records must be at least 1"):
        published_sensitivity(3, 2, 1, 0)


# An encoder that was fitted on what it encodes


class Remembering:
    """A representation that says what it was fitted on."""

    def __init__(self, samples):
        self.fitted_on = content_digest(row_digests(samples))

    def encode(self, samples):
        return samples.astype(np.float32)


def test_an_encoder_fitted_on_the_records_is_refused_by_who_has_them():
    shuffled = np.random.default_rng(0).permutation(1000)
    with pytest.raises(InvalidInput, match="fitted on these private records"):
        refuse_own_encoder(Remembering(SAMPLES[shuffled]), SAMPLES)
    refuse_own_encoder(Remembering(PUBLIC), SAMPLES)
    refuse_own_encoder(Identity(64), SAMPLES)
    own = {"representation": Remembering(SAMPLES), "queries": 30, "classes": range(10)}
    with pytest.raises(InvalidInput, match="fitted on these private records"):
        tacit.distill((SAMPLES, LABELS), PARTS.public_samples, 1, **own)


@pytest.mark.parametrize("name", ["pca", "standardised", "spectral", "gradients"])
def test_our_own_encoders_give_away_what_they_were_fitted_on(name):
    images = SAMPLES.reshape(-1, 8, 8)
    shuffled = np.random.default_rng(0).permutation(1000)
    with pytest.raises(InvalidInput, match="fitted on these private records"):
        refuse_own_encoder(REPRESENTATIONS[name](images[shuffled], 20), images)
    refuse_own_encoder(REPRESENTATIONS[name](images[:-1], 20), images)


def test_a_holder_does_not_confirm_a_guess_at_its_records():
    """To refuse an encoder that says it was fitted on them would be an answer without noise, as often as asked."""
    parts = [Private(Records(SAMPLES[rows], LABELS[rows])) for rows in split_evenly(1000, 3)]
    for side, mechanism in (VoteHolder, EXACT), (VoteCrowd, SubsetSelection(300, 1, 1)):
        said = [
            side(parts, gate()).answer(ask(mechanism, representation=Remembering(guess))).value
            for guess in (SAMPLES, PUBLIC)
        ]
        assert np.array_equal(*said)


def test_an_account_that_protects_a_whole_holder_is_not_spent_on_votes():
    """All votes of a holder may change with it; those of one record are two."""
    parts = [Private(Records(SAMPLES, LABELS))]
    whole = Gate(MemoryLedger({"a": Ceiling(10**12, unit=Unit.whole_holder())}), "a", SeededRandomness(3))
    for side in (VoteHolder, VoteCrowd):
        with pytest.raises(InvalidInput, match="a whole holder"):
            side(parts, whole)


@pytest.mark.parametrize(
    "mechanism",
    [
        SubsetSelection(2, 1, "1e-6"),
        SubsetSelection(301, 1, 1),
        SubsetSelection(300, 2, 1),
        Separation(VoteShape(10, 30, 1, 1), 1),
        Concatenation(VoteShape(10, 30, 1, 1), 1, corrected=True),
        Shuffled(plan_flooding(1, 1e-6, cells=20, participants=1000), participants=1000),
    ],
)
def test_a_crowd_refuses_a_mechanism_for_other_cells_before_it_looks(mechanism):
    """It would fail where some record has a cell beyond them, and the failure would be an answer without noise."""
    ledger = MemoryLedger({"a": Ceiling(10**12, "1e-3")})
    crowd = VoteCrowd([Private(Records(SAMPLES, LABELS))], Gate(ledger, "a", SeededRandomness(3)))
    with pytest.raises(InvalidInput, match="is not made for 1 of 30 queries"):
        crowd.answer(ask(mechanism))
    assert ledger.balance("a").payments == 0


def test_a_mechanism_that_fails_at_the_gate_does_not_say_on_what():
    for value in (np.array([[1234567]]), np.array([[0, 1234567]])):
        with pytest.raises(ToleranceExceeded, match="nothing was released") as told:
            gate().release(Private(value), Sensitivity(), SubsetSelection(300, 1, 1), "p", "r")
        assert "1234567" not in str(told.value)
        assert told.value.__cause__ is None
        assert told.value.__suppress_context__
