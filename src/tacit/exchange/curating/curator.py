"""The curator: opens the holders' tables, adds them up, and lets out what its own gate makes of the sum.

It is trusted with exact counts, and is the only party that is. It has a ledger of its own and pays from it, and every
holder has paid from its own before its table left. A table that cannot be opened, or holds a count out of range, is
left out and counted; below the minimum nothing is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.codec import encode
from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.protocols import Integers, Ledger
from tacit.core.randomness import Randomness
from tacit.core.sensitivity import Sensitivity, vote_sensitivity
from tacit.exchange.ciphers import public_key, unseal
from tacit.exchange.curating.tables import table_shape
from tacit.exchange.fields import packed
from tacit.exchange.identity import Identity
from tacit.exchange.portable import read_ask, release_to_bytes
from tacit.exchange.post.batch import Batch, Submission
from tacit.exchange.post.office import Office, Outcome
from tacit.mechanisms.central.sealed_table import read_table
from tacit.methods.fedmd.wire import VoteAsk as PartyVoteAsk
from tacit.methods.pate.holder import teacher_sensitivity
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.rknn.connections import NEAREST
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private

__all__ = ["Curator", "open_curator", "read_secret", "table_sensitivity"]


def table_sensitivity(ask: Any, unit: Unit, adjacency: Adjacency) -> Sensitivity:  # noqa: ANN401
    """How far the sum of all tables moves when one privacy unit of the curator's account changes.

    >>> ask = TeacherAsk(np.zeros((3, 2)), ("a", "b"), None, "votes", "r-1")
    >>> table_sensitivity(ask, Unit(), Adjacency.REPLACE_ONE).l1
    6
    """
    replace = adjacency is Adjacency.REPLACE_ONE
    if isinstance(ask, TeacherAsk):
        return teacher_sensitivity(len(ask.samples))
    if unit.holder:
        raise InvalidInput(
            "votes protect records, or persons with a bounded number of them; the account a whole holder"
        )
    rows, columns = table_shape(ask)
    if isinstance(ask, PartyVoteAsk):
        return vote_sensitivity(rows, columns, neighbors=1, records=unit.records, replace=replace)
    assert isinstance(ask, VoteAsk)
    if ask.connections != NEAREST:
        raise InvalidInput(f"{ask.connections} connections need every record in one place, not tables of votes")
    return vote_sensitivity(
        queries=rows,
        classes=ask.classes,
        neighbors=ask.neighbors,
        labels=ask.labels or 1,
        records=unit.records,
        replace=replace,
        voters=ask.labels is not None,
    )


class Curator:
    """What turns a batch of sealed tables into one release, paid for by the curator's account."""

    def __init__(self, secret: bytes, ledger: Ledger, account: str, randomness: Randomness | None = None) -> None:
        self._secret = secret
        self._gate = Gate(ledger, account, randomness)

    @property
    def key(self) -> bytes:
        """What holders seal for."""
        return public_key(self._secret)

    def __call__(self, batch: Batch, submissions: list[Submission]) -> Outcome:
        """The release of one batch."""
        if batch.key != self.key:
            raise InvalidInput("the batch is sealed for another key than the curator's")
        ask = read_ask(batch.ask)
        moves = table_sensitivity(ask, self._gate.unit, self._gate.adjacency)
        tables = [table for each in submissions if (table := self._opened(batch, ask, each)) is not None]
        if len(tables) < batch.minimum:
            raise TooFewParticipants(f"{len(tables)} tables came and at least {batch.minimum} must")
        total = Private(np.sum(tables, axis=0, dtype=np.int64))
        release = self._gate.release(
            total, moves, ask.mechanism, ask.purpose, ask.request, f"{ask.question} {batch.digest}"
        )
        content = {
            "batch": batch.digest,
            "release": packed(release_to_bytes(release, ask, batch.largest * len(batch.nodes))),
            "nodes": len(tables),
            "unreadable": len(submissions) - len(tables),
        }
        return Outcome(encode(content), 1)

    def _opened(self, batch: Batch, ask: Any, submission: Submission) -> Integers | None:  # noqa: ANN401
        content = unseal(self._secret, submission.pieces[0].tobytes(), batch.digest)
        try:
            return None if content is None else read_table(content, table_shape(ask), batch.largest)
        except InvalidInput:
            return None


def open_curator(file: str | Path, coordinator: bytes, nodes: Mapping[str, bytes], curator: Curator) -> Office:
    """The curator's store and door, for these parties and nobody else."""
    return Office(file, coordinator, nodes, curator)


def read_secret(file: str | Path) -> bytes:
    """The curator's sealing key, in a file like an identity's."""
    return Identity.read(file).secret
