"""The rows of a ledger and the chain that ties each one to all before it.

An entry's digest is SHA-256 over the previous digest, its own sequence, kind and body, with a newline between
them. The body is canonical JSON (sorted keys, no spaces, ASCII), so anybody can recompute the chain from an
export with a few lines of any language. Whoever changes one entry changes every digest after it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tacit.core.errors import LedgerError
from tacit.version import __version__

__all__ = [
    "FORMAT",
    "ORIGIN",
    "Entry",
    "Kind",
    "canonical",
    "digest_of",
    "following",
    "genesis",
    "payload_digest",
    "release",
]

FORMAT = 1
ORIGIN = "0" * 64


class Kind(StrEnum):
    """What an entry records."""

    GENESIS = "genesis"
    ACCOUNT = "account"
    PAYMENT = "payment"
    RELEASE = "release"


@dataclass(frozen=True)
class Entry:
    """One row. Only a release has a payload, and its body holds the payload's digest."""

    sequence: int
    kind: str
    body: str
    previous: str
    digest: str
    payload: bytes | None = None

    @property
    def content(self) -> dict[str, Any]:
        """The body as JSON values, if it is what its digest says. Sums over many entries do not come this way."""
        if self.digest != digest_of(self.previous, self.sequence, self.kind, self.body):
            raise LedgerError(
                f"entry {self.sequence} of the ledger was altered after it was written. "
                "Run `tacit ledger verify` and restore the ledger from a copy that verifies."
            )
        content: dict[str, Any] = json.loads(self.body)
        return content


def canonical(content: Mapping[str, Any]) -> str:
    """The one way to write these values as JSON.

    >>> canonical({"spend": {"kind": "pure", "epsilon": "1/10"}, "account": "clinic"})
    '{"account":"clinic","spend":{"epsilon":"1/10","kind":"pure"}}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(previous: str, sequence: int, kind: str, body: str) -> str:
    """The digest that ties an entry to the one before it.

    >>> digest_of(ORIGIN, 1, "genesis", "{}")[:16]
    'a9f7e23368495bd9'
    """
    return hashlib.sha256(f"{previous}\n{sequence}\n{kind}\n{body}".encode()).hexdigest()


def following(
    sequence: int, previous: str, kind: Kind, content: Mapping[str, Any], payload: bytes | None = None
) -> Entry:
    """The entry that comes next after the given sequence and digest, stamped with the time.

    >>> following(0, ORIGIN, Kind.GENESIS, genesis()).sequence
    1
    """
    body = canonical({**content, "at": datetime.now(UTC).isoformat(timespec="seconds")})
    return Entry(sequence + 1, str(kind), body, previous, digest_of(previous, sequence + 1, str(kind), body), payload)


def genesis() -> dict[str, Any]:
    """The content of the first entry: the format, and a random name so that no two ledgers share a digest.

    >>> genesis()["format"]
    1
    """
    return {"format": FORMAT, "ledger": secrets.token_hex(16), "tacit": __version__}


def release(payment: int, payload: bytes) -> dict[str, Any]:
    """The content of an entry that keeps what a payment bought.

    The salt keeps the chain's digests, which travel with receipts, from confirming a guess of the payload:
    under masking or secret sampling what the ledger keeps is more than what leaves the holder.

    >>> sorted(release(3, b"labels"))
    ['payment', 'salt', 'sha256']
    """
    salt = secrets.token_hex(16)
    return {"payment": payment, "salt": salt, "sha256": payload_digest(salt, payload)}


def payload_digest(salt: str, payload: bytes) -> str:
    """The salted digest of a payload.

    >>> payload_digest("", b"") == hashlib.sha256(b"").hexdigest()
    True
    """
    return hashlib.sha256(bytes.fromhex(salt) + payload).hexdigest()
