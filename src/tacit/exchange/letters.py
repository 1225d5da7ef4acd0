"""What travels around a question and an answer: which run and round it belongs to, and a refusal in closed words.

A letter is strict: it has exactly its fields, of exactly their types, within its size. A reply names the letter that it
answers by a few bytes of its digest, which bind run, round, step and question; all else that the coordinator knows
stays away. What a node may say besides a release is one word of a closed list, so that no error can carry data.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from tacit.core.codec import encode
from tacit.core.errors import InvalidInput
from tacit.exchange.fields import opened, packed
from tacit.exchange.portable_answers import MOST_RECORDS

__all__ = ["ANSWER", "LARGEST", "STEPS", "Letter", "Reason", "Reply", "read_letter", "read_reply", "ticket_of"]

ANSWER = "answer"
# The steps of one question: its answer, those of a masked sum, to hand in where it is collected, or to take note.
STEPS = (ANSWER, "keys", "shares", "input", "unmask", "submit", "learn")
# No question or answer of any method comes near it; what is larger is not read.
LARGEST = 1 << 28
LONGEST_NAME = 200
MOST = 2**31
# A mistake is noticed by it. Whoever wants to answer another letter can: the ticket is no secret.
TICKET = 4
# The first byte of a reply: what follows, in which version. What is not listed is not read.
GIVEN, REFUSED = 0x11, 0x12


class Reason(StrEnum):
    """Why a node does not answer. None of them depends on a record."""

    BUDGET = "budget"
    METHOD = "method"
    MECHANISM = "mechanism"
    PURPOSE = "purpose"
    PARTICIPANTS = "participants"
    CLASSES = "classes"
    CONFLICT = "conflict"
    QUESTION = "question"
    FAILED = "failed"

    @property
    def in_words(self) -> str:
        """The reason as a sentence."""
        return IN_WORDS[self]


IN_WORDS = {
    Reason.BUDGET: "its account cannot pay for this question",
    Reason.METHOD: "its policy does not allow this method",
    Reason.MECHANISM: "its policy does not allow this mechanism",
    Reason.PURPOSE: "its policy does not allow this purpose",
    Reason.PARTICIPANTS: "its policy asks for more participants",
    Reason.CLASSES: "it knows other classes",
    Reason.CONFLICT: "the request was used for another question before",
    Reason.QUESTION: "the question is not understood, or does not fit what this node has",
    Reason.FAILED: "the node failed; its operator finds why in its log",
}
# By their places they travel, so new ones go behind the others.
WORDS = tuple(Reason)


@dataclass(frozen=True)
class Letter:
    """One question to one node: the run, the round and the step it belongs to, and how many nodes are asked.

    Most questions have the one step ``answer``; where several belong together, ``content`` is what this step is about.
    ``records`` is the most that the public believes one node to have: it sets how wide the numbers of an answer are.

    >>> read_letter(Letter("run", 0, 3, b"which?").to_bytes()).ask
    b'which?'
    """

    run: str
    round: int
    participants: int
    ask: bytes
    step: str = ANSWER
    content: bytes = b""
    records: int = MOST_RECORDS

    def to_bytes(self) -> bytes:
        """The letter as it travels."""
        return encode(
            {
                "run": self.run,
                "round": self.round,
                "step": self.step,
                "participants": self.participants,
                "records": self.records,
                "ask": packed(self.ask),
                "content": packed(self.content),
            }
        )


def ticket_of(letter: bytes) -> bytes:
    """The name of a letter, by which its reply says what it is a reply to.

    >>> ticket_of(b"").hex()
    'e3b0c442'
    """
    return hashlib.sha256(letter).digest()[:TICKET]


@dataclass(frozen=True)
class Reply:
    """What came of a letter: a release or a step's message as bytes, or the reason why there is none.

    Five bytes, and what is said.

    >>> Reply(ticket_of(b""), Reason.BUDGET).to_bytes().hex()
    '12e3b0c44200'
    >>> read_reply(Reply(ticket_of(b""), Reason.BUDGET).to_bytes()).answer
    <Reason.BUDGET: 'budget'>
    """

    ticket: bytes
    answer: bytes | Reason

    def to_bytes(self) -> bytes:
        """The reply as it travels."""
        if isinstance(self.answer, Reason):
            return bytes([REFUSED]) + self.ticket + bytes([WORDS.index(self.answer)])
        return bytes([GIVEN]) + self.ticket + self.answer


def read_letter(payload: bytes) -> Letter:
    """The letter that was sent; anything else is refused."""
    fields = opened(payload, LARGEST, "letter")
    letter = Letter(
        run=fields.text("run", LONGEST_NAME),
        round=fields.integer("round", 0, MOST),
        step=fields.one_of("step", STEPS),
        participants=fields.integer("participants", 0, MOST),
        records=fields.integer("records", 1, MOST_RECORDS),
        ask=fields.content("ask", LARGEST),
        content=fields.content("content", LARGEST),
    )
    fields.done()
    return letter


def read_reply(payload: bytes) -> Reply:
    """The reply that was sent; anything else is refused.

    >>> read_reply(b"TACIT1 and something else")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the reply is of a form that is not known
    """
    if not isinstance(payload, bytes) or len(payload) > LARGEST:
        raise InvalidInput(f"the reply must be at most {LARGEST} bytes")
    form, ticket, said = payload[:1], payload[1 : 1 + TICKET], payload[1 + TICKET :]
    if form not in (bytes([GIVEN]), bytes([REFUSED])) or len(ticket) < TICKET:
        raise InvalidInput("the reply is of a form that is not known")
    if form == bytes([GIVEN]):
        return Reply(ticket, said)
    if len(said) != 1 or said[0] >= len(WORDS):
        raise InvalidInput("the reply refuses for no reason that is known")
    return Reply(ticket, WORDS[said[0]])
