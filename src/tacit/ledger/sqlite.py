"""The durable ledger: one SQLite file, append-only and hash-chained, shared by the processes of one machine.

A charge is one transaction that holds the write lock while it looks at what was paid and adds to it, so two
processes never spend the same budget. It returns when the payment is on disk. Keeping the release is a second
transaction: between the two a crash wastes the payment, until the same request comes again and finishes it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tacit.accounting.compose import Rule
from tacit.core.errors import InvalidInput, LedgerError
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.release import Receipt
from tacit.core.spend import Spend, spend_from_json
from tacit.ledger import database
from tacit.ledger.account import Balance, Ceiling, Tally, require, require_all
from tacit.ledger.entries import FORMAT, ORIGIN, Entry, Kind, genesis, payload_digest, release
from tacit.ledger.payment import Payment, payment, receipt_of, replayed, text

__all__ = ["Change", "SqliteLedger"]

Change = tuple[str, Ceiling | None, Ceiling]


class SqliteLedger:
    """Accounts in a file. Make it with ``create``, then open it by its path in every process that needs it.

    >>> import tempfile
    >>> from tacit.core.spend import Pure
    >>> path = Path(tempfile.mkdtemp()) / "site.ledger"
    >>> with SqliteLedger.create(path, {"clinic": Ceiling(1)}) as ledger:
    ...     receipt = ledger.charge("clinic", Pure(0.25), "labels", "system", "r-1", "c0ffee")
    ...     ledger.keep(receipt, b"first")
    b'first'
    >>> with SqliteLedger(path) as ledger:
    ...     again = ledger.charge("clinic", Pure(0.25), "labels", "system", "r-1", "c0ffee")
    ...     again == receipt, ledger.kept(again), ledger.balance("clinic").remaining
    (True, b'first', Fraction(3, 4))
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._tallies: dict[str, tuple[Tally, int]] = {}
        with database.explained(self.path, "Nothing was read."):
            self._connection = database.connect(self.path)
            try:
                database.check(self._connection, self.path)
            except BaseException:
                self._connection.close()
                raise

    @classmethod
    def create(cls, path: str | Path, policy: Mapping[str, Ceiling]) -> Self:
        """A new ledger with the policy's accounts. After a crash here the same call works again."""
        path, named = Path(path), _named(policy)
        database.make(path)
        with database.explained(path, "Nothing was created."):
            connection = database.connect(path)
            try:
                if database.empty(connection):
                    connection.execute("PRAGMA journal_mode = WAL")
                with database.transaction(connection):
                    if not database.empty(connection):
                        raise LedgerError(f"{path} exists. Apply a policy to it with `tacit ledger open`.")
                    for statement in database.SCHEMA:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {database.APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {FORMAT}")
                    connection.execute("INSERT INTO head VALUES (1, 0, ?)", (ORIGIN,))
                    database.append(connection, Kind.GENESIS, genesis())
                    for account, ceiling in named.items():
                        database.append(connection, Kind.ACCOUNT, {"account": account, **ceiling.to_json()})
            finally:
                connection.close()
        return cls(path)

    def charge(self, account: str, spend: Spend, purpose: str, randomness: str, request: str, question: str) -> Receipt:
        """Pay once for a request; the same request and question again returns the first receipt unpaid."""
        wanted = payment(account, spend, purpose, randomness, request, question)
        with self._writing("Nothing was charged."):
            ceiling = self._ceiling(account)
            if first := self._one("WHERE kind = 'payment' AND account = ? AND request = ?", account, request):
                return replayed(first, wanted)
            require(account, ceiling, self._tally(account), spend)
            entry = database.append(self._connection, Kind.PAYMENT, wanted)
        return receipt_of(entry)

    def foresee(self, account: str, spends: Mapping[str, Spend]) -> None:
        """Refuse now what charges for these requests would refuse, before work is done; a read that changes nothing."""
        paid = "WHERE kind = 'payment' AND account = ? AND request = ?"
        with self._reading():
            ceiling = self._ceiling(account)
            coming = [spend for request, spend in spends.items() if not self._one(paid, account, request)]
            require_all(account, ceiling, self._tally(account), coming)

    def kept(self, receipt: Receipt) -> bytes | None:
        """The release that this payment bought, if one was kept."""
        with self._reading():
            return self._kept(receipt)

    def keep(self, receipt: Receipt, payload: bytes) -> bytes:
        """Keep what the payment bought, and return what is kept: the first one wins, always."""
        with self._writing("The payment stands and nothing was kept or released."):
            first = self._kept(receipt)
            if first is None:
                database.append(self._connection, Kind.RELEASE, release(receipt.sequence, payload), payload)
                first = bytes(payload)
        return first

    def protects(self, account: str) -> tuple[Unit, Adjacency]:
        """Whose privacy the account's budget counts for, and between which data sets."""
        ceiling = self.balance(account).ceiling
        return ceiling.unit, ceiling.adjacency

    def balance(self, account: str) -> Balance:
        """What the account has spent and what remains; a read that changes nothing."""
        with self._reading():
            ceiling = self._ceiling(account)
            tally = self._tally(account)
            return Balance(account, ceiling, tally.total(ceiling), tally.payments)

    def accounts(self) -> dict[str, Ceiling]:
        """Every account with the ceiling in force, in the order they were opened."""
        with self._reading():
            return self._ceilings()

    def payments(self, account: str) -> list[Payment]:
        """Every payment of an account, the oldest first."""
        with self._reading():
            self._ceiling(account)
            paid = database.read(
                self._connection, "WHERE kind = 'payment' AND account = ? ORDER BY sequence", (account,)
            )
            kept = {row[0] for row in self._connection.execute("SELECT payment FROM entries WHERE kind = 'release'")}
            return [Payment(receipt_of(entry), entry.content["at"], entry.sequence in kept) for entry in paid]

    def apply(self, policy: Mapping[str, Ceiling]) -> list[Change]:
        """Append what a changed policy says, for the site's operator alone; returns before and after.

        What was paid was paid for one unit and adjacency, and a sequence of charges cannot be declared planned
        after the fact, so those hold from the first payment on.
        """
        named = _named(policy)
        changes: list[Change] = []
        with self._writing("The policy was not changed."):
            present = self._ceilings()
            if missing := [account for account in present if account not in named]:
                raise InvalidInput(
                    f"the policy leaves out account {missing[0]!r}, which this ledger holds. Write every account; "
                    "one that shall spend no more gets an epsilon below what it has spent."
                )
            for account, ceiling in named.items():
                before = present.get(account)
                if ceiling == before:
                    continue
                if before is not None and self._tally(account).payments:
                    _require_same_meaning(account, before, ceiling)
                database.append(self._connection, Kind.ACCOUNT, {"account": account, **ceiling.to_json()})
                changes.append((account, before, ceiling))
        return changes

    def head(self) -> tuple[int, str]:
        """The number of entries and the last digest, to be kept elsewhere."""
        with self._reading():
            return database.head(self._connection)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _writing(self, outcome: str) -> Iterator[None]:
        with self._mine(outcome), database.transaction(self._connection):
            yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._mine("Nothing was read."), database.transaction(self._connection, "DEFERRED"):
            yield

    @contextmanager
    def _mine(self, outcome: str) -> Iterator[None]:
        # SQLite's locks belong to a process: a connection that was carried over a fork would corrupt the file.
        if os.getpid() != self._process:
            raise LedgerError(f"the ledger {self.path} was opened before a fork. Open it again in each process.")
        with self._lock, database.explained(self.path, outcome):
            yield

    def _one(self, where: str, *values: object) -> Entry | None:
        return next(database.read(self._connection, where, values), None)

    def _ceiling(self, account: str) -> Ceiling:
        newest = "WHERE kind = 'account' AND account = ? ORDER BY sequence DESC LIMIT 1"
        entry = self._one(newest, account)
        if entry is None:
            raise InvalidInput(f"account must be one of {', '.join(self._ceilings())}, got {account!r}")
        return Ceiling.from_json(entry.content)

    def _ceilings(self) -> dict[str, Ceiling]:
        entries = database.read(self._connection, "WHERE kind = 'account' ORDER BY sequence")
        return {entry.content["account"]: Ceiling.from_json(entry.content) for entry in entries}

    def _tally(self, account: str) -> Tally:
        """What the account has paid. Only payments since the last look are read, equal ones as one group."""
        tally, seen = self._tallies.get(account, (Tally(), 0))
        groups = self._connection.execute(
            "SELECT json_extract(body, '$.spend'), count(*), max(sequence) FROM entries INDEXED BY payments_of_account "
            "WHERE kind = 'payment' AND account = ? AND sequence > ? GROUP BY 1 ORDER BY min(sequence)",
            (account, seen),
        ).fetchall()
        for spend, count, newest in groups:
            tally.add(spend_from_json(json.loads(spend)), count)
            seen = max(seen, newest)
        self._tallies[account] = tally, seen
        return tally

    def _kept(self, receipt: Receipt) -> bytes | None:
        paid = self._one("WHERE kind = 'payment' AND sequence = ?", receipt.sequence)
        if paid is None or receipt_of(paid) != receipt:
            raise LedgerError(f"the receipt for request {receipt.request!r} was not written by the ledger {self.path}")
        entry = self._one("WHERE kind = 'release' AND payment = ?", receipt.sequence)
        if entry is None:
            return None
        if entry.payload is None or entry.content["sha256"] != payload_digest(entry.content["salt"], entry.payload):
            raise LedgerError(
                f"the release kept for request {receipt.request!r} was altered after it was written. "
                "Run `tacit ledger verify` and restore the ledger from a copy that verifies."
            )
        return entry.payload


def _named(policy: Mapping[str, Ceiling]) -> dict[str, Ceiling]:
    if not policy:
        raise InvalidInput("the policy must name at least one account")
    return {text(account, "account"): ceiling for account, ceiling in policy.items()}


def _require_same_meaning(account: str, before: Ceiling, after: Ceiling) -> None:
    changed = [name for name in ("unit", "adjacency") if getattr(before, name) != getattr(after, name)]
    if after.rule is Rule.PLANNED and before.rule is not Rule.PLANNED:
        changed.append("rule")
    if changed:
        raise InvalidInput(
            f"the {changed[0]} of account {account!r} cannot change from {getattr(before, changed[0])} to "
            f"{getattr(after, changed[0])} after its first payment. The policy was not changed. Open a new account."
        )
