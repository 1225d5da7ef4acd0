"""No receipt, no release: a value that left the private side has the receipts of its payments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from tacit.core.spend import Spend, spend_from_json, spend_to_json

__all__ = ["NoResponse", "Receipt", "Release", "gather", "no_response", "refusal", "restored"]

_T = TypeVar("_T", covariant=True)
_U = TypeVar("_U")


@dataclass(frozen=True)
class Receipt:
    """Proof of one payment: account, request, purpose, spend, source of randomness, and place in the ledger.

    ``digest`` is the hash of the payment's row in the ledger, chained to all earlier rows. In a receipt that came over
    a network it is the first 16 digits.
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
        """Whether the noise came from a seeded generator."""
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

    Whatever is computed from it is post-processing and costs nothing: use ``map``, which keeps the receipts.
    Only the gate, this module and the wire codec make one; a test checks that.
    """

    value: _T
    receipts: tuple[Receipt, ...]

    def map(self, function: Callable[[_T], _U]) -> Release[_U]:
        """The function's result, with the same receipts."""
        return Release(function(self.value), self.receipts)


def refusal() -> Release[None]:
    """An answer without data, from a holder whose account cannot pay.

    Whether an account can pay depends on earlier charges, never on a record, so it may be said at no cost.

    >>> refusal()
    Release(value=None, receipts=())
    """
    return Release(None, ())


class NoResponse(Enum):
    """Stands for an answer that was not received."""

    LOST = "lost"


def no_response() -> Release[NoResponse]:
    """No response from a holder that was asked: it may have paid, and may answer the next question.

    >>> no_response().value is NoResponse.LOST
    True
    """
    return Release(NoResponse.LOST, ())


def restored(value: _U, receipts: Sequence[dict[str, Any]]) -> Release[_U]:
    """A release that an interrupted run stored, with its receipts as ``Receipt.to_json`` wrote them.

    >>> restored(3, []).value
    3
    """
    return Release(value, tuple(map(Receipt.from_json, receipts)))


def gather(releases: Sequence[Release[_T]]) -> Release[list[_T]]:
    """Several releases as one release of a list, with every receipt once and in order."""
    receipts = dict.fromkeys(receipt for release in releases for receipt in release.receipts)
    return Release([release.value for release in releases], tuple(receipts))
