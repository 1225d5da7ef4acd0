"""Cells that are pairs of a bucket and a label, for mechanisms that randomize the two separately.

A record's k nearest queries (buckets) and its r labels make c = kr cells of a table of s × Y. Here are the common parts
of mechanisms that send something about the buckets and something about the labels: the split, the joint hits, and the
moments for the four kinds of cells (own bucket or not, own label or not).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Estimates, Integers, InvalidInput
from tacit.mechanisms.description import CELLS, Parameters
from tacit.mechanisms.local.participants import LocalMessages, chunks, domain, participant_cells

__all__ = ["AUDITED_SHAPE", "DIAGONAL", "JointHits", "PairMessages", "PairMoments", "VoteShape", "joint_hits"]


@dataclass(frozen=True)
class VoteShape:
    """k = ``neighbors`` of s = ``queries`` buckets times r = ``labels`` of Y = ``classes`` labels; cell t·Y + y.

    >>> shape = VoteShape(queries=3, classes=4, neighbors=2, labels=1)
    >>> shape.cells, shape.ones
    (12, 2)
    """

    name: ClassVar[str] = "vote-shape"
    parameters: ClassVar[Parameters] = {"queries": CELLS, "classes": CELLS, "neighbors": CELLS, "labels": CELLS}

    queries: int
    classes: int
    neighbors: int = 1
    labels: int = 1

    def __post_init__(self) -> None:
        for name, part, of, total in (
            ("neighbors", self.neighbors, "queries", self.queries),
            ("labels", self.labels, "classes", self.classes),
        ):
            if not 1 <= part < total:
                raise InvalidInput(f"{name} must be in [1, {total - 1}] for {total} {of}, got {part}")
        domain(self.cells, self.ones)

    @property
    def cells(self) -> int:
        """Cells of the whole table."""
        return self.queries * self.classes

    @property
    def ones(self) -> int:
        """Cells that a participant has."""
        return self.neighbors * self.labels

    def split(self, rows: NDArray[Any]) -> tuple[Integers, Integers]:
        """The buckets (n, k) and labels (n, r) of rows of cells, which must be all pairs of the two.

        >>> buckets, labels = VoteShape(3, 4, neighbors=2).split(np.array([[9, 1]]))
        >>> buckets.tolist(), labels.tolist()
        ([[0, 2]], [[1]])
        """
        held = participant_cells(rows, self.cells, self.ones).reshape(-1, self.neighbors, self.labels)
        buckets, labels = held // self.classes, held % self.classes
        if (buckets != buckets[:, :, :1]).any() or (labels != labels[:, :1, :]).any():
            raise InvalidInput(
                f"cells of one participant must be all pairs of {self.neighbors} buckets and {self.labels} labels"
            )
        return buckets[:, :, 0], labels[:, 0, :]


@dataclass(frozen=True)
class JointHits:
    """How many messages hit each bucket (s), each label (Y), and both at once (s, Y)."""

    buckets: NDArray[np.float64]
    labels: NDArray[np.float64]
    both: NDArray[np.float64]
    messages: int


def joint_hits(
    shape: VoteShape,
    messages: NDArray[Any],
    hits: Callable[[NDArray[Any]], tuple[NDArray[np.bool_], NDArray[np.bool_]]],
) -> JointHits:
    """The joint hits; ``hits`` gives the buckets (n, s) and the labels (n, Y) that each message hits."""
    in_bucket, in_label = np.zeros(shape.queries), np.zeros(shape.classes)
    in_both = np.zeros((shape.queries, shape.classes))
    for part in chunks(len(messages), shape.queries + shape.classes):
        buckets, labels = hits(messages[part])
        in_bucket += buckets.sum(axis=0)
        in_label += labels.sum(axis=0)
        # float32 holds these integers exactly: a part has far fewer than 2^24 messages.
        in_both += buckets.astype(np.float32).T @ labels.astype(np.float32)
    return JointHits(in_bucket, in_label, in_both, len(messages))


@dataclass(frozen=True)
class PairMoments:
    """Mean and variance of one participant's estimate of a cell, by whether it has the cell's bucket and label.

    ``means[x][y]`` and ``variances[x][y]``, where x = 1 if it has the bucket and y = 1 if it has the label.
    """

    means: tuple[tuple[float, float], tuple[float, float]]
    variances: tuple[tuple[float, float], tuple[float, float]]

    def mean_squared_error(self, shape: VoteShape) -> float:
        """Expected squared error of one participant's estimates, averaged over all cells; bias counts."""
        rows = (shape.queries - shape.neighbors, shape.neighbors)
        columns = (shape.classes - shape.labels, shape.labels)
        total = sum(
            rows[x] * columns[y] * (self.variances[x][y] + (self.means[x][y] - x * y) ** 2)
            for x in (0, 1)
            for y in (0, 1)
        )
        return total / shape.cells

    def estimates(
        self,
        counts: NDArray[np.float64],
        held: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
        messages: int,
    ) -> Estimates:
        """The counts with their variances, from unbiased counts of held buckets, labels and cells."""
        cells = np.clip(held[2], 0, messages)
        buckets = np.clip(held[0][:, None] - cells, 0, messages - cells)
        labels = np.clip(held[1][None, :] - cells, 0, messages - cells - buckets)
        neither = messages - cells - buckets - labels
        (none, label), (bucket, both) = self.variances
        variances = cells * both + buckets * bucket + labels * label + neither * none
        return Estimates(counts.ravel(), variances.ravel())


# Three queries and three classes: two participants differ in both.
AUDITED_SHAPE, DIAGONAL = VoteShape(queries=3, classes=3), ((0,), (4,))


class PairMessages(LocalMessages):
    """Messages about buckets and labels; their accuracy follows from the moments of the four kinds of cells."""

    shape: VoteShape
    epsilon: Fraction

    @property
    @abstractmethod
    def moments(self) -> PairMoments:
        """Means and variances of the estimate, for the four kinds of cells."""

    @property
    def cells(self) -> int:
        """Cells of the whole table."""
        return self.shape.cells

    @property
    def ones(self) -> int:
        """Cells that a participant has."""
        return self.shape.ones

    @property
    def variance_zero(self) -> float:
        """Variance that one participant adds to a cell of which it has neither the bucket nor the label."""
        return self.moments.variances[0][0]

    @property
    def variance_one(self) -> float:
        """Variance that one participant adds to a cell it has."""
        return self.moments.variances[1][1]

    @property
    def mean_squared_error(self) -> float:
        """Expected squared error of one participant's estimates, averaged over all cells; bias counts."""
        return self.moments.mean_squared_error(self.shape)

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """Whether the shape is exactly this one."""
        shape = self.shape
        return (shape.queries, shape.classes, shape.neighbors, shape.labels) == (queries, classes, neighbors, labels)
