"""A holder's end and the coordinator's end of a shuffled batch: messages into equal boxes, and out of them again.

A box holds a message or nothing; from outside all look alike. A holder fills its boxes up to whole blocks with empty
ones, and so does the shuffler, so that numbers of boxes tell little. Every box is sealed with a key of its own for one
batch: in any other it cannot be opened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Estimates
from tacit.core.randomness import SystemRandomness, permutations
from tacit.exchange.ciphers import OVERHEAD, public_key, seal, unseal
from tacit.exchange.fields import opened
from tacit.exchange.post.batch import LARGEST_BATCH, Batch
from tacit.exchange.shuffling.rows import valid_rows
from tacit.mechanisms.shuffle.flooded_messages import FloodedMessages
from tacit.mechanisms.shuffle.sealed_messages import SealedMessages, from_pieces, message_bytes
from tacit.mechanisms.shuffle.single_message import SingleMessage

__all__ = ["Mixed", "empty_boxes", "plan_batch", "read_mixed", "sealed_messages"]

FULL, EMPTY = b"\1", b"\0"
# Standard deviations, and scales of the noise, beyond which no honest holder's number of messages lies.
DEVIATIONS, REACH = 12, 64


def plan_batch(
    inner: FloodedMessages | SingleMessage,
    run: str,
    round: int,
    request: str,
    nodes: Sequence[str],
    key: bytes,
    clients: int,
    block: int = 64,
) -> Batch:
    """The batch for these messages from nodes that speak for at most so many ``clients`` each.

    ``key`` is the public half of the coordinator's key. The minimum is what the guarantee was planned for.
    """
    if clients < 1:
        raise InvalidInput(f"clients must be at least 1, got {clients}")
    most = inner.ones * clients if isinstance(inner, FloodedMessages) else clients
    if isinstance(inner, FloodedMessages):
        noise, flood = inner.noise_share, inner.flood_share
        cells = inner.cells * clients
        variance = cells * (2 * noise.variance + 4 * flood.variance)
        scales = float(1 / noise.epsilon + 2 / flood.epsilon)
        most = math.ceil(clients * inner.messages + DEVIATIONS * math.sqrt(variance) + REACH * scales)
    return Batch(
        run=run,
        round=round,
        request=request,
        nodes=tuple(sorted(nodes)),
        key=key,
        minimum=max(2, inner.quorum),
        size=OVERHEAD + 1 + message_bytes(inner),
        most=-(-most // block) * block,
        block=block,
        largest=clients,
        each=0 if isinstance(inner, FloodedMessages) else 1,
    )


def sealed_messages(inner: FloodedMessages | SingleMessage, batch: Batch, node: str) -> SealedMessages:
    """The mechanism through which a node answers; a batch that would hide its clients less than planned is refused."""
    if node not in batch.nodes:
        raise InvalidInput("the batch does not expect this node")
    if batch.minimum < inner.quorum:
        raise InvalidInput(f"the batch is mixed from {batch.minimum} clients on; at least {inner.quorum} must be in it")
    if batch.size != OVERHEAD + 1 + message_bytes(inner):
        raise InvalidInput("the batch has boxes of another size than these messages need")

    def boxes(pieces: Sequence[bytes]) -> NDArray[np.uint8]:
        # Who has nothing to say hands in empty boxes.
        count = max(batch.block, batch.blocks(len(pieces)))
        if count > batch.most:
            raise InvalidInput(f"the batch has room for {batch.most} messages of a node")
        full = b"".join(seal(batch.key, FULL + piece, batch.digest) for piece in pieces)
        rows = np.frombuffer(full, dtype=np.uint8).reshape(-1, batch.size)
        filled = np.concatenate([rows, empty_boxes(batch, count - len(pieces))])
        # Where the empty ones are is nobody's business either.
        hidden: NDArray[np.uint8] = filled[permutations(1, count, SystemRandomness())[0]]
        return hidden

    return SealedMessages(inner, batch.digest, boxes)


def empty_boxes(batch: Batch, count: int) -> NDArray[np.uint8]:
    """So many boxes with nothing in them.

    >>> empty_boxes(Batch("run", 0, "r-1", ("ada",), public_key(b"s" * 32), 2, size=60), 3).shape
    (3, 60)
    """
    content = EMPTY * (batch.size - OVERHEAD)
    made = b"".join(seal(batch.key, content, batch.digest) for _ in range(count))
    return np.frombuffer(made, dtype=np.uint8).reshape(count, batch.size)


@dataclass(frozen=True)
class Mixed:
    """What the coordinator finds in a batch, and what it leaves out: empty, spoiled, out of range."""

    messages: NDArray[np.generic]
    participants: int
    nodes: int
    empty: int
    unreadable: int
    invalid: int
    duplicates: int

    def estimates(self, inner: FloodedMessages | SingleMessage) -> Estimates:
        """Counts of every cell from what arrived; refused where that is less than was planned for."""
        arrived = len(self.messages) if isinstance(inner, SingleMessage) else self.participants
        return inner.decode(self.messages, arrived)

    @property
    def in_words(self) -> str:
        """How many of what there were."""
        return (
            f"{len(self.messages)} messages of {self.participants} clients at {self.nodes} nodes; {self.empty} empty "
            f"boxes, {self.duplicates} copies, {self.unreadable} unreadable and {self.invalid} invalid left out"
        )


def read_mixed(
    output: bytes, batch: Batch, secret: bytes, inner: FloodedMessages | SingleMessage, most: int = LARGEST_BATCH
) -> Mixed:
    """The messages in what the shuffler gave, each checked by itself: a spoiled one is left out and counted."""
    fields = opened(output, most, "mixed batch")
    if fields.digest("batch") != batch.digest or public_key(secret) != batch.key:
        raise InvalidInput("the mixed messages belong to another batch, or are sealed for another key")
    pieces = fields.array("pieces", ("|u1",), (None, batch.size))
    participants = fields.integer("participants", batch.minimum, batch.largest * len(batch.nodes))
    nodes = fields.integer("nodes", 1, len(batch.nodes))
    duplicates = fields.integer("duplicates", 0)
    fields.done()
    opened_boxes = [unseal(secret, row.tobytes(), batch.digest) for row in pieces]
    readable = [content for content in opened_boxes if content is not None]
    full = [content[1:] for content in readable if content[:1] == FULL]
    rows = from_pieces(inner, full)
    valid = valid_rows(inner, rows)
    return Mixed(
        messages=rows[valid],
        participants=participants,
        nodes=nodes,
        empty=sum(content[:1] == EMPTY for content in readable),
        unreadable=len(opened_boxes) - len(readable) + sum(content[:1] not in (EMPTY, FULL) for content in readable),
        invalid=int((~valid).sum()),
        duplicates=duplicates,
    )
