"""Letters and replies have one form each: what was not written so is refused, and a reply says one word or bytes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput
from tacit.exchange.letters import LARGEST, STEPS, Letter, Reason, Reply, read_letter, read_reply, ticket_of

HEADS = [b"\x11", b"\x12"]
letters = st.builds(
    Letter,
    run=st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=20),
    round=st.integers(0, 2**31),
    participants=st.integers(0, 2**31),
    ask=st.binary(max_size=40),
    step=st.sampled_from(STEPS),
    content=st.binary(max_size=40),
    records=st.integers(1, 10**7),
)


@given(letter=letters)
def test_letters_come_back(letter):
    assert read_letter(letter.to_bytes()) == letter


@given(one=letters, other=letters)
def test_letters_that_differ_have_different_tickets(one, other):
    assert (ticket_of(one.to_bytes()) == ticket_of(other.to_bytes())) == (one == other)


@given(ticket=st.binary(min_size=4, max_size=4), answer=st.binary(max_size=60) | st.sampled_from(Reason))
def test_replies_come_back_and_cost_five_bytes(ticket, answer):
    reply = Reply(ticket, answer)
    assert read_reply(reply.to_bytes()) == reply
    assert len(reply.to_bytes()) == 5 + (1 if isinstance(answer, Reason) else len(answer))


@given(payload=st.binary(max_size=40) | st.builds(bytes.__add__, st.sampled_from(HEADS), st.binary(max_size=12)))
@example(b"")
@example(b"\x11abc")
@example(b"\x12abcd")
@example(b"\x12abcd\x63")
@example(b"\x12abcd\x00\x00")
@example(b"TACIT1")
def test_any_bytes_are_a_reply_in_one_way_or_refused(payload):
    try:
        reply = read_reply(payload)
    except InvalidInput:
        return
    assert reply.to_bytes() == payload


def test_what_is_no_reply_is_refused_in_words():
    for payload in (b"", b"\x11abc", b"\x10abcd", b"TACIT1", "text", None, bytes(LARGEST + 1)):
        with pytest.raises(InvalidInput, match="the reply"):
            read_reply(payload)
    for payload in (b"\x12abcd", b"\x12abcd\x63", b"\x12abcd\x00\x00"):
        with pytest.raises(InvalidInput, match="no reason that is known"):
            read_reply(payload)


def test_reasons_travel_by_places_that_never_change():
    said = [Reply(b"abcd", reason).to_bytes()[-1] for reason in Reason]
    assert said == list(range(len(Reason)))
    assert [str(reason) for reason in Reason] == [
        "budget", "method", "mechanism", "purpose", "participants", "classes", "conflict", "question", "failed"
    ]  # fmt: skip
