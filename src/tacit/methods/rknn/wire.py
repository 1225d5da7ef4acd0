"""What crosses the boundary in reverse k-NN labeling: a question about queries, and labels or counts for them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from tacit.core.protocols import Floats, Mechanism, Representation

__all__ = ["VoteAsk"]


@dataclass(frozen=True)
class VoteAsk:
    """Which label do your records give each of these queries?

    Every record votes with its label for its ``neighbors`` nearest queries in the representation's space.
    ``names`` are the classes, in the order of the labels' indices; ``space`` is a digest of the public samples as
    the representation encodes them. The answer is what ``mechanism`` makes of the votes: one label a query, noisy
    counts, or messages of a crowd.
    """

    queries: Floats  # (s, features), in the representation's space
    representation: Representation
    neighbors: int
    names: tuple[str, ...]
    space: str
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str

    @property
    def question(self) -> str:
        """A digest of what is asked, so that a retried request cannot stand for another question."""
        asked = repr((self.queries.shape, self.neighbors, self.names, self.space))
        return hashlib.sha256(asked.encode() + self.queries.tobytes()).hexdigest()

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.names)
