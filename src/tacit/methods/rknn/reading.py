"""What a coordinator makes of an answer: a label for every query, and how likely each is where counts were paid for.

Three kinds of answers come out of gates: labels as they are, noisy counts, and the randomized messages of many
holders. Each reader turns its kind into the same thing. All of it is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Estimates, Integers
from tacit.methods.rknn.posterior import Noise, calibrated_posterior

__all__ = ["CountReader", "LabelReader", "MessageReader", "Reader", "one_class_each"]

Reading = tuple[Integers, NDArray[np.float64] | None]
# From noisy counts and the law of their noise to probabilities, a row for each query.
Chances = Callable[[NDArray[Any], Noise], NDArray[np.float64]]


class Reader(Protocol):
    """Turns an answer into labels (s,) and, if there are any, probabilities (s, classes)."""

    def __call__(self, answer: Any) -> Reading:  # noqa: ANN401
        """Read one answer."""
        ...


def one_class_each(counts: NDArray[Any]) -> Integers:
    """The labels of as many queries as there are classes, where every class is said to have one query of its own.

    Of all such assignments the one with the most votes. What one noisy query would get wrong, the others put right.

    >>> one_class_each(np.array([[9, 8, 0], [9, 1, 0], [0, 2, 1]])).tolist()
    [1, 0, 2]
    """
    from scipy.optimize import linear_sum_assignment

    assigned: Integers = linear_sum_assignment(-counts)[1].astype(np.int64)
    return assigned


@dataclass(frozen=True)
class LabelReader:
    """The answer is labels; nothing is known of how sure they are.

    >>> LabelReader()(np.array([3, 1]))
    (array([3, 1]), None)
    """

    def __call__(self, answer: Integers) -> Reading:
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

    def __call__(self, answer: Integers) -> Reading:
        """Read one answer."""
        labels = one_class_each(answer) if self.one_query_per_class else answer.argmax(axis=1)
        return labels, self.chances(answer, self.noise)


@dataclass(frozen=True)
class MessageReader:
    """The answer is messages, decoded to estimated counts whose errors add up to nearly Gaussian noise."""

    decode: Callable[[NDArray[Any]], Estimates]
    classes: int
    one_query_per_class: bool = False
    chances: Chances = calibrated_posterior

    def __call__(self, answer: NDArray[Any]) -> Reading:
        """Read one answer."""
        estimates = self.decode(answer)
        counts = estimates.counts.reshape(-1, self.classes)
        noise = Noise("gaussian", float(np.sqrt(estimates.variances.mean())))
        labels = one_class_each(counts) if self.one_query_per_class else counts.argmax(axis=1)
        return labels, self.chances(np.rint(counts).astype(np.int64), noise)
