"""Messages and tokens: only what was made for the question is read, and a token cannot be made up."""

import pytest

from tacit.core.errors import InvalidInput
from tacit.federation.intake.messages import (
    DeviceMessage,
    IntakeRefusal,
    IntakeRefused,
    double_box,
    issue_tokens,
    message_bytes,
    open_outer_box,
    read_device_message,
)
from tacit.federation.keys import unseal
from tests.federation.intake.questions import COORDINATOR, SHUFFLER, local_question, sealed_question

ID = b"t" * 16


def refused(body, question, secret=None):
    with pytest.raises(IntakeRefused) as found:
        read_device_message(body, question, secret)
    return found.value.reason


def test_a_message_comes_back_as_it_was_and_all_are_equally_long():
    question = local_question()
    body = DeviceMessage(ID, b"\7").to_bytes(question)
    assert len(body) == message_bytes(question) == 26
    assert read_device_message(body, question) == DeviceMessage(ID, b"\7")
    with pytest.raises(InvalidInput, match="does not have the length"):
        DeviceMessage(ID, b"\7\7").to_bytes(question)


def test_what_is_no_message_to_this_question_is_refused_by_a_stated_reason():
    question, other = local_question(), local_question(request="r-2")
    body = DeviceMessage(ID, b"\7").to_bytes(question)
    assert refused(DeviceMessage(ID, b"\7").to_bytes(other), question) is IntakeRefusal.FOREIGN
    for spoiled in (b"", b"\x21", body[:-1], body + b"\0", b"\x22" + body[1:]):
        assert refused(spoiled, question) in (IntakeRefusal.MALFORMED, IntakeRefusal.FOREIGN)
    assert refused(b"\x22" + body[1:], question) is IntakeRefusal.MALFORMED
    assert refused(body + b"\0", question) is IntakeRefusal.MALFORMED


def test_only_tokens_that_were_handed_out_for_this_question_are_known_again():
    question, other = local_question(admission="tokens"), local_question(admission="tokens", request="r-2")
    (token,), (foreign,) = issue_tokens(b"k" * 32, question, 1), issue_tokens(b"k" * 32, other, 1)
    body = DeviceMessage(token, b"\7").to_bytes(question)
    assert read_device_message(body, question, b"k" * 32).token_id == token[:16]
    for wrong in (foreign, token[:31] + bytes([token[31] ^ 1]), bytes([token[0] ^ 1]) + token[1:]):
        spoiled = DeviceMessage(wrong, b"\7").to_bytes(question)
        assert refused(spoiled, question, b"k" * 32) is IntakeRefusal.UNADMITTED
    assert refused(body, question, b"l" * 32) is IntakeRefusal.UNADMITTED
    assert refused(body, question) is IntakeRefusal.UNADMITTED
    with pytest.raises(InvalidInput, match="at least 32 bytes"):
        issue_tokens(b"short", question, 1)


def test_a_box_is_opened_by_the_shuffler_and_then_by_the_coordinator_and_only_for_its_question():
    question, other = sealed_question(), sealed_question(request="r-2")
    box = double_box(question, b"\7\7")
    assert unseal(COORDINATOR, box, question.digest) is None
    inner = open_outer_box(question, SHUFFLER, box)
    assert unseal(SHUFFLER, inner, question.digest) is None
    assert unseal(COORDINATOR, inner, question.digest) == b"\1\7\7"
    assert open_outer_box(other, SHUFFLER, box) is None
    assert unseal(COORDINATOR, inner, other.digest) is None
