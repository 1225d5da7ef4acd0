"""What crosses the boundary in PATE: public samples one way, noisy votes of teachers on them the other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Mechanism

__all__ = ["TeacherAsk"]


@dataclass(frozen=True)
class TeacherAsk:
    """Which label do your teachers give each of these public samples?

    Every teacher has one vote a sample; the answer is what ``mechanism`` makes of the table of votes
    (samples, classes). ``names`` are the classes, in the order of the labels' indices.
    """

    samples: NDArray[Any]  # (queries, *shape)
    names: tuple[str, ...]
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str

    def __post_init__(self) -> None:
        if not len(self.samples):
            raise InvalidInput("there must be at least one sample to vote on")
        if len(self.names) < 2:
            raise InvalidInput(f"names must list at least 2 classes, got {len(self.names)}")

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.names)

    @property
    def question(self) -> str:
        """A digest of what is asked, so that a retried request cannot stand for another question."""
        content = hashlib.sha256(repr((self.samples.shape, str(self.samples.dtype), self.names)).encode())
        content.update(self.samples.tobytes())
        return content.hexdigest()
