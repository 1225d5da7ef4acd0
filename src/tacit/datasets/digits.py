"""Scikit-learn's bundled handwritten digits, in fixed and disjoint private, public and test parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Parts", "digits"]

PRIVATE, PUBLIC = 1000, 500
SPLIT_SEED = 20260101


@dataclass(frozen=True)
class Parts:
    """A labeled data set for experiments: the public labels are for scoring only."""

    private_samples: NDArray[Any]
    private_labels: NDArray[Any]
    public_samples: NDArray[Any]
    public_labels: NDArray[Any]
    test_samples: NDArray[Any]
    test_labels: NDArray[Any]
    classes: NDArray[Any]


def digits() -> Parts:
    """The 1,797 digits of 8x8 pixels: 1,000 private, 500 public, 297 for the test, always the same.

    >>> parts = digits()
    >>> len(parts.private_samples), len(parts.public_samples), len(parts.test_samples)
    (1000, 500, 297)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(bunch.target))
    private, public, test = np.split(order, [PRIVATE, PRIVATE + PUBLIC])
    X, y = bunch.data, bunch.target
    return Parts(X[private], y[private], X[public], y[public], X[test], y[test], np.arange(10))
