"""Records with sets of labels: what is counted, what it may cost, and what is read out of it."""

import numpy as np
import pytest

import tacit
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, ToleranceExceeded
from tacit.core.guarantee import Adjacency
from tacit.core.protocols import Estimates
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import vote_sensitivity
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.choices import choose
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.methods.rknn.holder import OneRecordHolders, VoteHolder, filled_sets
from tacit.methods.rknn.multilabel import SetCountReader, SetMessageReader, label_chances
from tacit.methods.rknn.posterior import Noise
from tacit.methods.rknn.queries import cluster
from tacit.methods.rknn.voting_rules import balanced_offsets
from tacit.methods.rknn.wire import VoteAsk
from tacit.neighbors import nearest_queries
from tacit.private.gate import Gate
from tacit.private.partition import split_evenly
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

PARTS = tacit.digits()
SAMPLES = PARTS.private_samples
DIGITS = PARTS.private_labels.astype(np.int64)
# Even, at least five, with a loop: none for 1 and 3, all three for 6 and 8.
SETS = np.column_stack([DIGITS % 2 == 0, DIGITS >= 5, np.isin(DIGITS, [0, 6, 8, 9])])
PUBLIC = PARTS.public_samples.astype(np.float32)
QUERIES = cluster(PUBLIC, 12).centers
EXACT = DiscreteLaplaceNoise("1e-6", 10**3)
NAMES = ("even", "large", "loop")


def ask(mechanism=EXACT, neighbors=1, labels=3, query_offsets=None):
    return VoteAsk(QUERIES, Identity(64), neighbors, NAMES, "", mechanism, "sets", "r", query_offsets, labels)


def gate(ceiling=None):
    return Gate(MemoryLedger({"a": ceiling or Ceiling(10**12)}), "a", SeededRandomness(3))


def expected(neighbors, query_offsets=None):
    near = nearest_queries(SAMPLES, QUERIES, neighbors, query_offsets=query_offsets)
    table = np.zeros((12, 4), dtype=np.int64)
    for row, queries in enumerate(near):
        table[queries, :3] += SETS[row]
        table[queries, 3] += 1
    return table


@pytest.mark.parametrize("query_offsets", [None, balanced_offsets(PUBLIC, QUERIES)], ids=["nearest", "balanced"])
@pytest.mark.parametrize("neighbors", [1, 2])
@pytest.mark.parametrize("holders", [1, 10, 1000])
def test_a_curator_counts_every_label_and_the_voters(holders, neighbors, query_offsets):
    parts = [Private(Records(SAMPLES[rows], SETS[rows])) for rows in split_evenly(1000, holders)]
    counts = VoteHolder(parts, gate()).answer(ask(neighbors=neighbors, query_offsets=query_offsets)).value
    assert np.array_equal(counts, expected(neighbors, query_offsets))
    assert counts[:, 3].sum() == 1000 * neighbors


@pytest.mark.parametrize(("adjacency", "needed"), [(Adjacency.REPLACE_ONE, 8), (Adjacency.ADD_REMOVE, 4)])
def test_the_voters_are_paid_for_too(adjacency, needed):
    ceiling = Ceiling(1, adjacency=adjacency)
    assert vote_sensitivity(12, 3, 1, 3, voters=True, replace=adjacency is Adjacency.REPLACE_ONE).l1 == needed
    records = [Private(Records(SAMPLES, SETS))]
    enough = DiscreteLaplaceNoise.for_epsilon(1, needed)
    assert VoteHolder(records, gate(ceiling)).answer(ask(enough)).value.shape == (12, 4)
    with pytest.raises(ToleranceExceeded, match=f"l1 changes by {needed}"):
        VoteHolder(records, gate(ceiling)).answer(ask(DiscreteLaplaceNoise.for_epsilon(1, needed - 1)))


def test_replacing_a_record_moves_no_more_than_is_charged():
    def counts(rows, sets):
        return VoteHolder([Private(Records(SAMPLES[rows], sets[rows]))], gate()).answer(ask(neighbors=2)).value

    rows = np.arange(50)
    before = counts(rows, SETS)
    furthest = 0
    for other in range(50, 80):
        moved = abs(counts(np.append(rows[:-1], other), SETS) - before)
        furthest = max(furthest, moved.sum())
        assert moved.max() <= 1
    assert 8 < furthest <= vote_sensitivity(12, 3, 2, 3, voters=True).l1 == 16


def test_whether_a_set_is_larger_than_allowed_cannot_be_found_out_for_nothing():
    """Of a larger set the first labels vote; a refusal would have answered, without noise and unpaid."""
    cut = SETS & (np.cumsum(SETS, axis=1) <= 2)
    assert (cut != SETS).any()
    for side, mechanism in ((VoteHolder, EXACT), (OneRecordHolders, choose(12 * 5, 2, 1).mechanism)):
        said = [
            side([Private(Records(SAMPLES, sets))], gate()).answer(ask(mechanism, labels=2)) for sets in (SETS, cut)
        ]
        assert np.array_equal(said[0].value, said[1].value)


