"""Features as they are, or each brought to mean 0 and spread 1 on the public samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats

__all__ = ["Directions", "Identity", "Standardised", "flat", "narrowed", "same_width"]


def flat(samples: NDArray[Any]) -> NDArray[Any]:
    """One row of features a sample, whatever shape a sample has.

    >>> flat(np.zeros((2, 8, 8))).shape
    (2, 64)
    """
    return samples.reshape(len(samples), math.prod(samples.shape[1:]))


@dataclass(frozen=True)
class Identity:
    """The features themselves, flattened.

    >>> Identity.fit(np.zeros((1, 2, 2))).encode(np.ones((1, 2, 2))).tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """

    width: int

    @classmethod
    def fit(cls, public: NDArray[Any]) -> Identity:
        """Remember how wide the public samples are."""
        return cls(flat(public).shape[1])

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        return narrowed(same_width(samples, self.width))


@dataclass(frozen=True)
class Standardised:
    """Each feature minus its public mean, divided by its public standard deviation.

    >>> Standardised.fit(np.array([[0.0], [2.0]])).encode(np.array([[3.0]])).tolist()
    [[2.0]]
    """

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]

    @classmethod
    def fit(cls, public: NDArray[Any]) -> Standardised:
        """Take mean and spread from the public samples; a constant feature is left unscaled."""
        rows = flat(public).astype(np.float64)
        spread = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(spread > 0, spread, 1.0))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        return narrowed((same_width(samples, len(self.mean)) - self.mean) / self.spread)


@dataclass(frozen=True)
class Directions:
    """Where a sample's features point, without how far: each row scaled to length 1.

    Features of a pretrained network tell kinds apart by their direction; their length is mostly contrast.

    >>> Directions.fit(np.zeros((1, 2))).encode(np.array([[3.0, 4.0], [0.0, 0.0]])).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """

    width: int

    @classmethod
    def fit(cls, public: NDArray[Any]) -> Directions:
        """Remember how wide the public samples are."""
        return cls(flat(public).shape[1])

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        rows = np.ascontiguousarray(same_width(samples, self.width), dtype=np.float64)
        length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        return narrowed(rows / np.where(length > 0, length, 1.0))


def narrowed(features: NDArray[Any]) -> Floats:
    """Features as float32, what is too large for it at its largest: one wild record must not stop a run.

    >>> narrowed(np.array([1e39])).tolist() == [float(np.finfo(np.float32).max)]
    True
    """
    limit = float(np.finfo(np.float32).max)
    narrow: Floats = np.clip(features, -limit, limit).astype(np.float32)
    return narrow


def same_width(samples: NDArray[Any], width: int) -> NDArray[Any]:
    """The samples flattened, if they have as many features as the public ones."""
    rows = flat(samples)
    if rows.shape[1] != width:
        raise InvalidInput(f"samples have {rows.shape[1]} features, the public samples have {width}")
    return rows
