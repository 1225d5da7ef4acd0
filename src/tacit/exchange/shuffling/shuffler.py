"""The shuffler: takes boxes from holders, forgets whose they are, mixes them and lets them out once.

Its rules, all of them:

- A batch is opened by the coordinator. Only nodes that it names may hand in, each once; the same again changes nothing,
  anything else from the same node is refused.
- Nothing comes out before the batch has its minimum of participants. Then, when the coordinator collects, the batch is
  closed: who comes later is refused.
- A box that is there twice was copied; one of them stays. The rest is filled up with empty boxes to whole blocks and
  put into a uniformly random order of the system's cryptographic generator.
- What comes out is written down, and the boxes' senders are forgotten in the same step. Collected again, the batch is
  the same to the last bit.
- It cannot read a box. It reports how many came in and went out, and how many messages were refused and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tacit.core.codec import encode
from tacit.core.randomness import SystemRandomness, permutations
from tacit.exchange.post.batch import Batch, Submission
from tacit.exchange.post.office import Office, Outcome
from tacit.exchange.shuffling.boxes import empty_boxes

__all__ = ["mixed", "open_shuffler"]


def mixed(batch: Batch, submissions: list[Submission]) -> Outcome:
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
    return Outcome(content, len(filled))


def open_shuffler(file: str | Path, coordinator: bytes, nodes: Mapping[str, bytes]) -> Office:
    """The shuffler with this store, for these parties and nobody else.

    >>> import tempfile
    >>> with open_shuffler(Path(tempfile.mkdtemp()) / "shuffler.db", b"c" * 32, {"ada": b"a" * 32}) as shuffler:
    ...     shuffler.status()
    {'batches': [], 'dropped': {}}
    """
    return Office(file, coordinator, nodes, mixed)
