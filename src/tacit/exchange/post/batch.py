"""What a coordinator asks a shuffler or a curator to collect, and what a holder hands in for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.core.codec import encode
from tacit.core.errors import InvalidInput
from tacit.exchange.ciphers import KEY
from tacit.exchange.fields import opened, packed

__all__ = ["Batch", "Submission"]

MOST_NODES = 10_000
MOST_PARTICIPANTS = 10**9
LARGEST_PIECE = 2**28
LARGEST_BATCH = 2**29


@dataclass(frozen=True)
class Batch:
    """One collection: who hands in, sealed for whose ``key``, and when there is enough.

    Each of the ``nodes`` hands in up to ``most`` pieces of ``size`` bytes, a multiple of ``block`` of them, so that
    their number tells little. Nothing comes out before at least ``minimum`` participants are in: clients whose
    messages are mixed, or holders whose tables are added up. A node speaks for up to ``largest`` participants, each
    with up to ``each`` pieces (0: any number); in a table no count may be above ``largest``. ``ask`` is the question,
    where the collector needs it.

    >>> batch = Batch("run", 0, "r-1", ("ada", "bob"), b"k" * 32, minimum=2, size=64)
    >>> Batch.read(batch.to_bytes()) == batch
    True
    """

    run: str
    round: int
    request: str
    nodes: tuple[str, ...]
    key: bytes
    minimum: int
    size: int
    most: int = 1
    block: int = 1
    largest: int = 1
    each: int = 1
    ask: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY:
            raise InvalidInput(f"key must have {KEY} bytes, got {len(self.key)}")
        if list(self.nodes) != sorted(set(self.nodes)) or not 1 <= len(self.nodes) <= MOST_NODES:
            raise InvalidInput(f"nodes must be from 1 to {MOST_NODES} different names, sorted")
        if self.minimum < 2:
            raise InvalidInput(f"minimum must be at least 2, got {self.minimum}: one hides in nobody")
        if self.block < 1 or self.most < 1 or self.most % self.block:
            raise InvalidInput(f"most must be a multiple of the block {self.block}, got {self.most}")
        if not self.size >= 1 or self.size * self.most > LARGEST_PIECE:
            raise InvalidInput(f"a node's pieces must have at most {LARGEST_PIECE} bytes together")

    def to_bytes(self) -> bytes:
        """The batch as it travels."""
        return encode(
            {
                "run": self.run,
                "round": self.round,
                "request": self.request,
                "nodes": list(self.nodes),
                "key": packed(self.key),
                "minimum": self.minimum,
                "size": self.size,
                "most": self.most,
                "block": self.block,
                "largest": self.largest,
                "each": self.each,
                "ask": packed(self.ask),
            }
        )

    @classmethod
    def read(cls, payload: bytes) -> Batch:
        """The batch in these bytes, checked."""
        fields = opened(payload, LARGEST_BATCH, "batch")
        batch = cls(
            run=fields.text("run"),
            round=fields.integer("round", 0, 10**9),
            request=fields.text("request"),
            nodes=fields.texts("nodes", MOST_NODES),
            key=fields.content("key", KEY),
            minimum=fields.integer("minimum", 2, MOST_PARTICIPANTS),
            size=fields.integer("size", 1, LARGEST_PIECE),
            most=fields.integer("most", 1, LARGEST_PIECE),
            block=fields.integer("block", 1, LARGEST_PIECE),
            largest=fields.integer("largest", 1, 2**40),
            each=fields.integer("each", 0, LARGEST_PIECE),
            ask=fields.content("ask", LARGEST_BATCH),
        )
        fields.done()
        return batch

    @cached_property
    def digest(self) -> str:
        """A name that binds all of it."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def blocks(self, pieces: int) -> int:
        """So many pieces, filled up to whole blocks.

        >>> Batch("run", 0, "r-1", ("ada",), b"k" * 32, 2, 64, most=32, block=8).blocks(9)
        16
        """
        return -(-pieces // self.block) * self.block

    @property
    def limit(self) -> int:
        """The most bytes that a submission may have."""
        return self.size * self.most + 1024


@dataclass(frozen=True)
class Submission:
    """What one holder hands in: sealed pieces, one a row, and for how many participants."""

    participants: int
    pieces: NDArray[np.uint8] = field(repr=False)

    def to_bytes(self) -> bytes:
        """The submission as it travels."""
        return encode({"participants": self.participants, "pieces": self.pieces})

    @classmethod
    def read(cls, payload: bytes, batch: Batch) -> Submission:
        """The submission in these bytes, if it is one to this batch."""
        fields = opened(payload, batch.limit, "submission")
        participants = fields.integer("participants", 1, batch.largest)
        pieces = fields.array("pieces", ("|u1",), (None, batch.size))
        fields.done()
        if not 1 <= len(pieces) <= batch.most or len(pieces) % batch.block:
            raise InvalidInput(f"pieces must be up to {batch.most}, in blocks of {batch.block}")
        if batch.each and len(pieces) > batch.blocks(batch.each * participants):
            raise InvalidInput(f"pieces must be up to {batch.each} for each participant")
        return cls(participants, pieces)
