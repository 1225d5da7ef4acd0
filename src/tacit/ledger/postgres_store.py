"""A connection to a ledger on a PostgreSQL server: its transactions, time limits and error messages.

Transactions are serializable. A writer first locks the empty table ``turn`` and reads only afterwards, so nobody
changes what it reads before it ends. A writer without the lock meets the server's own checks: of two transactions that
add the same entry, one fails and is retried.

Every wait has a limit: the server ends a statement, a wait for the lock and an idle transaction after a minute, and
the client gives up on a server that does not answer. If the connection is lost after COMMIT, it is unknown whether the
payment was written: the same request is sent again, and finds its payment or makes it.
"""

from __future__ import annotations

import os
import select
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from time import monotonic
from typing import Any, TypeVar

from tacit.core import DamagedLedger, InvalidInput, LedgerError
from tacit.core.places import LedgerUrl
from tacit.ledger import store
from tacit.ledger.entries import LEDGER_FORMAT, Entry
from tacit.ledger.postgres_schema import CATALOG, SERVER_SCHEMA, TURN, definitions

try:
    import psycopg
    from psycopg import conninfo, errors
    from psycopg.pq import TransactionStatus
except ModuleNotFoundError as missing:
    raise InvalidInput("a ledger on a PostgreSQL server needs an extra: pip install 'tacit[postgres]'") from missing

__all__ = ["Conflict", "LostConnection", "PostgresStore", "ServerUnreachable", "connect_postgres"]

CONNECT_SECONDS = 10
# How long the client waits for an answer: longer than the server's own limits.
ANSWER_SECONDS = store.WAIT_SECONDS + 15
_AT_MOST_ONCE = "Send the same request again, it is paid at most once."

_CURSORS = count()

_Result = TypeVar("_Result")


class LostConnection(LedgerError):
    """The connection was lost; ``may_be_written`` says that the last step may have been written."""

    def __init__(self, message: str, may_be_written: bool) -> None:
        super().__init__(message)
        self.may_be_written = may_be_written


class ServerUnreachable(LedgerError):
    """The server did not answer at all."""

    may_be_written = False


