"""Requests and replies have one form each: what was not written so is refused, and a reply says one word or bytes."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tacit.core.codec import decode, encode
from tacit.core.errors import InvalidInput
from tacit.federation.messages import (
    LARGEST_REQUEST,
    REQUEST_STEPS,
    RefusalReason,
    Request,
    Response,
    ToldBudget,
    digest_request,
    read_node_request,
    read_response,
)

HEADS = [b"\x11", b"\x12", b"\x13", b"\x14", b"\x13abcd\x050 1 0"]
numbers = st.sampled_from(["0", "1", "0.5", "0.333334", "1e-06", "1e+06", "12.25"])
told = st.builds(ToldBudget, numbers | st.just("unbounded"), numbers, numbers)
wire_requests = st.builds(
    Request,
    run=st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=20),
    round=st.integers(0, 2**31),
    participants=st.integers(0, 2**31),
    ask=st.binary(max_size=40),
    step=st.sampled_from(REQUEST_STEPS),
    content=st.binary(max_size=40),
    records=st.integers(1, 10**7),
)


@given(wire_request=wire_requests)
def test_requests_come_back(wire_request):
    assert read_node_request(wire_request.to_bytes()) == wire_request


@given(one=wire_requests, other=wire_requests)
def test_requests_that_differ_have_different_digests(one, other):
    assert (digest_request(one.to_bytes()) == digest_request(other.to_bytes())) == (one == other)


@given(request_digest=st.binary(min_size=4, max_size=4), answer=st.binary(max_size=60) | st.sampled_from(RefusalReason))
def test_replies_come_back_and_cost_five_bytes(request_digest, answer):
    reply = Response(request_digest, answer)
    assert read_response(reply.to_bytes()) == reply
    assert len(reply.to_bytes()) == 5 + (1 if isinstance(answer, RefusalReason) else len(answer))


@given(answer=st.binary(max_size=60) | st.sampled_from(RefusalReason), budget=told)
def test_a_reply_may_tell_a_budget(answer, budget):
    reply = Response(b"abcd", answer, budget)
    assert read_response(reply.to_bytes()) == reply


@pytest.mark.parametrize(
    "text",
    [b"", b"0 1", b"0 1 0 0", b"-1 1 0", b"0 unbounded 0", b"nan 1 0", b"01 1 0", b"0 1 <b>", b"0 1 \xff", b"0 1 0\n"],
)
def test_a_budget_that_is_no_three_numbers_is_refused(text):
    for form in (b"\x13", b"\x14"):
        with pytest.raises(InvalidInput, match="a budget in an unknown form"):
            read_response(form + b"abcd" + bytes([len(text)]) + text + b"\x00")


@given(payload=st.binary(max_size=40) | st.builds(bytes.__add__, st.sampled_from(HEADS), st.binary(max_size=12)))
@example(b"")
@example(b"\x11abc")
@example(b"\x12abcd")
@example(b"\x12abcd\x63")
@example(b"\x12abcd\x00\x00")
@example(b"\x13abcd")
@example(b"\x13abcd\x050 1 0")
@example(b"\x14abcd\x050 1 0\x00")
@example(b"TACIT1")
def test_any_bytes_are_a_reply_in_one_way_or_refused(payload):
    try:
        reply = read_response(payload)
    except InvalidInput:
        return
    assert reply.to_bytes() == payload


def test_what_is_no_reply_is_refused_in_words():
    for payload in (b"", b"\x11abc", b"\x10abcd", b"TACIT1", "text", None, bytes(LARGEST_REQUEST + 1)):
        with pytest.raises(InvalidInput, match="the response"):
            read_response(payload)
    for payload in (b"\x12abcd", b"\x12abcd\x63", b"\x12abcd\x00\x00"):
        with pytest.raises(InvalidInput, match="unknown refusal reason"):
            read_response(payload)


def test_reasons_travel_by_places_that_never_change():
    said = [Response(b"abcd", reason).to_bytes()[-1] for reason in RefusalReason]
    assert said == list(range(len(RefusalReason)))
    assert [str(reason) for reason in RefusalReason] == [
        "budget", "method", "mechanism", "purpose", "participants", "classes", "conflict", "question", "failed",
        "delta", "size", "collector",
        "trust", "limit", "approval", "columns", "busy", "canceled", "encoder",
    ]  # fmt: skip


def test_a_request_says_what_is_declared_and_nothing_else():
    fine = decode(Request("r", 1, 2, b"x").to_bytes())
    assert read_node_request(encode(fine)) == Request("r", 1, 2, b"x")
    with pytest.raises(InvalidInput):
        read_node_request(encode(fine | {"more": 1}))


def test_a_request_of_a_later_version_is_refused_by_its_number_and_the_first_says_none():
    fine = decode(Request("r", 1, 2, b"x").to_bytes())
    assert "version" not in fine
    with pytest.raises(InvalidInput, match="the request has version 2 of its format; this Tacit reads up to 1"):
        # Whatever else a later version has.
        read_node_request(encode(fine | {"version": 2, "more": 1}))
    for wrong in (1, 0, -2, 2.0, "2", True, None):
        with pytest.raises(InvalidInput, match="version must be a whole number"):
            read_node_request(encode(fine | {"version": wrong}))


def test_a_request_is_read_strictly():
    assert read_node_request(Request("r", 1, 2, b"x").to_bytes()) == Request("r", 1, 2, b"x")
    fine = {"run": "r", "round": 1, "step": "answer", "participants": 2, "records": 9, "features": []}
    fine |= {"ask": np.zeros(1, np.uint8), "content": np.zeros(0, np.uint8)}
    assert read_node_request(encode(fine)).ask == b"\0"
    for wrong in (
        fine | {"round": -1},
        fine | {"round": True},
        fine | {"records": 0},
        fine | {"features": [1]},
        fine | {"run": "x" * 300},
        fine | {"step": "another"},
        fine | {"ask": np.zeros((1, 1), np.uint8)},
        fine | {"ask": np.zeros(1, np.int64)},
        fine | {"more": 1},
    ):
        with pytest.raises(InvalidInput):
            read_node_request(encode(wrong))
