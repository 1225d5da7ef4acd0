"""An answer comes back as it was and takes few bytes; whatever else is sent is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.release import Receipt, refusal, restored
from tacit.core.spend import (
    Pure,
)
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, RandomizedLabels, Responses
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.fedmd.wire import PredictAsk, PredictionForm
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.question import MOST_RECORDS
from tacit.methods.rknn.wire import VoteAsk
from tacit.wire import ANSWER_BYTES, Price, read_release, release_to_bytes
from tests.wire_samples import CENTRAL, FLOOD, IMAGES, LOCAL, NAMES, ROWS, votes

# One answer of every kind to one question of every kind, and how many bytes it takes besides its receipt.
PAID = Receipt("clinic", "r-1", "labels", Pure(1), "system", 4, "ab" * 32)


def paid(ask, value, **more):
    """A release as a holder's gate makes it."""
    price = Price.of(ask)
    receipt = replace(PAID, request=price.request, purpose=price.purpose, spend=price.spend, **more)
    return restored(value, [receipt.to_json()])


def given_to(ask, value, most):
    """What a holder of at most this many records would send, and what is read of it."""
    payload = release_to_bytes(paid(ask, value), ask, most)
    return payload, read_release(payload, ask, "clinic", most)


def answers():
    """Questions with an honest answer, and what the answer takes."""
    for mechanism, size in zip(LOCAL, (2, 2, 17, 17, 1, 1, 14, 34, 2), strict=True):
        yield votes(mechanism), mechanism.encode(np.array([[0]]), SeededRandomness(1)), size
    for mechanism, size in zip(CENTRAL, (1, 1, 14, 12, 18, 15, 1), strict=True):
        yield (
            TeacherAsk(IMAGES[:4], NAMES, mechanism, "votes", "r-1"),
            mechanism.sample(np.array([[9, 0, 0]] * 4), SeededRandomness(1)),
            size,
        )
    yield LabelAsk(IMAGES[:5], None, RandomizedLabels(10, 5, 1), (3, 1), "labels", "r"), np.array([0, 9, 1, 2, 3]), 3
    responses = Responses(GeneralizedRandomizedResponse(3, 1, 1), 3)
    yield PredictAsk(0, ROWS, PredictionForm("argmax", 3), responses, "00", None, "p", "r"), np.array([0, 2, 1]), 1
    sets = Responses(SubsetSelection(30, 1, 4), 3)
    said = sets.sample(np.array([1, 2, 3]), SeededRandomness(1))
    yield PredictAsk(0, ROWS, PredictionForm("argmax", 30), sets, "00", None, "p", "r"), said, 3
    soft = DiscreteLaplaceNoise(2000, 6000)
    yield PredictAsk(0, ROWS, PredictionForm("softmax", 4), soft, "00", None, "p", "r"), np.full((3, 4), 250), 27
    flood = FLOOD.sample(np.array([[0]]), SeededRandomness(1))
    yield votes(Shuffled(FLOOD, 1000)), flood, len(flood)


ANSWERS = list(answers())


@pytest.mark.parametrize(("ask", "value", "size"), ANSWERS, ids=lambda each: type(each).__name__)
def test_answers_come_back_equal_and_take_few_bytes(ask, value, size):
    payload, again = given_to(ask, value, most=9)
    assert len(payload) == 1 + 8 + size
    assert again.value.dtype == value.dtype
    np.testing.assert_array_equal(again.value, value)
    # The whole digest stays in the holder's ledger.
    assert again.receipts == (replace(paid(ask, value).receipts[0], digest="ab" * 8),)


@pytest.mark.parametrize(("ask", "value", "size"), ANSWERS, ids=lambda each: type(each).__name__)
def test_an_answer_cut_short_or_with_more_behind_it_is_refused(ask, value, size):
    payload, _ = given_to(ask, value, most=9)
    for end in range(1, 9):
        with pytest.raises(InvalidInput, match="no receipt"):
            read_release(payload[:end], ask, "clinic", 9)
    # A crowd may have sent no message, or one more; every other answer has the length that was asked for.
    if not isinstance(ask, VoteAsk):
        for other in (payload[:-1], payload + b"\0"):
            with pytest.raises(InvalidInput):
                read_release(other, ask, "clinic", 9)


