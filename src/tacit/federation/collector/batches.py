"""Batches that a shuffler or a curator collects, as holders write and the coordinator reads them; and the shuffler.

Shuffled: each message is encrypted into a box (a ciphertext) of fixed size; boxes are permuted and then decrypted by
the coordinator. A box contains a message or is empty, and nobody without the key can tell which. A holder adds empty
boxes up to a number that depends on its number of participants alone, because how many messages it has tells how much
noise it drew. Every box is encrypted for one batch and cannot be decrypted as part of another.

The shuffler accepts boxes from holders, drops their senders, permutes them and releases them once. All of its rules:

- The coordinator opens a batch. Only nodes that the batch names may submit, each once; a repeated submission changes
  nothing, and a different one from the same node is refused.
- Nothing is released before the batch has its minimum of participants. When the coordinator then collects, the batch is
  closed: later submissions are refused.
- Of identical boxes, which are copies, one stays. Empty boxes fill the batch up to whole blocks, and all boxes are put
  into a uniformly random order drawn from the system's cryptographic generator.
- The result is stored, and the boxes' senders are deleted in the same step. Collecting the batch again returns
  identical bytes.
- The shuffler cannot decrypt a box. It reports how many nodes and participants have submitted, and how many messages
  it refused for which reason.

Curated: each holder submits an encrypted table, and the coordinator reads the curator's one release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Estimates, InvalidInput, Release, SystemRandomness, permutations
from tacit.core.codec import decode_strict, encode
from tacit.federation.collector.messages import LARGEST_BATCH, Batch, Submission
from tacit.federation.collector.submission_store import SubmissionOutcome, SubmissionStore
from tacit.federation.keys import OVERHEAD, public_key, seal, unseal
from tacit.mechanisms.central.counts import SealedTable, table_bytes
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.single_message import SealedMessages, SingleMessage, from_pieces
from tacit.methods.question import Question, TableQuestion, table_shape
from tacit.wire import ANSWER_BYTES, ask_to_bytes, read_release

__all__ = [
    "ShuffledMessages",
    "empty_boxes",
    "open_shuffler",
    "plan_batch",
    "plan_tables",
    "read_curated",
    "read_shuffled",
    "sealed_messages",
    "sealed_table",
    "shuffled",
]  # fmt: skip

FULL, EMPTY = b"\1", b"\0"


def plan_batch(
    inner: MultiMessageNoise | SingleMessage,
    run: str,
    round: int,
    request: str,
    nodes: Sequence[str],
    key: bytes,
    participants: int,
    block: int = 64,
) -> Batch:
    """The batch for these messages from nodes with at most ``participants`` participants each.

    ``key`` is the coordinator's public key. The minimum of participants is the one that the guarantee was planned for.
    """
    most = most_messages(inner, participants)
    return Batch(
        run=run,
        round=round,
        request=request,
        nodes=tuple(sorted(nodes)),
        key=key,
        minimum=max(2, inner.quorum),
        size=OVERHEAD + 1 + inner.code.size,
        most=-(-most // block) * block,
        block=block,
        largest=participants,
        each=inner.messages_each or 0,
    )


def most_messages(inner: MultiMessageNoise | SingleMessage, participants: int) -> int:
    """The number of boxes of this many participants, empty ones included, before it is rounded up to whole blocks.

    >>> from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
    >>> most_messages(SingleMessage(GeneralizedRandomizedResponse(10, 1, 1), 50, "1e-6"), 7)
    7
    """
    if participants < 1:
        raise InvalidInput(f"participants must be at least 1, got {participants}")
    return inner.most_messages(participants)


def sealed_messages(
    inner: MultiMessageNoise | SingleMessage, batch: Batch, node: str, participants: int
) -> SealedMessages:
    """The mechanism by which a node answers for its participants.

    Refused are batches that mix the messages with fewer participants than the guarantee needs, and batches without room
    for all messages that these may send. The number of boxes depends on the batch and ``participants`` alone.
    """
    if node not in batch.nodes:
        raise InvalidInput("the batch does not expect this node")
    if batch.minimum < inner.quorum:
        raise InvalidInput(
            f"the batch may be released with {batch.minimum} participants, and the guarantee needs at least "
            f"{inner.quorum}"
        )
    if batch.size != OVERHEAD + 1 + inner.code.size:
        raise InvalidInput("the size of the batch's boxes does not fit these messages")
    room = batch.blocks(most_messages(inner, participants))
    if participants > batch.largest or room > batch.most or batch.each != (inner.messages_each or 0):
        raise InvalidInput(
            f"the batch has room for {batch.most} messages of {batch.largest} participants per node; this node needs "
            f"{room} for its {participants} participants, so that all noise messages fit"
        )

    def boxes(pieces: Sequence[bytes]) -> NDArray[np.uint8]:
        if inner.messages_each is not None and len(pieces) > room:
            raise InvalidInput(f"the batch has room for {room} messages of this node's participants")
        # Any number of messages fits: noise beyond the room is dropped, and its probability is part of δ.
        sent = pieces[:room]
        full = b"".join(seal(batch.key, FULL + piece, batch.digest) for piece in sent)
        rows = np.frombuffer(full, dtype=np.uint8).reshape(-1, batch.size)
        filled = np.concatenate([rows, empty_boxes(batch, room - len(sent))])
        # Nor may the order tell which boxes are empty.
        hidden: NDArray[np.uint8] = filled[permutations(1, room, SystemRandomness())[0]]
        return hidden

    return SealedMessages(inner, batch.digest, boxes)


def empty_boxes(batch: Batch, count: int) -> NDArray[np.uint8]:
    """This many empty boxes.

    >>> empty_boxes(Batch("run", 0, "r-1", ("ada",), public_key(b"s" * 32), 2, size=60), 3).shape
    (3, 60)
    """
    content = EMPTY * (batch.size - OVERHEAD)
    made = b"".join(seal(batch.key, content, batch.digest) for _ in range(count))
    return np.frombuffer(made, dtype=np.uint8).reshape(count, batch.size)


@dataclass(frozen=True)
class ShuffledMessages:
    """The messages of a shuffled batch, and how many boxes were left out: empty, unreadable or invalid."""

    messages: NDArray[np.generic]
    participants: int
    nodes: int
    empty: int
    unreadable: int
    invalid: int
    duplicates: int

    def estimates(self, inner: MultiMessageNoise | SingleMessage) -> Estimates:
        """Estimated counts of every cell; refused if fewer participants took part than the guarantee needs."""
        # Where each participant sends one message, the number of valid messages is the number of participants.
        arrived = self.participants if inner.messages_each is None else len(self.messages)
        return inner.decode(self.messages, arrived)

    @property
    def in_words(self) -> str:
        """The counts as a sentence."""
        return (
            f"{len(self.messages)} messages of {self.participants} participants at {self.nodes} nodes; {self.empty} "
            f"empty boxes, {self.duplicates} copies, {self.unreadable} unreadable and {self.invalid} invalid left out"
        )


def read_shuffled(
    output: bytes, batch: Batch, secret: bytes, inner: MultiMessageNoise | SingleMessage, most: int = LARGEST_BATCH
) -> ShuffledMessages:
    """The messages in the shuffler's output, each checked by itself: a damaged one is left out and counted."""
    fields = decode_strict(output, most, "shuffled batch")
    if fields.digest("batch") != batch.digest or public_key(secret) != batch.key:
        raise InvalidInput("the shuffled messages belong to another batch, or are encrypted for another key")
    pieces = fields.array("pieces", ("|u1",), (None, batch.size))
    participants = fields.integer("participants", batch.minimum, batch.largest * len(batch.nodes))
    nodes = fields.integer("nodes", 1, len(batch.nodes))
    duplicates = fields.integer("duplicates", 0)
    fields.done()
    opened_boxes = [unseal(secret, row.tobytes(), batch.digest) for row in pieces]
    readable = [content for content in opened_boxes if content is not None]
    full = [content[1:] for content in readable if content[:1] == FULL]
    rows = from_pieces(inner, full)
    valid = inner.code.valid(rows)
    return ShuffledMessages(
        messages=rows[valid],
        participants=participants,
        nodes=nodes,
        empty=sum(content[:1] == EMPTY for content in readable),
        unreadable=len(opened_boxes) - len(readable) + sum(content[:1] not in (EMPTY, FULL) for content in readable),
        invalid=int((~valid).sum()),
        duplicates=duplicates,
    )