class Conflict(LedgerError):
    """Another transaction was first: nothing was written, and the same step may be tried again."""


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for an answer for a limited time."""

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        try:
            return super().wait(_within(gen, ANSWER_SECONDS), *arguments, **options)
        except TimeoutError:
            # A later answer would be taken for that of another statement.
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer for {ANSWER_SECONDS:g} s") from None


def _within(steps: Generator[Any, Any, _Result], seconds: float) -> Generator[Any, Any, _Result]:
    """The same steps, with TimeoutError if nothing was received for this many seconds."""
    ends = monotonic() + seconds
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if ready:
                ends = monotonic() + seconds
            elif monotonic() > ends:
                raise TimeoutError
            wanted = steps.send(ready)
    except StopIteration as finished:
        result: _Result = finished.value
        return result


def connect_postgres(url: LedgerUrl) -> PostgresStore:
    """A connection to a server whose commits return only after they are on disk."""
    return PostgresStore(url, _connected(url))


class PostgresStore:
    """A connection to a ledger's database on a server."""

    # Errors that mean damage; an unreachable server does not.
    failures: tuple[type[Exception], ...] = (errors.DataCorrupted, errors.IndexCorrupted, errors.InternalError_)

    def __init__(self, url: LedgerUrl, connection: _Connection) -> None:
        self.connection = connection
        self.url = url
        self.name = str(url)
        self.database = connection.info.dbname
        self.place = _place(connection)
        self._committing = False

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and has not ended."""
        return not self.lost and self.connection.info.transaction_status != TransactionStatus.IDLE

    @property
    def lost(self) -> bool:
        """Whether the connection is lost."""
        return self.connection.closed or self.connection.info.transaction_status == TransactionStatus.UNKNOWN

    def idle_alive(self) -> bool:
        """Whether the idle connection is still open; a server that closed it has sent a message."""
        if not self.lost:
            waiting = select.poll()
            waiting.register(self.connection.fileno(), select.POLLIN)
            if waiting.poll(0):
                with suppress(psycopg.Error):
                    self.connection.execute("SELECT 1")
        return not self.lost

    def execute(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run one statement."""
        # Without values a percent sign in a statement is literal.
        return self.connection.execute(
            statement.replace("?", "%s").encode() if values else statement.encode(), values or None
        )

    def stream(self, statement: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a long result, a thousand at a time; only inside a transaction."""
        with self.connection.cursor(f"tacit_{next(_CURSORS)}") as cursor:
            cursor.itersize = 1000
            cursor.execute(statement.replace("?", "%s").encode(), values or None)
            yield from cursor

    def indexed(self, index: str) -> str:
        """Empty: the server chooses the index, and has its own checksums."""
        return ""

    def begin(self, write: bool) -> None:
        """A writer waits for the lock before it reads; a reader gets a consistent view."""
        self._committing = False
        try:
            if write:
                self.connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
                self.connection.execute(TURN)
            else:
                self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        except BaseException:
            if self.in_transaction:
                self.rollback()
            raise

    def commit(self) -> None:
        """End the transaction; what was appended is on the server's disk."""
        self._committing = True
        ended = self.connection.execute("COMMIT").statusmessage
        # A transaction in which something has failed is rolled back by COMMIT, without an error.
        if ended != "COMMIT":
            raise LedgerError(f"the ledger {self.name}: the server did not commit. Nothing was charged.")
        self._committing = False

    def rollback(self) -> None:
        """End the transaction; nothing was appended. A lost connection has ended it already."""
        with suppress(psycopg.Error):
            self.connection.execute("ROLLBACK")

    def vacant(self) -> bool:
        """Whether the database has no ledger and nothing else under its names."""
        row = self.execute("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'tacit')").fetchone()
        return row is not None and not row[0]

    def require_format(self) -> None:
        """Refuse a database that is not a ledger, or a ledger of another format."""
        if self.vacant():
            raise InvalidInput(
                f"there is no ledger at {self.name}. Its operator creates one with "
                f"`tacit ledger open {self.name} --policy FILE`."
            )
        try:
            row = self.execute("SELECT number FROM tacit.format").fetchone()
        except (errors.UndefinedTable, errors.UndefinedColumn):
            row = None
        if row is None:
            raise LedgerError(
                f"{self.name} is not a Tacit ledger: its schema tacit is something else. Use another database."
            )
        if row[0] != LEDGER_FORMAT:
            raise LedgerError(
                f"{self.name} is a ledger of format {row[0]}; this version of Tacit reads and writes format "
                f"{LEDGER_FORMAT}. Use the version of Tacit that wrote it: a ledger is never converted silently."
            )

    def size(self) -> int:
        """The bytes of the entries."""
        row = self.execute("SELECT pg_table_size('tacit.entries')").fetchone()
        return 0 if row is None else int(row[0])

    def insert(self, entry: Entry, account: str | None) -> None:
        """Write an entry; the server's trigger checks it, moves the head and updates its account's last entry."""
        self.execute(
            "INSERT INTO entries (sequence, kind, body, payload, previous, digest) VALUES (?, ?, ?, ?, ?, ?)",
            (entry.sequence, entry.kind, entry.body, entry.payload, entry.previous, entry.digest),
        )

    def guards(self, form: int = LEDGER_FORMAT) -> Iterator[str]:
        """Manual changes of the tables, indexes, triggers and functions that keep the ledger append-only."""
        return definitions(frozenset(line for (line,) in self.execute(CATALOG)))

    def damage(self) -> Iterator[str]:
        """Empty: the server checks its pages when it reads them."""
        return iter(())

    def make_tables(self) -> None:
        """Make the tables, indexes and triggers of an empty ledger, inside the caller's transaction."""
        row = self.execute("SHOW server_encoding").fetchone()
        if row != ("UTF8",):
            raise InvalidInput(f"the database at {self.name} has another encoding than UTF8, which a ledger needs")
        for statement in SERVER_SCHEMA:
            self.execute(statement)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    @contextmanager
    def explained(self, outcome: str) -> Iterator[None]:
        """Turn the driver's exceptions into errors that say what happened, what was written and what to do."""
        try:
            yield
        except psycopg.Error as error:
            raise self._failure(error, outcome) from error

    def _failure(self, error: psycopg.Error, outcome: str) -> LedgerError:
        about = f"the ledger {self.name}: "
        if self.lost:
            # Before COMMIT was sent nothing can have been written.
            left = f"Whether the last step was written is not known. {_AT_MOST_ONCE}" if self._committing else outcome
            return LostConnection(f"{about}the connection to the server was lost. {left}", self._committing)
        seconds = f"{store.WAIT_SECONDS:g} s"
        match error:
            case errors.SerializationFailure() | errors.DeadlockDetected() | errors.UniqueViolation():
                return Conflict(f"{about}another process was first. {outcome} Try again; a request is paid once.")
            case errors.LockNotAvailable():
                return LedgerError(f"{about}another process has held it for {seconds}. {outcome} Try again.")
            case errors.QueryCanceled():
                return LedgerError(f"{about}a statement took longer than {seconds}. {outcome} Try again.")
            case errors.DiskFull():
                return LedgerError(f"{about}the server's disk is full. {outcome} Free some space and try again.")
            case errors.InsufficientPrivilege():
                return LedgerError(
                    f"{about}this user may not do that: {_words(error)}. {outcome} A writer pays, the owner changes "
                    "ceilings, a reader reads: see `tacit ledger roles`."
                )
            case errors.ReadOnlySqlTransaction():
                return LedgerError(f"{about}the server is a standby, or read-only. {outcome} Name the primary.")
            case errors.DataCorrupted() | errors.IndexCorrupted() | errors.InternalError_():
                return DamagedLedger(f"{about}the server's files are damaged. {outcome} {store.RESTORE}")
            case errors.RaiseException() | errors.CheckViolation():
                return DamagedLedger(f"{about}{_words(error)}. {outcome} {store.RESTORE}")
        return LedgerError(f"{about}{_words(error)}. {outcome}")


def _connected(url: LedgerUrl) -> _Connection:
    try:
        given = conninfo.conninfo_to_dict(url.text)
    except psycopg.ProgrammingError:
        # The driver's message may quote a password.
        raise InvalidInput(
            f"{str(url)[:80]}: not a URL that PostgreSQL's library reads: postgresql://USER@HOST:PORT/DATABASE, with "
            "special characters as %XX"
        ) from None
    milliseconds = int(store.WAIT_SECONDS * 1000)
    limits = {
        "search_path": "tacit",
        "synchronous_commit": "on",
        "lock_timeout": milliseconds,
        "statement_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
    }
    own = " ".join(f"-c {name}={value}" for name, value in limits.items())
    # The operator's own options come last, so they win.
    theirs = given.get("options") or os.environ.get("PGOPTIONS", "")
    defaults = {
        "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT", str(CONNECT_SECONDS)), "application_name": "tacit",
        "tcp_user_timeout": str(milliseconds), "keepalives_idle": "30", "keepalives_interval": "10",
        "keepalives_count": "3",
    }  # fmt: skip
    named: dict[str, Any] = {**defaults, **given, "options": f"{own} {theirs}".strip(), "client_encoding": "UTF8"}
    try:
        return _Connection.connect(**named, autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError as error:
        raise _unreachable(url, _words(error)) from None
    except (psycopg.Error, ValueError, TypeError) as error:
        raise InvalidInput(f"{str(url)[:80]}: cannot be opened ({type(error).__name__})") from None


def _unreachable(url: LedgerUrl, words: str) -> LedgerError | InvalidInput:
    """Why connecting failed, read from the text of libpq's message: it has no codes."""
    about = f"the ledger {url}: "
    if "does not exist" in words and "database" in words:
        return InvalidInput(f"{about}the server has no such database. Its administrator makes one: CREATE DATABASE.")
    if "password" in words or "authentication" in words or "does not exist" in words or "pg_hba" in words:
        return InvalidInput(
            f"{about}the server refuses this user or password. A password is best kept in PGPASSWORD, a password file "
            "(~/.pgpass) or a service, not in the URL."
        )
    if "definition of service" in words or "service file" in words:
        return InvalidInput(f"{about}there is no such service in PostgreSQL's service file.")
    return ServerUnreachable(f"{about}the server cannot be reached ({words}). Nothing was charged. Is it up?")


def _place(connection: _Connection) -> str:
    """The address of the database, without the user."""
    info = connection.info
    if info.host.startswith("/"):
        return f"postgresql:///{info.dbname}?host={info.host}&port={info.port}"
    return f"postgresql://{info.host}:{info.port}/{info.dbname}"


def _words(error: psycopg.Error) -> str:
    """The first line of the server's message; its details may quote a row."""
    said = error.diag.message_primary or next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return said.strip()[:160]
