"""From answers to labels: a label for every query, and probabilities if counts were released.

There are three kinds of answers: labels, noisy counts, and randomized messages of many holders; each has a reader with
the same result. If several nodes each add noise, their counts are added: a sum of n independent noises of variance v
has variance n·v and is nearly Gaussian. All of it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import Estimates, Integers, InvalidInput, Release, gather
from tacit.methods.rknn.assignment import assign_classes
from tacit.methods.rknn.posterior import Noise, calibrated_posterior

__all__ = [
    "ROBUST",
    "CountReader",
    "LabelReader",
    "MessageReader",
    "Pooled",
    "PooledReader",
    "Reader",
    "added",
    "pooling",
    "put_together",
    "robustly_added",
]

_Reading = tuple[Integers, NDArray[np.float64] | None]
# From noisy counts and the law of their noise to probabilities, one row per query.
Chances = Callable[[NDArray[Any], Noise], NDArray[np.float64]]
ROBUST = ("median", "trimmed")
# The trimmed mean leaves out one largest and one smallest count of a cell per this many nodes.
TRIMMED_OF = 4
_FEWEST = 3


class Reader(Protocol):
    """Turns an answer into labels (s,) and, if there are any, probabilities (s, classes)."""

    def __call__(self, answer: Any) -> _Reading:  # noqa: ANN401
        """Read one answer."""
        ...


def _labels(counts: NDArray[Any], noise: Noise, one_query_per_class: bool, chances: Chances) -> _Reading:
    """The labels of counts with noise, each query's own or one class per query, and their probabilities."""
    whole = np.rint(counts).astype(np.int64)
    if one_query_per_class:
        return assign_classes(whole, noise)
    return counts.argmax(axis=1).astype(np.int64), chances(whole, noise)


@dataclass(frozen=True)
class LabelReader:
    """The answer is labels, without probabilities.

    >>> LabelReader()(np.array([3, 1]))
    (array([3, 1]), None)
    """

    def __call__(self, answer: Integers) -> _Reading:
        """Read one answer."""
        return answer, None


@dataclass(frozen=True)
class CountReader:
    """The answer is counts with noise of a known law.

    >>> labels, chances = CountReader(Noise("laplace", 2))(np.array([[90, 3], [1, 80], [70, -2]]))
    >>> labels.tolist(), bool(chances.min() < 0.01)
    ([0, 1, 0], True)
    """

    noise: Noise
    one_query_per_class: bool = False
    chances: Chances = calibrated_posterior

    def __call__(self, answer: Integers) -> _Reading:
        """Read one answer."""
        return _labels(answer, self.noise, self.one_query_per_class, self.chances)


@dataclass(frozen=True)
class MessageReader:
    """The answer is messages, decoded to estimated counts with nearly Gaussian errors."""

    decode: Callable[[NDArray[Any]], Estimates]
    classes: int
    one_query_per_class: bool = False
    chances: Chances = calibrated_posterior

    def __call__(self, answer: NDArray[Any]) -> _Reading:
        """Read one answer."""
        estimates = self.decode(answer)
        counts = estimates.counts.reshape(-1, self.classes)
        noise = Noise("gaussian", float(np.sqrt(estimates.variances.mean())))
        return _labels(counts, noise, self.one_query_per_class, self.chances)


@dataclass(frozen=True)
class Pooled:
    """The sum of the counts of several nodes, each with its own noise, and the number of nodes.

    ``inflation`` is the variance relative to that of the plain sum, if a robust rule was used.
    """

    counts: Integers  # (s, classes)
    nodes: int
    inflation: float = 1.0


@dataclass(frozen=True)
class PooledReader:
    """The answer is the sum of the nodes' counts, each with noise of a known law and variance.

    >>> reader = PooledReader(Noise("laplace", 1.0), variance=2.0)
    >>> reader(Pooled(np.array([[90, 3], [1, 80]]), nodes=4))[0].tolist()
    [0, 1]
    """

    noise: Noise
    variance: float
    one_query_per_class: bool = False
    chances: Chances = calibrated_posterior

    def law(self, answer: Pooled) -> Noise:
        """The law of the noise in the sum of these nodes."""
        variance = answer.nodes * self.variance * answer.inflation
        return self.noise if answer.nodes == 1 else Noise("gaussian", float(np.sqrt(variance)))

    def __call__(self, answer: Pooled) -> _Reading:
        """Read one answer."""
        return _labels(answer.counts, self.law(answer), self.one_query_per_class, self.chances)


def added(tables: list[Integers]) -> Pooled:
    """The sum of the tables, which must be of one shape.

    >>> added([np.array([[1, 0]]), np.array([[0, 2]])]).counts.tolist()
    [[1, 2]]
    """
    if len({table.shape for table in tables}) != 1:
        raise InvalidInput("the nodes' answers are of different shapes")
    total: Integers = np.sum(tables, axis=0, dtype=np.int64)
    return Pooled(total, len(tables))


def robustly_added(rule: str, tables: list[Integers]) -> Pooled:
    """A robust sum: n times the median, or the trimmed mean, of each cell over the n nodes.

    Fewer than half of the nodes (median), or at most as many as are trimmed on a side (a quarter, at least one), can
    move a cell only within the range of the other nodes' counts. It is post-processing. It costs accuracy: a class that
    only a few nodes have is removed like a false answer, and the variance is larger by ``inflation`` (π/2 for the
    median of many Gaussian ones; n over the number kept for the trimmed mean).

    >>> honest = [np.array([[9, 1]]), np.array([[8, 2]]), np.array([[9, 0]])]
    >>> robustly_added("median", [*honest, np.array([[0, 999]])]).counts.tolist()
    [[34, 6]]
    >>> added([*honest, np.array([[0, 999]])]).counts.tolist()
    [[26, 1002]]
    """
    if rule not in ROBUST:
        raise InvalidInput(f"robust must be one of {', '.join(ROBUST)}, got {rule!r}")
    nodes = len(tables)
    if nodes < _FEWEST:
        raise InvalidInput(f"a robust sum needs the answers of at least {_FEWEST} nodes, got {nodes}")
    if len({table.shape for table in tables}) != 1:
        raise InvalidInput("the nodes' answers are of different shapes")
    ordered = np.sort(np.stack(tables), axis=0)
    if rule == "median":
        middle, inflation = np.median(ordered, axis=0), math.pi / 2
    else:
        cut = max(1, nodes // TRIMMED_OF)
        kept = ordered[cut : nodes - cut]
        middle, inflation = kept.mean(axis=0), nodes / len(kept)
    counts: Integers = np.rint(nodes * middle).astype(np.int64)
    return Pooled(counts, nodes, inflation)


def put_together(messages: list[NDArray[Any]]) -> NDArray[Any]:
    """The messages of all holders, one per row.

    >>> put_together([np.array([1]), np.array([2, 3])]).tolist()
    [1, 2, 3]
    """
    return np.concatenate(messages)


def pooling(
    exchange: Callable[[Any], Sequence[Release[Any]]], pool: Callable[[list[Any]], Any]
) -> Callable[[Any], list[Release[Any]]]:
    """An exchange with one answer, combined from those of all nodes, with all receipts.

    >>> from tacit.core.release import restored
    >>> pooling(lambda ask: [restored(1, []), restored(2, [])], sum)("how many?")[0].value
    3
    """

    def put(ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        answers = exchange(ask)
        if not answers:
            raise InvalidInput("no node answered")
        return [gather(answers).map(pool)]

    return put
