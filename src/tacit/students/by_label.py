"""One student for every label: what samples with sets of labels need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.students.weighted import fit_soft

__all__ = ["OneEachLabel", "fit_by_label"]


@dataclass(frozen=True)
class OneEachLabel:
    """Trained students that each say yes or no to one label."""

    students: tuple[Any, ...]

    def predict(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Which labels each sample has, (samples, labels)."""
        return np.column_stack([np.asarray(each.predict(X), dtype=np.bool_) for each in self.students])


def fit_by_label(student: Any, samples: NDArray[Any], chances: NDArray[np.float64]) -> OneEachLabel:  # noqa: ANN401
    """A fresh copy of the student for each label, trained on how likely each sample has it, (samples, labels).

    >>> from tacit.students.weighted import logistic
    >>> sure = np.array([[0.95, 0.1], [0.05, 0.1]])
    >>> fit_by_label(logistic(), np.array([[0.0], [1.0]]), sure).predict(np.array([[0.0], [1.0]])).tolist()
    [[True, False], [False, False]]
    """
    answers = np.array([False, True])
    return OneEachLabel(
        tuple(fit_soft(student, samples, answers, np.column_stack([1 - each, each])) for each in chances.T)
    )