def shuffled(batch: Batch, submissions: list[Submission]) -> SubmissionOutcome:
    """All boxes of a batch in random order, without their senders."""
    boxes = np.concatenate([each.pieces for each in submissions])
    different = np.unique(boxes, axis=0)
    filled = np.concatenate([different, empty_boxes(batch, batch.blocks(len(different)) - len(different))])
    order = permutations(1, len(filled), SystemRandomness())[0]
    content = encode(
        {
            "batch": batch.digest,
            "pieces": filled[order],
            "participants": sum(each.participants for each in submissions),
            "nodes": len(submissions),
            "duplicates": len(boxes) - len(different),
        }
    )
    return SubmissionOutcome(content, len(filled))


def open_shuffler(file: str | Path, coordinator: bytes, nodes: Mapping[str, bytes]) -> SubmissionStore:
    """A shuffler with its store in this file, which serves these parties only.

    >>> import tempfile
    >>> with open_shuffler(Path(tempfile.mkdtemp()) / "shuffler.db", b"c" * 32, {"ada": b"a" * 32}) as shuffler:
    ...     shuffler.status()
    {'batches': [], 'dropped': {}}
    """
    return SubmissionStore(file, coordinator, nodes, shuffled)


# The payer's name in a curated release; the name of the curator's account stays with the curator.
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
    """The batch for a question to nodes with at most ``largest`` records each; ``key`` is the curator's public key."""
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
    """The mechanism by which a node answers. ``curator`` is the public key that the node's own operator trusts.

    The batch's key comes from the coordinator, who could name its own key and read the table; so the two must be equal.
    """
    if batch.key != curator:
        raise InvalidInput("the batch names another key than that of the curator this node trusts")
    if node not in batch.nodes or batch.ask != ask_to_bytes(ask):
        raise InvalidInput("the batch does not expect this node, or is about another question")
    if batch.size != OVERHEAD + table_bytes(table_shape(ask)):
        raise InvalidInput("the size of the batch's boxes does not fit this table")

    def boxed(content: bytes) -> NDArray[np.uint8]:
        return np.frombuffer(seal(batch.key, content, batch.digest), dtype=np.uint8)[None]

    return SealedTable(ask.mechanism, batch.digest, boxed)


def read_curated(output: bytes, batch: Batch, ask: Question) -> tuple[Release[Any], int]:
    """The curator's release, and the number of nodes that submitted."""
    fields = decode_strict(output, LARGEST_BATCH, "curated batch")
    if fields.digest("batch") != batch.digest:
        raise InvalidInput("the release belongs to another batch")
    release = read_release(fields.content("release", ANSWER_BYTES), ask, CURATOR, batch.largest * len(batch.nodes))
    nodes = fields.integer("nodes", 1, len(batch.nodes))
    fields.done()
    return release, nodes
