"""What the ledgers on SQL databases share: reading, appending and checking rows.

A ``Store`` is an open database with the ledger's tables. ``entries`` is append-only and holds everything; the columns
used for lookups (account, request, payment) are computed from the body, which the hash chain covers. ``head`` holds the
number of entries and the last digest, and ``accounts`` the last entry of each account; both change in the same
transaction as the entries, so rows removed from the end are detected.

Statements are written once, with ``?`` for their values. A back end supplies what differs: how an exclusive transaction
begins, how a statement names an index, and its error messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from tacit.core import Ceiling, DamagedLedger
from tacit.ledger.account import Standing
from tacit.ledger.entries import LEDGER_FORMAT, ORIGIN, Entry, EntryKind, following, genesis

__all__ = [
    "RESTORE", "WAIT_SECONDS", "Cursor", "Store", "append", "by_two_indexes", "fill", "head", "last", "named", "newest",
    "read", "transaction",
]  # fmt: skip

# How long a process waits for the lock of another one that pays.
WAIT_SECONDS = 60.0
RESTORE = (
    "Run `tacit ledger verify` and restore the newest copy that it accepts; payments after that copy are lost, so "
    "lower the ceiling by what its receipts say."
)


class Cursor(Protocol):
    """The result of a statement."""

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Store(Protocol):
    """An open database with a ledger's tables."""

    name: str  # for messages; never contains a password
    place: str  # the address without the user, which the state folder stores
    failures: tuple[type[Exception], ...]  # exceptions of its driver that mean damage

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and has not ended."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> Cursor:
        """Run one statement; every ``?`` in it stands for a value."""

    def stream(self, statement: str, values: Sequence[object] = ()) -> Iterable[tuple[Any, ...]]:
        """The rows of a long result, a few at a time."""

    def indexed(self, index: str) -> str:
        """The clause that makes a statement use one index, or empty where the database has none."""

    def begin(self, write: bool) -> None:
        """Begin a transaction with a consistent view; with ``write``, an exclusive one."""

    def commit(self) -> None:
        """End the transaction; what was appended is on disk."""

    def rollback(self) -> None:
        """End the transaction; nothing was appended."""

    def explained(self, outcome: str) -> AbstractContextManager[None]:
        """Turn the driver's exceptions into errors that say what happened, what was written and what to do."""

    def vacant(self) -> bool:
        """Whether the database has no ledger and nothing else under its names."""

    def require_format(self) -> None:
        """Refuse a database that is not a ledger, or a ledger of another format."""

    def size(self) -> int:
        """The size of the entries in bytes."""

    def insert(self, entry: Entry, account: str | None) -> None:
        """Write an entry, move the head to it, and make it the last entry of its account."""

    def guards(self, form: int = LEDGER_FORMAT) -> Iterator[str]:
        """Manual changes of the tables, indexes and triggers that keep the ledger append-only."""

    def damage(self) -> Iterator[str]:
        """Damage that the database itself finds."""

    def make_tables(self) -> None:
        """Make the tables, indexes and triggers of an empty ledger, inside the caller's transaction."""

    def close(self) -> None:
        """Close the database."""


@contextmanager
def transaction(store: Store, write: bool = True) -> Iterator[None]:
    """A transaction: all or nothing. One writer at a time; a reader gets a consistent view."""
    store.begin(write)
    try:
        yield
        store.commit()
    except BaseException:
        # A failed commit may have ended the transaction by itself.
        if store.in_transaction:
            store.rollback()
        raise


def head(store: Store) -> tuple[int, str]:
    """The number of entries and the last digest, from the head record."""
    row = store.execute("SELECT count, digest FROM head").fetchone()
    if row is None or not isinstance(row[0], int):
        raise DamagedLedger(f"the ledger has lost its head record. {RESTORE}")
    return row[0], row[1]