@settings(max_examples=300)
@given(data=st.data(), answer=st.sampled_from(ANSWERS))
def test_any_bytes_are_an_answer_in_one_way_or_refused(data, answer):
    ask, value, size = answer
    payload = bytearray(given_to(ask, value, most=9)[0])
    if data.draw(st.booleans()):
        payload = data.draw(st.binary(max_size=9 + 2 * size))
    else:
        for _ in range(data.draw(st.integers(1, 4))):
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        release = read_release(bytes(payload), ask, "clinic", 9)
    except InvalidInput:
        return
    # What was read was written by nobody else in another form, and it is in range.
    assert release_to_bytes(release, ask, 9) == bytes(payload)
    if release.value is not None:
        ask.answer_form(9).require(release.value)


@given(sequence=st.integers(0, 2**60), simulated=st.booleans(), digest=st.binary(min_size=32, max_size=32))
def test_of_a_receipt_travels_what_nobody_else_knows(sequence, simulated, digest):
    ask = votes()
    more = {"sequence": sequence, "randomness": "seeded" if simulated else "system", "digest": digest.hex()}
    payload = release_to_bytes(paid(ask, np.array([0, 1, 2, 0]), **more), ask)
    (receipt,) = read_release(payload, ask, "clinic").receipts
    assert (receipt.sequence, receipt.simulated, receipt.digest) == (sequence, simulated, digest[:8].hex())
    assert len(payload) <= 9 + 8 + 1


def test_a_receipt_for_something_else_is_not_sent():
    ask = votes()
    for wrong in ({"request": "another"}, {"purpose": "another"}, {"spend": Pure("1/100")}):
        receipt = replace(paid(ask, None).receipts[0], **wrong)
        with pytest.raises(InvalidInput, match="a different question"):
            release_to_bytes(restored(np.array([0, 1, 2, 0]), [receipt.to_json()]), ask)
    with pytest.raises(InvalidInput, match="one receipt"):
        release_to_bytes(restored(np.array([0, 1, 2, 0]), [PAID.to_json()] * 2), ask)
    with pytest.raises(InvalidInput, match="one receipt"):
        release_to_bytes(restored(np.array([0, 1, 2, 0]), []), ask)


def test_a_receipts_number_has_one_form():
    ask = votes()
    payload = release_to_bytes(paid(ask, np.array([0, 1, 2, 0])), ask)
    assert read_release(payload, ask, "clinic").receipts[0].sequence == 4
    with pytest.raises(InvalidInput, match="no receipt"):
        read_release(bytes([payload[0] | 0x80, 0]) + payload[1:], ask, "clinic")
    with pytest.raises(InvalidInput, match="no receipt"):
        read_release(b"\xff" * 30, ask, "clinic")


def test_who_may_refuse_says_nothing():
    ask = ANSWERS[len(LOCAL) + len(CENTRAL)][0]
    assert release_to_bytes(refusal(), ask) == b""
    assert read_release(b"", ask, "clinic") == refusal()
    with pytest.raises(InvalidInput, match="no receipt"):
        read_release(b"", votes(), "clinic")


def test_what_is_too_large_is_not_read():
    with pytest.raises(InvalidInput, match="at most"):
        read_release(bytes(ANSWER_BYTES + 1), votes(), "clinic")


def test_a_question_without_a_mechanism_has_no_price():
    ask = PredictAsk(0, ROWS, PredictionForm("argmax", 4), None, "00", None, "p", "r")
    with pytest.raises(InvalidInput, match="the cost of its answer is not known"):
        read_release(bytes(20), ask, "clinic")


def require_answer(ask, value, most_records=MOST_RECORDS):
    ask.answer_form(most_records).require(value)


TRUE_CELLS = np.array([[0], [5], [11]])


