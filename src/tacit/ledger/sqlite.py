"""The ledger in one SQLite file, shared by the processes of one machine: opening, creating and converting."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Self

from tacit.core import Ceiling, DamagedLedger, LedgerError, spend_from_json
from tacit.core.files import is_there, write_file
from tacit.ledger import sqlite_store
from tacit.ledger import store as rows
from tacit.ledger.account import Standing
from tacit.ledger.base import named_accounts
from tacit.ledger.entries import LEDGER_FORMAT, EntryKind
from tacit.ledger.heads import HeadMemory, Heads
from tacit.ledger.places import occupied
from tacit.ledger.sqlite_store import SqliteStore
from tacit.ledger.store import Store
from tacit.ledger.stored import StoredLedger
from tacit.ledger.verify import problems, verify

__all__ = ["SqliteLedger", "make_file", "migrate"]


class SqliteLedger(StoredLedger):
    """Accounts in a file. Make it with ``create``, then open it by its path in every process.

    >>> import tempfile
    >>> from tacit.core.spend import Pure
    >>> path = Path(tempfile.mkdtemp()) / "main.ledger"
    >>> with SqliteLedger.create(path, {"clinic": Ceiling(1)}) as ledger:
    ...     receipt = ledger.charge("clinic", Pure(0.25), "labels", "system", "r-1", "c0ffee")
    ...     ledger.store_release(receipt, b"first")
    b'first'
    >>> with SqliteLedger(path) as ledger:
    ...     again = ledger.charge("clinic", Pure(0.25), "labels", "system", "r-1", "c0ffee")
    ...     again == receipt, ledger.stored_release(again), ledger.balance("clinic").remaining
    (True, b'first', Fraction(3, 4))
    """

    def __init__(self, path: str | Path, heads: str | Path | None = None, *, allow_stale: bool = False) -> None:
        """Open it; with ``allow_stale`` also a restored, copied or forked ledger, which cannot pay."""
        self.path = Path(path)
        with sqlite_store.explained(self.path, "Nothing was read."):
            store = sqlite_store.connect_sqlite(self.path)
            super().__init__(store, Heads(None if heads is None else Path(heads)), allow_stale=allow_stale)

    @classmethod
    def create(cls, path: str | Path, policy: Mapping[str, Ceiling], heads: str | Path | None = None) -> Self:
        """A new ledger with the policy's accounts. A failure leaves nothing, and the call can be repeated.

        Refused where a used ledger is missing.
        """
        accounts = named_accounts(policy)
        if not (is_there(path) and Path(path).is_dir()) and not occupied(Path(path)):
            Heads(None if heads is None else Path(heads)).require_unused(str(path))
        make_file(Path(path), lambda store: rows.fill(store, accounts))
        return cls(path, heads)

    def verify(self) -> list[str]:
        """All damage of the file, the first bad entry first; empty if there is none."""
        return [str(each) for each in verify(self.path)]


def make_file(path: Path, fill: Callable[[Store], None]) -> None:
    """Write a new ledger, which ``fill`` fills in a transaction; a failure leaves nothing behind."""
    if is_there(path) and path.is_file():
        with sqlite_store.explained(path, "Nothing was created."), closing(sqlite_store.connect_sqlite(path)) as store:
            if store.vacant():
                store.execute("PRAGMA journal_mode = WAL")
            with rows.transaction(store):
                if not store.vacant():
                    raise LedgerError(f"{path} exists. Apply a policy to it with `tacit ledger open`.")
                fill(store)
        return
    # It is made in memory and written at once, so that no partial or temporary file is left.
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        store = SqliteStore(connection, path)
        with rows.transaction(store):
            fill(store)
        content = bytearray(connection.serialize())
    # The two bytes of SQLite's file format that say whether it has a write-ahead log; memory cannot have one.
    content[18:20] = b"\x02\x02"
    try:
        write_file(path, content, private=True, replace=False)
    except OSError as error:
        if is_there(path) and path.is_file():
            raise LedgerError(f"{path} exists. Apply a policy to it with `tacit ledger open`.") from None
        raise LedgerError(f"cannot create the ledger {path}: {error.strerror}. Nothing was written.") from error


def migrate(path: str | Path, heads: str | Path | None = None) -> bool:
    """Convert a ledger of the first format in one transaction; False if it has another format.

    It is verified entirely first. No entry changes, so every receipt stays valid. A migration entry marks where states
    begin, and an entry per account repeats its ceiling with its state.
    """
    path = Path(path)
    with sqlite_store.explained(path, "Nothing was converted."), closing(sqlite_store.connect_sqlite(path)) as store:
        if store.format() != 1:
            return False
        with rows.transaction(store):
            if wrong := next(iter(problems(store, form=1)), None):
                raise DamagedLedger(f"the ledger {path} is damaged: {wrong}. Nothing was converted. {rows.RESTORE}")
            standings: dict[str, Standing] = {}
            for entry in rows.read(store):
                content = entry.content
                if entry.kind == EntryKind.ACCOUNT:
                    account, ceiling = content["account"], Ceiling.from_json(content)
                    known = standings.get(account) or Standing(account, ceiling, entry.sequence)
                    standings[account] = known.under(ceiling, entry.sequence)
                elif entry.kind == EntryKind.PAYMENT:
                    account = content["account"]
                    standings[account] = standings[account].paid(spend_from_json(content["spend"]), keep_curve=True)
            for statement in sqlite_store.DROPPED:
                store.execute(f"DROP INDEX {statement.split()[2]}")
            for statement in sqlite_store.ADDED:
                store.execute(statement)
            store.execute(f"PRAGMA user_version = {LEDGER_FORMAT}")
            rows.append(store, EntryKind.MIGRATION, {"from": 1, "to": LEDGER_FORMAT})
            for account, standing in standings.items():
                ceiling = standing.ceiling
                state = standing.under(ceiling, rows.head(store)[0] + 1).to_json()
                rows.append(store, EntryKind.ACCOUNT, {"account": account, **ceiling.to_json(), "state": state})
        HeadMemory(store, Heads(None if heads is None else Path(heads))).remember()
    return True
