"""What a coordinator asks a shuffler or a curator to collect, and what a holder submits.

Every message names its run, round, kind and sender, and is signed. A message that is malformed, of another run, forged
or unexpected is refused with one of a closed list of reasons, which are counted. No reason depends on the content of a
submission.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, TacitError
from tacit.core.codec import bytes_to_array, decode_strict, encode
from tacit.federation.keys import KEY_BYTES, SigningIdentity, signed_by

__all__ = [
    "ANNOUNCE", "UNANNOUNCED_BYTES", "Batch", "SignedMessage", "Submission", "SubmissionRefusal", "SubmissionRefused",
    "read_signed_message",
]  # fmt: skip

_MOST_NODES = 10_000
_MOST_PARTICIPANTS = 10**9
LARGEST_PIECE = 2**28
LARGEST_BATCH = 2**29
# The default limit for the bytes of an announced message.
MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Batch:
    """One collection: who submits, for whose ``key`` submissions are encrypted, and how many participants are enough.

    Each of the ``nodes`` submits up to ``most`` pieces of ``size`` bytes. The number of pieces is a multiple of
    ``block``, so that it reveals little. Nothing is released before ``minimum`` participants have submitted: those
    whose messages are shuffled, or holders whose tables are summed. A node submits for up to ``largest`` participants,
    each with up to ``each`` pieces (0: any number); in a table no count may exceed ``largest``. ``ask`` is the
    question, where the collector needs it.

    >>> batch = Batch("run", 0, "r-1", ("ada", "bob"), b"k" * 32, minimum=2, size=64)
    >>> Batch.read(batch.to_bytes()) == batch
    True
    """

    run: str
    round: int
    request: str
    nodes: tuple[str, ...]
    key: bytes
    minimum: int
    size: int
    most: int = 1
    block: int = 1
    largest: int = 1
    each: int = 1
    ask: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise InvalidInput(f"key must have {KEY_BYTES} bytes, got {len(self.key)}")
        if list(self.nodes) != sorted(set(self.nodes)) or not 1 <= len(self.nodes) <= _MOST_NODES:
            raise InvalidInput(f"nodes must be from 1 to {_MOST_NODES} different names, sorted")
        if self.minimum < 2:
            raise InvalidInput(f"minimum must be at least 2, got {self.minimum}: a single participant is not hidden")
        if self.block < 1 or self.most < 1 or self.most % self.block:
            raise InvalidInput(f"most must be a multiple of the block {self.block}, got {self.most}")
        if not self.size >= 1 or self.size * self.most > LARGEST_PIECE:
            raise InvalidInput(f"a node's pieces must have at most {LARGEST_PIECE} bytes together")

    def to_bytes(self) -> bytes:
        """The batch as bytes."""
        return encode(
            {
                "run": self.run,
                "round": self.round,
                "request": self.request,
                "nodes": list(self.nodes),
                "key": bytes_to_array(self.key),
                "minimum": self.minimum,
                "size": self.size,
                "most": self.most,
                "block": self.block,
                "largest": self.largest,
                "each": self.each,
                "ask": bytes_to_array(self.ask),
            }
        )

    @classmethod
    def read(cls, payload: bytes) -> Batch:
        """The batch in these bytes, checked."""
        fields = decode_strict(payload, LARGEST_BATCH, "batch")
        batch = cls(
            run=fields.text("run"),
            round=fields.integer("round", 0, 10**9),
            request=fields.text("request"),
            nodes=fields.texts("nodes", _MOST_NODES),
            key=fields.content("key", KEY_BYTES),
            minimum=fields.integer("minimum", 2, _MOST_PARTICIPANTS),
            size=fields.integer("size", 1, LARGEST_PIECE),
            most=fields.integer("most", 1, LARGEST_PIECE),
            block=fields.integer("block", 1, LARGEST_PIECE),
            largest=fields.integer("largest", 1, 2**40),
            each=fields.integer("each", 0, LARGEST_PIECE),
            ask=fields.content("ask", LARGEST_BATCH),
        )
        fields.done()
        return batch

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of all fields."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def blocks(self, pieces: int) -> int:
        """This many pieces, rounded up to whole blocks.

        >>> Batch("run", 0, "r-1", ("ada",), b"k" * 32, 2, 64, most=32, block=8).blocks(9)
        16
        """
        return -(-pieces // self.block) * self.block

    @property
    def limit(self) -> int:
        """The most bytes that a submission may have."""
        return self.size * self.most + 1024


@dataclass(frozen=True)
class Submission:
    """What one holder submits: encrypted pieces, one per row, and the number of participants that it submits for."""

    participants: int
    pieces: NDArray[np.uint8] = field(repr=False)

    def to_bytes(self) -> bytes:
        """The submission as bytes."""
        return encode({"participants": self.participants, "pieces": self.pieces})

    @classmethod
    def read(cls, payload: bytes, batch: Batch) -> Submission:
        """The submission in these bytes, checked against the limits of this batch."""
        fields = decode_strict(payload, batch.limit, "submission")
        participants = fields.integer("participants", 1, batch.largest)
        pieces = fields.array("pieces", ("|u1",), (None, batch.size))
        fields.done()
        if not 1 <= len(pieces) <= batch.most or len(pieces) % batch.block:
            raise InvalidInput(f"a submission has up to {batch.most} pieces, in blocks of {batch.block}")
        if batch.each and len(pieces) > batch.blocks(batch.each * participants):
            raise InvalidInput(f"a submission has up to {batch.each} pieces per participant")
        return cls(participants, pieces)


_VERSION = 1
# An announcement says how many bytes the next message has; it is a message of its own.
_KINDS = ("open", "submit", "collect", "announce")
# The path of announcements, and how many bytes anyone may send without one.
ANNOUNCE, UNANNOUNCED_BYTES = "/announce", 2**16
_SIGNATURE = 64
_LONGEST_NAME = 200
SLACK = 4096


class SubmissionRefusal(StrEnum):
    """Why a message is refused: a closed list."""

    MALFORMED = "malformed"
    OVERSIZED = "oversized"
    UNKNOWN = "unknown sender"
    FORGED = "forged"
    FOREIGN = "no such batch"
    UNEXPECTED = "not allowed for this sender"
    CONFLICT = "another was sent before"
    CLOSED = "batch is closed"
    WAITING = "too few so far"
    SPENT = "account cannot pay"
    FAILED = "cannot be done"


class SubmissionRefused(TacitError):
    """A message was refused; it changed nothing."""

    def __init__(self, reason: SubmissionRefusal) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class SignedMessage:
    """A signed message. ``batch`` is the digest of its batch, which binds run, round and request.

    >>> ada = SigningIdentity.new()
    >>> message = SignedMessage.signed(ada, "submit", "run", 0, "c0ffee", "ada", b"content")
    >>> read_signed_message(message.to_bytes(), {"ada": ada.public}, 1000) == message
    True
    """

    kind: str
    run: str
    round: int
    batch: str
    node: str
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    version: int = _VERSION

    @classmethod
    def signed(
        cls, identity: SigningIdentity, kind: str, run: str, round: int, batch: str, node: str, body: bytes
    ) -> SignedMessage:
        """The message with its sender's signature over all fields."""
        unsigned = cls(kind, run, round, batch, node, body, b"")
        return cls(kind, run, round, batch, node, body, identity.sign(unsigned._content()))

    def to_bytes(self) -> bytes:
        """The message as bytes."""
        return encode({**self._fields(), "signature": bytes_to_array(self.signature)})

    def genuine(self, public: bytes) -> bool:
        """Whether the owner of this public key signed the message."""
        return signed_by(public, self._content(), self.signature)

    def _fields(self) -> dict[str, object]:
        return {
            "version": self.version,
            "kind": self.kind,
            "run": self.run,
            "round": self.round,
            "batch": self.batch,
            "node": self.node,
            "body": bytes_to_array(self.body),
        }

    def _content(self) -> bytes:
        return b"tacit envelope\0" + encode(self._fields())


def read_signed_message(payload: bytes, identities: Mapping[str, bytes], most: int) -> SignedMessage:
    """The message in these bytes, if one of these parties signed it and its body has at most this many bytes."""
    if len(payload) > most + SLACK:
        raise SubmissionRefused(SubmissionRefusal.OVERSIZED)
    try:
        fields = decode_strict(payload, most + SLACK, "message")
        fields.integer("version", _VERSION, _VERSION)
        message = SignedMessage(
            kind=fields.one_of("kind", _KINDS),
            run=fields.text("run", _LONGEST_NAME),
            round=fields.integer("round", 0, 10**9),
            batch=fields.digest("batch"),
            node=fields.text("node", _LONGEST_NAME),
            body=fields.content("body", most),
            signature=fields.content("signature", _SIGNATURE),
        )
        fields.done()
    except InvalidInput:
        raise SubmissionRefused(SubmissionRefusal.MALFORMED) from None
    public = identities.get(message.node)
    if public is None:
        raise SubmissionRefused(SubmissionRefusal.UNKNOWN)
    if not message.genuine(public):
        raise SubmissionRefused(SubmissionRefusal.FORGED)
    return message
