"""A node's queue of questions, in a SQLite file, in the order of their arrival.

A question is stored before it is answered, so a killed node resumes it. Paid answers are in the ledger, not here: a
question that is run again gets the stored answer, and nothing is paid twice. After a crash no process waits for the
response, and the coordinator repeats the request. So a question is kept only as long as its coordinator waits; after
that it expires, and nothing is paid for it.

A job is all questions of one run. The operator cancels jobs, in a table that no coordinator can fill or empty.
Everything else has a limit: the number of waiting questions, per job and in total, their bytes, the number of finished
questions that are kept, and the size of the file.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tacit.core import InvalidInput, TacitError, listed
from tacit.federation.messages import LARGEST_REQUEST, Request

__all__ = [
    "CancelReport",
    "JobQueue",
    "JobSummary",
    "QueueFull",
    "QueuedRequest",
    "job_id",
    "queue_file",
    "request_key",
]

WAITING, RUNNING = "waiting", "running"
ANSWERED, REFUSED, CANCELED, EXPIRED = "answered", "refused", "canceled", "expired"
# The most waiting questions per job, bytes of all waiting questions, and finished questions that are kept.
MOST_OF_A_JOB, MOST_WAITING_BYTES, MOST_REMEMBERED = 16, 2 * LARGEST_REQUEST, 1000
# The longest waiting time in seconds, whatever the coordinator says.
LONGEST_WAIT = 24 * 3600.0
_PAGE = 4096
_DIGITS = 16
_SCHEMA = """
CREATE TABLE IF NOT EXISTS request (
  place INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, job TEXT NOT NULL, run TEXT NOT NULL,
  round INTEGER NOT NULL, step TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, paid TEXT NOT NULL,
  came TEXT NOT NULL, expires REAL NOT NULL, size INTEGER NOT NULL, payload BLOB
);
CREATE INDEX IF NOT EXISTS by_state ON request (state, place);
CREATE INDEX IF NOT EXISTS by_job ON request (job);
CREATE TABLE IF NOT EXISTS canceled (job TEXT PRIMARY KEY, at TEXT NOT NULL);
"""


def queue_file(state: Path) -> Path:
    """The file of a node's queue, in its state folder."""
    return state / "queue.db"


class QueueFull(TacitError):
    """The queue is full, or the node is stopping."""


def job_id(run: str) -> str:
    """The short id of a job: a digest of its run's name.

    >>> job_id("run")
    'acba25512100f80b'
    """
    return hashlib.sha256(run.encode()).hexdigest()[:_DIGITS]


def request_key(payload: bytes) -> bytes:
    """The key of a question in the queue: the digest of its bytes.

    >>> request_key(b"")[:4].hex()
    'e3b0c442'
    """
    return hashlib.sha256(payload).digest()


@dataclass(frozen=True)
class QueuedRequest:
    """A question taken from the queue."""

    place: int
    key: bytes
    job: str
    run: str
    round: int
    step: str
    payload: bytes
    state: str = RUNNING


@dataclass(frozen=True)
class JobSummary:
    """A job for its operator: how many questions it has in which state, and what was paid."""

    id: str
    run: str
    came: str
    canceled: bool
    states: dict[str, int]
    paid: tuple[str, ...]


@dataclass(frozen=True)
class CancelReport:
    """The effect of canceling a job: how many questions waited, whether one was running, and what stays paid."""

    id: str
    waiting: int
    running: int
    paid: tuple[str, ...]

    @property
    def in_words(self) -> str:
        """The report as a sentence. Whether a running question is paid for already, the queue does not know.

        >>> CancelReport("3f2a", 2, 0, ("epsilon 0.5",)).in_words
        '2 waiting questions are not answered; paid and stays paid: epsilon 0.5'
        """
        said = [f"{self.waiting} waiting question{'s are' if self.waiting != 1 else ' is'} not answered"]
        if not self.waiting:
            said = [] if self.running else ["no question was waiting or running"]
        said += ["one is running and stops at its next step"] if self.running else []
        if self.paid:
            said.append(f"paid and stays paid: {listed(self.paid)}")
        if self.running:
            said.append("what was paid for the running one is listed with the job once it has stopped, and stays paid")
        return "; ".join(said if self.paid or self.running else [*said, "nothing was paid for it"])


