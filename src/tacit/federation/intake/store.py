"""The workers' store of posted messages: a SQLite file or a PostgreSQL server, with the same statements.

A message is stored with its token only: no address, no time, no order. Messages are written in batches, each in one
transaction that locks the question's row. So no two workers accept one token twice or one message too many, and nothing
is added once the question is closed. When ``put`` returns, the messages are on disk.

An encrypted box is stored once, whatever its token: someone who copied a box in transit and posts it many times could
recognize its message by the number of copies after decryption.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from tacit.core import InvalidInput, TacitError
from tacit.federation.collector.submission_store import make_private
from tacit.federation.intake.messages import IntakeRefusal
from tacit.federation.intake.question import LARGEST_QUESTION, OpenQuestion

__all__ = ["DUPLICATE", "TAKEN", "IntakeStore", "StoreUnavailable", "open_intake_store"]

TAKEN, DUPLICATE = "taken", "duplicate"
# Messages per transaction, and per page when they are read.
LARGEST_PUT, PAGE = 256, 4096
# Seconds to wait for a lock, or for a connection to a server.
_PATIENCE = 10
MessageOutcome = str | IntakeRefusal
_Run = Callable[[str, Sequence[object]], list[Any]]


class StoreUnavailable(TacitError):
    """The database does not answer; nothing was acknowledged, and the same call may be made again."""


class Database(Protocol):
    """What differs between SQLite and PostgreSQL: types, locks, and transactions."""

    blob: str
    number: str
    suffix: str
    lock: str
    alone: str

    def transaction(self) -> AbstractContextManager[_Run]:
        """Run statements in one transaction."""
        ...

    def forget(self) -> None:
        """Free the space of deleted rows, and overwrite them where that is possible."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class IntakeStore:
    """Questions with their messages, and counts of refused messages, in a database.

    >>> import tempfile
    >>> with open_intake_store(f"sqlite:///{tempfile.mkdtemp()}/intake.db") as store:
    ...     store.status()
    {'questions': [], 'dropped': {}}
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._sealed: dict[str, bool] = {}
        with self._work() as run:
            if database.alone:
                run(database.alone, ())
            blob, number, suffix = database.blob, database.number, database.suffix
            run(
                f"CREATE TABLE IF NOT EXISTS questions (number {number}, digest TEXT NOT NULL UNIQUE, "
                f"content {blob} NOT NULL, most BIGINT NOT NULL, taken BIGINT NOT NULL, closed INTEGER NOT NULL)",
                (),
            )
            run(
                f"CREATE TABLE IF NOT EXISTS messages (question INTEGER NOT NULL, token {blob} NOT NULL, "
                f"payload {blob} NOT NULL, PRIMARY KEY (question, token)){suffix}",
                (),
            )
            run(
                f"CREATE TABLE IF NOT EXISTS boxes (question INTEGER NOT NULL, name {blob} NOT NULL, "
                f"PRIMARY KEY (question, name)){suffix}",
                (),
            )
            run("CREATE TABLE IF NOT EXISTS dropped (reason TEXT PRIMARY KEY, count BIGINT NOT NULL)", ())

    def open(self, question: OpenQuestion) -> None:
        """Accept messages to a question from now on; repeating the call changes nothing."""
        with self._work() as run:
            run(
                "INSERT INTO questions (digest, content, most, taken, closed) VALUES (?, ?, ?, 0, 0) "
                "ON CONFLICT (digest) DO NOTHING",
                (question.digest, question.to_bytes(), question.most),
            )

    def put(self, digest: str, messages: Sequence[tuple[bytes, bytes]]) -> list[MessageOutcome]:
        """Store (token, payload) pairs; returns the outcome of each. On return they are on disk."""
        if len(messages) > LARGEST_PUT:
            raise InvalidInput(f"at most {LARGEST_PUT} messages are stored at once, got {len(messages)}")
        if not messages:
            return []
        sealed = self._is_sealed(digest)
        with self._work() as run:
            found = run(
                f"SELECT number, most, taken, closed FROM questions WHERE digest = ?{self._database.lock}",  # noqa: S608
                (digest,),
            )
            if not found or found[0][3]:
                return [IntakeRefusal.CLOSED if found else IntakeRefusal.FOREIGN] * len(messages)
            number, most, taken, _ = found[0]
            names = [_box_name(payload) if sealed else token for token, payload in messages]
            known = dict(_rows(run, "token, payload", "messages", "token", number, [each for each, _ in messages]))
            seen = {name for (name,) in _rows(run, "name", "boxes", "name", number, names)} if sealed else set()
            outcomes: list[MessageOutcome] = []
            new: list[tuple[bytes, bytes, bytes]] = []
            for name, (token, payload) in zip(names, messages, strict=True):
                if token in known:
                    outcomes.append(DUPLICATE if known[token] == payload else IntakeRefusal.CONFLICT)
                elif name in seen:
                    outcomes.append(DUPLICATE)
                elif taken + len(new) >= most:
                    outcomes.append(IntakeRefusal.FULL)
                else:
                    known[token] = payload
                    seen.add(name)
                    new.append((name, token, payload))
                    outcomes.append(TAKEN)
            if new:
                values = ", ".join(["(?, ?, ?)"] * len(new))
                rows = [value for _, token, payload in new for value in (number, token, payload)]
                run(f"INSERT INTO messages (question, token, payload) VALUES {values}", rows)  # noqa: S608
                if sealed:
                    values = ", ".join(["(?, ?)"] * len(new))
                    rows = [value for name, _, _ in new for value in (number, name)]
                    run(f"INSERT INTO boxes (question, name) VALUES {values}", rows)  # noqa: S608
                run("UPDATE questions SET taken = taken + ? WHERE number = ?", (len(new), number))
            return outcomes

    def _is_sealed(self, digest: str) -> bool:
        if digest not in self._sealed:
            with self._work() as run:
                found = run("SELECT content FROM questions WHERE digest = ?", (digest,))
            if not found:
                return False
            self._sealed[digest] = OpenQuestion.read(bytes(found[0][0]), LARGEST_QUESTION).sealed
        return self._sealed[digest]

    def count(self, dropped: Mapping[str, int]) -> None:
        """Add to the counts of refused messages, by reason."""
        with self._work() as run:
            for reason, number in sorted(dropped.items()):
                run(
                    "INSERT INTO dropped (reason, count) VALUES (?, ?) "
                    "ON CONFLICT (reason) DO UPDATE SET count = dropped.count + excluded.count",
                    (reason, number),
                )

    def close_question(self, digest: str) -> int:
        """Accept no more messages; returns how many there are."""
        return self._closed(digest, 1)

    def reopen_question(self, digest: str) -> int:
        """Accept messages again: only while nothing of the question was released."""
        return self._closed(digest, 0)

    def _closed(self, digest: str, value: int) -> int:
        with self._work() as run:
            run("UPDATE questions SET closed = ? WHERE digest = ?", (value, digest))
            found = run("SELECT taken FROM questions WHERE digest = ?", (digest,))
        if not found:
            raise InvalidInput("this store has no such question")
        return int(found[0][0])

    def pages(self, digest: str, size: int = PAGE) -> Iterator[list[bytes]]:
        """The payloads of a question in the order of their tokens, in pages."""
        last = b""
        while True:
            with self._work() as run:
                rows = run(
                    "SELECT token, payload FROM messages WHERE question = (SELECT number FROM questions "
                    "WHERE digest = ?) AND token > ? ORDER BY token LIMIT ?",
                    (digest, last, size),
                )
            if not rows:
                return
            last = bytes(rows[-1][0])
            yield [bytes(payload) for _, payload in rows]

    def erase(self, digest: str) -> None:
        """Delete every message of a closed question, with its token."""
        with self._work() as run:
            for table in ("messages", "boxes"):
                run(
                    f"DELETE FROM {table} WHERE question IN "  # noqa: S608
                    "(SELECT number FROM questions WHERE digest = ? AND closed = 1)",
                    (digest,),
                )
        with self._lock:
            self._database.forget()

    def status(self) -> dict[str, Any]:
        """How many messages were accepted and refused."""
        with self._work() as run:
            rows = run("SELECT digest, taken, most, closed FROM questions ORDER BY number", ())
            dropped = run("SELECT reason, count FROM dropped ORDER BY reason", ())
        return {
            "questions": [
                {"question": digest, "taken": taken, "most": most, "closed": bool(closed)}
                for digest, taken, most, closed in rows
            ],
            "dropped": dict(dropped),
        }

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _work(self) -> Iterator[_Run]:
        with self._lock, self._database.transaction() as run:
            yield run


def _box_name(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()[:16]


def _rows(run: _Run, columns: str, table: str, key: str, number: int, values: Sequence[bytes]) -> list[Any]:
    """The rows of a question with one of these keys."""
    listed = ", ".join("?" * len(values))
    found = run(f"SELECT {columns} FROM {table} WHERE question = ? AND {key} IN ({listed})", (number, *values))  # noqa: S608
    return [tuple(map(bytes, row)) for row in found]


class SqliteDatabase:
    """One file on a local disk, shared by the workers of one machine."""

    blob, number, suffix, lock, alone = "BLOB", "INTEGER PRIMARY KEY", " WITHOUT ROWID", "", ""

    def __init__(self, file: Path) -> None:
        try:
            make_private(file)
            self._connection = sqlite3.connect(
                file, check_same_thread=False, isolation_level=None, timeout=_PATIENCE, cached_statements=8
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA secure_delete = ON")
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(f"{file}: cannot be used as a store ({error})") from None

    @contextmanager
    def transaction(self) -> Iterator[_Run]:
        """A transaction that has the write lock from its beginning."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda statement, values: self._connection.execute(statement, values).fetchall()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the store does not answer ({error})") from None

    def forget(self) -> None:
        """Truncate the write-ahead log; deleted pages are overwritten in the file."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class PostgresDatabase:
    """A server, shared by the workers of many machines. The next call replaces a broken connection."""

    blob, number, suffix, lock = "BYTEA", "INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "", " FOR UPDATE"
    # Two workers that start at once would both create the tables.
    alone = "SELECT pg_advisory_xact_lock(1952539497)"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ModuleNotFoundError:
            raise InvalidInput("a store on PostgreSQL needs psycopg: pip install 'tacit[postgres]'") from None
        self._psycopg = psycopg
        self._url = url
        self._connection: Any = None

    @contextmanager
    def transaction(self) -> Iterator[_Run]:
        """A transaction that is rolled back on any error."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._psycopg.connect(
                    self._url,
                    autocommit=True,
                    connect_timeout=_PATIENCE,
                    # Notice a server that has disappeared without closing the connection.
                    tcp_user_timeout=1000 * _PATIENCE,
                )
                self._connection.execute(f"SET statement_timeout = '{_PATIENCE}s'")
            with self._connection.transaction():

                def run(statement: str, values: Sequence[object]) -> list[Any]:
                    cursor = self._connection.execute(statement.replace("?", "%s"), values)
                    return [] if cursor.description is None else list(cursor.fetchall())

                yield run
        except self._psycopg.Error as error:
            self.close()
            raise StoreUnavailable(f"the store does not answer ({type(error).__name__})") from None

    def forget(self) -> None:
        """Free the rows' space; what the server's own log and disk keep is its operator's to decide."""
        self._connection.execute("VACUUM messages, boxes")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def open_intake_store(place: str) -> IntakeStore:
    """The store at ``sqlite:///file`` (relative), ``sqlite:////file`` (absolute) or ``postgresql://…``.

    >>> open_intake_store("mysql://here")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: 'mysql' is not a kind of store; use sqlite:///file or postgresql://…
    """
    if place.startswith(("postgresql://", "postgres://")):
        return IntakeStore(PostgresDatabase(place))
    if place.startswith("sqlite:///") and len(place) > len("sqlite:///"):
        return IntakeStore(SqliteDatabase(Path(place.removeprefix("sqlite:///"))))
    # The scheme only: what follows it may contain a password.
    scheme = place.partition(":")[0][:40]
    raise InvalidInput(f"{scheme!r} is not a kind of store; use sqlite:///file or postgresql://…")
