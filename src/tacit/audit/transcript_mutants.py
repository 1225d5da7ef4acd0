"""Parties of a protocol that do one thing wrong, for audits that must notice: half a share, no mask, no mixing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.transcripts import Silent
from tacit.core.codec import encode
from tacit.core.randomness import Randomness
from tacit.exchange.post.batch import Batch, Submission
from tacit.exchange.post.office import Outcome
from tacit.mechanisms.masked.distributed_laplace import MaskedShare
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial

__all__ = ["HalfShare", "in_order", "same_mask", "unmasked"]


@dataclass(frozen=True)
class HalfShare(Silent):
    """A holder adds half of its share of the noise."""

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """The table with too little noise, under its masks."""
        law = self.share.plan.share_law
        jumps = NegativeBinomial(law.shape / 2, law.epsilon).scatter(1, 2 * value.size, randomness)
        both = np.zeros(2 * value.size, dtype=np.int64)
        np.add.at(both, jumps.slot, jumps.size)
        return super().sample(value + both[: value.size] - both[value.size :], randomness)


def unmasked(share: MaskedShare) -> MaskedShare:
    """A holder leaves its masks out."""
    return MaskedShare(share.plan, share.session, np.zeros_like(share.mask))


def same_mask(share: MaskedShare) -> MaskedShare:
    """Every table goes under the same mask."""
    return MaskedShare(share.plan, share.session, np.arange(share.mask.size, dtype=np.uint64) * np.uint64(977))


def in_order(batch: Batch, submissions: list[Submission]) -> Outcome:
    """A shuffler forwards boxes in the order in which they came."""
    boxes = np.concatenate([each.pieces for each in submissions])
    content = {
        "batch": batch.digest,
        "pieces": boxes,
        "participants": sum(each.participants for each in submissions),
        "nodes": len(submissions),
        "duplicates": 0,
    }
    return Outcome(encode(content), len(boxes))
