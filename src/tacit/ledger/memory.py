"""Ledgers in memory, for tests and simulations, with the same rules as the durable ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tacit.core import Ceiling, InvalidInput, Paid, Spend, Total
from tacit.ledger.account import Standing
from tacit.ledger.base import LedgerBase
from tacit.ledger.entries import ORIGIN, Entry, EntryKind, following, genesis

__all__ = ["MemoryLedger", "UnlimitedLedger"]


class MemoryLedger(LedgerBase):
    """Accounts with ceilings in memory. Nothing survives the process, so nothing real may depend on it.

    >>> from tacit.core.spend import Pure
    >>> ledger = MemoryLedger({"clinic": Ceiling(1)})
    >>> receipt = ledger.charge("clinic", Pure(0.25), "labels", "seeded", "r-1", "c0ffee")
    >>> ledger.store_release(receipt, b"first"), ledger.store_release(receipt, b"second")
    (b'first', b'first')
    >>> ledger.balance("clinic").remaining
    Fraction(3, 4)
    """

    durable = False

    def __init__(self, policy: Mapping[str, Ceiling]) -> None:
        self._last = following(0, ORIGIN, EntryKind.GENESIS, genesis())
        self._standings: dict[str, Standing] = {}
        self._paid: dict[str, dict[str, Entry]] = {}
        self._releases: dict[int, bytes] = {}
        self._lock = threading.Lock()
        if policy:
            self.apply(policy)

    @contextmanager
    def _transaction(self, write: bool, outcome: str = "") -> Iterator[None]:
        with self._lock:
            yield

    def _head(self) -> tuple[int, str]:
        return self._last.sequence, self._last.digest

    def _names(self) -> list[str]:
        return list(self._standings)

    def _account(self, account: str) -> Standing | None:
        return self._standings.get(account)

    def _payment(self, account: str, request: str) -> Entry | None:
        return self._paid.get(account, {}).get(request)

    def _payments(self, account: str) -> list[Entry]:
        return list(self._paid.get(account, {}).values())

    def _release(self, paid: Entry) -> bytes | None:
        return self._releases.get(paid.sequence)

    def _append(
        self,
        kind: EntryKind,
        content: Mapping[str, Any],
        standing: Standing | None = None,
        payload: bytes | None = None,
    ) -> Entry:
        self._last = following(*self._head(), kind, content, payload)
        if standing is not None:
            self._standings[standing.account] = standing
        if kind is EntryKind.PAYMENT:
            self._paid.setdefault(content["account"], {})[content["request"]] = self._last
        if payload is not None:
            self._releases[content["payment"]] = payload
        return self._last


class UnlimitedLedger(MemoryLedger):
    """Accounts without a ceiling, for baselines without privacy; their charges are recorded and always paid.

    No holder may use it for real records. It exists so that a non-private baseline runs the same code as every method,
    with receipts of its cost. Every name is an account.

    >>> from tacit.core.spend import Stability
    >>> UnlimitedLedger().charge("party 0", Stability(1), "all records", "system", "r", "q").spend
    Stability(delta=Fraction(1, 1))
    """

    def __init__(self) -> None:
        super().__init__({})

    def _account(self, account: str) -> Standing:
        return self._standings.get(account) or _Unlimited(account, Ceiling(10**9), ceiling_entry=1)

    def _paid_before(self, account: str) -> list[Paid]:
        raise InvalidInput("a ledger without a ceiling has no other limits either")


class _Unlimited(Standing):
    """An account whose ceiling states the privacy unit only; its ε is never compared with anything."""

    def excess(self, spend: Spend) -> Total | None:
        return None
