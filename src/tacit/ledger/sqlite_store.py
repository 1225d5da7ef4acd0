"""A connection to a ledger in an SQLite file: its tables, transactions, checks and error messages.

Whether a request was paid, and whether its release was stored, is looked up in two indexes that must agree: a damaged
page then leads to a refusal, not to a second payment or a second release.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tacit.core import DamagedLedger, InvalidInput, LedgerError, listed
from tacit.core.files import is_there
from tacit.ledger import store
from tacit.ledger.entries import LEDGER_FORMAT, ORIGIN, Entry

__all__ = ["APPLICATION", "FIRST_SCHEMA", "LEDGER_SCHEMA", "SqliteStore", "connect_sqlite"]

# Marks the file as a Tacit ledger for SQLite and for file(1): "TaLe".
APPLICATION = 0x54614C65

_TABLES = (
    """CREATE TABLE entries (
  sequence INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  payload BLOB,
  previous TEXT NOT NULL,
  digest TEXT NOT NULL,
  account TEXT GENERATED ALWAYS AS (json_extract(body, '$.account')) VIRTUAL,
  request TEXT GENERATED ALWAYS AS (json_extract(body, '$.request')) VIRTUAL,
  payment INTEGER GENERATED ALWAYS AS (json_extract(body, '$.payment')) VIRTUAL
)""",
    "CREATE TABLE head (only INTEGER PRIMARY KEY CHECK (only = 1), count INTEGER NOT NULL, digest TEXT NOT NULL)",
)

_GUARDS = (
    """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER entries_stay_as_they_are BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER head_stays BEFORE DELETE ON head
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER head_moves_on BEFORE UPDATE ON head WHEN NEW.count != OLD.count + 1
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
)

_UNIQUE = (
    "CREATE UNIQUE INDEX one_payment_a_request ON entries (account, request) WHERE kind = 'payment'",
    "CREATE UNIQUE INDEX one_release_a_payment ON entries (payment) WHERE kind = 'release'",
)

