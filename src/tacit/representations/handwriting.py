"""Handwriting stood upright and made equally wide: ink that is centred, no longer leans and spreads evenly.

Lean and place are the writer's, not the sign's. Taking them out by the image's own first and second moments
brings alike signs closer in every representation that follows, at no cost: it needs nothing but the image. So is how
broad somebody writes, once the signs are upright.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.core.samples import ImageShape, as_images, image_shape
from tacit.core.strict_reader import StrictReader
from tacit.representations.grid import blocks
from tacit.representations.reading import LARGEST_VALUE, parameters, read_range, read_shape

__all__ = ["Deskewed", "EvenWidth"]

LEVELS = 1020  # a multiple of 255, so that 8-bit values stay apart
NARROWEST, WIDEST = 0.5, 1.6  # how far a step across an image may change: a stroke must not become a block


@dataclass(frozen=True)
class Deskewed:
    """Gray images on a dark ground, made upright. ``dark`` and ``bright`` are the public extremes.

    Every step is done pixel by pixel, so a sample's encoding is the same bits in any company.

    >>> image = np.zeros((1, 8, 8))
    >>> image[0, [2, 3, 4, 5], [2, 3, 4, 5]] = 1.0
    >>> Deskewed.fit(image).encode(image).reshape(8, 8).sum(axis=0).round(1).tolist()
    [0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "deskewed"

    shape: ImageShape
    dark: float
    bright: float

    @classmethod
    def fit(cls, public: NDArray[Any], shape: tuple[int, ...] | None = None) -> Deskewed:
        """Take the shape of the images and the range of their values from the public samples."""
        fitted = image_shape(public, shape)
        if fitted[2] != 1:
            raise InvalidInput(f"only gray images can be deskewed, got {fitted[2]} channels")
        if min(fitted[:2]) < 2:
            raise InvalidInput(f"images must have at least 2 rows and 2 columns, got {fitted[:2]}")
        images = as_images(public, fitted)
        dark, bright = float(images.min()), float(images.max())
        if not dark < bright:
            raise InvalidInput("the public images are all of one value: there is no ink to stand upright")
        return cls(fitted, dark, bright)

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> Deskewed:
        """Read the shape of a gray image and its range."""
        return cls(read_shape(fields, channels=(1,), least=2), *read_range(fields))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """The upright images as flat rows, values from 0 to 1."""
        images = as_images(samples, self.shape)[..., 0]
        result = np.empty((len(images), self.shape[0] * self.shape[1]), dtype=np.float32)
        for block in blocks(len(images)):
            result[block] = self._upright(images[block]).reshape(-1, result.shape[1])
        return result

    def _upright(self, images: NDArray[Any]) -> Floats:
        height, width = self.shape[:2]
        # Whole levels make the moments exact sums.
        scale = LEVELS / (self.bright - self.dark)
        ink = np.rint(np.clip((images.astype(np.float64) - self.dark) * scale, 0, LEVELS))
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
        upright: Floats = ((upper * (1 - below) + lower * below) / LEVELS).astype(np.float32)
        return upright


@dataclass(frozen=True)
class EvenWidth:
    """Gray images with values from 0 to 1, stretched so that their ink spreads as wide as it does on average.

    It follows ``Deskewed``, whose images are centred. Moments are sums of whole numbers and exact, and every pixel
    is made by itself, so a sample's encoding is the same bits in any company.

    >>> narrow, wide = np.zeros((2, 1, 9, 9))
    >>> narrow[0, :, 3:6], wide[0, :, 1:8] = 1.0, 1.0
    >>> fitted = EvenWidth.fit(np.vstack([narrow, wide]))
    >>> before, after = (narrow, wide), (fitted.encode(narrow), fitted.encode(wide))
    >>> round(float(before[1].sum() / before[0].sum()), 2), round(float(after[1].sum() / after[0].sum()), 2)
    (2.33, 0.96)
    """

    name: ClassVar[str] = "even-width"

    shape: ImageShape
    spread: float

    @classmethod
    def fit(cls, public: NDArray[Any], shape: tuple[int, ...] | None = None) -> EvenWidth:
        """Take the shape of the images and the usual spread of their ink from the public samples."""
        fitted = image_shape(public, shape)
        if fitted[2] != 1:
            raise InvalidInput(f"only gray images can be made equally wide, got {fitted[2]} channels")
        ink = _levels(as_images(public, fitted)[..., 0])
        return cls(fitted, float(np.median(_spreads(ink))))

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> EvenWidth:
        """Read the shape of a gray image of at least two columns, and a finite spread."""
        shape = read_shape(fields, channels=(1,))
        if shape[1] < 2:
            raise InvalidInput(f"the {fields.what}'s shape must have two columns")
        return cls(shape, fields.number("spread", 0, LARGEST_VALUE))

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
