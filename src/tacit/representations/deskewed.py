"""Handwriting stood upright: images sheared and shifted so that their ink is centred and no longer leans.

Lean and place are the writer's, not the sign's. Taking them out by the image's own first and second moments
brings alike signs closer in every representation that follows, at no cost: it needs nothing but the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.images import ImageShape, as_images, image_shape
from tacit.core.protocols import Floats
from tacit.representations.grid import blocks

__all__ = ["Deskewed"]


@dataclass(frozen=True)
class Deskewed:
    """Grey images on a dark ground, made upright. ``dark`` and ``bright`` are the public extremes.

    Every step is done pixel by pixel, so a sample's encoding is the same bits in any company.

    >>> image = np.zeros((1, 8, 8))
    >>> image[0, [2, 3, 4, 5], [2, 3, 4, 5]] = 1.0
    >>> Deskewed.fit(image).encode(image).reshape(8, 8).sum(axis=0).round(1).tolist()
    [0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0]
    """

    shape: ImageShape
    dark: float
    bright: float

    @classmethod
    def fit(cls, public: NDArray[Any], shape: tuple[int, ...] | None = None) -> Deskewed:
        """Take the shape of the images and the range of their values from the public samples."""
        fitted = image_shape(public, shape)
        if fitted[2] != 1:
            raise InvalidInput(f"only grey images can be deskewed, got {fitted[2]} channels")
        if min(fitted[:2]) < 2:
            raise InvalidInput(f"images must have at least 2 rows and 2 columns, got {fitted[:2]}")
        images = as_images(public, fitted)
        dark, bright = float(images.min()), float(images.max())
        if not dark < bright:
            raise InvalidInput("the public images are all of one value: there is no ink to stand upright")
        return cls(fitted, dark, bright)

    def encode(self, samples: NDArray[Any]) -> Floats:
        """The upright images as flat rows, values from 0 to 1."""
        images = as_images(samples, self.shape)[..., 0]
        result = np.empty((len(images), self.shape[0] * self.shape[1]), dtype=np.float32)
        for block in blocks(len(images)):
            result[block] = self._upright(images[block]).reshape(-1, result.shape[1])
        return result

    def _upright(self, images: NDArray[Any]) -> Floats:
        height, width = self.shape[:2]
        # Whole levels make the moments exact sums; 1020 keeps 8-bit values apart.
        scale = 1020 / (self.bright - self.dark)
        ink = np.rint(np.clip((images.astype(np.float64) - self.dark) * scale, 0, 1020))
        # Coordinates are doubled and centred, so they are whole numbers too.
        down = (2 * np.arange(height) - height + 1.0)[:, None]
        right = 2 * np.arange(width) - width + 1.0
        mass = np.maximum(ink.sum(axis=(1, 2)), 1.0)
        low = (ink * down).sum(axis=(1, 2)) / mass
        side = (ink * right).sum(axis=(1, 2)) / mass
        spread = (ink * down * down).sum(axis=(1, 2)) / mass - low * low
        shared = (ink * down * right).sum(axis=(1, 2)) / mass - low * side
        lean = np.clip(shared / np.maximum(spread, 1e-3), -1.5, 1.5)
        rows = np.clip((low[:, None, None] + down + height - 1) / 2, 0, height - 1)  # (n, height, 1)
        across = (side + width - 1)[:, None, None] + right + lean[:, None, None] * down
        columns = np.clip(across / 2, 0, width - 1)  # (n, height, width)
        top, left = np.minimum(rows, height - 2).astype(np.int64), np.minimum(columns, width - 2).astype(np.int64)
        below, beside = rows - top, columns - left
        image = np.arange(len(ink))[:, None, None]
        upper = ink[image, top, left] * (1 - beside) + ink[image, top, left + 1] * beside
        lower = ink[image, top + 1, left] * (1 - beside) + ink[image, top + 1, left + 1] * beside
        upright: Floats = ((upper * (1 - below) + lower * below) / 1020).astype(np.float32)
        return upright
