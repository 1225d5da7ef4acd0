"""What the rounds of a federation came to, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.methods.fedmd.form import softmax
from tacit.methods.fedmd.wire import Feedback

__all__ = ["agreed"]


def agreed(history: Sequence[Feedback], samples: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For every public sample the class index last agreed on, −1 where it was never asked about, and its probability.

    What was agreed on later comes from models that have learned more.

    >>> last = Feedback(0, np.array([2]), np.array([[0.25, 0.75]], dtype=np.float32))
    >>> agreed((last,), 3)[0].tolist()
    [-1, -1, 1]
    """
    labels, sure = np.full(samples, -1, dtype=np.int64), np.zeros(samples, dtype=np.float32)
    for each in history:
        chances = softmax(each.targets) if each.logits else each.targets
        labels[each.rows] = chances.argmax(axis=1)
        sure[each.rows] = chances.max(axis=1)
    return labels, sure