@pytest.mark.parametrize("mechanism", LOCAL, ids=lambda each: type(each).__name__)
def test_messages_of_a_crowd_are_answers_and_damaged_ones_are_not(mechanism):
    messages = mechanism.encode(TRUE_CELLS, SeededRandomness(1))
    require_answer(votes(mechanism), messages, most_records=3)
    with pytest.raises(InvalidInput, match="at most 2"):
        require_answer(votes(mechanism), messages, most_records=2)
    for damaged in (
        messages[None],
        messages.astype(np.float64),
        np.full_like(
            messages,
            -1
            if messages.dtype == np.int64 and not isinstance(mechanism, LocalLaplace)
            else np.iinfo(messages.dtype).max,
        ),
    ):
        if isinstance(mechanism, UnaryEncoding) and damaged.shape == messages.shape and damaged.dtype == messages.dtype:
            damaged = np.full_like(messages, 255)
        with pytest.raises(InvalidInput):
            require_answer(votes(mechanism), damaged)


def test_messages_of_shuffled_crowds_are_answers():
    flooded = Shuffled(FLOOD, 1000)
    require_answer(votes(flooded), FLOOD.sample(TRUE_CELLS, SeededRandomness(1)))
    for damaged in ([[12, 1]], [[0, 0]], [[-1, 1]], [[0, 1, 1]]):
        with pytest.raises(InvalidInput):
            require_answer(votes(flooded), np.array(damaged))
    single = Shuffled(SingleMessage(LOCAL[4], 50, "1e-6"), 50)
    require_answer(votes(single), np.array([0, 11]))
    with pytest.raises(InvalidInput):
        require_answer(votes(single), np.array([0, 12]))


@pytest.mark.parametrize("mechanism", CENTRAL, ids=lambda each: type(each).__name__)
def test_answers_of_curators_are_answers_and_damaged_ones_are_not(mechanism):
    ask = TeacherAsk(IMAGES[:4], NAMES, mechanism, "votes", "r-1")
    value = mechanism.sample(np.array([[9, 0, 0]] * 4), SeededRandomness(1))
    require_answer(ask, value, most_records=9)
    extreme = np.full_like(value, 10**6) if value.dtype == np.int64 else value[:2]
    for damaged in (None, value[:3], value.astype(np.float64), "labels", [1, 2], extreme):
        with pytest.raises(InvalidInput):
            require_answer(ask, damaged, most_records=9)


@pytest.mark.parametrize(
    ("ask", "fine", "wrong"),
    [
        (
            LabelAsk(IMAGES[:5], None, RandomizedLabels(10, 5, 1), (3, 1), "labels", "r"),
            np.array([0, 9, 1, 2, 3]),
            np.array([0, 10, 1, 2, 3]),
        ),
        (
            PredictAsk(0, ROWS, PredictionForm("argmax", 4), None, "00", None, "p", "r"),
            np.array([0, 3, 1]),
            np.array([0, 4, 1]),
        ),
        (
            PredictAsk(0, ROWS, PredictionForm("softmax", 4), None, "00", None, "p", "r"),
            np.full((3, 4), 250),
            np.full((3, 4), 1001),
        ),
        (
            PredictAsk(0, ROWS, PredictionForm("logits", 4), None, "00", None, "p", "r"),
            np.full((3, 4), -8000),
            np.full((3, 4), -8001),
        ),
        (
            PredictAsk(
                0,
                ROWS,
                PredictionForm("argmax", 3),
                Responses(GeneralizedRandomizedResponse(3, 1, 1), 3),
                "00",
                None,
                "p",
                "r",
            ),
            np.array([0, 2, 1]),
            np.array([0, 2]),
        ),
    ],
    ids=["privatekt", "argmax", "softmax", "logits", "responses"],
)
def test_answers_of_other_methods(ask, fine, wrong):
    require_answer(ask, fine)
    for damaged in (wrong, fine.astype(np.float32), np.full(fine.shape, np.nan)):
        with pytest.raises(InvalidInput):
            require_answer(ask, damaged)
