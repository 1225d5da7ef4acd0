"""The store of a shuffler or a curator: what is handed in is on disk before it is acknowledged, and comes out once.

A batch is opened by the coordinator, filled by holders and collected by the coordinator. Collecting closes it: what
comes out is made, written down and the submissions forgotten, all in one transaction. So a process that is killed at
any moment has either everything that it acknowledged, or the one result; asked again it gives the same result.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tacit.core.codec import encode
from tacit.core.errors import BudgetExceeded, InvalidInput, TacitError, TooFewParticipants
from tacit.exchange.fields import packed
from tacit.exchange.post.batch import LARGEST_BATCH, Batch, Submission
from tacit.exchange.post.envelope import Envelope, Reason, Refused, read_envelope

__all__ = ["COORDINATOR", "Office", "Outcome"]

log = logging.getLogger("tacit.post")

COORDINATOR = "coordinator"
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS batches (digest TEXT PRIMARY KEY, content BLOB NOT NULL, output BLOB, sent INTEGER)",
    "CREATE TABLE IF NOT EXISTS submissions (batch TEXT NOT NULL, node TEXT NOT NULL, sha256 TEXT NOT NULL, "
    "participants INTEGER NOT NULL, pieces INTEGER NOT NULL, content BLOB, PRIMARY KEY (batch, node))",
    "CREATE TABLE IF NOT EXISTS dropped (reason TEXT PRIMARY KEY, count INTEGER NOT NULL)",
)


@dataclass(frozen=True)
class Outcome:
    """What a batch comes to, and how many pieces of it go out."""

    content: bytes
    pieces: int


Make = Callable[[Batch, list[Submission]], Outcome]


class Office:
    """Takes envelopes and gives replies. ``make`` turns the submissions of a batch into what comes out.

    ``coordinator`` and ``nodes`` are the identities of the parties it was told to serve, and of nobody else.
    """

    def __init__(self, file: str | Path, coordinator: bytes, nodes: Mapping[str, bytes], make: Make) -> None:
        if COORDINATOR in nodes:
            raise InvalidInput(f"a node cannot be called {COORDINATOR!r}")
        self._identities = {**nodes, COORDINATOR: coordinator}
        self._make = make
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            # What was forgotten is overwritten, not only unlinked.
            self._connection.execute("PRAGMA secure_delete = ON")
            for statement in SCHEMA:
                self._connection.execute(statement)
            # A process that was killed may have left forgotten pages in the log.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise InvalidInput(f"{file}: cannot be used as a store ({error})") from None

    def handle(self, payload: bytes) -> bytes:
        """The reply to a message, whatever it is: what was asked for, or the reason why not."""
        try:
            envelope = read_envelope(payload, self._identities, LARGEST_BATCH)
            with self._lock:
                return encode(self._handled(envelope))
        except Refused as refused:
            if refused.reason is not Reason.WAITING:
                self._count(refused.reason)
            return encode({"refused": str(refused.reason)})

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
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handled(self, envelope: Envelope) -> dict[str, Any]:
        if (envelope.node == COORDINATOR) != (envelope.kind in ("open", "collect")):
            raise Refused(Reason.UNEXPECTED)
        match envelope.kind:
            case "open":
                return self._open(envelope)
            case "submit":
                return self._submit(envelope)
            case _:
                return self._collect(envelope)

    def _open(self, envelope: Envelope) -> dict[str, Any]:
        try:
            batch = Batch.read(envelope.body)
        except InvalidInput:
            raise Refused(Reason.MALFORMED) from None
        if (batch.digest, batch.run, batch.round) != (envelope.batch, envelope.run, envelope.round):
            raise Refused(Reason.MALFORMED)
        if not set(batch.nodes) <= set(self._identities) - {COORDINATOR}:
            raise Refused(Reason.UNKNOWN)
        self._connection.execute(
            "INSERT INTO batches (digest, content) VALUES (?, ?) ON CONFLICT DO NOTHING", (batch.digest, envelope.body)
        )
        return {"opened": batch.digest}

    def _submit(self, envelope: Envelope) -> dict[str, Any]:
        batch, output = self._batch(envelope)
        if envelope.node not in batch.nodes:
            raise Refused(Reason.UNEXPECTED)
        digest = hashlib.sha256(envelope.body).hexdigest()
        known = self._connection.execute(
            "SELECT sha256 FROM submissions WHERE batch = ? AND node = ?", (batch.digest, envelope.node)
        ).fetchone()
        # Once the batch is closed nothing is left to compare with; who had handed in is told so.
        if known is not None and (output is not None or known[0] == digest):
            return {"taken": digest}
        if output is not None:
            raise Refused(Reason.CLOSED)
        if known is not None:
            raise Refused(Reason.CONFLICT)
        try:
            submission = Submission.read(envelope.body, batch)
        except InvalidInput:
            raise Refused(Reason.MALFORMED) from None
        self._connection.execute(
            "INSERT INTO submissions VALUES (?, ?, ?, ?, ?, ?)",
            (
                batch.digest,
                envelope.node,
                digest,
                submission.participants,
                len(submission.pieces),
                envelope.body,
            ),
        )
        return {"taken": digest}

    def _collect(self, envelope: Envelope) -> dict[str, Any]:
        batch, output = self._batch(envelope)
        if output is None:
            output = self._close(batch)
        return {"output": packed(output)}

    def _close(self, batch: Batch) -> bytes:
        rows = self._connection.execute(
            "SELECT participants, content FROM submissions WHERE batch = ? ORDER BY sha256", (batch.digest,)
        ).fetchall()
        if sum(participants for participants, _ in rows) < batch.minimum:
            raise Refused(Reason.WAITING)
        try:
            outcome = self._make(batch, [Submission.read(content, batch) for _, content in rows])
        except TooFewParticipants:
            raise Refused(Reason.WAITING) from None
        except BudgetExceeded:
            raise Refused(Reason.SPENT) from None
        except TacitError as error:
            log.warning("a batch cannot be completed: %s", error)
            raise Refused(Reason.FAILED) from None
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(
                "UPDATE batches SET output = ?, sent = ? WHERE digest = ?",
                (outcome.content, outcome.pieces, batch.digest),
            )
            # From here on nobody can tell who handed in what: a digest of a single box would tell, too.
            self._connection.execute(
                "UPDATE submissions SET content = NULL, sha256 = '' WHERE batch = ?", (batch.digest,)
            )
        # The log of the database has the old pages until it is written back.
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return outcome.content

    def _batch(self, envelope: Envelope) -> tuple[Batch, bytes | None]:
        row = self._connection.execute(
            "SELECT content, output FROM batches WHERE digest = ?", (envelope.batch,)
        ).fetchone()
        if row is None:
            raise Refused(Reason.FOREIGN)
        batch = Batch.read(row[0])
        if (batch.run, batch.round) != (envelope.run, envelope.round):
            raise Refused(Reason.FOREIGN)
        return batch, row[1]

    def _count(self, reason: Reason) -> None:
        with self._lock:
            self._connection.execute(
                "INSERT INTO dropped VALUES (?, 1) ON CONFLICT (reason) DO UPDATE SET count = count + 1", (str(reason),)
            )