def test_records_without_sets_of_these_classes_are_refused_without_a_word():
    one_each = Records(SAMPLES, DIGITS % 3)
    for records, question in (
        (one_each, ask()),
        (Records(SAMPLES, SETS[:, :2]), ask()),
        (Records(SAMPLES, SETS), ask(labels=None)),
    ):
        with pytest.raises(InvalidInput, match="nothing was charged"):
            VoteHolder([Private(records)], gate()).answer(question)
    with pytest.raises(InvalidInput, match="nothing was charged"):
        OneRecordHolders([Private(Records(SAMPLES, SETS))], gate()).answer(ask(choose(36, 1, 1).mechanism, labels=None))


def test_records_take_class_indices_or_a_table_of_bool():
    assert Records(SAMPLES, SETS).take(np.array([3, 5])).labels.shape == (2, 3)
    with pytest.raises(InvalidInput, match="table of bool"):
        Records(SAMPLES, SETS.astype(int))


def test_filled_sets_are_all_of_one_size_and_tell_sets_apart():
    every = np.array([[bool(code >> bit & 1) for bit in range(3)] for code in range(8)])
    filled = filled_sets(every, 3)
    assert filled.shape == (8, 3)
    assert (np.diff(filled, axis=1) > 0).all()
    assert len({tuple(row) for row in filled}) == 8
    assert [sorted(row[row < 3]) for row in filled] == [list(np.flatnonzero(row)) for row in every]


def crowd_mechanisms(neighbors, epsilon):
    shape = VoteShape(12, 6, neighbors, 3)
    yield from (
        each.mechanism
        for each in choose(shape.cells, shape.ones, epsilon).alternatives
        if each.name != "discrete Laplace"  # its noise never vanishes altogether
    )
    yield Separation(shape, 2 * epsilon)
    yield Concatenation(shape, epsilon, corrected=True)


@pytest.mark.parametrize("neighbors", [1, 2])
def test_a_crowd_fills_its_sets_up_and_its_messages_decode_to_the_counts(neighbors):
    """At a huge ε the decoded counts are nearly the exact ones, whatever the mechanism."""
    exact = expected(neighbors)
    for mechanism in crowd_mechanisms(neighbors, 40):
        crowd = OneRecordHolders([Private(Records(SAMPLES, SETS))], gate())
        messages = crowd.answer(ask(mechanism, neighbors)).value
        counts = mechanism.decode(messages).counts.reshape(12, 6)
        spread = 6 * np.sqrt(1000 * max(mechanism.variance_zero, mechanism.variance_one))
        if isinstance(mechanism, Concatenation):
            continue  # its error on joint cells does not vanish; that it answers is all that is asked of it
        assert abs(counts[:, :3] - exact[:, :3]).max() <= max(40, spread), type(mechanism).__name__
        assert abs(counts.sum(axis=1) / 3 - exact[:, 3]).max() <= max(40, spread), type(mechanism).__name__


# Reading


def test_without_noise_chances_are_shares():
    counts = expected(1)
    chances = SetCountReader(Noise("laplace", 0.05))(counts).chances
    assert abs(chances - counts[:, :3] / counts[:, 3:]).max() < 0.04


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_chances_are_nearer_to_the_truth_than_division(law):
    generator = np.random.default_rng(0)
    voters = generator.integers(5, 80, size=400)
    shares = generator.choice([0.02, 0.1, 0.9, 0.97], size=(400, 3))
    draw = generator.laplace if law == "laplace" else generator.normal
    counts = np.rint(voters[:, None] * shares + draw(scale=8, size=(400, 3))).astype(int)
    seen = np.rint(voters + draw(scale=8, size=400)).astype(int)
    noise = Noise(law, 8)
    chances = label_chances(counts, seen, noise, noise)
    divided = np.clip(counts / np.maximum(seen, 1)[:, None], 0, 1)
    assert ((chances - shares) ** 2).mean() < ((divided - shares) ** 2).mean()
    assert 0 <= chances.min() <= chances.max() <= 1
    # What is gained is how sure one may be; yes or no is decided about as well by division.
    right, divided_right = (((each >= 0.5) == (shares > 0.5)).mean() for each in (chances, divided))
    assert right > divided_right - 0.02


def test_nothing_seen_is_nothing_known():
    chances = label_chances(np.zeros((5, 2)), np.zeros(5), Noise("laplace", 20), Noise("laplace", 20))
    assert np.isfinite(chances).all()
    assert chances.min() > 0.05


def test_the_votes_of_a_crowd_tell_its_voters():
    """Every record has exactly two votes in its query, made-up ones included, so 80 votes are 40 voters."""
    counts = np.array([[38.0, 2, 36, 4], [1, 1, 38, 40]])
    reader = SetMessageReader(lambda messages: Estimates(counts.ravel(), np.ones(8)), classes=2, labels=2)
    assert reader(np.zeros(1)).present.tolist() == [[True, False], [False, False]]


def test_counts_without_voters_are_refused():
    with pytest.raises(InvalidInput, match="one number of voters per row"):
        label_chances(np.zeros((3, 2)), np.zeros(2), Noise("laplace", 1), Noise("laplace", 1))
