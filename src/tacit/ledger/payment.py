"""A payment and the receipt for it: what is written down, and when a retried request is the same one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.core.errors import InvalidInput, RequestConflict
from tacit.core.release import Receipt
from tacit.core.spend import Spend, spend_from_json, spend_to_json
from tacit.ledger.entries import Entry

__all__ = ["Payment", "payment", "receipt_of", "replayed", "text"]


@dataclass(frozen=True)
class Payment:
    """A receipt, when it was written, and whether the release that it bought is kept."""

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
    """The first receipt for a request that comes again, which must be the same in every part.

    The randomness counts too: a payment for system randomness must never cover a seeded draw.
    """
    first = entry.content
    if changed := [name for name, value in wanted.items() if first[name] != value]:
        differences = ", ".join(f"{name} was {first[name]!r} and is now {wanted[name]!r}" for name in changed)
        raise RequestConflict(
            f"request {wanted['request']!r} of account {wanted['account']!r} was paid for something else: "
            f"{differences}. Nothing was charged. Use a new request id for a new question."
        )
    return receipt_of(entry)
