"""The SQLite file under a ledger: its tables, its transactions, and its failures in words.

``entries`` is append-only and holds everything; what is looked up (account, request, payment) is computed from
the body, so that there is no second truth beside the chained one. ``head`` holds the length and the last digest
and moves in the same transaction, so rows cut off the end are missed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput, LedgerError
from tacit.ledger.entries import FORMAT, ORIGIN, Entry, Kind, following

__all__ = [
    "APPLICATION",
    "SCHEMA",
    "append",
    "check",
    "connect",
    "empty",
    "explained",
    "head",
    "make",
    "opened",
    "read",
    "transaction",
    "vacant",
]

# Marks the file as a Tacit ledger for SQLite and for file(1): "TaLe".
APPLICATION = 0x54614C65
WAIT_SECONDS = 60.0

SCHEMA = (
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
    "CREATE UNIQUE INDEX one_payment_a_request ON entries (account, request) WHERE kind = 'payment'",
    "CREATE UNIQUE INDEX one_release_a_payment ON entries (payment) WHERE kind = 'release'",
    "CREATE INDEX payments_of_account ON entries (account, sequence) WHERE kind = 'payment'",
    "CREATE INDEX ceilings_of_account ON entries (account, sequence) WHERE kind = 'account'",
    """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER entries_stay_as_they_are BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER head_stays BEFORE DELETE ON head
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER head_moves_on BEFORE UPDATE ON head WHEN NEW.count != OLD.count + 1
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
)


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that exists, on which a commit returns only when the disk has it."""
    if not path.exists():
        raise InvalidInput(
            f"there is no ledger at {path}. The site creates one with `tacit ledger open {path} --policy FILE`."
        )
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous = FULL")
    # Where a plain fsync leaves data in the drive's own memory (macOS), this asks for more.
    connection.execute("PRAGMA fullfsync = ON")
    return connection


def make(path: Path) -> None:
    """An empty file that only its owner may read, on disk under its name; a file that is there stays."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        folder = os.open(path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise LedgerError(f"cannot create the ledger {path}: {error.strerror}. Nothing was written.") from error


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is not a ledger, or a ledger of another format."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise LedgerError(
            f"{path} is not a Tacit ledger. Create one with `tacit ledger open {path} --policy FILE` under a new name."
        )
    if found != FORMAT:
        raise LedgerError(
            f"{path} is a ledger of format {found}; this version of Tacit reads and writes format {FORMAT}. "
            "Use the version of Tacit that wrote it: a ledger is never converted silently."
        )


def vacant(path: Path) -> bool:
    """Whether a ledger can be created here: there is no file, or one that a creation left empty when it was cut."""
    if not path.exists():
        return True
    with explained(path, "Nothing was read."), closing(connect(path)) as connection:
        return empty(connection)


def empty(connection: sqlite3.Connection) -> bool:
    """Whether the database has no table yet."""
    return bool(connection.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


@contextmanager
def opened(path: Path, outcome: str = "Nothing was read.") -> Iterator[sqlite3.Connection]:
    """A connection to a ledger that exists and has this format, closed at the end."""
    with explained(path, outcome), closing(connect(path)) as connection:
        check(connection, path)
        yield connection


@contextmanager
def transaction(connection: sqlite3.Connection, mode: str = "IMMEDIATE") -> Iterator[None]:
    """All of it or none of it. IMMEDIATE lets one writer in at a time; DEFERRED reads one moment."""
    connection.execute(f"BEGIN {mode}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A failed COMMIT may have ended the transaction by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def head(connection: sqlite3.Connection) -> tuple[int, str]:
    """The number of entries and the last digest, as the head record has them."""
    row = connection.execute("SELECT count, digest FROM head").fetchone()
    if row is None:
        raise LedgerError(
            "the ledger has lost its head record. Restore it from a copy that `tacit ledger verify` accepts."
        )
    return row[0], row[1]


def append(
    connection: sqlite3.Connection, kind: Kind, content: Mapping[str, Any], payload: bytes | None = None
) -> Entry:
    """Write the next entry and move the head with it, inside the caller's transaction."""
    count, digest = head(connection)
    last = connection.execute("SELECT sequence, digest FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
    if (count, digest) != (last or (0, ORIGIN)):
        raise LedgerError(
            "the ledger's last entry is not the one its head record names: it was cut or added to by hand. "
            "Nothing was written. Run `tacit ledger verify` and restore the ledger from a copy that verifies."
        )
    entry = following(count, digest, kind, content, payload)
    connection.execute(
        "INSERT INTO entries (sequence, kind, body, payload, previous, digest) VALUES (?, ?, ?, ?, ?, ?)",
        (entry.sequence, entry.kind, entry.body, entry.payload, entry.previous, entry.digest),
    )
    connection.execute("UPDATE head SET count = ?, digest = ?", (entry.sequence, entry.digest))
    return entry


def read(connection: sqlite3.Connection, where: str = "", values: tuple[object, ...] = ()) -> Iterator[Entry]:
    """The entries that a condition selects, in order of sequence unless the condition says otherwise."""
    columns = "SELECT sequence, kind, body, previous, digest, payload FROM entries"
    for row in connection.execute(f"{columns} {where or 'ORDER BY sequence'}", values):
        yield Entry(*row)


@contextmanager
def explained(path: Path, outcome: str) -> Iterator[None]:
    """Turn SQLite's failures into a LedgerError that says what happened, what it left behind and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        reasons = {
            "SQLITE_FULL": f"the disk is full. {outcome} Free some space and try again; a request is paid once.",
            "SQLITE_BUSY": f"another process has held it for {WAIT_SECONDS:g} s. {outcome} Try again.",
            "SQLITE_READONLY": f"it, its -wal and -shm files or its folder cannot be written by this user. {outcome}",
            "SQLITE_CANTOPEN": f"it cannot be opened; it must be a readable file in a writable folder. {outcome}",
            "SQLITE_NOTADB": f"it is not a ledger (not an SQLite database). {outcome}",
            "SQLITE_CORRUPT": f"the file is damaged. {outcome} Restore the newest copy that `tacit ledger verify` "
            "accepts; payments after that copy are lost, so lower the ceiling by what its receipts say.",
            "SQLITE_IOERR": f"the disk did not take or give the data ({name}). Whether the last step was written is "
            "not known; send the same request again, it is paid at most once.",
        }
        # Extended names add a suffix: SQLITE_BUSY_SNAPSHOT, SQLITE_IOERR_FSYNC.
        reason = next((words for code, words in reasons.items() if name.startswith(code)), f"{error}. {outcome}")
        raise LedgerError(f"the ledger {path}: {reason}") from error
