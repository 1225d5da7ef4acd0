"""What travels around a question and an answer: which run and round it belongs to, and a refusal in closed words.

A letter is strict: it has exactly its fields, of exactly their types, within its size. What a node may say besides a
release is one word of a closed list, so that no error can carry data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tacit.core.codec import encode
from tacit.exchange.fields import Fields, opened, packed

__all__ = ["ANSWER", "LARGEST", "STEPS", "Letter", "Reason", "Reply", "read_letter", "read_reply"]

ANSWER = "answer"
# The steps of one question: its answer, those of a masked sum, or to hand in where it is collected.
STEPS = (ANSWER, "keys", "shares", "input", "unmask", "submit")
# No question or answer of any method comes near it; what is larger is not read.
LARGEST = 1 << 28
LONGEST_NAME = 200
MOST = 2**31


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


@dataclass(frozen=True)
class Letter:
    """One question to one node: the run, the round and the step it belongs to, and how many nodes are asked.

    Most questions have the one step ``answer``; where several belong together, ``content`` is what this step is about.

    >>> read_letter(Letter("run", 0, 3, b"which?").to_bytes()).ask
    b'which?'
    """

    run: str
    round: int
    participants: int
    ask: bytes
    step: str = ANSWER
    content: bytes = b""

    def to_bytes(self) -> bytes:
        """The letter as it travels."""
        return encode(
            {
                "run": self.run,
                "round": self.round,
                "step": self.step,
                "participants": self.participants,
                "ask": packed(self.ask),
                "content": packed(self.content),
            }
        )


@dataclass(frozen=True)
class Reply:
    """What came of it: a release or a step's message as bytes, or the reason why there is none.

    >>> read_reply(Reply("run", 0, Reason.BUDGET).to_bytes()).answer
    <Reason.BUDGET: 'budget'>
    """

    run: str
    round: int
    answer: bytes | Reason
    step: str = ANSWER

    def to_bytes(self) -> bytes:
        """The reply as it travels."""
        said = {"refusal": str(self.answer)} if isinstance(self.answer, Reason) else {"content": packed(self.answer)}
        return encode({"run": self.run, "round": self.round, "step": self.step} | said)


def read_letter(payload: bytes) -> Letter:
    """The letter that was sent; anything else is refused."""
    fields = opened(payload, LARGEST, "letter")
    run, number, step = _place(fields)
    letter = Letter(
        run,
        number,
        fields.integer("participants", 0, MOST),
        fields.content("ask", LARGEST),
        step,
        fields.content("content", LARGEST),
    )
    fields.done()
    return letter


def read_reply(payload: bytes) -> Reply:
    """The reply that was sent; anything else is refused.

    >>> read_reply(b"TACIT1 and something else")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the reply has a head that is too large
    """
    fields = opened(payload, LARGEST, "reply")
    run, number, step = _place(fields)
    answer: bytes | Reason
    if fields.peek("refusal") is not None:
        answer = Reason(fields.one_of("refusal", tuple(Reason)))
    else:
        answer = fields.content("content", LARGEST)
    fields.done()
    return Reply(run, number, answer, step)


def _place(fields: Fields) -> tuple[str, int, str]:
    return fields.text("run", LONGEST_NAME), fields.integer("round", 0, MOST), fields.one_of("step", STEPS)