# What changed with format 2.
DROPPED = (
    "CREATE INDEX payments_of_account ON entries (account, sequence) WHERE kind = 'payment'",
    "CREATE INDEX ceilings_of_account ON entries (account, sequence) WHERE kind = 'account'",
)
ADDED = (
    "CREATE TABLE accounts (account TEXT PRIMARY KEY, sequence INTEGER NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX entries_of_account ON entries (account, sequence) WHERE account IS NOT NULL",
    "CREATE INDEX payments_by_request ON entries (request, account) WHERE kind = 'payment'",
    "CREATE INDEX releases_by_payment ON entries (payment, digest) WHERE kind = 'release'",
    """CREATE TRIGGER accounts_stay BEFORE DELETE ON accounts
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER accounts_move_on BEFORE UPDATE ON accounts WHEN NEW.sequence <= OLD.sequence
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
)

FIRST_SCHEMA = (*_TABLES, *_UNIQUE, *DROPPED, *_GUARDS)
LEDGER_SCHEMA = (*_TABLES, ADDED[0], *_UNIQUE, *ADDED[1:4], *_GUARDS, *ADDED[4:])


class SqliteStore:
    """A connection to a ledger's file, or to one in memory that becomes a file.

    >>> SqliteStore(sqlite3.connect(":memory:", isolation_level=None), Path("main.ledger")).vacant()
    True
    """

    failures: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.name = str(path)
        self.place = str(path.absolute())

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and has not ended."""
        return self.connection.in_transaction

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self.connection.execute(statement, tuple(values))

    stream = execute

    def indexed(self, index: str) -> str:
        """SQLite's clause that forces an index."""
        return f"INDEXED BY {index}"

    def begin(self, write: bool) -> None:
        """IMMEDIATE admits one writer at a time; DEFERRED reads a consistent view."""
        self.connection.execute(f"BEGIN {'IMMEDIATE' if write else 'DEFERRED'}")

    def commit(self) -> None:
        """End the transaction; what was appended is on disk."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """End the transaction; nothing was appended."""
        self.connection.execute("ROLLBACK")

    def vacant(self) -> bool:
        """Whether the database has no table yet."""
        return bool(self.connection.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])

    def format(self) -> int:
        """The format of a ledger; another database is refused."""
        application = self.connection.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION:
            raise LedgerError(
                f"{self.path} is not a Tacit ledger. Create one with `tacit ledger open {self.path} --policy FILE` "
                "under a new name."
            )
        found: int = self.connection.execute("PRAGMA user_version").fetchone()[0]
        return found

    def require_format(self) -> None:
        """Refuse a database that is not a ledger, or a ledger of another format."""
        found = self.format()
        if found == 1:
            raise LedgerError(
                f"{self.path} is a ledger of format 1; this version of Tacit writes format {LEDGER_FORMAT}. Apply its "
                f"policy to it, `tacit ledger open {self.path} --policy FILE`: that verifies it and converts it."
            )
        if found != LEDGER_FORMAT:
            raise LedgerError(
                f"{self.path} is a ledger of format {found}; this version of Tacit reads and writes format "
                f"{LEDGER_FORMAT}. Use the version of Tacit that wrote it: a ledger is never converted silently."
            )

    def size(self) -> int:
        """The bytes of the file."""
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        (page,) = self.connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page)

    def insert(self, entry: Entry, account: str | None) -> None:
        """Write an entry, move the head to it, and make it the last entry of its account."""
        self.connection.execute(
            "INSERT INTO entries (sequence, kind, body, payload, previous, digest) VALUES (?, ?, ?, ?, ?, ?)",
            (entry.sequence, entry.kind, entry.body, entry.payload, entry.previous, entry.digest),
        )
        self.connection.execute("UPDATE head SET count = ?, digest = ?", (entry.sequence, entry.digest))
        if account is not None:
            self.connection.execute(
                "INSERT INTO accounts VALUES (?, ?, ?) ON CONFLICT (account) "
                "DO UPDATE SET sequence = excluded.sequence, digest = excluded.digest",
                (account, entry.sequence, entry.digest),
            )

    def guards(self, form: int = LEDGER_FORMAT) -> Iterator[str]:
        """Manual changes of the tables, indexes and triggers that keep the ledger append-only."""
        schema = LEDGER_SCHEMA if form == LEDGER_FORMAT else FIRST_SCHEMA
        found = {row[0] for row in self.connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        for statement in sorted(found.symmetric_difference(schema), key=str):
            change = "added" if statement in found else "removed"
            yield f"a definition was {change} by hand: {' '.join(str(statement).split())}"

    def damage(self) -> Iterator[str]:
        """Damage that SQLite's integrity check finds."""
        for (finding,) in self.connection.execute("PRAGMA integrity_check"):
            if finding != "ok":
                yield f"the file is damaged: {finding}"

    def make_tables(self) -> None:
        """Make the tables, indexes and triggers of an empty ledger, inside the caller's transaction."""
        for statement in LEDGER_SCHEMA:
            self.connection.execute(statement)
        self.connection.execute(f"PRAGMA application_id = {APPLICATION}")
        self.connection.execute(f"PRAGMA user_version = {LEDGER_FORMAT}")
        self.connection.execute("INSERT INTO head VALUES (1, 0, ?)", (ORIGIN,))

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def explained(self, outcome: str) -> Iterator[None]:
        """Turn SQLite's exceptions into errors that say what happened, what was written and what to do."""
        with explained(self.path, outcome):
            yield


def connect_sqlite(path: Path) -> SqliteStore:
    """A connection to an existing file, whose commits return only after they are on disk."""
    if not is_there(path):
        shown = listed([str(path)])
        raise InvalidInput(
            f"there is no ledger at {shown}. Its operator creates one with `tacit ledger open {shown} --policy FILE`."
        )
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=store.WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    # Bytes that are not valid text must lead to a wrong digest, not to a decoding error.
    connection.text_factory = _text
    connection.execute("PRAGMA synchronous = FULL")
    # On macOS a plain fsync leaves data in the drive's cache; this flushes it.
    connection.execute("PRAGMA fullfsync = ON")
    # Cells that do not fit into their page are found when the page is read.
    connection.execute("PRAGMA cell_size_check = ON")
    return SqliteStore(connection, path)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


@contextmanager
def explained(path: Path, outcome: str) -> Iterator[None]:
    """Turn SQLite's exceptions into errors that say what happened, what was written and what to do."""
    try:
        yield
    except (UnicodeError, OverflowError, MemoryError) as error:
        raise DamagedLedger(f"the ledger {path}: the file is damaged. {outcome} {store.RESTORE}") from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        reasons = {
            "SQLITE_FULL": f"the disk is full. {outcome} Free some space and try again; a request is paid once.",
            "SQLITE_BUSY": f"another process has held it for {store.WAIT_SECONDS:g} s. {outcome} Try again.",
            "SQLITE_READONLY": f"it, its -wal and -shm files or its folder cannot be written by this user. {outcome}",
            "SQLITE_CANTOPEN": f"it cannot be opened; it must be a readable file in a writable folder. {outcome}",
            "SQLITE_NOTADB": f"it is not a ledger (not an SQLite database). {outcome}",
            "SQLITE_CORRUPT": f"the file is damaged. {outcome} {store.RESTORE}",
            "SQLITE_IOERR": f"the disk failed to read or write ({name}). Whether the last step was written is "
            "not known; send the same request again, it is paid at most once.",
        }
        # Extended names add a suffix: SQLITE_BUSY_SNAPSHOT, SQLITE_IOERR_FSYNC.
        reason = next((words for code, words in reasons.items() if name.startswith(code)), f"{error}. {outcome}")
        damaged = name.startswith("SQLITE_CORRUPT") or "malformed" in str(error)
        raise (DamagedLedger if damaged else LedgerError)(f"the ledger {path}: {reason}") from error
