"""The ledger on an SQL database: append-only, hash-chained, and shared by all processes that open it.

A charge is one exclusive transaction that reads the earlier payments and adds one, so two processes never spend the
same budget. It returns when the payment is on disk. The release is stored in a second transaction: a crash between the
two wastes the payment, until the same request comes again and completes it.

A charge checks what it reads, at a cost that does not grow with the ledger: the definitions, the last entry against
the head record, the account's last entry with its state, the request in two indexes, and the head in the state folder.
A small ledger is verified entirely when it is opened.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tacit.core import Ceiling, DamagedLedger, LedgerError, StaleLedger
from tacit.ledger import store as rows
from tacit.ledger.account import Standing
from tacit.ledger.base import LedgerBase
from tacit.ledger.entries import Entry, EntryKind, Payment, payload_digest, receipt_of
from tacit.ledger.heads import HeadMemory, Heads
from tacit.ledger.store import Store
from tacit.ledger.verify import problems

__all__ = ["StoredLedger"]

# A ledger of at most this many bytes is verified entirely when it is opened.
_WHOLE = 128 * 1024
# A reader may not be able to lock the ledger, so it reads this often before it reports that the ledger is stale.
_READS = 5


class StoredLedger(LedgerBase):
    """Accounts in an open database, which a back end creates and opens."""

    durable = True

    def __init__(self, store: Store, heads: Heads, *, allow_stale: bool = False) -> None:
        """Check it; with ``allow_stale`` also a restored, copied or forked ledger, which cannot pay."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._heads = heads
        try:
            with store.explained("Nothing was read."):
                self._attach(store)
                if not allow_stale:
                    self._memory.require_at_start()
        except BaseException:
            store.close()
            raise

    def _attach(self, store: Store) -> None:
        """Use this connection, the first one or a new one after a loss, which must be to the same ledger."""
        store.require_format()
        with rows.transaction(store, write=False):
            _require_sound(store)
            memory = HeadMemory(store, self._heads)
        before: HeadMemory | None = getattr(self, "_memory", None)
        if before is not None and before.ledger != memory.ledger:
            raise StaleLedger(f"another ledger is at {store.name} than before. Nothing was charged. Open it again.")
        self._store, self._memory = store, memory

    @property
    def name(self) -> str:
        """Its name in messages: its file, or its URL without a password."""
        return self._store.name

    def payments(self, account: str) -> list[Payment]:
        """Every payment of an account in order, with its time and whether its release is stored."""
        with self._transaction(False):
            self._standing(account)
            kept = {row[0] for row in self._store.execute("SELECT payment FROM entries WHERE kind = 'release'")}
            paid = self._payments(account)
            return [Payment(receipt_of(entry), entry.content["at"], entry.sequence in kept) for entry in paid]

    def head(self) -> tuple[int, str]:
        """The number of entries and the last digest, to be stored elsewhere."""
        with self._transaction(False):
            return self._head()

    def stale_reason(self) -> str | None:
        """Why this is not the ledger that was last used here, and cannot pay; None if it is."""
        # Another process may pay between the read of the ledger and that of the stored head: read again.
        for _ in range(_READS):
            with self._transaction(False):
                found = self._memory.finding()
            if found is None:
                return None
        return found[0] if found else None

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    @contextmanager
    def _transaction(self, write: bool, outcome: str = "Nothing was read.") -> Iterator[None]:
        with self._mine(outcome):
            with rows.transaction(self._store, write):
                if write:
                    self._memory.require()
                yield
                present = rows.last(self._store) if write else None
            if write:
                # The ledger first: after a crash between the two it is ahead of the stored head, which is harmless.
                self._memory.remember(present)

    @contextmanager
    def _mine(self, outcome: str) -> Iterator[None]:
        # Locks and sockets belong to a process: a connection used after a fork would corrupt the ledger.
        if os.getpid() != self._process:
            raise LedgerError(f"the ledger {self.name} was opened before a fork. Open it again in each process.")
        with self._lock:
            self._ready()
            with self._store.explained(outcome):
                yield

    def _ready(self) -> None:
        """Called before each transaction: a back end whose connection can be lost opens a new one."""

    def _head(self) -> tuple[int, str]:
        return rows.last(self._store)

    def _names(self) -> list[str]:
        return rows.named(self._store)

    def _account(self, account: str) -> Standing | None:
        entry = rows.newest(self._store, account)
        if entry is None:
            return None
        state = entry.content["state"]
        ceiling = next(rows.read(self._store, "WHERE sequence = ?", (state["ceiling"],)), None)
        if ceiling is None or ceiling.kind != EntryKind.ACCOUNT or ceiling.content["account"] != account:
            raise DamagedLedger(f"the ledger {self.name} has lost the ceiling of an account. {rows.RESTORE}")
        return Standing.from_json(account, Ceiling.from_json(ceiling.content), state)

    def _payment(self, account: str, request: str) -> Entry | None:
        return rows.by_two_indexes(
            self._store,
            ("one_payment_a_request", "payments_by_request"),
            "kind = 'payment' AND account = ? AND request = ?",
            (account, request),
        )

    def _payments(self, account: str) -> Iterator[Entry]:
        return rows.read(self._store, "WHERE kind = 'payment' AND account = ? ORDER BY sequence", (account,))

    def _release(self, paid: Entry) -> bytes | None:
        entry = rows.by_two_indexes(
            self._store,
            ("one_release_a_payment", "releases_by_payment"),
            "kind = 'release' AND payment = ?",
            (paid.sequence,),
        )
        if entry is None:
            return None
        if not isinstance(entry.payload, bytes) or entry.content["sha256"] != payload_digest(
            entry.content["salt"], entry.payload
        ):
            raise DamagedLedger(
                f"the release stored for request {paid.content['request']!r} was altered after it was written. "
                "Run `tacit ledger verify` and restore the ledger from a copy that verifies."
            )
        return entry.payload

    def _append(
        self,
        kind: EntryKind,
        content: Mapping[str, Any],
        standing: Standing | None = None,
        payload: bytes | None = None,
    ) -> Entry:
        state = {} if standing is None else {"state": standing.to_json()}
        return rows.append(self._store, kind, {**content, **state}, payload)


def _require_sound(store: Store) -> None:
    """Check what every use depends on: the definitions, and every entry of a small ledger."""
    wrong = next(store.guards(), None)
    if wrong is None and store.size() <= _WHOLE:
        wrong = next((str(each) for each in problems(store)), None)
    if wrong is not None:
        raise DamagedLedger(f"the ledger {store.name} is damaged: {wrong}. Nothing was read. {rows.RESTORE}")
