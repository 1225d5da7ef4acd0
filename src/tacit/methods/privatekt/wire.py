"""What crosses the boundary in PrivateKT: a few public samples and perhaps weights one way, noisy labels the other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tacit.mechanisms.local.answer_sheet import AnswerSheet

__all__ = ["LabelAsk"]


@dataclass(frozen=True)
class LabelAsk:
    """How do your records label these public samples?

    ``weights`` are those of the global model, as safetensors, where local models start from them. ``invited`` says
    which holders are asked in this round, by their place; the answer of each is what ``sheet`` makes of its labels,
    or a refusal where its account cannot pay.
    """

    samples: NDArray[Any]  # (answers, *shape)
    weights: bytes | None
    sheet: AnswerSheet
    invited: tuple[int, ...]
    purpose: str
    request: str

    @property
    def question(self) -> str:
        """A digest of what is asked, so that a retried request cannot stand for another question."""
        content = hashlib.sha256(repr((self.samples.shape, str(self.samples.dtype))).encode())
        content.update(self.samples.tobytes())
        content.update(self.weights or b"")
        return content.hexdigest()

    @property
    def seed(self) -> int:
        """What local training shuffles by: the same for a request that is made again, and in a run that is repeated."""
        return int(self.question[:12], 16)