def append(store: Store, kind: EntryKind, content: Mapping[str, Any], payload: bytes | None = None) -> Entry:
    """Write the next entry and move the head to it, inside the caller's transaction."""
    count, digest = last(store)
    entry = following(count, digest, kind, content, payload)
    store.insert(entry, content.get("account"))
    return entry


def last(store: Store) -> tuple[int, str]:
    """The sequence and digest of the last entry, which must match its digest and the head record."""
    count, digest = head(store)
    entry = next(read(store, "ORDER BY sequence DESC LIMIT 1"), None)
    if (count, digest) != ((0, ORIGIN) if entry is None else (entry.sequence, entry.digest)):
        raise DamagedLedger(
            "the ledger's last entry is not the one its head record names: entries were removed or added by hand. "
            f"Nothing was written. {RESTORE}"
        )
    if entry is not None:
        entry.require_whole()
    return count, digest


def newest(store: Store, account: str) -> Entry | None:
    """The last entry of an account, looked up in two ways that must agree."""
    noted = store.execute("SELECT sequence, digest FROM accounts WHERE account = ?", (account,)).fetchone()
    indexed = store.execute(
        f"SELECT sequence FROM entries {store.indexed('entries_of_account')} WHERE account = ? "  # noqa: S608
        "ORDER BY sequence DESC LIMIT 1",
        (account,),
    ).fetchone()
    entry = None if indexed is None else _at(store, indexed[0])
    if noted != (None if entry is None else (entry.sequence, entry.digest)):
        raise DamagedLedger(f"the ledger is inconsistent on the last entry of an account. {RESTORE}")
    return entry


def by_two_indexes(store: Store, indexes: tuple[str, str], where: str, values: tuple[object, ...]) -> Entry | None:
    """The one entry that a condition selects, or None; where an index can be chosen, two must agree."""
    hints = dict.fromkeys(map(store.indexed, indexes))
    statements = [f"SELECT sequence FROM entries {hint} WHERE {where}" for hint in hints]  # noqa: S608
    rows = [store.execute(statement, values).fetchone() for statement in statements]
    one, other = rows[0], rows[-1]
    if one != other:
        raise DamagedLedger(f"two indexes of the ledger disagree. {RESTORE}")
    return None if one is None else _at(store, one[0])


def _at(store: Store, sequence: int) -> Entry:
    """The entry with this sequence, after its digest was checked."""
    entry = next(read(store, "WHERE sequence = ?", (sequence,)), None)
    if entry is None:
        raise DamagedLedger(f"entry {sequence} of the ledger is missing. {RESTORE}")
    entry.require_whole()
    return entry


def read(store: Store, where: str = "ORDER BY sequence", values: tuple[object, ...] = ()) -> Iterator[Entry]:
    """The entries that a condition selects; by default all, in order of sequence."""
    statement = f"SELECT sequence, kind, body, previous, digest, payload FROM entries {where}"  # noqa: S608
    single = where.startswith("WHERE sequence = ") or where.endswith("LIMIT 1")
    for row in (store.execute if single else store.stream)(statement, values):
        if not isinstance(row[0], int):
            raise DamagedLedger(f"an entry of the ledger has lost its sequence. {RESTORE}")
        yield Entry(*row)


def named(store: Store) -> list[str]:
    """Every account in the order they were opened."""
    rows = store.execute(
        f"SELECT account FROM accounts ORDER BY (SELECT min(sequence) FROM entries "  # noqa: S608
        f"{store.indexed('entries_of_account')} WHERE entries.account = accounts.account)"
    )
    return [account for (account,) in rows]


def fill(store: Store, policy: Mapping[str, Ceiling]) -> None:
    """Make a ledger with the policy's accounts, inside the caller's transaction."""
    store.make_tables()
    first = append(store, EntryKind.GENESIS, genesis())
    for place, (account, ceiling) in enumerate(policy.items(), start=first.sequence + 1):
        state = Standing(account, ceiling, place).to_json()
        append(store, EntryKind.ACCOUNT, {"account": account, **ceiling.to_json(), "state": state})
