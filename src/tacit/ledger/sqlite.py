"""The durable ledger: one SQLite file, append-only and hash-chained, shared by the processes of one machine.

A charge is one transaction that holds the write lock while it looks at what was paid and adds to it, so two
processes never spend the same budget. It returns when the payment is on disk. Keeping the release is a second
transaction: between the two a crash wastes the payment, until the same request comes again and finishes it.

What a charge reads is checked, at a cost that does not grow with the ledger: the definitions, the last entry against
the head record, the account's last entry with its state, the request in two indexes, and the head that was kept in a
second place. A small file is verified whole when it is opened.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from tacit.core.account import Ceiling
from tacit.core.errors import DamagedLedger, LedgerError
from tacit.core.files import write_file
from tacit.core.spend import spend_from_json
from tacit.ledger import database
from tacit.ledger.account import Standing
from tacit.ledger.base import LedgerBase, named_accounts
from tacit.ledger.entries import LEDGER_FORMAT, ORIGIN, Entry, EntryKind, Payment, genesis, payload_digest, receipt_of
from tacit.ledger.heads import HeadMemory, Heads
from tacit.ledger.verify import problems, verify

__all__ = ["SqliteLedger", "migrate", "vacant"]

# A file of this many pages, 128 KiB, is verified whole when it is opened.
_WHOLE = 32
# So often a reader looks before it says that a ledger is not the last one: a reader may not be able to lock it.
LOOKS = 5


class SqliteLedger(LedgerBase):
    """Accounts in a file. Make it with ``create``, then open it by its path in every process that needs it.

    >>> import tempfile
    >>> from tacit.core.spend import Pure
    >>> path = Path(tempfile.mkdtemp()) / "site.ledger"
    >>> with SqliteLedger.create(path, {"clinic": Ceiling(1)}) as ledger:
    ...     receipt = ledger.charge("clinic", Pure(0.25), "labels", "system", "r-1", "c0ffee")
    ...     ledger.store_release(receipt, b"first")
    b'first'
    >>> with SqliteLedger(path) as ledger:
    ...     again = ledger.charge("clinic", Pure(0.25), "labels", "system", "r-1", "c0ffee")
    ...     again == receipt, ledger.stored_release(again), ledger.balance("clinic").remaining
    (True, b'first', Fraction(3, 4))
    """

    durable = True

    def __init__(self, path: str | Path, heads: str | Path | None = None, *, looking: bool = False) -> None:
        """Open it; ``looking`` also opens a copy that was restored or comes from elsewhere, which cannot pay."""
        self.path = Path(path)
        self._process = os.getpid()
        self._lock = threading.Lock()
        with database.explained(self.path, "Nothing was read."):
            self._connection = database.connect(self.path)
            try:
                database.check_format(self._connection, self.path)
                with database.transaction(self._connection, "DEFERRED"):
                    self._require_sound()
                self._memory = HeadMemory(self._connection, self.path, Heads(None if heads is None else Path(heads)))
                if not looking:
                    self._memory.require_at_start()
            except BaseException:
                self._connection.close()
                raise

    @classmethod
    def create(cls, path: str | Path, policy: Mapping[str, Ceiling], heads: str | Path | None = None) -> Self:
        """A new ledger with the policy's accounts. A failure leaves nothing, and the same call works again.

        Where a ledger was paid from that is gone, none is made.
        """
        if not Path(path).is_dir() and vacant(Path(path)):
            Heads(None if heads is None else Path(heads)).require_unused(Path(path))
        _create(Path(path), named_accounts(policy))
        return cls(path, heads)

    def payments(self, account: str) -> list[Payment]:
        """Every payment of an account in order, with its time and whether its release is stored."""
        with self._transaction(False):
            self._standing(account)
            kept = {row[0] for row in self._connection.execute("SELECT payment FROM entries WHERE kind = 'release'")}
            paid = self._payments(account)
            return [Payment(receipt_of(entry), entry.content["at"], entry.sequence in kept) for entry in paid]

    def head(self) -> tuple[int, str]:
        """The number of entries and the last digest, to be kept elsewhere."""
        with self._transaction(False):
            return self._head()

    def doubt(self) -> str | None:
        """Why this is not the ledger that was last used here, and cannot pay; nothing where it is."""
        # Another process that pays between a look at the file and one at the head is no reason: look again.
        for _ in range(LOOKS):
            with self._transaction(False):
                found = self._memory.finding()
            if found is None:
                return None
        return found[0] if found else None

    def verify(self) -> list[str]:
        """Everything that is wrong with the file, the first bad entry first; empty when it is whole."""
        return [str(each) for each in verify(self.path)]

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    @contextmanager
    def _transaction(self, write: bool, outcome: str = "Nothing was read.") -> Iterator[None]:
        with self._mine(outcome):
            with database.transaction(self._connection, "IMMEDIATE" if write else "DEFERRED"):
                if write:
                    self._memory.require()
                yield
            if write:
                # The ledger first: a crash between the two leaves it ahead of what is remembered, which is no harm.
                self._memory.remember()

    @contextmanager
    def _mine(self, outcome: str) -> Iterator[None]:
        # SQLite's locks belong to a process: a connection that was carried over a fork would corrupt the file.
        if os.getpid() != self._process:
            raise LedgerError(f"the ledger {self.path} was opened before a fork. Open it again in each process.")
        with self._lock, database.explained(self.path, outcome):
            yield

    def _require_sound(self) -> None:
        """Check what every use depends on: the definitions, and of a file that is small enough every entry."""
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        wrong = next(database.guards(self._connection), None)
        if wrong is None and pages <= _WHOLE:
            wrong = next((str(each) for each in problems(self._connection)), None)
        if wrong is not None:
            raise DamagedLedger(f"the ledger {self.path} is damaged: {wrong}. Nothing was read. {database.RESTORE}")

    def _head(self) -> tuple[int, str]:
        return database.last(self._connection)

    def _names(self) -> list[str]:
        """Every account in the order they were opened."""
        rows = self._connection.execute(
            "SELECT account FROM accounts ORDER BY (SELECT min(sequence) FROM entries INDEXED BY entries_of_account "
            "WHERE account = accounts.account)"
        )
        return [account for (account,) in rows]

    def _account(self, account: str) -> Standing | None:
        entry = database.newest(self._connection, account)
        if entry is None:
            return None
        state = entry.content["state"]
        ceiling = next(database.read(self._connection, "WHERE sequence = ?", (state["ceiling"],)), None)
        if ceiling is None or ceiling.kind != EntryKind.ACCOUNT or ceiling.content["account"] != account:
            raise DamagedLedger(f"the ledger {self.path} has lost the ceiling of an account. {database.RESTORE}")
        return Standing.from_json(account, Ceiling.from_json(ceiling.content), state)

    def _payment(self, account: str, request: str) -> Entry | None:
        return database.twice(
            self._connection,
            ("one_payment_a_request", "payments_by_request"),
            "kind = 'payment' AND account = ? AND request = ?",
            (account, request),
        )

    def _payments(self, account: str) -> Iterator[Entry]:
        return database.read(self._connection, "WHERE kind = 'payment' AND account = ? ORDER BY sequence", (account,))

    def _release(self, paid: Entry) -> bytes | None:
        entry = database.twice(
            self._connection,
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
        return database.append(self._connection, kind, {**content, **state}, payload)


def vacant(path: Path) -> bool:
    """Whether a ledger can be created here: there is no file, or a database without a table."""
    if not path.exists():
        return True
    with database.explained(path, "Nothing was read."), closing(database.connect(path)) as connection:
        return database.empty(connection)


def _create(path: Path, policy: Mapping[str, Ceiling]) -> None:
    """Write a ledger with the policy's accounts; a failure leaves nothing behind."""
    if path.is_file():
        with database.explained(path, "Nothing was created."), closing(database.connect(path)) as connection:
            if database.empty(connection):
                connection.execute("PRAGMA journal_mode = WAL")
            with database.transaction(connection):
                if not database.empty(connection):
                    raise LedgerError(f"{path} exists. Apply a policy to it with `tacit ledger open`.")
                _fill(connection, policy)
        return
    # It is made in memory, so that the disk sees one file with one name and nothing beside it.
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        with database.transaction(connection):
            _fill(connection, policy)
        content = bytearray(connection.serialize())
    # The two bytes of SQLite's file format that say whether it has a write-ahead log; memory cannot have one.
    content[18:20] = b"\x02\x02"
    try:
        write_file(path, content, private=True, replace=False)
    except OSError as error:
        if path.is_file():
            raise LedgerError(f"{path} exists. Apply a policy to it with `tacit ledger open`.") from None
        raise LedgerError(f"cannot create the ledger {path}: {error.strerror}. Nothing was written.") from error


