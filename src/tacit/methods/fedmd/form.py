"""How a party's predictions are written down: labels, probabilities or logits, always as whole numbers.

Whole numbers in a public range are what exact noise can be added to, and what a bound on the change of an answer can
be proven for. Nothing is known of how far one record moves a trained model, so the bound is the whole range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.sensitivity import Sensitivity

__all__ = ["PREDICTION_KINDS", "PredictionForm", "one_hot", "softmax"]

PREDICTION_KINDS = ("argmax", "softmax", "logits")
# Beyond this a logit says nothing more, and differences of smaller ones do not overflow.
LARGEST_LOGIT = 1e6


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """The probabilities that logits stand for, row by row.

    >>> softmax(np.array([[0.0, 0.0]])).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities


def one_hot(labels: Integers, classes: int) -> Integers:
    """A one in the column of each label.

    >>> one_hot(np.array([1, 0]), 3).tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    table = np.zeros((len(labels), classes), dtype=np.int64)
    table[np.arange(len(labels)), labels] = 1
    return table


@dataclass(frozen=True)
class PredictionForm:
    """What is sent of a prediction: its label, its probabilities or its logits.

    Probabilities are multiples of 1/``grid`` that add up to exactly 1. Logits are centered, clipped to
    [−``bound``, ``bound``] and rounded to multiples of 1/``grid``.

    >>> PredictionForm("softmax", classes=3, grid=10).table(np.log([[0.55, 0.34, 0.11]])).tolist()
    [[6, 3, 1]]
    >>> PredictionForm("softmax", classes=3, grid=10).sensitivity(queries=5).l1
    100
    """

    kind: str
    classes: int
    grid: int = 1000
    bound: int = 8

    def __post_init__(self) -> None:
        if self.kind not in PREDICTION_KINDS:
            raise InvalidInput(f"kind must be one of {', '.join(PREDICTION_KINDS)}, got {self.kind!r}")
        if self.classes < 2:
            raise InvalidInput(f"classes must be at least 2, got {self.classes}")
        if not 1 <= self.grid <= 10**6:
            raise InvalidInput(f"grid must be between 1 and 1000000, got {self.grid}")
        if not 1 <= self.bound <= 1000:
            raise InvalidInput(f"bound must be between 1 and 1000, got {self.bound}")

    def table(self, scores: NDArray[Any]) -> Integers:
        """Whole numbers (n, classes) for labels (n,) or, for the other two kinds, logits (n, classes).

        A model may have diverged on its records. What it says then is in the range too: no number counts as 0.
        """
        if self.kind == "argmax":
            return one_hot(np.asarray(scores, dtype=np.int64), self.classes)
        scores = np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        scores = np.clip(scores, -LARGEST_LOGIT, LARGEST_LOGIT)
        if self.kind == "logits":
            centered = scores - scores.mean(axis=1, keepdims=True)
            steps: Integers = np.rint(np.clip(centered, -self.bound, self.bound) * self.grid).astype(np.int64)
            return steps
        return _shares(softmax(scores), self.grid)

    def values(self, table: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities or logits from whole numbers, noisy or not."""
        unit = 1 if self.kind == "argmax" else self.grid
        return np.asarray(table, dtype=np.float64) / unit

    def sensitivity(self, queries: int) -> Sensitivity:
        """How far the table of that many predictions moves when the model becomes any other model.

        Rows of labels or probabilities are points of a simplex of size u: two of them are at most 2u apart in L1
        and √2·u in L2. A cell of logits moves by at most 2·bound.
        """
        if queries < 1:
            raise InvalidInput(f"queries must be at least 1, got {queries}")
        if self.kind == "logits":
            step = 2 * self.bound * self.grid
            cells = queries * self.classes
            return Sensitivity(l1=step * cells, l2_squared=step**2 * cells, linf=step, row_range=2 * step * queries)
        unit = 1 if self.kind == "argmax" else self.grid
        return Sensitivity(
            l1=2 * unit * queries, l2_squared=2 * unit**2 * queries, linf=unit, row_range=2 * unit * queries
        )


def _shares(probabilities: NDArray[np.float64], grid: int) -> Integers:
    """Probabilities as shares of ``grid`` that add up to it: rounded down, and the rest to the largest remainders."""
    scaled = probabilities * grid
    shares = np.floor(scaled).astype(np.int64)
    missing = grid - shares.sum(axis=1)
    # Ranks of the remainders, largest first; ties go to the class with the lower index.
    order = np.argsort(-(scaled - shares), axis=1, kind="stable")
    ranks = np.argsort(order, axis=1, kind="stable")
    shares += ranks < missing[:, None]
    return shares
