"""A holder's end and the coordinator's end of a curator's batch: a sealed table in, one release out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.release import Release
from tacit.core.strict_reader import decode_strict
from tacit.federation.collector.messages import LARGEST_BATCH, Batch
from tacit.federation.keys import OVERHEAD, seal
from tacit.mechanisms.central.sealed_table import SealedTable, table_bytes
from tacit.methods.question import Question, TableQuestion, table_shape
from tacit.wire import ANSWER_BYTES, ask_to_bytes, read_release

__all__ = ["plan_tables", "read_curated", "sealed_table"]

# Who paid for a curated release; under which name it keeps its account is its own business.
CURATOR = "curator"


def plan_tables(
    ask: TableQuestion,
    run: str,
    round: int,
    nodes: Sequence[str],
    key: bytes,
    minimum: int,
    largest: int,
) -> Batch:
    """The batch for a question to nodes with at most ``largest`` records each; ``key`` is the curator's public one."""
    return Batch(
        run=run,
        round=round,
        request=ask.request,
        nodes=tuple(sorted(nodes)),
        key=key,
        minimum=minimum,
        size=OVERHEAD + table_bytes(table_shape(ask)),
        largest=largest,
        ask=ask_to_bytes(ask),
    )


def sealed_table(ask: TableQuestion, batch: Batch, node: str, curator: bytes) -> SealedTable:
    """The mechanism through which a node answers. ``curator`` is the key that the node's own operator trusts.

    The key in the batch comes from the coordinator, who must not be able to read the table.
    """
    if batch.key != curator:
        raise InvalidInput("the batch is sealed for another key than that of the curator this node trusts")
    if node not in batch.nodes or batch.ask != ask_to_bytes(ask):
        raise InvalidInput("the batch does not expect this node, or is about another question")
    if batch.size != OVERHEAD + table_bytes(table_shape(ask)):
        raise InvalidInput("the batch has boxes of another size than this table needs")

    def boxed(content: bytes) -> NDArray[np.uint8]:
        return np.frombuffer(seal(batch.key, content, batch.digest), dtype=np.uint8)[None]

    return SealedTable(ask.mechanism, batch.digest, boxed)


def read_curated(output: bytes, batch: Batch, ask: Question) -> tuple[Release[Any], int]:
    """The curator's release, and how many nodes had handed in. What became of their tables it does not say."""
    fields = decode_strict(output, LARGEST_BATCH, "curated batch")
    if fields.digest("batch") != batch.digest:
        raise InvalidInput("the release belongs to another batch")
    release = read_release(fields.content("release", ANSWER_BYTES), ask, CURATOR, batch.largest * len(batch.nodes))
    nodes = fields.integer("nodes", 1, len(batch.nodes))
    fields.done()
    return release, nodes
