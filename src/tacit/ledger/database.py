"""The SQLite file under a ledger: its tables, its transactions, its checks, and its failures in words.

``entries`` is append-only and holds everything; what is looked up (account, request, payment) is computed from the
body, so that there is no second truth beside the chained one. ``head`` holds the length and the last digest, and
``accounts`` the last entry of each account; both move in the same transaction, so rows cut off the end are missed.

What decides whether something is paid or drawn again is looked up in two indexes, and both must agree: a damaged page
then ends in a refusal, not in a second payment or a second draw.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tacit.core.errors import DamagedLedger, InvalidInput, LedgerError
from tacit.ledger.entries import LEDGER_FORMAT, ORIGIN, Entry, EntryKind, following

__all__ = [
    "APPLICATION", "FIRST_SCHEMA", "LEDGER_SCHEMA", "RESTORE", "append", "check_format", "connect", "empty",
    "explained", "format_of", "guards", "head", "last", "newest", "opened_file", "read", "transaction", "twice",
]  # fmt: skip

WAIT_SECONDS = 60.0
RESTORE = (
    "Run `tacit ledger verify` and restore the newest copy that it accepts; payments after that copy are lost, so "
    "lower the ceiling by what its receipts say."
)


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


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that exists, on which a commit returns only when the disk has it."""
    if not path.exists():
        raise InvalidInput(
            f"there is no ledger at {path}. Its operator creates one with `tacit ledger open {path} --policy FILE`."
        )
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    # Bytes that are no longer text must end in a wrong digest, not in a failure to read.
    connection.text_factory = _text
    connection.execute("PRAGMA synchronous = FULL")
    # Where a plain fsync leaves data in the drive's own memory (macOS), this asks for more.
    connection.execute("PRAGMA fullfsync = ON")
    # Cells that do not fit into their page are found when the page is read.
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def format_of(connection: sqlite3.Connection, path: Path) -> int:
    """The format of a ledger; another database is refused."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION:
        raise LedgerError(
            f"{path} is not a Tacit ledger. Create one with `tacit ledger open {path} --policy FILE` under a new name."
        )
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is not a ledger, or a ledger of another format."""
    found = format_of(connection, path)
    if found == 1:
        raise LedgerError(
            f"{path} is a ledger of format 1; this version of Tacit writes format {LEDGER_FORMAT}. Apply its policy "
            f"to it, `tacit ledger open {path} --policy FILE`: that verifies it and converts it."
        )
    if found != LEDGER_FORMAT:
        raise LedgerError(
            f"{path} is a ledger of format {found}; this version of Tacit reads and writes format {LEDGER_FORMAT}. "
            "Use the version of Tacit that wrote it: a ledger is never converted silently."
        )


def guards(connection: sqlite3.Connection, schema: tuple[str, ...] = LEDGER_SCHEMA) -> Iterator[str]:
    """What was changed by hand in the tables, indexes and triggers that guard appending."""
    found = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    for statement in sorted(found.symmetric_difference(schema), key=str):
        change = "added" if statement in found else "removed"
        yield f"a definition was {change} by hand: {' '.join(str(statement).split())}"


