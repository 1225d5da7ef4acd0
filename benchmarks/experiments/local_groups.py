"""Local answers about groups of public texts or images, joined with what is publicly known of each sample.

Every holder has one record and gives one randomized answer: the record's group and class at once. The answers give the
shares of the classes in each group. A mixture of the public samples, one normal law per class, begins at what the
names of the classes say; its chances are fitted to these shares (iterative proportional fitting) and taught to a linear
student. All but the answers is public or post-processing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.named_groups import grouped_by
from experiments.public_odds import Known
from tacit.core import TacitWarning
from tacit.methods.rknn.queries import cluster, iterative_proportional_fitting
from tacit.students.weighted import fit_soft, logistic

__all__ = ["asked", "joined"]


def asked(known: Known, groups: int, epsilon: float, seed: int) -> Mapping[str, Any]:
    """One randomized answer per record about this many groups: alone, and with what is known of each sample."""
    found = cluster(np.asarray(known.public, dtype=np.float32), groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(
            (places(known.private, found.centers), known.labels), np.eye(groups, dtype=np.float32)[found.membership],
            epsilon, trust="local", classes=range(known.classes), method="rknn", representation="identity",
            queries=groups, labels="proportions", student="logistic", seed=seed,
        )  # fmt: skip
    assert run.probabilities is not None
    members = [np.flatnonzero(found.membership == group) for group in range(groups)]
    shares = np.stack([run.probabilities[each[0]] for each in members])
    grouped = grouped_by(known)
    return {
        "answers": _judged(known, run.probabilities),
        "both": _judged(known, joined(shares, found.membership, grouped.public)),
        "mechanism": run.recipe["mechanism"],
    }


def places(samples: NDArray[Any], centers: NDArray[Any]) -> NDArray[np.float32]:
    """The group of each sample as a corner of a simplex: that of the nearest center.

    >>> places(np.array([[0.2], [0.9]]), np.array([[1.0], [0.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    distances = (centers**2).sum(axis=1) - 2 * np.asarray(samples) @ centers.T
    found: NDArray[np.float32] = np.eye(len(centers), dtype=np.float32)[distances.argmin(axis=1)]
    return found


def joined(shares: NDArray[Any], membership: NDArray[Any], chances: NDArray[Any]) -> NDArray[np.float64]:
    """The chances of each sample that have the released shares in every group.

    >>> known = np.array([[0.6, 0.4], [0.9, 0.1], [0.5, 0.5]])
    >>> joined(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 0, 1]), known).round(1).tolist()
    [[0.3, 0.7], [0.7, 0.3], [0.0, 1.0]]
    """
    return np.asarray(iterative_proportional_fitting(shares, membership, np.asarray(chances, dtype=np.float64)))


def _judged(known: Known, chances: NDArray[Any]) -> dict[str, float]:
    """A linear student taught these chances of the public samples."""
    student = fit_soft(logistic(), known.public, np.arange(known.classes), chances)
    return known.judged((chances, student.predict_proba(known.test)))
