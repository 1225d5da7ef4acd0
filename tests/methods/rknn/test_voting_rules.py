"""Connections of records with queries: plain ones, and even ones that cost nothing more."""

import numpy as np
import pytest

import tacit
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, RequestConflict, ToleranceExceeded, TooFewParticipants
from tacit.core.guarantee import Unit
from tacit.core.randomness import SeededRandomness
from tacit.core.samples import content_digest, row_digests
from tacit.core.sensitivity import Sensitivity, vote_sensitivity
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.rknn.holder import OneRecordHolders, VoteHolder, made_up_cells
from tacit.methods.rknn.queries import cluster
from tacit.methods.rknn.voting_rules import (
    PUBLISHED,
    balanced_offsets,
)
from tacit.methods.rknn.wire import VoteAsk
from tacit.neighbors import nearest_queries
from tacit.private.gate import Gate
from tacit.private.partition import split_by_class, split_by_dirichlet, split_evenly
from tacit.private.records import Private, Records
from tacit.representations.registry import fit_representation
from tacit.representations.scaled import Identity
from tacit.runs.inputs import refuse_own_encoder

PARTS = tacit.digits()
SAMPLES, LABELS = PARTS.private_samples, PARTS.private_labels.astype(np.int64)
PUBLIC = PARTS.public_samples.astype(np.float32)
QUERIES = cluster(PUBLIC, 30).centers
OFFSETS = balanced_offsets(PUBLIC, QUERIES)
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


def spread(samples, queries, neighbors, query_offsets):
    found = nearest_queries(samples, queries, neighbors, query_offsets=query_offsets)
    count = np.bincount(found.ravel(), minlength=len(queries))
    return count.std() / count.mean()


@pytest.mark.parametrize("neighbors", [1, 3])
def test_offsets_make_public_counts_even(neighbors):
    query_offsets = balanced_offsets(PUBLIC, QUERIES, neighbors)
    assert query_offsets.dtype == np.float32
    assert query_offsets.min() == 0
    halfway = balanced_offsets(PUBLIC, QUERIES, neighbors, evenness=0.5)
    plain, half, even = (spread(PUBLIC, QUERIES, neighbors, each) for each in (None, halfway, query_offsets))
    assert even < 0.1 < half < 0.75 * plain


def test_private_votes_become_more_even_where_there_are_enough_public_samples():
    """Prices are learned from about 60 public samples a query; with the 17 of the other tests they carry over badly."""
    queries = cluster(PUBLIC, 8).centers
    query_offsets = balanced_offsets(PUBLIC, queries)
    assert spread(SAMPLES, queries, 1, query_offsets) < 0.8 * spread(SAMPLES, queries, 1, None)