def empty(connection: sqlite3.Connection) -> bool:
    """Whether the database has no table yet."""
    return bool(connection.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


@contextmanager
def opened_file(path: Path, outcome: str = "Nothing was read.") -> Iterator[sqlite3.Connection]:
    """A connection to a ledger that exists and has this format, closed at the end."""
    with explained(path, outcome), closing(connect(path)) as connection:
        check_format(connection, path)
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
    if row is None or not isinstance(row[0], int):
        raise DamagedLedger(f"the ledger has lost its head record. {RESTORE}")
    return row[0], row[1]


def append(
    connection: sqlite3.Connection, kind: EntryKind, content: Mapping[str, Any], payload: bytes | None = None
) -> Entry:
    """Write the next entry and move the head with it, inside the caller's transaction."""
    count, digest = last(connection)
    entry = following(count, digest, kind, content, payload)
    connection.execute(
        "INSERT INTO entries (sequence, kind, body, payload, previous, digest) VALUES (?, ?, ?, ?, ?, ?)",
        (entry.sequence, entry.kind, entry.body, entry.payload, entry.previous, entry.digest),
    )
    connection.execute("UPDATE head SET count = ?, digest = ?", (entry.sequence, entry.digest))
    if "account" in content:
        connection.execute(
            "INSERT INTO accounts VALUES (?, ?, ?) ON CONFLICT (account) "
            "DO UPDATE SET sequence = excluded.sequence, digest = excluded.digest",
            (content["account"], entry.sequence, entry.digest),
        )
    return entry


def last(connection: sqlite3.Connection) -> tuple[int, str]:
    """The sequence and digest of the last entry, which must be whole and the one that the head record names."""
    count, digest = head(connection)
    entry = next(read(connection, "ORDER BY sequence DESC LIMIT 1"), None)
    if (count, digest) != ((0, ORIGIN) if entry is None else (entry.sequence, entry.digest)):
        raise DamagedLedger(
            "the ledger's last entry is not the one its head record names: entries were removed or added by hand. "
            f"Nothing was written. {RESTORE}"
        )
    if entry is not None:
        entry.require_whole()
    return count, digest


def newest(connection: sqlite3.Connection, account: str) -> Entry | None:
    """The last entry of an account, found in two ways that must agree."""
    noted = connection.execute("SELECT sequence, digest FROM accounts WHERE account = ?", (account,)).fetchone()
    indexed = connection.execute(
        "SELECT sequence FROM entries INDEXED BY entries_of_account WHERE account = ? ORDER BY sequence DESC LIMIT 1",
        (account,),
    ).fetchone()
    entry = None if indexed is None else _at(connection, indexed[0])
    if noted != (None if entry is None else (entry.sequence, entry.digest)):
        raise DamagedLedger(f"the ledger is inconsistent on the last entry of an account. {RESTORE}")
    return entry


def twice(
    connection: sqlite3.Connection, indexes: tuple[str, str], where: str, values: tuple[object, ...]
) -> Entry | None:
    """The one entry that a condition selects, or nothing; two indexes must say the same."""
    select = "SELECT sequence FROM entries INDEXED BY"
    one, other = (connection.execute(f"{select} {index} WHERE {where}", values).fetchone() for index in indexes)
    if one != other:
        raise DamagedLedger(f"two indexes of the ledger disagree. {RESTORE}")
    return None if one is None else _at(connection, one[0])


def _at(connection: sqlite3.Connection, sequence: int) -> Entry:
    """The entry with a sequence that an index named, whole."""
    entry = next(read(connection, "WHERE sequence = ?", (sequence,)), None)
    if entry is None:
        raise DamagedLedger(f"entry {sequence} of the ledger is missing. {RESTORE}")
    entry.require_whole()
    return entry


def read(connection: sqlite3.Connection, where: str = "", values: tuple[object, ...] = ()) -> Iterator[Entry]:
    """The entries that a condition selects, in order of sequence unless the condition says otherwise."""
    columns = "SELECT sequence, kind, body, previous, digest, payload FROM entries"
    for row in connection.execute(f"{columns} {where or 'ORDER BY sequence'}", values):
        if not isinstance(row[0], int):
            raise DamagedLedger(f"an entry of the ledger has lost its sequence. {RESTORE}")
        yield Entry(*row)


@contextmanager
def explained(path: Path, outcome: str) -> Iterator[None]:
    """Turn SQLite's failures into a LedgerError that says what happened, what it left behind and what to do."""
    try:
        yield
    except (UnicodeError, OverflowError, MemoryError) as error:
        raise DamagedLedger(f"the ledger {path}: the file is damaged. {outcome} {RESTORE}") from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        reasons = {
            "SQLITE_FULL": f"the disk is full. {outcome} Free some space and try again; a request is paid once.",
            "SQLITE_BUSY": f"another process has held it for {WAIT_SECONDS:g} s. {outcome} Try again.",
            "SQLITE_READONLY": f"it, its -wal and -shm files or its folder cannot be written by this user. {outcome}",
            "SQLITE_CANTOPEN": f"it cannot be opened; it must be a readable file in a writable folder. {outcome}",
            "SQLITE_NOTADB": f"it is not a ledger (not an SQLite database). {outcome}",
            "SQLITE_CORRUPT": f"the file is damaged. {outcome} {RESTORE}",
            "SQLITE_IOERR": f"the disk failed to read or write ({name}). Whether the last step was written is "
            "not known; send the same request again, it is paid at most once.",
        }
        # Extended names add a suffix: SQLITE_BUSY_SNAPSHOT, SQLITE_IOERR_FSYNC.
        reason = next((words for code, words in reasons.items() if name.startswith(code)), f"{error}. {outcome}")
        damaged = name.startswith("SQLITE_CORRUPT") or "malformed" in str(error)
        raise (DamagedLedger if damaged else LedgerError)(f"the ledger {path}: {reason}") from error
