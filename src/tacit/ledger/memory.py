"""A ledger that lives as long as the process: for tests and simulations, with the same laws as the durable one."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tacit.core.errors import InvalidInput, LedgerError
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.release import Receipt
from tacit.core.spend import Spend
from tacit.ledger.account import Balance, Ceiling, Tally, require, require_all
from tacit.ledger.entries import ORIGIN, Entry, Kind, following, genesis
from tacit.ledger.payment import payment, receipt_of, replayed, text

__all__ = ["Ceiling", "MemoryLedger"]


class MemoryLedger:
    """Accounts with ceilings in memory. Nothing survives the process, so nothing real may depend on it.

    >>> from tacit.core.spend import Pure
    >>> ledger = MemoryLedger({"clinic": Ceiling(1)})
    >>> receipt = ledger.charge("clinic", Pure(0.25), "labels", "seeded", "r-1", "c0ffee")
    >>> ledger.keep(receipt, b"first"), ledger.keep(receipt, b"second")
    (b'first', b'first')
    >>> ledger.balance("clinic").remaining
    Fraction(3, 4)
    """

    def __init__(self, policy: Mapping[str, Ceiling]) -> None:
        self._ceilings = {text(account, "account"): ceiling for account, ceiling in policy.items()}
        self._tallies = {account: Tally() for account in self._ceilings}
        self._payments: dict[tuple[str, str], Entry] = {}
        self._kept: dict[str, bytes] = {}
        self._last = following(0, ORIGIN, Kind.GENESIS, genesis())
        self._lock = threading.Lock()

    def charge(self, account: str, spend: Spend, purpose: str, randomness: str, request: str, question: str) -> Receipt:
        """Pay once for a request; the same request and question again returns the first receipt unpaid."""
        wanted = payment(account, spend, purpose, randomness, request, question)
        with self._lock:
            ceiling = self._ceiling(account)
            if first := self._payments.get((account, request)):
                return replayed(first, wanted)
            tally = self._tallies[account]
            require(account, ceiling, tally, spend)
            self._last = following(self._last.sequence, self._last.digest, Kind.PAYMENT, wanted)
            self._payments[account, request] = self._last
            tally.add(spend)
            return receipt_of(self._last)

    def foresee(self, account: str, spends: Mapping[str, Spend]) -> None:
        """Refuse now what charges for these requests would refuse, before work is done; a read that changes nothing."""
        with self._lock:
            ceiling = self._ceiling(account)
            coming = [spend for request, spend in spends.items() if (account, request) not in self._payments]
            require_all(account, ceiling, self._tallies[account], coming)

    def kept(self, receipt: Receipt) -> bytes | None:
        """The release that this payment bought, if one was kept."""
        with self._lock:
            return self._kept.get(self._paid(receipt))

    def keep(self, receipt: Receipt, payload: bytes) -> bytes:
        """Keep what the payment bought, and return what is kept: the first one wins, always."""
        with self._lock:
            return self._kept.setdefault(self._paid(receipt), bytes(payload))

    def protects(self, account: str) -> tuple[Unit, Adjacency]:
        """Whose privacy the account's budget counts for, and between which data sets."""
        ceiling = self.balance(account).ceiling
        return ceiling.unit, ceiling.adjacency

    def balance(self, account: str) -> Balance:
        """What the account has spent and what remains; a read that changes nothing."""
        with self._lock:
            ceiling = self._ceiling(account)
            tally = self._tallies[account]
            return Balance(account, ceiling, tally.total(ceiling), tally.payments)

    def _ceiling(self, account: str) -> Ceiling:
        if account not in self._ceilings:
            raise InvalidInput(f"account must be one of {', '.join(self._ceilings) or 'none'}, got {account!r}")
        return self._ceilings[account]

    def _paid(self, receipt: Receipt) -> str:
        first = self._payments.get((receipt.account, receipt.request))
        if first is None or first.digest != receipt.digest:
            raise LedgerError(f"the receipt for request {receipt.request!r} was not written by this ledger")
        return first.digest
