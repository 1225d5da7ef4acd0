"""What a message to a shuffler or a curator is wrapped in: which run and round, what kind, from whom, and signed.

A message that is not whole, not of this run, not from who it says or not expected is refused for one of a few stated
reasons, which are counted. None of them depends on what the message holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tacit.core.codec import encode
from tacit.core.errors import InvalidInput, TacitError
from tacit.exchange.fields import opened, packed
from tacit.exchange.identity import Identity, signed_by

__all__ = ["Envelope", "Reason", "Refused", "read_envelope"]

VERSION = 1
KINDS = ("open", "submit", "collect")
SIGNATURE = 64
LONGEST_NAME = 200
SLACK = 4096


class Reason(StrEnum):
    """Why a message is not taken."""

    MALFORMED = "malformed"
    OVERSIZED = "oversized"
    UNKNOWN = "unknown sender"
    FORGED = "forged"
    FOREIGN = "no such batch"
    UNEXPECTED = "not for this sender to send"
    CONFLICT = "another was sent before"
    CLOSED = "batch is closed"
    WAITING = "too few so far"
    SPENT = "account cannot pay"
    FAILED = "cannot be done"


class Refused(TacitError):
    """A message that is not taken; nothing was changed by it."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class Envelope:
    """A signed message. ``batch`` is the digest of what it belongs to, which binds run, round and request.

    >>> ada = Identity.new()
    >>> envelope = Envelope.signed(ada, "submit", "run", 0, "c0ffee", "ada", b"content")
    >>> read_envelope(envelope.to_bytes(), {"ada": ada.public}, 1000) == envelope
    True
    """

    kind: str
    run: str
    round: int
    batch: str
    node: str
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    version: int = VERSION

    @classmethod
    def signed(
        cls, identity: Identity, kind: str, run: str, round: int, batch: str, node: str, body: bytes
    ) -> Envelope:
        """The message with its sender's signature over all of it."""
        unsigned = cls(kind, run, round, batch, node, body, b"")
        return cls(kind, run, round, batch, node, body, identity.sign(unsigned._content()))

    def to_bytes(self) -> bytes:
        """The message as it travels."""
        return encode({**self._fields(), "signature": packed(self.signature)})

    def genuine(self, public: bytes) -> bool:
        """Whether the owner of this identity signed it."""
        return signed_by(public, self._content(), self.signature)

    def _fields(self) -> dict[str, object]:
        return {
            "version": self.version,
            "kind": self.kind,
            "run": self.run,
            "round": self.round,
            "batch": self.batch,
            "node": self.node,
            "body": packed(self.body),
        }

    def _content(self) -> bytes:
        return b"tacit envelope\0" + encode(self._fields())


def read_envelope(payload: bytes, identities: Mapping[str, bytes], most: int) -> Envelope:
    """The message in these bytes, if one of these parties signed it and its body has at most so many bytes."""
    if len(payload) > most + SLACK:
        raise Refused(Reason.OVERSIZED)
    try:
        fields = opened(payload, most + SLACK, "envelope")
        fields.integer("version", VERSION, VERSION)
        envelope = Envelope(
            kind=fields.one_of("kind", KINDS),
            run=fields.text("run", LONGEST_NAME),
            round=fields.integer("round", 0, 10**9),
            batch=fields.digest("batch"),
            node=fields.text("node", LONGEST_NAME),
            body=fields.content("body", most),
            signature=fields.content("signature", SIGNATURE),
        )
        fields.done()
    except InvalidInput:
        raise Refused(Reason.MALFORMED) from None
    public = identities.get(envelope.node)
    if public is None:
        raise Refused(Reason.UNKNOWN)
    if not envelope.genuine(public):
        raise Refused(Reason.FORGED)
    return envelope
