"""The store of a shuffler or a curator: a submission is on disk before it is acknowledged, and is released once.

A batch is opened by the coordinator, filled by holders and collected by the coordinator. Collecting closes it: what
comes out is made, written down and the submissions forgotten, all in one transaction. So a process that is killed at
any moment has either everything that it acknowledged, or the one result; asked again it gives the same result.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
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

__all__ = ["COORDINATOR", "LENGTH_BYTES", "SubmissionOutcome", "SubmissionStore", "make_private"]

_log = logging.getLogger("tacit.collector")

COORDINATOR = "coordinator"
# Bytes of the number in an announcement.
LENGTH_BYTES = 8
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS batches (digest TEXT PRIMARY KEY, content BLOB NOT NULL, output BLOB, sent INTEGER)",
    "CREATE TABLE IF NOT EXISTS submissions (batch TEXT NOT NULL, node TEXT NOT NULL, sha256 TEXT NOT NULL, "
    "participants INTEGER NOT NULL, pieces INTEGER NOT NULL, content BLOB, PRIMARY KEY (batch, node))",
    "CREATE TABLE IF NOT EXISTS dropped (reason TEXT PRIMARY KEY, count INTEGER NOT NULL)",
)


@dataclass(frozen=True)
class SubmissionOutcome:
    """The result of a batch, and how many pieces of it go out."""

    content: bytes
    pieces: int


Make = Callable[[Batch, list[Submission]], SubmissionOutcome]


class SubmissionStore:
    """Takes messages and gives replies. ``make`` turns the submissions of a batch into what comes out.

    ``coordinator`` and ``nodes`` are the identities of the parties it was told to serve, and of nobody else. ``check``
    refuses a batch that ``make`` could not complete when it is opened, before anybody pays for it.
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
        self._lock = threading.Lock()
        try:
            make_private(Path(file))
            self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            # What was forgotten is overwritten, not only unlinked.
            self._connection.execute("PRAGMA secure_delete = ON")
            for statement in _SCHEMA:
                self._connection.execute(statement)
            # A process that was killed may have left forgotten pages in the log.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(f"{file}: cannot be used as a store ({error})") from None

    def handle(self, payload: bytes) -> bytes:
        """The reply to a message, whatever it is: what was asked for, or the reason why not."""
        try:
            message = read_signed_message(payload, self._identities, LARGEST_BATCH)
            try:
                with self._lock:
                    return encode(self._handled(message))
            except SubmissionRefused as refused:
                if refused.reason is not SubmissionRefusal.WAITING:
                    # Of strangers there would be no end.
                    _log.warning("%s of %s was not accepted: %s", message.kind, message.node, refused.reason)
                raise
            except sqlite3.Error as error:
                # Nothing was acknowledged: whoever sent it is told, and sends it again when there is room.
                _log.error("%s of %s could not be stored: %s", message.kind, message.node, error)
                raise SubmissionRefused(SubmissionRefusal.FAILED) from None
        except SubmissionRefused as refused:
            if refused.reason is not SubmissionRefusal.WAITING:
                self._count(refused.reason)
            return encode({"refused": str(refused.reason)})

    def announce(self, payload: bytes) -> tuple[bytes, int]:
        """The reply to an announcement, and how many bytes its sender may send now; 0 where it may not.

        The coordinator may send a batch; a node what its batch, which must be open here, has room for.
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
            return encode({"refused": str(refused.reason)}), 0

    def status(self) -> dict[str, Any]:
        """What came in, went out and was dropped, in numbers."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT batches.digest, count(node), coalesce(sum(participants), 0), coalesce(sum(pieces), 0), sent "
                "FROM batches LEFT JOIN submissions ON batch = batches.digest GROUP BY batches.digest"
            ).fetchall()
            dropped = dict(self._connection.execute("SELECT reason, count FROM dropped ORDER BY reason").fetchall())
        names = ("batch", "nodes", "participants", "pieces_in", "pieces_out")
        return {"batches": [dict(zip(names, row, strict=True)) for row in rows], "dropped": dropped}

    def close(self) -> None:
        """Let go of the file, once nobody is at work on it."""
        with self._lock:
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
        # Once the batch is closed no submission is left to compare with; its sender is told so.
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
            _log.warning("a batch is not paid for: %s", error)
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
            # From here on nobody can tell who submitted what: a digest of a single box would tell, too.
            self._connection.execute(
                "UPDATE submissions SET content = NULL, sha256 = '' WHERE batch = ?", (batch.digest,)
            )
        # The log of the database has the old pages until it is written back.
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
        # A count that a full disk does not take is no reason to stay silent.
        with self._lock, suppress(sqlite3.Error):
            self._connection.execute(
                "INSERT INTO dropped VALUES (?, 1) ON CONFLICT (reason) DO UPDATE SET count = count + 1", (str(reason),)
            )


def make_private(file: Path) -> None:
    """A database that only its owner may read, from its first byte; its log files get the same rights."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    for left in (Path(f"{file}-wal"), Path(f"{file}-shm")):
        if left.exists():
            left.chmod(0o600)
