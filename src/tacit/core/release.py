"""No receipt, no release: a value that left the private side has proof that it was paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from tacit.core.spend import Spend, spend_from_json, spend_to_json

__all__ = ["Receipt", "Release", "Silence", "gather", "refusal", "restored", "silence"]

_T = TypeVar("_T", covariant=True)
_U = TypeVar("_U")


@dataclass(frozen=True)
class Receipt:
    """Proof of one payment: who paid, how much, for what, with which randomness, and its place in the ledger.

    ``digest`` is the hash of the ledger row that recorded the payment, which chains to every row before it.
    Of a receipt that came over a network it is the first 16 digits.
    """

    account: str
    request: str
    purpose: str
    spend: Spend
    randomness: str
    sequence: int
    digest: str

    @property
    def simulated(self) -> bool:
        """Whether the noise that was paid for came from a seeded generator."""
        return self.randomness != "system"

    def to_json(self) -> dict[str, Any]:
        """The receipt as JSON values."""
        return {
            "account": self.account,
            "request": self.request,
            "purpose": self.purpose,
            "spend": spend_to_json(self.spend),
            "randomness": self.randomness,
            "sequence": self.sequence,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Receipt:
        """The receipt that ``to_json`` wrote."""
        return cls(**{**value, "spend": spend_from_json(value["spend"])})


@dataclass(frozen=True)
class Release(Generic[_T]):
    """A value that may be seen, with the receipts that paid for it.

    Everything done to it afterwards is post-processing and free: use ``map``, which keeps the receipts.
    Only the gate, this module and the wire codec make one; a test checks that.
    """

    value: _T
    receipts: tuple[Receipt, ...]

    def map(self, function: Callable[[_T], _U]) -> Release[_U]:
        """The function's result, still carrying the receipts."""
        return Release(function(self.value), self.receipts)


def refusal() -> Release[None]:
    """An answer without data: a holder whose account is spent says only that.

    Whether an account can pay depends on what was charged, never on a record, so saying it costs nothing.

    >>> refusal()
    Release(value=None, receipts=())
    """
    return Release(None, ())


class Silence(Enum):
    """In place of an answer that did not come."""

    LOST = "lost"


def silence() -> Release[Silence]:
    """A holder was asked and did not answer: it may have paid, and may answer the next question.

    >>> silence().value is Silence.LOST
    True
    """
    return Release(Silence.LOST, ())


def restored(value: _U, receipts: Sequence[dict[str, Any]]) -> Release[_U]:
    """A release that was written by an interrupted run, with its receipts as ``Receipt.to_json`` wrote them.

    >>> restored(3, []).value
    3
    """
    return Release(value, tuple(map(Receipt.from_json, receipts)))


def gather(releases: Sequence[Release[_T]]) -> Release[list[_T]]:
    """Many releases as one release of a list, with every receipt once and in order."""
    receipts = dict.fromkeys(receipt for release in releases for receipt in release.receipts)
    return Release([release.value for release in releases], tuple(receipts))
