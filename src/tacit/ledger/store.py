"""What the ledgers on SQL databases share: the rows, how they are found and appended, and what must agree.

A ``Store`` is an open database with the ledger's tables. ``entries`` is append-only and holds everything; what is
looked up (account, request, payment) is computed from the body: there is no second truth beside the chained one.
``head`` holds the length and the last digest, and ``accounts`` the last entry of each account; both move in the same
transaction, so rows cut off the end are missed.

Statements are written once, with ``?`` for their values. A back end says what differs: how a transaction begins so that
only one writer is in it, which index a statement is made to use, and its failures in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from tacit.core import Ceiling, DamagedLedger
from tacit.ledger.account import Standing
from tacit.ledger.entries import LEDGER_FORMAT, ORIGIN, Entry, EntryKind, following, genesis

__all__ = [
    "RESTORE", "WAIT_SECONDS", "Cursor", "Store", "append", "fill", "head", "last", "named", "newest", "read",
    "transaction", "twice",
]  # fmt: skip

# So long a process waits for another one that pays.
WAIT_SECONDS = 60.0
RESTORE = (
    "Run `tacit ledger verify` and restore the newest copy that it accepts; payments after that copy are lost, so "
    "lower the ceiling by what its receipts say."
)


class Cursor(Protocol):
    """What a statement found."""

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or nothing."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Store(Protocol):
    """An open database with a ledger's tables."""

    name: str  # as messages call it; a password is never in it
    place: str  # where it is, whoever opens it: what the state folder remembers
    failures: tuple[type[Exception], ...]  # what its driver raises

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and has not ended."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> Cursor:
        """Run one statement; every ``?`` in it stands for a value."""

    def stream(self, statement: str, values: Sequence[object] = ()) -> Iterable[tuple[Any, ...]]:
        """The rows of a long answer, a few at a time."""

    def indexed(self, index: str) -> str:
        """What a statement says after its table to be answered from one index, where that can be said."""

    def begin(self, write: bool) -> None:
        """See one moment of the ledger; with ``write`` alone."""

    def commit(self) -> None:
        """End the transaction; what was appended is on disk."""

    def rollback(self) -> None:
        """End the transaction; nothing was appended."""

    def explained(self, outcome: str) -> AbstractContextManager[None]:
        """Turn the driver's failures into errors that say what happened, what is left of it and what to do."""

    def vacant(self) -> bool:
        """Whether the database has no ledger and nothing else under its names."""

    def require_format(self) -> None:
        """Refuse a database that is not a ledger, or a ledger of another format."""

    def size(self) -> int:
        """How many bytes the entries take."""

    def insert(self, entry: Entry, account: str | None) -> None:
        """Write an entry, move the head to it, and note it as the last one of its account."""

    def guards(self, form: int = LEDGER_FORMAT) -> Iterator[str]:
        """What was changed by hand in the tables, indexes and triggers that guard appending."""

    def damage(self) -> Iterator[str]:
        """What the database itself finds wrong in its structures."""

    def make_tables(self) -> None:
        """Make the tables, indexes and triggers of an empty ledger, inside the caller's transaction."""

    def close(self) -> None:
        """Let go of the database."""


@contextmanager
def transaction(store: Store, write: bool = True) -> Iterator[None]:
    """All of it or none of it. One writer is in at a time; a reader sees one moment."""
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
    """The number of entries and the last digest, as the head record has them."""
    row = store.execute("SELECT count, digest FROM head").fetchone()
    if row is None or not isinstance(row[0], int):
        raise DamagedLedger(f"the ledger has lost its head record. {RESTORE}")
    return row[0], row[1]


def append(store: Store, kind: EntryKind, content: Mapping[str, Any], payload: bytes | None = None) -> Entry:
    """Write the next entry and move the head with it, inside the caller's transaction."""
    count, digest = last(store)
    entry = following(count, digest, kind, content, payload)
    store.insert(entry, content.get("account"))
    return entry


def last(store: Store) -> tuple[int, str]:
    """The sequence and digest of the last entry, which must be whole and the one that the head record names."""
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
    """The last entry of an account, found in two ways that must agree."""
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


def twice(store: Store, indexes: tuple[str, str], where: str, values: tuple[object, ...]) -> Entry | None:
    """The one entry that a condition selects, or nothing; two indexes must say the same, where one can be chosen."""
    hints = dict.fromkeys(map(store.indexed, indexes))
    statements = [f"SELECT sequence FROM entries {hint} WHERE {where}" for hint in hints]  # noqa: S608
    rows = [store.execute(statement, values).fetchone() for statement in statements]
    one, other = rows[0], rows[-1]
    if one != other:
        raise DamagedLedger(f"two indexes of the ledger disagree. {RESTORE}")
    return None if one is None else _at(store, one[0])


def _at(store: Store, sequence: int) -> Entry:
    """The entry with a sequence that an index named, whole."""
    entry = next(read(store, "WHERE sequence = ?", (sequence,)), None)
    if entry is None:
        raise DamagedLedger(f"entry {sequence} of the ledger is missing. {RESTORE}")
    entry.require_whole()
    return entry


def read(store: Store, where: str = "ORDER BY sequence", values: tuple[object, ...] = ()) -> Iterator[Entry]:
    """The entries that a condition selects; all of them, in order of sequence, if it is left out."""
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
