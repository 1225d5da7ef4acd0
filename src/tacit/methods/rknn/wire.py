"""What crosses the boundary in reverse k-NN labeling: a question about queries, and labels or counts for them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats, Mechanism, Representation
from tacit.methods.rknn.connections import CONNECTIONS, NEAREST

__all__ = ["VoteAsk"]


@dataclass(frozen=True)
class VoteAsk:
    """Which label do your records give each of these queries?

    Every record votes with its label for its ``neighbors`` nearest queries in the representation's space.
    ``names`` are the classes, in the order of the labels' indices; ``space`` is a digest of the public samples as
    the representation encodes them. The answer is what ``mechanism`` makes of the votes: one label a query, noisy
    counts, or messages of a crowd.

    ``heights``, one a query and public, add their squares to the squared distances and so make votes more even.
    ``labels`` is how many labels a record may have at most, where records carry sets of them; such a record votes
    with each of its labels. A curator then also counts voters, in one more column; a record of a crowd fills its set
    up with made-up labels, of which there are as many as labels at most, so that all have the same size.
    ``connections`` other than the nearest are the published rules, whose true sensitivity is that of all records.
    """

    queries: Floats  # (s, features), in the representation's space
    representation: Representation
    neighbors: int
    names: tuple[str, ...]
    space: str
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str
    heights: Floats | None = None  # (s,)
    labels: int | None = None
    connections: str = NEAREST

    def __post_init__(self) -> None:
        if self.heights is not None and self.heights.shape != (len(self.queries),):
            raise InvalidInput(f"heights must be one a query, got {self.heights.shape} for {len(self.queries)} queries")
        if self.labels is not None and not 1 <= self.labels <= self.classes:
            raise InvalidInput(f"labels must be between 1 and the {self.classes} classes, got {self.labels}")
        if self.connections not in CONNECTIONS:
            raise InvalidInput(f"connections must be one of {', '.join(CONNECTIONS)}, got {self.connections!r}")
        if self.connections != NEAREST and (self.heights is not None or self.labels is not None):
            raise InvalidInput(f"{self.connections} connections go with neither heights nor sets of labels")

    @property
    def question(self) -> str:
        """A digest of what is asked, so that a retried request cannot stand for another question."""
        raised = self.heights is not None
        asked = (self.queries.shape, self.neighbors, self.names, self.space, raised, self.labels, self.connections)
        content = hashlib.sha256(repr(asked).encode() + self.queries.tobytes())
        if self.heights is not None:
            content.update(self.heights.tobytes())
        return content.hexdigest()

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.names)
