"""Rows of features: unchanged, standardized, scaled to length 1, or projected on principal components."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput
from tacit.core.codec import StrictReader
from tacit.representations.arrays import LARGEST_PARAMETER, REAL, SMALLEST_SCALE, parameters, read_finite_array

__all__ = ["Directions", "Identity", "PrincipalComponents", "Standardized", "flat", "narrowed", "same_width"]

# The largest width of a representation that is read.
_WIDEST = 2**22
KEPT_VARIANCE = 0.85


def flat(samples: NDArray[Any]) -> NDArray[Any]:
    """One row of features per sample, whatever shape a sample has.

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

    name: ClassVar[str] = "identity"

    width: int

    @classmethod
    def fit(cls, public: NDArray[Any]) -> Identity:
        """Take the number of features from the public samples."""
        return cls(flat(public).shape[1])

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> Identity:
        """Read the number of features, within its limit."""
        return cls(fields.integer("width", 1, _WIDEST))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        return narrowed(same_width(samples, self.width))


@dataclass(frozen=True)
class Standardized:
    """Each feature minus its public mean, divided by its public standard deviation.

    >>> Standardized.fit(np.array([[0.0], [2.0]])).encode(np.array([[3.0]])).tolist()
    [[2.0]]
    """

    name: ClassVar[str] = "standardized"

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]

    @classmethod
    def fit(cls, public: NDArray[Any]) -> Standardized:
        """Take mean and standard deviation from the public samples; a constant feature is not scaled."""
        rows = flat(public).astype(np.float64)
        spread = rows.std(axis=0)
        # A spread that is rounding alone would be refused when the representation is read again.
        return cls(rows.mean(axis=0), np.where(spread >= SMALLEST_SCALE, spread, 1.0))

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> Standardized:
        """Read finite means, and standard deviations above 0."""
        mean = read_finite_array(fields, "mean", shape=(None,))
        return cls(mean, fields.array("spread", REAL, mean.shape, SMALLEST_SCALE, LARGEST_PARAMETER))

    def fitted_to(self, samples: NDArray[Any]) -> bool:
        """Whether these samples have the mean that it was fitted to."""
        return _same_mean(self.mean, samples)

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        return narrowed((same_width(samples, len(self.mean)) - self.mean) / self.spread)


@dataclass(frozen=True)
class Directions:
    """The direction of a sample's features: each row scaled to length 1.

    Features of a pretrained network separate classes by direction; their length depends mostly on contrast.

    >>> Directions.fit(np.zeros((1, 2))).encode(np.array([[3.0, 4.0], [0.0, 0.0]])).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """

    name: ClassVar[str] = "directions"

    width: int

    @classmethod
    def fit(cls, public: NDArray[Any]) -> Directions:
        """Take the number of features from the public samples."""
        return cls(flat(public).shape[1])

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> Directions:
        """Read the number of features, within its limit."""
        return cls(fields.integer("width", 1, _WIDEST))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        rows = np.ascontiguousarray(same_width(samples, self.width), dtype=np.float64)
        length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        return narrowed(rows / np.where(length > 0, length, 1.0))


@dataclass(frozen=True)
class PrincipalComponents:
    """The projection on the directions in which the public samples vary most.

    >>> public = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> abs(PrincipalComponents.fit(public, components=1).encode(public)[1]).round(3).tolist()
    [1.4140000343322754]
    """

    name: ClassVar[str] = "principal"

    mean: NDArray[np.float64]
    directions: NDArray[np.float64]  # (components, features)

    @classmethod
    def fit(cls, public: NDArray[Any], components: int | None = None, whitening: float = 0.0) -> PrincipalComponents:
        """Find the principal components of the public samples: ``components``, or those with 85 % of the variance.

        At most as many as samples or features, and at least three if possible. ``whitening`` divides each component by
        its variance to that power: ½ is full whitening, ¼ halves the differences on a logarithmic scale.
        """
        from sklearn.decomposition import PCA

        if components is not None and components < 1:
            raise InvalidInput(f"components must be at least 1, got {components}")
        if not 0 <= whitening <= 0.5:
            raise InvalidInput(f"whitening must be from 0 to 0.5, got {whitening}")
        rows = flat(public).astype(np.float64)
        most = min(rows.shape)
        fitted = PCA(min(components or most, most), random_state=0).fit(rows)
        if components is None:
            held = np.cumsum(fitted.explained_variance_ratio_)
            components = max(int(np.searchsorted(held, KEPT_VARIANCE)) + 1, min(3, most))
        variances = np.maximum(fitted.explained_variance_, 1e-12 * fitted.explained_variance_[0])
        return cls(fitted.mean_, (fitted.components_ * variances[:, None] ** -whitening)[:components])

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> PrincipalComponents:
        """Read a mean, and directions of the same width."""
        mean = read_finite_array(fields, "mean", shape=(None,))
        return cls(mean, read_finite_array(fields, "directions", shape=(None, len(mean))))

    def fitted_to(self, samples: NDArray[Any]) -> bool:
        """Whether these samples have the mean that it was fitted to."""
        return _same_mean(self.mean, samples)

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        centered = same_width(samples, len(self.mean)) - self.mean
        # In a matrix product the rounding of a row depends on the other rows, so that one record could change another's
        # vote. einsum sums each row separately, always in the same order.
        return narrowed(np.einsum("nf,cf->nc", centered, self.directions))


def narrowed(features: NDArray[Any]) -> Floats:
    """Features as float32, clipped to its range: one extreme record must not stop a run.

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


def _same_mean(mean: NDArray[np.float64], samples: NDArray[Any]) -> bool:
    rows = flat(samples)
    # Sums in another order differ in the last digits only; means of other samples differ far more.
    return mean.shape == rows.shape[1:] and np.allclose(
        mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-9, atol=1e-12
    )
