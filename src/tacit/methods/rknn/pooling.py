"""One answer from many nodes: each adds its own noise, so counts add up and so do the noises.

A sum of n independent noises of variance v has variance n·v and is soon close to Gaussian, whatever one of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.release import Release, gather
from tacit.methods.rknn.posterior import Noise, calibrated_posterior
from tacit.methods.rknn.reading import Reading

__all__ = ["Pooled", "PooledReader", "added", "pooling", "put_together"]


@dataclass(frozen=True)
class Pooled:
    """Counts that several nodes noised each for itself, added up; and how many nodes they are."""

    counts: Integers  # (s, classes)
    nodes: int


@dataclass(frozen=True)
class PooledReader:
    """The answer is the sum of the nodes' counts, each with noise of a known law and variance.

    >>> reader = PooledReader(Noise("laplace", 1.0), variance=2.0)
    >>> reader(Pooled(np.array([[90, 3], [1, 80]]), nodes=4))[0].tolist()
    [0, 1]
    """

    noise: Noise
    variance: float

    def __call__(self, answer: Pooled) -> Reading:
        """Read one answer."""
        noise = self.noise if answer.nodes == 1 else Noise("gaussian", float(np.sqrt(answer.nodes * self.variance)))
        return answer.counts.argmax(axis=1).astype(np.int64), calibrated_posterior(answer.counts, noise)


def added(tables: list[Integers]) -> Pooled:
    """The sum of the tables, which must be of one shape.

    >>> added([np.array([[1, 0]]), np.array([[0, 2]])]).counts.tolist()
    [[1, 2]]
    """
    if len({table.shape for table in tables}) != 1:
        raise InvalidInput("the nodes' answers are of different shapes")
    total: Integers = np.sum(tables, axis=0, dtype=np.int64)
    return Pooled(total, len(tables))


def put_together(messages: list[NDArray[Any]]) -> NDArray[Any]:
    """The messages of all holders, one a row.

    >>> put_together([np.array([1]), np.array([2, 3])]).tolist()
    [1, 2, 3]
    """
    return np.concatenate(messages)


def pooling(
    exchange: Callable[[Any], Sequence[Release[Any]]], pool: Callable[[list[Any]], Any]
) -> Callable[[Any], list[Release[Any]]]:
    """An exchange whose answer is one, made of all nodes' answers; it carries every receipt.

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
