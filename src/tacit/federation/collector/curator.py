"""The curator: decrypts the holders' tables, sums them, and releases the sum through its own gate.

The curator is the only party that is trusted with exact counts. It pays from its own ledger, and every holder has paid
from its own before its table left. It checks the question and who has submitted, pays, and only then decrypts a table.
Counts are clipped to limits of the curator's operator, whatever the question says; only that operator learns how many
tables could not be decrypted. Below the minimum nothing is released.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from tacit.core import Integers, InvalidInput, Ledger, Randomness, TooFewParticipants
from tacit.core.codec import bytes_to_array, encode
from tacit.federation.collector.messages import Batch, Submission
from tacit.federation.collector.submission_store import SubmissionOutcome, SubmissionStore
from tacit.federation.keys import OVERHEAD, SigningIdentity, public_key, unseal
from tacit.federation.node.refusals import require_allowed
from tacit.ledger.account import PolicyLimits, covered
from tacit.ledger.policy import NO_LIMITS
from tacit.mechanisms.central.counts import read_sealed_table, table_bytes
from tacit.methods.question import MOST_RECORDS, TableQuestion, is_signed, table_shape
from tacit.private.gate import Gate
from tacit.private.records import Private
from tacit.wire import read_ask, release_to_bytes

__all__ = ["Curator", "open_curator", "read_secret"]

_log = logging.getLogger("tacit.curator")


class Curator:
    """Turns a batch of encrypted tables into one release, paid for by the curator's account.

    ``records`` is how many records one node may have, set by the curator's operator: counts above it are clipped.
    ``limits`` are those of the operator's policy; if they name purposes, questions for other purposes are refused.
    """

    def __init__(
        self,
        secret: bytes,
        ledger: Ledger,
        account: str,
        randomness: Randomness | None = None,
        records: int = MOST_RECORDS,
        limits: PolicyLimits = NO_LIMITS,
    ) -> None:
        if records < 1:
            raise InvalidInput(f"records must be at least 1, got {records}")
        self._secret = secret
        self._gate = Gate(ledger, account, randomness, limits if limits.any else None)
        self._purposes = limits.purposes if limits.any else ()
        self._records = records

    @property
    def key(self) -> bytes:
        """The public key that holders encrypt their tables for."""
        return public_key(self._secret)

    def check(self, batch: Batch) -> TableQuestion:
        """The question of a batch; a batch that cannot be released is refused. Only the batch is looked at, no table.

        A batch for nodes with more records than this curator's own limit is refused here, before a node pays: no
        honest node's table is ever above the limits.
        """
        if batch.key != self.key:
            raise InvalidInput("the batch names another key than this curator's")
        ask: TableQuestion = read_ask(batch.ask)
        shape = table_shape(ask)
        if ask.request != batch.request:
            raise InvalidInput("the batch and its question name different requests")
        if batch.size != OVERHEAD + table_bytes(shape):
            raise InvalidInput("the size of the batch's boxes does not fit the question's table")
        if batch.largest > self._records:
            raise InvalidInput(
                f"the batch is for nodes with up to {batch.largest} records; this curator accepts tables of nodes with "
                f"up to {self._records}. Its operator can change node_records"
            )
        if self._purposes and not any(covered(ask.purpose, each) for each in self._purposes):
            raise InvalidInput(f"the purpose {ask.purpose[:80]!r} is not among those that the curator's policy names")
        require_allowed("curate", ask)
        ask.sensitivity(self._gate.unit, self._gate.adjacency)
        return ask

    def __call__(self, batch: Batch, submissions: list[Submission]) -> SubmissionOutcome:
        """The release of one batch."""
        ask = self.check(batch)
        if len(submissions) < batch.minimum:
            raise TooFewParticipants(
                f"{len(submissions)} tables were submitted, and at least {batch.minimum} are needed"
            )
        release = self._gate.release(
            Private(submissions).map(partial(self._sum, batch, ask)),
            lambda: np.zeros(table_shape(ask), dtype=np.int64),
            ask.sensitivity(self._gate.unit, self._gate.adjacency),
            ask.mechanism,
            ask.purpose,
            ask.request,
            f"{ask.question} {batch.digest}",
        )
        content = {
            "batch": batch.digest,
            "release": bytes_to_array(release_to_bytes(release, ask, batch.largest * len(batch.nodes))),
            "nodes": len(submissions),
        }
        return SubmissionOutcome(encode(content), 1)

    def _sum(self, batch: Batch, ask: TableQuestion, submissions: list[Submission]) -> Integers:
        """The sum of the tables that can be decrypted, each clipped to this curator's limits."""
        shape, limits = table_shape(ask), ask.most_votes(self._records)
        # A question with unbounded votes has no finite sensitivity, and was refused before.
        assert limits is not None
        total: Integers = np.zeros(shape, dtype=np.int64)
        closed = 0
        for each in submissions:
            content = unseal(self._secret, each.pieces[0].tobytes(), batch.digest)
            if content is None or len(content) != table_bytes(shape):
                closed += 1
            else:
                total += read_sealed_table(content, shape, *limits, signed=is_signed(ask))
        if closed:
            # Whether a table can be decrypted does not depend on records. Still, only the operator is told.
            _log.warning("%d of %d tables could not be decrypted and are not counted", closed, len(submissions))
        return total


def open_curator(file: str | Path, coordinator: bytes, nodes: Mapping[str, bytes], curator: Curator) -> SubmissionStore:
    """The curator with its store in this file, which serves these parties only."""
    return SubmissionStore(file, coordinator, nodes, curator, curator.check)


def read_secret(file: str | Path) -> bytes:
    """The curator's secret decryption key, in a file of the same format as an identity."""
    return SigningIdentity.read(file).secret
