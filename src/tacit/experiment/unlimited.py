"""A ledger without a ceiling, for baselines that have no privacy: it writes down what they give away, and pays it.

No account of a site may do this. It exists so that a non-private baseline runs the same code as everything else, and
its receipts say what it cost.
"""

from __future__ import annotations

from tacit.core.guarantee import Adjacency, Unit
from tacit.core.release import Receipt
from tacit.core.spend import Spend
from tacit.ledger.entries import ORIGIN, Entry, Kind, following, genesis
from tacit.ledger.payment import payment, receipt_of, replayed

__all__ = ["UnlimitedLedger"]


class UnlimitedLedger:
    """Pays any spend in memory.

    >>> from tacit.core.spend import Stability
    >>> UnlimitedLedger().charge("party 0", Stability(1), "all records", "system", "r", "q").spend
    Stability(delta=Fraction(1, 1))
    """

    def __init__(self) -> None:
        self._payments: dict[tuple[str, str], Entry] = {}
        self._kept: dict[str, bytes] = {}
        self._last = following(0, ORIGIN, Kind.GENESIS, genesis())

    def charge(self, account: str, spend: Spend, purpose: str, randomness: str, request: str, question: str) -> Receipt:
        """Write the payment down; the same request and question again returns the first receipt."""
        wanted = payment(account, spend, purpose, randomness, request, question)
        if first := self._payments.get((account, request)):
            return replayed(first, wanted)
        self._last = following(self._last.sequence, self._last.digest, Kind.PAYMENT, wanted)
        self._payments[account, request] = self._last
        return receipt_of(self._last)

    def protects(self, account: str) -> tuple[Unit, Adjacency]:
        """One record, by name only."""
        return Unit(), Adjacency.REPLACE_ONE

    def kept(self, receipt: Receipt) -> bytes | None:
        """The release that this payment bought, if one was kept."""
        return self._kept.get(receipt.digest)

    def keep(self, receipt: Receipt, payload: bytes) -> bytes:
        """Keep what the payment bought; the first one wins."""
        return self._kept.setdefault(receipt.digest, bytes(payload))
