"""The entries of a ledger and their hash chain.

An entry's digest is SHA-256 over the previous digest and its own sequence, kind and body, separated by newlines. The
body is canonical JSON (sorted keys, no spaces, ASCII), so the chain can be recomputed from an export in any language.
Changing one entry changes every digest after it.
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

from tacit.core import DamagedLedger, InvalidInput, Receipt, RequestConflict, Spend, spend_from_json, spend_to_json
from tacit.version import __version__

__all__ = [
    "LEDGER_FORMAT", "ORIGIN", "Entry", "EntryKind", "Payment", "canonical", "entry_digest", "following", "genesis",
    "payload_digest", "payment", "receipt_of", "release", "replayed", "text",
]  # fmt: skip

LEDGER_FORMAT = 2
ORIGIN = "0" * 64


class EntryKind(StrEnum):
    """What an entry records."""

    GENESIS = "genesis"
    ACCOUNT = "account"
    PAYMENT = "payment"
    RELEASE = "release"
    MIGRATION = "migration"
    ACCEPTANCE = "acceptance"


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
        """The body as JSON values, after its digest was checked."""
        self.require_whole()
        content: dict[str, Any] = json.loads(self.body)
        return content

    def require_whole(self) -> None:
        """Refuse an entry that does not match its digest."""
        if self.digest != entry_digest(self.previous, self.sequence, self.kind, self.body):
            raise DamagedLedger(
                f"entry {self.sequence} of the ledger was altered after it was written. "
                "Run `tacit ledger verify` and restore the ledger from a copy that verifies."
            )


def canonical(content: Mapping[str, Any]) -> str:
    """The values as canonical JSON.

    >>> canonical({"spend": {"kind": "pure", "epsilon": "1/10"}, "account": "clinic"})
    '{"account":"clinic","spend":{"epsilon":"1/10","kind":"pure"}}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def entry_digest(previous: str, sequence: int, kind: str, body: str) -> str:
    """The digest of an entry, which chains it to the one before it.

    >>> entry_digest(ORIGIN, 1, "genesis", "{}")[:16]
    'a9f7e23368495bd9'
    """
    return hashlib.sha256(f"{previous}\n{sequence}\n{kind}\n{body}".encode()).hexdigest()


def following(
    sequence: int, previous: str, kind: EntryKind, content: Mapping[str, Any], payload: bytes | None = None
) -> Entry:
    """The entry after the given sequence and digest, with the present time.

    >>> following(0, ORIGIN, EntryKind.GENESIS, genesis()).sequence
    1
    """
    body = canonical({**content, "at": datetime.now(UTC).isoformat(timespec="seconds")})
    return Entry(
        sequence + 1, str(kind), body, previous, entry_digest(previous, sequence + 1, str(kind), body), payload
    )


def genesis() -> dict[str, Any]:
    """The content of the first entry: the format, and a random id so that no two ledgers have a digest in common.

    >>> genesis()["format"]
    2
    """
    return {"format": LEDGER_FORMAT, "ledger": secrets.token_hex(16), "tacit": __version__}


def release(payment: int, payload: bytes) -> dict[str, Any]:
    """The content of the entry that stores the release of a payment.

    Receipts carry digests of the chain. The salt prevents that a digest confirms a guess of the payload: under secure
    aggregation or secret sampling the stored payload is more than what leaves the holder.

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


@dataclass(frozen=True)
class Payment:
    """A receipt, its time, and whether its release is stored."""

    receipt: Receipt
    at: str
    kept: bool


def text(value: str, name: str) -> str:
    """Printable text that is not empty, or an error that names the parameter.

    >>> text("clinic", "account")
    'clinic'
    """
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InvalidInput(f"{name} must be printable text on one line and not empty, got {value!r}")
    return value


def payment(account: str, spend: Spend, purpose: str, randomness: str, request: str, question: str) -> dict[str, Any]:
    """The content of a payment's entry.

    >>> from tacit.core.spend import Pure
    >>> payment("clinic", Pure(0.1), "labels", "system", "r-1", "c0ffee")["spend"]
    {'kind': 'pure', 'epsilon': '1/10'}
    """
    return {
        "account": text(account, "account"),
        "purpose": text(purpose, "purpose"),
        "question": text(question, "question"),
        "randomness": text(randomness, "randomness"),
        "request": text(request, "request"),
        "spend": spend_to_json(spend),
    }


def receipt_of(entry: Entry) -> Receipt:
    """The receipt for a payment that was written."""
    content = entry.content
    return Receipt(
        account=content["account"],
        request=content["request"],
        purpose=content["purpose"],
        spend=spend_from_json(content["spend"]),
        randomness=content["randomness"],
        sequence=entry.sequence,
        digest=entry.digest,
    )


def replayed(entry: Entry, wanted: dict[str, Any]) -> Receipt:
    """The first receipt of a repeated request, which must be identical in every field.

    That includes the randomness: a payment for system randomness must never cover a seeded sample.
    """
    first = entry.content
    if changed := [name for name, value in wanted.items() if first[name] != value]:
        differences = ", ".join(f"{name} was {first[name]!r} and is now {wanted[name]!r}" for name in changed)
        raise RequestConflict(
            f"request {wanted['request']!r} of account {wanted['account']!r} was paid for a different question: "
            f"{differences}. Nothing was charged. Use a new request id for a new question."
        )
    return receipt_of(entry)
