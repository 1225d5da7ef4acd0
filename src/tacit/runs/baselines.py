"""Baselines without privacy: the same pipeline without noise, and the student trained on the records themselves.

They show the accuracy that privacy cost, in experiments on data whose labels are known. They are never released.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.datasets.published import Parts
from tacit.datasets.table import class_indices
from tacit.methods.rknn.plan import Plan
from tacit.methods.rknn.queries import cluster, margins
from tacit.neighbors import vote_counts
from tacit.students.weighted import fit_hard

__all__ = ["accuracy", "train_directly", "train_without_noise"]


def accuracy(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """The fraction of correct labels.

    >>> accuracy(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 0]))
    0.75
    """
    return float(np.mean(predicted == true))


def train_without_noise(parts: Parts, plan: Plan, student: Any) -> tuple[NDArray[Any], Any]:  # noqa: ANN401
    """The labels of the public samples and the student, from exact vote counts."""
    encoded = plan.fitted.encode(parts.public_samples)
    groups = cluster(encoded, plan.queries)
    counts = vote_counts(
        plan.fitted.encode(parts.private_samples),
        class_indices(parts.private_labels, parts.classes),
        groups.centers,
        plan.neighbors,
        len(parts.classes),
    )
    query_labels = counts.argmax(axis=1)
    labels = parts.classes[query_labels[groups.membership]]
    return labels, fit_hard(student, parts.public_samples, labels, margins(encoded, groups, query_labels))


def train_directly(parts: Parts, student: Any) -> Any:  # noqa: ANN401
    """The student trained on the private records and their labels."""
    return fit_hard(student, parts.private_samples, parts.private_labels, np.ones(len(parts.private_labels)))
