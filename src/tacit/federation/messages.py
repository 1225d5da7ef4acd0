"""Requests to nodes and their responses: a question with its run and round, and a release or a refusal.

A request is read strictly: exactly its fields, of exactly their types, up to a size. A response names its request by a
few bytes of the request's digest, which binds run, round, step and question. Instead of a release a node may send one
refusal reason of a closed list, so that no error text can leak data.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

from tacit.core import InvalidInput
from tacit.core.codec import bytes_to_array, decode_strict, encode
from tacit.methods.question import MOST_RECORDS

__all__ = [
    "ANSWER", "LARGEST_REQUEST", "PASSING", "REQUEST_STEPS", "RefusalReason", "Request", "Response", "ToldBudget",
    "digest_request", "read_node_request", "read_response",
]  # fmt: skip

ANSWER = "answer"
# The steps of a question: its answer, those of secure aggregation, submitting to a collector, receiving a consensus.
REQUEST_STEPS = (ANSWER, "keys", "shares", "input", "agree", "unmask", "submit", "learn")
# Far above any question or answer; larger requests are not read.
LARGEST_REQUEST = 1 << 28
_LONGEST_NAME = 200
_MOST = 2**31
MOST_FEATURES = 2**20
# Four bytes detect mistakes. They are no protection against a node that answers another request on purpose.
DIGEST_BYTES = 4
# The first byte of a response: answer or refusal, and the version of the format.
_GIVEN, _REFUSED = 0x11, 0x12
# The same, with the budget that the node states before the answer or the reason.
_GIVEN_TOLD, _REFUSED_TOLD = 0x13, 0x14
_NUMBER = r"(?:0|[1-9]\d{0,11})(?:\.\d{1,12})?(?:e[+-]\d{2,3})?"
_BUDGET = re.compile(rf"({_NUMBER}|unbounded) ({_NUMBER}) ({_NUMBER})")


class RefusalReason(StrEnum):
    """Why a node refuses a question: a closed list. No reason depends on a record."""

    BUDGET = "budget"
    METHOD = "method"
    MECHANISM = "mechanism"
    PURPOSE = "purpose"
    PARTICIPANTS = "participants"
    CLASSES = "classes"
    CONFLICT = "conflict"
    QUESTION = "question"
    FAILED = "failed"
    DELTA = "delta"
    SIZE = "size"
    COLLECTOR = "collector"
    TRUST = "trust"
    LIMIT = "limit"
    APPROVAL = "approval"
    COLUMNS = "columns"
    BUSY = "busy"
    CANCELED = "canceled"
    ENCODER = "encoder"

    @property
    def in_words(self) -> str:
        """The reason as a sentence."""
        return _IN_WORDS[self]


_IN_WORDS = {
    RefusalReason.BUDGET: "its account cannot pay for this question",
    RefusalReason.METHOD: "its policy does not allow this method",
    RefusalReason.MECHANISM: "its policy does not allow this mechanism",
    RefusalReason.PURPOSE: "its policy does not allow this purpose",
    RefusalReason.PARTICIPANTS: "its policy requires more participants",
    RefusalReason.CLASSES: "its classes are different",
    RefusalReason.CONFLICT: "the request was used for another question before",
    RefusalReason.QUESTION: "the question is not valid, or does not fit this node's records",
    RefusalReason.FAILED: "the node failed; the cause is in its operator's log",
    RefusalReason.DELTA: "its account's δ is too small for this question, however much of the budget is left",
    RefusalReason.SIZE: "the question, its answer or its submission is larger than the limit",
    RefusalReason.COLLECTOR: "the shuffler or curator cannot be reached, is not trusted, or refused the submission",
    RefusalReason.TRUST: "its policy relies on fewer honest others, or requires a larger share of the noise",
    RefusalReason.LIMIT: "its policy's limit for one question, this purpose or this day is reached",
    RefusalReason.COLUMNS: "its records do not have the columns of the public samples",
    RefusalReason.APPROVAL: "a person at this node has not approved this job; ask again later",
    RefusalReason.BUSY: "its queue is full or the node is stopping; ask again later",
    RefusalReason.CANCELED: "its operator has canceled this job, and it stays canceled: only a new run can ask again",
    RefusalReason.ENCODER: "its policy or its kind of records does not allow this encoder, or needs one",
}
# Temporary reasons: the same question may be answered later, on another day, or after a person has decided.
PASSING = (
    RefusalReason.FAILED,
    RefusalReason.COLLECTOR,
    RefusalReason.LIMIT,
    RefusalReason.APPROVAL,
    RefusalReason.BUSY,
)
# A reason is sent as its position in this list, so new ones are appended.
_WORDS = tuple(RefusalReason)


@dataclass(frozen=True)
class Request:
    """One question to one node: its run, round and step, and how many nodes are asked.

    This is version 1 of the format, which no field states; a later one has ``version``, and is refused here.

    Most questions have the one step ``answer``; for the other steps ``content`` is the step's message. ``records`` is
    the assumed largest number of records per node, which sets the width of the numbers in an answer. ``features`` are
    the names of the public samples' columns, if they have names: a node puts its own columns in that order.

    >>> read_node_request(Request("run", 0, 3, b"which?").to_bytes()).ask
    b'which?'
    """

    run: str
    round: int
    participants: int
    ask: bytes
    step: str = ANSWER
    content: bytes = b""
    records: int = MOST_RECORDS
    features: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """The request as bytes."""
        return encode(
            {
                "run": self.run,
                "round": self.round,
                "step": self.step,
                "participants": self.participants,
                "records": self.records,
                "features": list(self.features),
                "ask": bytes_to_array(self.ask),
                "content": bytes_to_array(self.content),
            }
        )


def digest_request(request: bytes) -> bytes:
    """The digest of a request, by which a response names it.

    >>> digest_request(b"").hex()
    'e3b0c442'
    """
    return hashlib.sha256(request).digest()[:DIGEST_BYTES]


@dataclass(frozen=True)
class ToldBudget:
    """What a node tells of the account that pays, where its operator lets it: ε spent, its ceiling's ε and δ, as text.

    It follows from the payments and the policy, never from a record.

    >>> ToldBudget("0.5", "2", "1e-06").to_bytes()
    b'\\x0b0.5 2 1e-06'
    >>> ToldBudget("0.5", "2", "1e-06").in_words
    'spent epsilon 0.5 of 2 at delta 1e-06'
    """

    spent: str
    epsilon: str
    delta: str

    def to_bytes(self) -> bytes:
        """A length, and the three numbers."""
        text = f"{self.spent} {self.epsilon} {self.delta}".encode("ascii")
        return bytes([len(text)]) + text

    @property
    def in_words(self) -> str:
        """As a sentence."""
        return f"spent epsilon {self.spent} of {self.epsilon} at delta {self.delta}"


@dataclass(frozen=True)
class Response:
    """The response to a request: a release or a step's message as bytes, or the reason for a refusal.

    The format is five bytes, the stated budget if any, and the answer or the reason.

    >>> Response(digest_request(b""), RefusalReason.BUDGET).to_bytes().hex()
    '12e3b0c44200'
    >>> read_response(Response(digest_request(b""), RefusalReason.BUDGET).to_bytes()).answer
    <RefusalReason.BUDGET: 'budget'>
    """

    request_digest: bytes
    answer: bytes | RefusalReason
    budget: ToldBudget | None = None

    def to_bytes(self) -> bytes:
        """The response as bytes."""
        refused = isinstance(self.answer, RefusalReason)
        said = bytes([_WORDS.index(self.answer)]) if isinstance(self.answer, RefusalReason) else self.answer
        if self.budget is None:
            return bytes([_REFUSED if refused else _GIVEN]) + self.request_digest + said
        form = bytes([_REFUSED_TOLD if refused else _GIVEN_TOLD])
        return form + self.request_digest + self.budget.to_bytes() + said


def read_node_request(payload: bytes) -> Request:
    """The request in these bytes; anything else is an error."""
    fields = decode_strict(payload, LARGEST_REQUEST, "request")
    fields.version()
    request = Request(
        run=fields.text("run", _LONGEST_NAME),
        round=fields.integer("round", 0, _MOST),
        step=fields.one_of("step", REQUEST_STEPS),
        participants=fields.integer("participants", 0, _MOST),
        records=fields.integer("records", 1, MOST_RECORDS),
        features=fields.texts("features", MOST_FEATURES),
        ask=fields.content("ask", LARGEST_REQUEST),
        content=fields.content("content", LARGEST_REQUEST),
    )
    fields.done()
    return request


def read_response(payload: bytes) -> Response:
    """The response in these bytes; anything else is an error.

    >>> read_response(b"TACIT1 and something else")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the response has an unknown format
    """
    if not isinstance(payload, bytes) or len(payload) > LARGEST_REQUEST:
        raise InvalidInput(f"the response must be at most {LARGEST_REQUEST} bytes")
    form, request_digest, said = payload[:1], payload[1 : 1 + DIGEST_BYTES], payload[1 + DIGEST_BYTES :]
    if form not in _FORMS or len(request_digest) < DIGEST_BYTES:
        raise InvalidInput("the response has an unknown format")
    refused, told = _FORMS[form]
    budget = None
    if told:
        text, said = said[1 : 1 + said[0]] if said else b"", said[1 + said[0] :] if said else b""
        found = _BUDGET.fullmatch(text.decode("ascii", "replace"))
        if found is None:
            raise InvalidInput("the response states a budget in an unknown format")
        budget = ToldBudget(*found.groups())
    if not refused:
        return Response(request_digest, said, budget)
    if len(said) != 1 or said[0] >= len(_WORDS):
        raise InvalidInput("the response has an unknown refusal reason")
    return Response(request_digest, _WORDS[said[0]], budget)


# Which forms refuse, and which tell a budget.
_FORMS = {
    bytes([_GIVEN]): (False, False),
    bytes([_REFUSED]): (True, False),
    bytes([_GIVEN_TOLD]): (False, True),
    bytes([_REFUSED_TOLD]): (True, True),
}