class JobQueue:
    """The queue in a file that only its owner may read. One process answers; any process of the owner may cancel.

    >>> import tempfile
    >>> queue = JobQueue(Path(tempfile.mkdtemp()) / "queue.db")
    >>> request = Request("run", 0, 3, b"which?")
    >>> _ = queue.put(request.to_bytes(), request, 60)
    >>> queue.cancel(job_id("run")).waiting, queue.take().state
    (1, 'canceled')
    >>> queue.close()
    """

    def __init__(self, file: Path, most_waiting: int = 64, most_bytes: int = MOST_WAITING_BYTES) -> None:
        self._file, self._most, self._most_bytes = file, most_waiting, most_bytes
        self._lock = threading.Lock()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection = sqlite3.connect(file, timeout=30.0, isolation_level=None, check_same_thread=False)
        try:
            self._connection.execute("PRAGMA synchronous = FULL")
            # A second limit behind the counting: twice the bytes that may wait, plus the finished questions.
            self._connection.execute(f"PRAGMA max_page_count = {2 * most_bytes // _PAGE + 4096}")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            self._connection.close()
            raise InvalidInput(f"{file}: cannot be read as a node's queue ({error}); move it away") from None

    def put(self, payload: bytes, request: Request, seconds: float) -> bytes:
        """Add a question that expires after this many seconds; returns its key.

        A question that is already waiting or running keeps its position; a finished one is queued again.
        """
        key, job = request_key(payload), job_id(request.run)
        with self._writing() as database:
            known = database.execute("SELECT state, paid FROM request WHERE digest = ?", (key,)).fetchone()
            if known is not None and known[0] in (WAITING, RUNNING):
                return key
            self._require_room(database, job, len(payload))
            database.execute("DELETE FROM request WHERE digest = ?", (key,))
            database.execute(
                "INSERT INTO request (digest, job, run, round, step, state, reason, paid, came, expires, size, payload)"
                " VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?)",
                (
                    key, job, request.run, request.round, request.step, WAITING, known[1] if known else "", _now(),
                    time.time() + (min(seconds, LONGEST_WAIT) if seconds > 0 else 0.0), len(payload), payload,
                ),
            )  # fmt: skip
            database.execute(
                "DELETE FROM request WHERE state NOT IN (?, ?) AND place <= (SELECT place FROM request WHERE state NOT"
                " IN (?, ?) ORDER BY place DESC LIMIT 1 OFFSET ?)",
                (WAITING, RUNNING, WAITING, RUNNING, MOST_REMEMBERED),
            )
        return key

    def _require_room(self, database: sqlite3.Connection, job: str, size: int) -> None:
        held = "FROM request WHERE state IN ('waiting', 'running')"
        count, together = database.execute(f"SELECT COUNT(*), COALESCE(SUM(size), 0) {held}").fetchone()
        (own,) = database.execute(f"SELECT COUNT(*) {held} AND job = ?", (job,)).fetchone()
        if count >= self._most or own >= MOST_OF_A_JOB or together + size > self._most_bytes:
            raise QueueFull(f"{count} questions with {together} bytes are waiting, {own} of them of this job")

    def take(self) -> QueuedRequest | None:
        """The next question: its state is running, or canceled or expired if it must not be answered any more."""
        with self._writing() as database:
            found = database.execute(
                "SELECT place, digest, job, run, round, step, payload, expires FROM request WHERE state = ?"
                " ORDER BY place LIMIT 1",
                (WAITING,),
            ).fetchone()
            if found is None:
                return None
            place, key, job, run, number, step, payload, expires = found
            state = CANCELED if _is_canceled(database, job) else RUNNING if expires > time.time() else EXPIRED
            database.execute("UPDATE request SET state = ? WHERE place = ?", (state, place))
            return QueuedRequest(place, key, job, run, number, step, payload, state)

    def finish(self, request: QueuedRequest, state: str, reason: str = "", paid: str = "") -> None:
        """Store the outcome of a question. ``paid`` is its price if it was paid now; an earlier payment stays."""
        with self._writing() as database:
            database.execute(
                "UPDATE request SET state = ?, reason = ?, payload = NULL, paid = CASE WHEN ? = '' THEN paid ELSE ? END"
                " WHERE place = ?",
                (state, reason, paid, paid, request.place),
            )

    def refuse_waiting(self, key: bytes, reason: str) -> None:
        """Refuse a waiting question; nothing will be paid for it."""
        with self._writing() as database:
            database.execute(
                "UPDATE request SET state = ?, reason = ?, payload = NULL WHERE digest = ? AND state = ?",
                (REFUSED, reason, key, WAITING),
            )

    def recover(self) -> int:
        """Queue the question that was running when the node was killed again; returns how many wait now."""
        with self._writing() as database:
            database.execute("UPDATE request SET state = ? WHERE state = ?", (WAITING, RUNNING))
            return int(database.execute("SELECT COUNT(*) FROM request WHERE state = ?", (WAITING,)).fetchone()[0])

    def waiting(self) -> int:
        """How many questions wait."""
        with self._reading() as database:
            return int(database.execute("SELECT COUNT(*) FROM request WHERE state = ?", (WAITING,)).fetchone()[0])

    def canceled(self, job: str) -> bool:
        """Whether the operator has canceled this job."""
        with self._reading() as database:
            return _is_canceled(database, job)

    def cancel(self, name: str) -> CancelReport:
        """Cancel a job by its id or a unique beginning of it."""
        jobs = self.jobs()
        found = [each for each in jobs if each.id.startswith(name)] if name else []
        if len(found) != 1:
            what = "several jobs begin with" if found else "there is no job"
            rest = f"the jobs are {listed([each.id for each in jobs])}" if jobs else "the node has received none yet"
            raise InvalidInput(f"{what} {name[:80]!r}; {rest}")
        (job,) = found
        with self._writing() as database:
            database.execute("INSERT OR IGNORE INTO canceled VALUES (?, ?)", (job.id, _now()))
        return CancelReport(job.id, job.states.get(WAITING, 0), job.states.get(RUNNING, 0), job.paid)

    def jobs(self) -> list[JobSummary]:
        """All known jobs, the oldest first."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT request.job, run, came, canceled.at IS NOT NULL, state, reason, paid FROM request"
                " LEFT JOIN canceled ON canceled.job = request.job ORDER BY place"
            ).fetchall()
        found: dict[str, JobSummary] = {}
        for job, run, came, canceled, state, reason, paid in rows:
            known = found.setdefault(job, JobSummary(job, run, came, bool(canceled), {}, ()))
            word = f"{state}: {reason}" if reason and state == REFUSED else state
            known.states[word] = known.states.get(word, 0) + 1
            if paid:
                found[job] = JobSummary(job, run, known.came, known.canceled, known.states, (*known.paid, paid))
        return list(found.values())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._connection


def _is_canceled(database: sqlite3.Connection, job: str) -> bool:
    return database.execute("SELECT 1 FROM canceled WHERE job = ?", (job,)).fetchone() is not None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
