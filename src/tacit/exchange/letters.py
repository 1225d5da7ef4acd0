"""What travels around a question and an answer: which run and round it belongs to, and a refusal in closed words.

A letter is strict: it has exactly its fields, of exactly their types, within its size. What a node may say besides a
release is one word of a closed list, so that no error can carry data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from tacit.core.codec import decode, encode
from tacit.core.errors import InvalidInput

__all__ = ["LARGEST", "Letter", "Reason", "Reply", "read_letter", "read_reply"]

# No question or answer of any method comes near it; what is larger is not read.
LARGEST = 1 << 28
LONGEST_NAME = 200


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
    """One question to one node: the run and the round it belongs to, and how many nodes are asked.

    >>> read_letter(Letter("run", 0, 3, b"which?").to_bytes())
    Letter(run='run', round=0, participants=3, ask=b'which?')
    """

    run: str
    round: int
    participants: int
    ask: bytes

    def to_bytes(self) -> bytes:
        """The letter as it travels."""
        return encode(
            {"run": self.run, "round": self.round, "participants": self.participants, "ask": _array(self.ask)}
        )


@dataclass(frozen=True)
class Reply:
    """What came of it: a release as bytes, or the reason why there is none.

    >>> read_reply(Reply("run", 0, Reason.BUDGET).to_bytes()).answer
    <Reason.BUDGET: 'budget'>
    """

    run: str
    round: int
    answer: bytes | Reason

    def to_bytes(self) -> bytes:
        """The reply as it travels."""
        said = {"refusal": str(self.answer)} if isinstance(self.answer, Reason) else {"release": _array(self.answer)}
        return encode({"run": self.run, "round": self.round} | said)


def read_letter(payload: bytes) -> Letter:
    """The letter that was sent; anything else is refused."""
    fields = _fields(payload, ("run", "round", "participants", "ask"))
    return Letter(_text(fields["run"]), _count(fields["round"]), _count(fields["participants"]), _bytes(fields["ask"]))


def read_reply(payload: bytes) -> Reply:
    """The reply that was sent; anything else is refused.

    >>> read_reply(b"TACIT1 and something else")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: not an encoded value: ...
    """
    fields = _fields(payload, ("run", "round", "refusal"), ("run", "round", "release"))
    run, number = _text(fields["run"]), _count(fields["round"])
    if "release" in fields:
        return Reply(run, number, _bytes(fields["release"]))
    if fields["refusal"] not in tuple(Reason):
        raise InvalidInput("not a reply: it refuses for a reason that is not one of the known ones")
    return Reply(run, number, Reason(fields["refusal"]))


def _fields(payload: bytes, *allowed: tuple[str, ...]) -> dict[str, Any]:
    if len(payload) > LARGEST:
        raise InvalidInput(f"a letter may have {LARGEST} bytes at most")
    found = decode(payload)
    if not isinstance(found, dict) or tuple(found) not in allowed:
        raise InvalidInput("not a letter: it has other fields")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME or not value.isprintable():
        raise InvalidInput(f"not a letter: a name must be printable text of at most {LONGEST_NAME} characters")
    return value


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise InvalidInput("not a letter: a number must be a whole one of at least 0")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 1:
        raise InvalidInput("not a letter: its content must be bytes")
    return value.tobytes()


def _array(content: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(content, dtype=np.uint8)
