"""What one device posts: the beginning of the question's digest, a token that makes it count once, and the payload.

    1 byte     0x21, the format and its version
    8 bytes    the first bytes of the question's digest
    16 bytes   the token: drawn at random by the device, or issued to it
    16 bytes   only if the question requires issued tokens: the token's authentication tag
    rest       the packed message, or in the shuffle model the message encrypted twice

All messages to one question have the same length. A token does not depend on a record. The same bytes posted again are
acknowledged and counted once; other bytes with the same token are refused, and the first ones stay.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from enum import StrEnum

from tacit.core import InvalidInput, TacitError
from tacit.federation.collector.batches import FULL
from tacit.federation.intake.question import TOKENS, OpenQuestion
from tacit.federation.keys import KEY_BYTES, seal, unseal

__all__ = [
    "TOKEN_BYTES", "DeviceMessage", "IntakeRefusal", "IntakeRefused", "double_box", "issue_tokens", "open_outer_box",
    "read_device_message", "token_bytes",
]  # fmt: skip

FORM = 0x21
# These bytes detect mistakes only. The tag or the encryption binds a message to its question.
_NAMING = 8
_ID, _TAG = 16, 16
# An issued token: a random id, and its authentication tag.
TOKEN_BYTES = _ID + _TAG


class IntakeRefusal(StrEnum):
    """Why a message is refused: a closed list. No reason depends on the payload."""

    MALFORMED = "malformed"
    OVERSIZED = "oversized"
    FOREIGN = "no such question"
    UNADMITTED = "no valid token"
    CONFLICT = "another was sent before"
    CLOSED = "question is closed"
    LATE = "too late"
    FULL = "question is full"
    LIMITED = "too many from this address"
    BUSY = "try again"

    @property
    def status(self) -> int:
        """The HTTP status of a worker's response."""
        return _STATUS[self]


_STATUS = {
    IntakeRefusal.MALFORMED: 400,
    IntakeRefusal.OVERSIZED: 413,
    IntakeRefusal.FOREIGN: 404,
    IntakeRefusal.UNADMITTED: 403,
    IntakeRefusal.CONFLICT: 409,
    IntakeRefusal.CLOSED: 410,
    IntakeRefusal.LATE: 410,
    IntakeRefusal.FULL: 410,
    IntakeRefusal.LIMITED: 429,
    IntakeRefusal.BUSY: 503,
}


class IntakeRefused(TacitError):
    """A message was refused; it changed nothing."""

    def __init__(self, reason: IntakeRefusal) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class DeviceMessage:
    """A token, with its tag if the question requires issued tokens, and the payload.

    >>> from tacit.federation.intake.question import OpenQuestion
    >>> DeviceMessage(b"t" * 16, b"payload").token_id
    b'tttttttttttttttt'
    """

    token: bytes
    payload: bytes = field(repr=False)

    @property
    def token_id(self) -> bytes:
        """The token without its tag."""
        return self.token[:_ID]

    def to_bytes(self, question: OpenQuestion) -> bytes:
        """The message as it is posted."""
        if len(self.token) != token_bytes(question) or len(self.payload) != question.payload_bytes:
            raise InvalidInput("the token or the payload does not have the length that the question's messages have")
        return bytes([FORM]) + bytes.fromhex(question.digest)[:_NAMING] + self.token + self.payload


def message_bytes(question: OpenQuestion) -> int:
    """The length of every message to this question, in bytes."""
    return 1 + _NAMING + token_bytes(question) + question.payload_bytes


def read_device_message(body: bytes, question: OpenQuestion, secret: bytes | None = None) -> DeviceMessage:
    """The message in these bytes, which must be for this question; ``secret`` is the key of issued tokens."""
    if body[: 1 + _NAMING] != bytes([FORM]) + bytes.fromhex(question.digest)[:_NAMING]:
        raise IntakeRefused(IntakeRefusal.FOREIGN if body[:1] == bytes([FORM]) else IntakeRefusal.MALFORMED)
    if len(body) != message_bytes(question):
        raise IntakeRefused(IntakeRefusal.MALFORMED)
    start = 1 + _NAMING
    end = start + token_bytes(question)
    message = DeviceMessage(body[start:end], body[end:])
    if question.admission == TOKENS and (
        secret is None or not hmac.compare_digest(message.token[_ID:], _tag(secret, question, message.token_id))
    ):
        raise IntakeRefused(IntakeRefusal.UNADMITTED)
    return message


def issue_tokens(secret: bytes, question: OpenQuestion, count: int) -> list[bytes]:
    """Tokens for this many devices; workers with the same secret verify them, and nobody without it can make one."""
    if len(secret) < KEY_BYTES:
        raise InvalidInput(f"the secret of tokens must have at least {KEY_BYTES} bytes")
    ids = [os.urandom(_ID) for _ in range(count)]
    return [each + _tag(secret, question, each) for each in ids]


def double_box(question: OpenQuestion, piece: bytes) -> bytes:
    """A packed message encrypted for the coordinator, and the result encrypted for the shuffler.

    A worker sees the outer box, the shuffler the inner one, the coordinator the message after shuffling. Both boxes are
    bound to the question: a box of another question cannot be decrypted.
    """
    return seal(question.shuffler, seal(question.key, FULL + piece, question.digest), _mixing(question))


def open_outer_box(question: OpenQuestion, secret: bytes, payload: bytes) -> bytes | None:
    """The inner box, decrypted by the shuffler; None if the outer one is not for its key and this question."""
    return unseal(secret, payload, _mixing(question))


def _mixing(question: OpenQuestion) -> str:
    return f"mix {question.digest}"


def token_bytes(question: OpenQuestion) -> int:
    """The length of a token of this question, with its tag if it is issued."""
    return TOKEN_BYTES if question.admission == TOKENS else _ID


def _tag(secret: bytes, question: OpenQuestion, token: bytes) -> bytes:
    return hmac.digest(secret, b"tacit token\0" + bytes.fromhex(question.digest) + token, hashlib.sha256)[:_TAG]
