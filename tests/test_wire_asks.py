"""What is asked can be read and means the same; what was not written by us is refused, and nothing else happens."""

import contextlib
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.core.codec import MAGIC, decode, encode
from tacit.core.errors import InvalidInput
from tacit.methods.fedmd.wire import Feedback, PartyVoteAsk, PredictAsk, PredictionForm
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity
from tacit.wire import ask_to_bytes, read_ask
from tests.wire_samples import (
    ASKS,
    CENTRAL,
    hostile_values,
    raw,
)


def same(one, other):
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__"):
        names = one.__dataclass_fields__
        return type(one) is type(other) and all(same(getattr(one, each), getattr(other, each)) for each in names)
    return one == other


def test_a_question_of_a_later_version_is_refused_by_its_number():
    fields = decode(ask_to_bytes(ASKS[0]))
    assert "version" not in fields
    with pytest.raises(InvalidInput, match="the question has version 2 of its format; this Tacit reads up to 1"):
        read_ask(encode(fields | {"version": 2, "more": 1}))
    with pytest.raises(InvalidInput, match="version"):
        read_ask(encode(fields | {"version": 1}))


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_questions_come_back_equal(ask):
    payload = ask_to_bytes(ask)
    again = read_ask(payload)
    assert same(again, ask)
    assert ask_to_bytes(again) == payload
    if not isinstance(ask, Feedback):
        assert again.question == ask.question


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_a_question_with_one_more_field_is_refused(ask):
    with pytest.raises(InvalidInput, match="unknown field"):
        read_ask(encode(decode(ask_to_bytes(ask)) | {"more": 1}))


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_a_question_without_one_of_its_fields_is_refused(ask):
    fields = decode(ask_to_bytes(ask))
    # Without a bound on sets it is the question about single labels, which never had that field.
    for name in fields.keys() - {"labels"}:
        with pytest.raises(InvalidInput):
            read_ask(encode({key: value for key, value in fields.items() if key != name}))


@settings(max_examples=300)
@given(data=st.data(), ask=st.sampled_from(ASKS))
def test_a_question_with_any_field_spoiled_gives_a_question_or_is_refused(data, ask):
    fields = decode(ask_to_bytes(ask))
    name = data.draw(st.sampled_from(sorted(fields)))
    inner = fields[name]
    if isinstance(inner, dict) and data.draw(st.booleans()):
        deeper = data.draw(st.sampled_from(sorted(inner)))
        fields[name] = inner | {deeper: data.draw(hostile_values)}
    else:
        fields[name] = data.draw(hostile_values)
    with contextlib.suppress(InvalidInput):
        assert type(read_ask(encode(fields))).__name__.endswith(("Ask", "Feedback"))


@settings(max_examples=300)
@given(data=st.data(), ask=st.sampled_from(ASKS))
def test_flipped_bytes_give_a_question_or_are_refused(data, ask):
    payload = bytearray(ask_to_bytes(ask))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidInput):
        read_ask(bytes(payload))


@given(st.binary(max_size=200))
@example(raw({"array": "<f4", "shape": [0, 10**30]}))
@example(raw({"array": "<f4", "shape": [0, 2**62, 2**62]}))
@example(raw({"array": "<f4", "shape": [0] * 99}))
@example(raw(b"[" * 100_000))
@example(raw(b"1" * 5000))
@example(raw(b"NaN"))
@example(raw(b'{"items":{"ask":"rknn-votes","ask":"rknn-votes"}}'))
@example(raw(b'{"items": {}}'))
@example(raw(b'"\\ud800"'))
@example(MAGIC + struct.pack("<Q", 2**63) + b"{}")
def test_any_bytes_are_refused(payload):
    with pytest.raises(InvalidInput):
        read_ask(payload)
    with pytest.raises(InvalidInput):
        read_ask(MAGIC + payload)


def test_a_message_has_one_form():
    payload = ask_to_bytes(ASKS[0])
    size = struct.unpack("<Q", payload[6:14])[0]
    head, body = payload[14 : 14 + size], payload[14 + size :]
    assert read_ask(raw(head, body))
    with pytest.raises(InvalidInput, match="form that the encoder writes"):
        read_ask(raw(b" " + head, body))
    with pytest.raises(InvalidInput, match="form that the encoder writes"):
        read_ask(raw(head.replace(b'"shape":[4,5]', b'"shape":[4,5],"note":1'), body))


def test_what_is_too_large_is_not_read():
    payload = ask_to_bytes(ASKS[0])
    with pytest.raises(InvalidInput, match="at most 100 bytes"):
        read_ask(payload, most=100)


def test_a_hostile_head_takes_little_memory():
    hostile = raw(b"[" + b"[]," * 10**5 + b"1]")
    huge = raw({"array": "<f8", "shape": [10**9]})
    tracemalloc.start()
    for payload in (hostile, huge, raw(b" " * 2**22)):
        with pytest.raises(InvalidInput):
            read_ask(payload)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * len(hostile) + 2**23


@pytest.mark.parametrize(
    "ask",
    [
        VoteAsk(
            np.zeros((3000, 1), dtype=np.float32),
            Identity(1),
            1,
            tuple(map(str, range(9000))),
            "",
            CENTRAL[0],
            "p",
            "r",
        ),
        PartyVoteAsk(np.zeros((300, 1), dtype=np.float32), Identity(1), 100_000, CENTRAL[0], "00", "p", "r"),
        TeacherAsk(np.zeros((3000, 1)), tuple(map(str, range(9000))), CENTRAL[0], "p", "r"),
        PredictAsk(0, np.zeros(300, dtype=np.int64), PredictionForm("argmax", 100_000), None, "00", None, "p", "r"),
    ],
    ids=lambda ask: type(ask).__name__,
)
def test_a_short_question_about_a_huge_table_is_refused(ask):
    with pytest.raises(InvalidInput, match="a table of at most"):
        read_ask(ask_to_bytes(ask))
