"""The store of a shuffler or a curator: a submission is on disk before it is acknowledged, and is released once.

The coordinator opens a batch, holders submit to it, and the coordinator collects it. Collecting closes the batch: the
result is computed and stored and the submissions are deleted in one transaction. So a process that is killed at any
moment has either every submission that it acknowledged, or the result, which it returns whenever it is collected.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tacit.core import BudgetExceeded, InvalidInput, LimitExceeded, TacitError, TooFewParticipants
from tacit.core.codec import bytes_to_array, encode
from tacit.federation.collector.messages import (
    LARGEST_BATCH,
    SLACK,
    Batch,
    SignedMessage,
    Submission,
    SubmissionRefusal,
    SubmissionRefused,
    read_signed_message,
)

__all__ = ["COORDINATOR", "LENGTH_BYTES", "REFUSALS", "SubmissionOutcome", "SubmissionStore", "make_private"]

_log = logging.getLogger("tacit.collector")

COORDINATOR = "coordinator"
# Bytes of the length in an announcement.
LENGTH_BYTES = 8
SHOWN_BATCHES = 100
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS batches (digest TEXT PRIMARY KEY, content BLOB NOT NULL, output BLOB, sent INTEGER)",
    "CREATE TABLE IF NOT EXISTS submissions (batch TEXT NOT NULL, node TEXT NOT NULL, sha256 TEXT NOT NULL, "
    "participants INTEGER NOT NULL, pieces INTEGER NOT NULL, content BLOB, PRIMARY KEY (batch, node))",
    "CREATE TABLE IF NOT EXISTS dropped (reason TEXT PRIMARY KEY, count INTEGER NOT NULL)",
)


def _refusal(reason: SubmissionRefusal) -> bytes:
    return encode({"refused": str(reason)})


# Every response that refuses; strangers get no other ones.
REFUSALS = frozenset(map(_refusal, SubmissionRefusal))


@dataclass(frozen=True)
class SubmissionOutcome:
    """The result of a batch, and how many pieces it has."""

    content: bytes
    pieces: int


Make = Callable[[Batch, list[Submission]], SubmissionOutcome]


class SubmissionStore:
    """Answers messages. ``make`` computes the result of a batch from its submissions.

    ``coordinator`` and ``nodes`` are the public identities of the parties that it serves; all others are refused.
    ``check`` refuses a batch that ``make`` could not complete when the batch is opened, before any node pays for it.
    """

    def __init__(
        self,
        file: str | Path,
        coordinator: bytes,
        nodes: Mapping[str, bytes],
        make: Make,
        check: Callable[[Batch], object] = lambda _: None,
    ) -> None:
        if COORDINATOR in nodes:
            raise InvalidInput(f"a node cannot be called {COORDINATOR!r}")
        self._identities = {**nodes, COORDINATOR: coordinator}
        self._make = make
        self._check = check
        self._refused: Counter[str] = Counter()
        self._lock, self._counting = threading.Lock(), threading.Lock()
        try:
            make_private(Path(file))
            self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            # Deleted content is overwritten.
            self._connection.execute("PRAGMA secure_delete = ON")
            for statement in _SCHEMA:
                self._connection.execute(statement)
            # A killed process may have left deleted pages in the write-ahead log.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(f"{file}: cannot be used as a store ({error})") from None

    def handle(self, payload: bytes) -> bytes:
        """The response to a message: its result, or the reason for a refusal. Never raises for any bytes."""
        try:
            message = read_signed_message(payload, self._identities, LARGEST_BATCH)
            try:
                with self._lock:
                    self._write_counts()
                    return encode(self._handled(message))
            except SubmissionRefused as refused:
                if refused.reason is not SubmissionRefusal.WAITING:
                    # Only of known senders: strangers could fill the log.
                    _log.warning("%s of %s was not accepted: %s", message.kind, message.node, refused.reason)
                raise
            except sqlite3.Error as error:
                # Nothing was acknowledged, so the sender repeats the message when there is room.
                _log.error("%s of %s could not be stored: %s", message.kind, message.node, error)
                raise SubmissionRefused(SubmissionRefusal.FAILED) from None
        except SubmissionRefused as refused:
            if refused.reason is not SubmissionRefusal.WAITING:
                self._count(refused.reason)
            return _refusal(refused.reason)

    def announce(self, payload: bytes) -> tuple[bytes, int]:
        """The response to an announcement, and how many bytes its sender may send now; 0 if refused.

        The coordinator may send a batch; a node may send as much as a submission to its batch can have.
        """
        try:
            message = read_signed_message(payload, self._identities, SLACK)
            if message.kind != "announce" or len(message.body) != LENGTH_BYTES:
                raise SubmissionRefused(SubmissionRefusal.UNEXPECTED)
            length, most = int.from_bytes(message.body, "big"), LARGEST_BATCH
            if message.node != COORDINATOR:
                with self._lock:
                    batch, _ = self._batch(message)
                if message.node not in batch.nodes:
                    raise SubmissionRefused(SubmissionRefusal.UNEXPECTED)
                most = batch.limit
            if not 1 <= length <= most + SLACK:
                _log.warning("%s announced %d bytes; at most %d are accepted", message.node, length, most + SLACK)
                raise SubmissionRefused(SubmissionRefusal.OVERSIZED)
            return encode({"allowed": length}), length
        except SubmissionRefused as refused:
            self._count(refused.reason)
            return _refusal(refused.reason), 0

    def status(self) -> dict[str, Any]:
        """How many took part in the last batches, and what was refused. Strangers may ask, so no pieces are counted."""
        with self._lock:
            self._write_counts()
            rows = self._connection.execute(
                "SELECT last.digest, count(node), coalesce(sum(participants), 0), collected "
                "FROM (SELECT rowid AS place, digest, output IS NOT NULL AS collected FROM batches "
                "ORDER BY rowid DESC LIMIT ?) AS last "
                "LEFT JOIN submissions ON batch = last.digest GROUP BY last.digest ORDER BY place",
                (SHOWN_BATCHES,),
            ).fetchall()
            dropped = dict(self._connection.execute("SELECT reason, count FROM dropped ORDER BY reason").fetchall())
        batches = [
            {"batch": digest, "nodes": nodes, "participants": participants, "collected": bool(collected)}
            for digest, nodes, participants, collected in rows
        ]
        return {"batches": batches, "dropped": dropped}

    def close(self) -> None:
        """Close the file, after the running message."""
        with self._lock:
            self._write_counts()
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handled(self, message: SignedMessage) -> dict[str, Any]:
        if (message.node == COORDINATOR) != (message.kind in ("open", "collect")):
            raise SubmissionRefused(SubmissionRefusal.UNEXPECTED)
        match message.kind:
            case "open":
                return self._open(message)
            case "submit":
                return self._submit(message)
            case "collect":
                return self._collect(message)
            case _:
                raise SubmissionRefused(SubmissionRefusal.UNEXPECTED)

    def _open(self, message: SignedMessage) -> dict[str, Any]:
        try:
            batch = Batch.read(message.body)
        except InvalidInput:
            raise SubmissionRefused(SubmissionRefusal.MALFORMED) from None
        if (batch.digest, batch.run, batch.round) != (message.batch, message.run, message.round):
            raise SubmissionRefused(SubmissionRefusal.MALFORMED)
        if not set(batch.nodes) <= set(self._identities) - {COORDINATOR}:
            raise SubmissionRefused(SubmissionRefusal.UNKNOWN)
        try:
            self._check(batch)
        except InvalidInput as error:
            _log.warning("a batch was not opened: %s", error)
            raise SubmissionRefused(SubmissionRefusal.FAILED) from None
        self._connection.execute(
            "INSERT INTO batches (digest, content) VALUES (?, ?) ON CONFLICT DO NOTHING", (batch.digest, message.body)
        )
        return {"opened": batch.digest}

    def _submit(self, message: SignedMessage) -> dict[str, Any]:
        batch, output = self._batch(message)
        if message.node not in batch.nodes:
            raise SubmissionRefused(SubmissionRefusal.UNEXPECTED)
        digest = hashlib.sha256(message.body).hexdigest()
        known = self._connection.execute(
            "SELECT sha256 FROM submissions WHERE batch = ? AND node = ?", (batch.digest, message.node)
        ).fetchone()
        # Once the batch is closed the submission is deleted, and a repeated one cannot be compared any more.
        if known is not None and (output is not None or known[0] == digest):
            return {"taken": digest}
        if output is not None:
            raise SubmissionRefused(SubmissionRefusal.CLOSED)
        if known is not None:
            raise SubmissionRefused(SubmissionRefusal.CONFLICT)
        try:
            submission = Submission.read(message.body, batch)
        except InvalidInput:
            raise SubmissionRefused(SubmissionRefusal.MALFORMED) from None
        self._connection.execute(
            "INSERT INTO submissions VALUES (?, ?, ?, ?, ?, ?)",
            (
                batch.digest,
                message.node,
                digest,
                submission.participants,
                len(submission.pieces),
                message.body,
            ),
        )
        return {"taken": digest}

    def _collect(self, message: SignedMessage) -> dict[str, Any]:
        batch, output = self._batch(message)
        if output is None:
            output = self._close(batch)
        return {"output": bytes_to_array(output)}

    def _close(self, batch: Batch) -> bytes:
        rows = self._connection.execute(
            "SELECT participants, content FROM submissions WHERE batch = ? ORDER BY sha256", (batch.digest,)
        ).fetchall()
        if sum(participants for participants, _ in rows) < batch.minimum:
            raise SubmissionRefused(SubmissionRefusal.WAITING)
        try:
            outcome = self._make(batch, [Submission.read(content, batch) for _, content in rows])
        except TooFewParticipants:
            raise SubmissionRefused(SubmissionRefusal.WAITING) from None
        except (BudgetExceeded, LimitExceeded) as error:
            _log.warning("the account cannot pay for a batch: %s", error)
            raise SubmissionRefused(SubmissionRefusal.SPENT) from None
        except TacitError as error:
            _log.warning("a batch cannot be completed: %s", error)
            raise SubmissionRefused(SubmissionRefusal.FAILED) from None
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(
                "UPDATE batches SET output = ?, sent = ? WHERE digest = ?",
                (outcome.content, outcome.pieces, batch.digest),
            )
            # From here on nobody can find out who submitted what; the digest of a single box would tell it, too.
            self._connection.execute(
                "UPDATE submissions SET content = NULL, sha256 = '' WHERE batch = ?", (batch.digest,)
            )
        # The write-ahead log has the old pages until it is truncated.
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return outcome.content

    def _batch(self, message: SignedMessage) -> tuple[Batch, bytes | None]:
        row = self._connection.execute(
            "SELECT content, output FROM batches WHERE digest = ?", (message.batch,)
        ).fetchone()
        if row is None:
            raise SubmissionRefused(SubmissionRefusal.FOREIGN)
        batch = Batch.read(row[0])
        if (batch.run, batch.round) != (message.run, message.round):
            raise SubmissionRefused(SubmissionRefusal.FOREIGN)
        return batch, row[1]

    def _count(self, reason: SubmissionRefusal) -> None:
        # In memory: a stranger's message must neither write to the disk nor wait for a batch that is being collected.
        with self._counting:
            self._refused[str(reason)] += 1

    def _write_counts(self) -> None:
        """Store how many messages were refused; a full disk keeps no message from being answered."""
        with self._counting:
            counts, self._refused = self._refused, Counter()
        try:
            self._connection.executemany(
                "INSERT INTO dropped VALUES (?, ?) ON CONFLICT (reason) DO UPDATE SET count = count + excluded.count",
                sorted(counts.items()),
            )
        except sqlite3.Error:
            with self._counting:
                self._refused.update(counts)


def make_private(file: Path) -> None:
    """Create a database file that only its owner may read; its log files get the same permissions."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    for left in (Path(f"{file}-wal"), Path(f"{file}-shm")):
        if left.exists():
            left.chmod(0o600)