def test_offsets_where_there_is_nothing_to_balance():
    assert balanced_offsets(PUBLIC, QUERIES, 30).tolist() == [0] * 30
    same = np.zeros((4, 2), dtype=np.float32)
    assert np.isfinite(balanced_offsets(same, np.zeros((3, 2), dtype=np.float32))).all()
    for wrong in ({"evenness": 0}, {"evenness": 1.5}, {"neighbors": 31}, {"neighbors": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            balanced_offsets(PUBLIC, QUERIES, **wrong)


@pytest.mark.parametrize("query_offsets", [None, OFFSETS], ids=["nearest", "balanced"])
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
def test_counts_are_exactly_the_same_for_every_split(parts, neighbors, query_offsets):
    question = ask(neighbors=neighbors, query_offsets=query_offsets)
    near = nearest_queries(SAMPLES, QUERIES, neighbors, query_offsets=query_offsets)
    expected = np.zeros((30, 10), dtype=np.int64)
    np.add.at(expected, (near, LABELS[:, None]), 1)
    assert np.array_equal(counts(parts, question), expected)


def test_one_record_moves_balanced_counts_by_two():
    question = ask(query_offsets=OFFSETS)
    before = counts([np.arange(999)], question)
    for row in (0, 500, 998):
        rows = np.arange(999)
        rows[row] = 999
        assert abs(counts([rows], question) - before).sum() <= vote_sensitivity(30, 10, 1).l1 == 2


def test_balanced_votes_are_paid_like_plain_ones():
    enough = PermuteAndFlip.for_epsilon(1, 2)
    holder = VoteHolder([Private(Records(SAMPLES, LABELS))], gate(Ceiling(1)))
    assert holder.answer(ask(enough, query_offsets=OFFSETS)).value.shape == (30,)
    # The prices are part of the question: the same request with others is another question.
    for other in (None, OFFSETS + 1):
        with pytest.raises(RequestConflict):
            holder.answer(ask(enough, query_offsets=other))


def test_everything_that_is_asked_is_in_the_digest():
    questions = [ask(), ask(query_offsets=OFFSETS), ask(query_offsets=0 * OFFSETS), ask(labels=1), ask(labels=2),
                 ask(voting_rule="max-min"), ask(voting_rule="harmonic"), ask(neighbors=2)]  # fmt: skip
    assert len({each.question for each in questions}) == len(questions)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"query_offsets": OFFSETS[:3]}, "query_offsets must be one per query"),
        ({"labels": 0}, "labels must be between 1 and the 10 classes"),
        ({"labels": 11}, "labels must be between 1 and the 10 classes"),
        ({"voting_rule": "fair"}, "voting_rule must be one of nearest, max-min, harmonic"),
        ({"voting_rule": "max-min", "query_offsets": OFFSETS}, "neither query offsets nor sets"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(options, named):
    with pytest.raises(InvalidInput, match=named):
        ask(**options)


# What data may look like


def test_a_class_that_no_record_has_gets_no_votes():
    rows = np.flatnonzero(LABELS != 7)
    answer = counts([rows], ask(query_offsets=OFFSETS))
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


def test_a_record_that_is_not_numbers_is_an_empty_vote_and_paid_as_any_other():
    samples = SAMPLES.astype(np.float64)
    samples[3, 5] = np.nan
    kept = np.delete(np.arange(len(LABELS)), 3)
    votes = [
        VoteHolder([Private(own)], gate()).answer(ask(EXACT, query_offsets=OFFSETS)).value
        for own in (Records(samples, LABELS), Records(SAMPLES[kept], LABELS[kept]))
    ]
    assert np.array_equal(*votes)
    # In a crowd it sends a message like everybody, which says nothing.
    crowd = OneRecordHolders([Private(Records(samples, LABELS))], gate())
    assert len(crowd.answer(ask(SubsetSelection(300, 1, 1), query_offsets=OFFSETS)).value) == len(LABELS)


def test_a_record_that_an_encoder_fails_on_takes_no_other_record_with_it():
    """One record moves its own vote; if it could make all others empty it would move them all."""

    class Choosy(Identity):
        def encode(self, samples):
            if (samples == 77).any():
                raise ValueError("no such sample")
            return super().encode(samples)

    samples = SAMPLES.astype(np.float64)
    samples[3] = 77
    kept = np.delete(np.arange(len(LABELS)), 3)
    held = VoteHolder([Private(Records(samples, LABELS))], gate())
    votes = held.answer(ask(representation=Choosy(QUERIES.shape[1]))).value
    assert np.array_equal(votes, counts([kept], ask()))


def test_empty_votes_of_a_crowd_are_not_all_alike():
    """Who cannot vote sends what others might: a fixed cell would say of a record that it is empty."""
    nobody = np.full((60, QUERIES.shape[1]), np.nan)
    crowd = OneRecordHolders([Private(Records(nobody, np.zeros(60, dtype=np.int64)))], gate())
    cells = crowd.answer(ask(GeneralizedRandomizedResponse(300, 1, 200))).value
    assert len(np.unique(cells)) > 30


def test_a_crowd_that_is_too_small_for_its_price_is_refused_before_payment():
    ledger = MemoryLedger({"a": Ceiling(10**12, "1e-3")})
    few = [Private(Records(SAMPLES[:999], LABELS[:999]))]
    crowd = OneRecordHolders(few, Gate(ledger, "a", SeededRandomness(3)))
    with pytest.raises(TooFewParticipants, match="999 participants answered"):
        crowd.answer(
            ask(Shuffled(SingleMessage(GeneralizedRandomizedResponse(300, 1, 1), 1000, "1e-6"), participants=1000))
        )
    assert ledger.balance("a").payments == 0


def test_what_an_empty_vote_sends_among_a_crowd_is_uniform():
    made = made_up_cells(ask(neighbors=2), 3000, SeededRandomness(1))
    near, labels = made // 10, made % 10
    assert (near[:, 0] < near[:, 1]).all()
    assert (labels[:, 0] == labels[:, 1]).all()
    assert np.bincount(near.ravel(), minlength=30).min() > 100
    assert np.bincount(labels[:, 0], minlength=10).min() > 200


@pytest.mark.parametrize("voting_rule", ["nearest", *PUBLISHED])
def test_more_neighbors_than_queries_are_refused(voting_rule):
    with pytest.raises(InvalidInput, match="neighbors"):
        counts([np.arange(30)], ask(neighbors=31, voting_rule=voting_rule))


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


@pytest.mark.parametrize("name", ["pca", "standardized", "spectral", "gradients"])
def test_our_own_encoders_give_away_what_they_were_fitted_on(name):
    images = SAMPLES.reshape(-1, 8, 8)
    shuffled = np.random.default_rng(0).permutation(1000)
    with pytest.raises(InvalidInput, match="fitted on these private records"):
        refuse_own_encoder(fit_representation(name, images[shuffled], 20)[1], images)
    refuse_own_encoder(fit_representation(name, images[:-1], 20)[1], images)


def test_a_holder_does_not_confirm_a_guess_at_its_records():
    """To refuse an encoder that says it was fitted on them would be an answer without noise, as often as asked."""
    parts = [Private(Records(SAMPLES[rows], LABELS[rows])) for rows in split_evenly(1000, 3)]
    for side, mechanism in (VoteHolder, EXACT), (OneRecordHolders, SubsetSelection(300, 1, 1)):
        said = [
            side(parts, gate()).answer(ask(mechanism, representation=Remembering(guess))).value
            for guess in (SAMPLES, PUBLIC)
        ]
        assert np.array_equal(*said)


def test_an_account_that_protects_a_whole_holder_is_not_spent_on_votes():
    """All votes of a holder may change with it; those of one record are two."""
    parts = [Private(Records(SAMPLES, LABELS))]
    whole = Gate(MemoryLedger({"a": Ceiling(10**12, unit=Unit.whole_holder())}), "a", SeededRandomness(3))
    for side in (VoteHolder, OneRecordHolders):
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
        Shuffled(plan_noise_messages(1, 1e-6, cells=20, participants=1000), participants=1000),
    ],
)
def test_a_crowd_refuses_a_mechanism_for_other_cells_before_it_looks(mechanism):
    """It would fail where some record has a cell beyond them, and the failure would be an answer without noise."""
    ledger = MemoryLedger({"a": Ceiling(10**12, "1e-3")})
    crowd = OneRecordHolders([Private(Records(SAMPLES, LABELS))], Gate(ledger, "a", SeededRandomness(3)))
    with pytest.raises(InvalidInput, match="is not made for 1 of 30 queries"):
        crowd.answer(ask(mechanism))
    assert ledger.balance("a").payments == 0


def test_a_mechanism_that_fails_at_the_gate_does_not_say_on_what():
    for value in (np.array([[1234567]]), np.array([[0, 1234567]])):
        with pytest.raises(ToleranceExceeded, match="nothing was released") as told:
            # Nobody's cells are no better: then, and only then, nothing can be released.
            gate().release(Private(value), value.copy, Sensitivity(), SubsetSelection(300, 1, 1), "p", "r")
        assert "1234567" not in str(told.value)
        assert told.value.__cause__ is None
        assert told.value.__context__ is None
