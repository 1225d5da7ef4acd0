"""Upright signs made equally wide: how broad somebody writes is the writer's, not the sign's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.images import ImageShape, as_images, image_shape
from tacit.core.protocols import Floats
from tacit.representations.grid import blocks

__all__ = ["EvenWidth"]

LEVELS = 1020  # a multiple of 255, so that 8-bit values stay apart
NARROWEST, WIDEST = 0.5, 1.6  # how far a step across an image may change: a stroke must not become a block


@dataclass(frozen=True)
class EvenWidth:
    """Grey images with values from 0 to 1, stretched so that their ink spreads as wide as it does on average.

    It follows ``Deskewed``, whose images are centred. Moments are sums of whole numbers and exact, and every pixel
    is made by itself, so a sample's encoding is the same bits in any company.

    >>> narrow, wide = np.zeros((2, 1, 9, 9))
    >>> narrow[0, :, 3:6], wide[0, :, 1:8] = 1.0, 1.0
    >>> fitted = EvenWidth.fit(np.vstack([narrow, wide]))
    >>> before, after = (narrow, wide), (fitted.encode(narrow), fitted.encode(wide))
    >>> round(float(before[1].sum() / before[0].sum()), 2), round(float(after[1].sum() / after[0].sum()), 2)
    (2.33, 0.96)
    """

    shape: ImageShape
    spread: float

    @classmethod
    def fit(cls, public: NDArray[Any], shape: tuple[int, ...] | None = None) -> EvenWidth:
        """Take the shape of the images and the usual spread of their ink from the public samples."""
        fitted = image_shape(public, shape)
        if fitted[2] != 1:
            raise InvalidInput(f"only grey images can be made equally wide, got {fitted[2]} channels")
        ink = _levels(as_images(public, fitted)[..., 0])
        return cls(fitted, float(np.median(_spreads(ink))))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """The stretched images as flat rows, values from 0 to 1."""
        images = as_images(samples, self.shape)[..., 0]
        result = np.empty((len(images), self.shape[0] * self.shape[1]), dtype=np.float32)
        for block in blocks(len(images)):
            result[block] = self._stretched(_levels(images[block])).reshape(-1, result.shape[1])
        return result

    def _stretched(self, ink: NDArray[np.float64]) -> Floats:
        width = self.shape[1]
        step = np.clip(_spreads(ink) / max(self.spread, 1e-3), NARROWEST, WIDEST)
        place = np.arange(width) - (width - 1) / 2
        columns = np.clip((width - 1) / 2 + place * step[:, None], 0, width - 1)  # (n, width)
        left = np.minimum(columns, width - 2).astype(np.int64)
        beside = (columns - left)[:, None, :]
        image, row = np.arange(len(ink))[:, None, None], np.arange(self.shape[0])[None, :, None]
        drawn = ink[image, row, left[:, None, :]] * (1 - beside) + ink[image, row, left[:, None, :] + 1] * beside
        stretched: Floats = (drawn / LEVELS).astype(np.float32)
        return stretched


def _levels(images: NDArray[Any]) -> NDArray[np.float64]:
    levels: NDArray[np.float64] = np.rint(np.clip(images.astype(np.float64), 0, 1) * LEVELS)
    return levels


def _spreads(ink: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far from the middle an image's ink lies across, in pixels."""
    width = ink.shape[2]
    across = (2 * np.arange(width) - width + 1.0) ** 2
    mass = np.maximum(ink.sum(axis=(1, 2)), 1.0)
    spreads: NDArray[np.float64] = np.sqrt((ink * across).sum(axis=(1, 2)) / mass) / 2
    return spreads
