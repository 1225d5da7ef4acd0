"""Random features: waves in random directions beside the features themselves, so that linear odds become curved.

A linear function of many such waves is about what a Gaussian kernel would learn (Rahimi and Recht, 2007). Instead of
cosines these are triangle waves, which are exact in floating point: numbers and directions are rounded to grids on
which all products and sums are exact, so a record's features depend on that record and public numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput
from tacit.core.codec import StrictReader
from tacit.representations.arrays import (
    LARGEST_PARAMETER,
    REAL,
    SMALLEST_SCALE,
    blocks,
    exact_bits,
    parameters,
    read_finite_array,
    snapped,
)
from tacit.representations.scaled import flat, narrowed, same_width

__all__ = ["LIMIT", "RandomFeatures"]

# The number of waves, and the width of the kernel relative to the median distance of two public samples. Half or twice
# as many waves, and widths from .5 to 1.5, change little on the tables that were looked at.
_WAVES, _WIDTH = 400, 1.0
_PAIRS = 2000
# Numbers are clipped at this many public scales, and directions are on this grid.
LIMIT, _BITS = 4.0, 20
_STEEPEST = 64.0


@dataclass(frozen=True)
class RandomFeatures:
    """A sample's features relative to the public ones, and triangle waves of them in random directions.

    Features are centered at the public mean, divided by one scale for all, so that the mean square of their length is
    1, and clipped at 4. The waves together have about the same variance.

    >>> public = np.random.default_rng(0).normal(size=(200, 3))
    >>> seen = RandomFeatures.fit(public).encode(public)
    >>> seen.shape, float(np.square(seen[:, :3]).sum(axis=1).mean().round(3)), bool(abs(seen[:, 3:]).max() < 0.1)
    ((200, 403), 1.0, True)
    """

    name: ClassVar[str] = "random-features"

    mean: NDArray[np.float64]  # (features,)
    scale: float
    directions: NDArray[np.float64]  # (features, waves), in periods per scale
    phases: NDArray[np.float64]  # (waves,), in periods

    @classmethod
    def fit(cls, public: NDArray[Any], waves: int = _WAVES) -> RandomFeatures:
        """Mean, scale and median distance of the public samples; directions are drawn with a fixed seed.

        The directions are public, and need not be a secret.
        """
        rows = flat(public).astype(np.float64)
        if not rows.size:
            raise InvalidInput("there are no public samples to fit random features to")
        mean = rows.mean(axis=0)
        scale = max(SMALLEST_SCALE, float(np.sqrt(np.square(rows - mean).sum(axis=1).mean())) or 1.0)
        near = _scaled(rows, mean, scale)
        drawn = np.random.default_rng(0)
        pairs = drawn.integers(len(rows), size=(2, _PAIRS))
        distance = float(np.median(np.sqrt(np.square(near[pairs[0]] - near[pairs[1]]).sum(axis=1))))
        period = 2 * math.pi * _WIDTH * (distance if distance > 0 else 1.0)
        directions = snapped(drawn.normal(size=(rows.shape[1], waves)) / period, _BITS, _STEEPEST)
        return cls(mean, scale, directions, snapped(drawn.random(waves), _BITS))

    @property
    def height(self) -> float:
        """The height of a wave: all of them together have a variance of about 1."""
        return math.sqrt(3 / len(self.phases))

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> RandomFeatures:
        """Read a finite mean, a scale above 0, and directions and phases on their grid."""
        mean = read_finite_array(fields, "mean", shape=(None,))
        scale = fields.number("scale", SMALLEST_SCALE, LARGEST_PARAMETER)
        directions = fields.array("directions", REAL, (len(mean), None), -_STEEPEST, _STEEPEST)
        phases = fields.array("phases", REAL, (directions.shape[1],), -_STEEPEST, _STEEPEST)
        if not phases.size:
            raise InvalidInput(f"the {fields.what} must have at least one direction")
        if not all(np.array_equal(each, snapped(each, _BITS)) for each in (directions, phases)):
            raise InvalidInput(f"the {fields.what}'s directions and phases must be multiples of 2^-{_BITS}")
        _grid(len(mean))
        return cls(mean, scale, directions, phases)

    def fitted_to(self, samples: NDArray[Any]) -> bool:
        """Whether these samples have the mean that it was fitted to."""
        rows = flat(samples)
        return self.mean.shape == rows.shape[1:] and np.allclose(
            self.mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-9, atol=1e-12
        )

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample: the scaled features, then the waves."""
        rows = same_width(samples, len(self.mean))
        width = len(self.mean)
        found = np.empty((len(rows), width + len(self.phases)), dtype=np.float32)
        bits = _grid(width)
        for block in blocks(len(rows)):
            near = _scaled(rows[block].astype(np.float64), self.mean, self.scale)
            # Every term and every sum is a multiple of one power of two and exact, whatever the order.
            turns = snapped(near, bits) @ self.directions + self.phases
            turns -= np.floor(turns)
            found[block, :width] = narrowed(near)
            found[block, width:] = (4 * np.abs(turns - 0.5) - 1) * self.height
        return found


def _scaled(rows: NDArray[np.float64], mean: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    near: NDArray[np.float64] = np.clip((rows - mean) / scale, -LIMIT, LIMIT)
    return near


def _grid(features: int) -> int:
    """The grid, in bits, on which turns of this many features are exact; the phase is one term more."""
    return exact_bits(features + 1, LIMIT, _STEEPEST, _BITS)