def _fill(connection: sqlite3.Connection, policy: Mapping[str, Ceiling]) -> None:
    for statement in database.LEDGER_SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {database.APPLICATION}")
    connection.execute(f"PRAGMA user_version = {LEDGER_FORMAT}")
    connection.execute("INSERT INTO head VALUES (1, 0, ?)", (ORIGIN,))
    first = database.append(connection, EntryKind.GENESIS, genesis())
    for place, (account, ceiling) in enumerate(policy.items(), start=first.sequence + 1):
        state = Standing(account, ceiling, place).to_json()
        database.append(connection, EntryKind.ACCOUNT, {"account": account, **ceiling.to_json(), "state": state})


def migrate(path: str | Path, heads: str | Path | None = None) -> bool:
    """Convert a ledger of the first format, or return False when it is not one; all of it is done or nothing.

    It is verified whole first. No entry changes, so every receipt stays valid. A migration entry marks where states
    begin, and an entry of each account repeats its ceiling together with its state.
    """
    path = Path(path)
    with database.explained(path, "Nothing was converted."), closing(database.connect(path)) as connection:
        if database.format_of(connection, path) != 1:
            return False
        with database.transaction(connection):
            if wrong := next(iter(problems(connection, form=1)), None):
                raise DamagedLedger(f"the ledger {path} is damaged: {wrong}. Nothing was converted. {database.RESTORE}")
            standings: dict[str, Standing] = {}
            for entry in database.read(connection):
                content = entry.content
                if entry.kind == EntryKind.ACCOUNT:
                    account, ceiling = content["account"], Ceiling.from_json(content)
                    known = standings.get(account) or Standing(account, ceiling, entry.sequence)
                    standings[account] = known.under(ceiling, entry.sequence)
                elif entry.kind == EntryKind.PAYMENT:
                    account = content["account"]
                    standings[account] = standings[account].paid(spend_from_json(content["spend"]), whole=True)
            for statement in database.DROPPED:
                connection.execute(f"DROP INDEX {statement.split()[2]}")
            for statement in database.ADDED:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {LEDGER_FORMAT}")
            database.append(connection, EntryKind.MIGRATION, {"from": 1, "to": LEDGER_FORMAT})
            for account, standing in standings.items():
                ceiling = standing.ceiling
                state = standing.under(ceiling, database.head(connection)[0] + 1).to_json()
                database.append(
                    connection, EntryKind.ACCOUNT, {"account": account, **ceiling.to_json(), "state": state}
                )
        HeadMemory(connection, path, Heads(None if heads is None else Path(heads))).remember()
    return True
