"""Features of an image from that image alone: deskewed, evenly wide handwriting, and oriented gradients (HOG).

Slant, position and width of a handwritten character depend on the writer. Removing them by the image's own first and
second moments brings images of one class closer together, and needs no other image. Histograms of oriented gradients
describe the direction of edges in each part of an image and tolerate small shifts and changes of brightness. Only the
shape of images and the range of their values come from the public samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput
from tacit.core.codec import StrictReader
from tacit.core.samples import ImageShape, as_images, image_shape
from tacit.representations.arrays import LARGEST_PARAMETER, blocks, parameters, read_range, read_shape, snapped

__all__ = ["BLOCK_CLIP", "GRAY", "LEVELS", "Deskewed", "EvenWidth", "OrientedGradients", "block_floor", "cell_windows"]

LEVELS = 1020  # a multiple of 255, so that 8-bit values stay distinct
NARROWEST, _WIDEST = 0.5, 1.6  # the limits of the horizontal stretch: a stroke must not become a block
# A block of cells is divided by √(norm² + floor²), so that empty parts stay near 0.
_FLOOR = 1.0
BLOCK_CLIP = 0.2  # no single orientation may dominate a block
GRAY = (77, 150, 29)  # of 256: the luminance of red, green and blue


@dataclass(frozen=True)
class Deskewed:
    """Deskewed gray images on a dark background. ``dark`` and ``bright`` are the extremes of the public samples.

    Every step is done pixel by pixel, so a sample's encoding does not depend on other samples.

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
            raise InvalidInput("the public images are all of one value: there is nothing to deskew")
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
        # Integer levels make the moments exact sums.
        scale = LEVELS / (self.bright - self.dark)
        ink = np.rint(np.clip((images.astype(np.float64) - self.dark) * scale, 0, LEVELS))
        # Coordinates are doubled and centered, so they are integers too.
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
    """Gray images with values from 0 to 1, stretched horizontally to the median width of the public samples.

    It follows ``Deskewed``, whose images are centered. Moments are exact sums of integers, and every pixel is computed
    separately, so a sample's encoding does not depend on other samples.

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
        """Take the shape of the images and the median width of their ink from the public samples."""
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
        return cls(shape, fields.number("spread", 0, LARGEST_PARAMETER))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """The stretched images as flat rows, values from 0 to 1."""
        images = as_images(samples, self.shape)[..., 0]
        result = np.empty((len(images), self.shape[0] * self.shape[1]), dtype=np.float32)
        for block in blocks(len(images)):
            result[block] = self._stretched(_levels(images[block])).reshape(-1, result.shape[1])
        return result

    def _stretched(self, ink: NDArray[np.float64]) -> Floats:
        width = self.shape[1]
        step = np.clip(_spreads(ink) / max(self.spread, 1e-3), NARROWEST, _WIDEST)
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
    """The horizontal standard deviation of an image's ink around the middle, in pixels."""
    width = ink.shape[2]
    across = (2 * np.arange(width) - width + 1.0) ** 2
    mass = np.maximum(ink.sum(axis=(1, 2)), 1.0)
    spreads: NDArray[np.float64] = np.sqrt((ink * across).sum(axis=(1, 2)) / mass) / 2
    return spreads


@dataclass(frozen=True)
class OrientedGradients:
    """Histograms of oriented gradients: ``bins`` unsigned orientations, overlapping square cells, blocks of 2 by 2.

    All sums are over integers and exact (see ``arrays``), so a sample's encoding does not depend on other samples.
    Color is converted to gray first.

    >>> images = np.zeros((1, 8, 8))
    >>> images[0, :, 4:] = 1.0
    >>> features = OrientedGradients.fit(images).encode(images).reshape(4, 9, 3, 3)
    >>> features[0].sum(axis=(1, 2)).argmax(), features.max().round(3)
    (np.int64(0), np.float32(0.2))
    """

    name: ClassVar[str] = "gradients"

    shape: ImageShape
    dark: float
    bright: float
    cell: int
    bins: int

    @classmethod
    def fit(
        cls, public: NDArray[Any], shape: tuple[int, ...] | None = None, cell: int | None = None, bins: int = 9
    ) -> OrientedGradients:
        """Take shape and range of values from the public samples; by default seven cells per side."""
        fitted = image_shape(public, shape)
        if fitted[2] not in (1, 3):
            raise InvalidInput(f"images must have 1 or 3 channels, got {fitted[2]}")
        side = min(fitted[:2])
        cell = max(2, side // 7) if cell is None else cell
        if not 2 <= cell <= side // 2:
            raise InvalidInput(f"cell must be between 2 and half the image's side, {side // 2}, got {cell}")
        if not 2 <= bins <= 64:
            raise InvalidInput(f"bins must be between 2 and 64, got {bins}")
        images = as_images(public, fitted)
        dark, bright = float(images.min()), float(images.max())
        if not dark < bright:
            raise InvalidInput("the public images are all of one value: they have no gradients")
        return cls(fitted, dark, bright, cell, bins)

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> OrientedGradients:
        """Read the shape of an image, its range of values, and cells that fit in it."""
        shape = read_shape(fields, least=4)
        dark, bright = read_range(fields)
        cell = fields.integer("cell", 2, min(shape[:2]) // 2)
        return cls(shape, dark, bright, cell, fields.integer("bins", 2, 64))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        images = as_images(samples, self.shape)
        across = [cell_windows(side, self.cell) for side in self.shape[:2]]
        high, wide = len(across[0]) - 1, len(across[1]) - 1
        result = np.empty((len(images), 4 * self.bins * high * wide), dtype=np.float32)
        for block in blocks(len(images)):
            result[block] = self._histograms(self._gray(images[block]), *across).reshape(-1, result.shape[1])
        return result

    def _gray(self, images: NDArray[Any]) -> Floats:
        scale = LEVELS / (self.bright - self.dark)
        levels = np.rint(np.clip((images.astype(np.float64) - self.dark) * scale, 0, LEVELS))
        if self.shape[2] == 3:
            weighted = sum(levels[..., channel] * weight for channel, weight in enumerate(GRAY))
            return np.rint(weighted / sum(GRAY)).astype(np.float32)
        return levels[..., 0].astype(np.float32)

    def _histograms(self, levels: Floats, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.float64]:
        framed = np.pad(levels, ((0, 0), (1, 1), (1, 1)), mode="edge")
        down = framed[:, 2:, 1:-1] - framed[:, :-2, 1:-1]
        right = framed[:, 1:-1, 2:] - framed[:, 1:-1, :-2]
        length = np.sqrt(down * down + right * right)
        cells = np.empty((len(levels), self.bins, len(rows), len(columns)))
        edge = np.float32(math.cos(math.pi / self.bins))
        for orientation in range(self.bins):
            angle = math.pi * orientation / self.bins
            along = np.abs(right * np.float32(math.cos(angle)) + down * np.float32(math.sin(angle)))
            # Full weight for a gradient in this orientation, 0 from the next orientation on.
            share = np.rint(np.maximum(along - length * edge, 0) / (1 - edge))
            cells[:, orientation] = rows @ share @ columns.T
        # The four cells of every block side by side: (n, 4 bins, blocks down, blocks across).
        corners = [
            cells[:, :, top : len(rows) - 1 + top, left : len(columns) - 1 + left] for top in (0, 1) for left in (0, 1)
        ]
        block = np.concatenate(corners, axis=1)
        floor = block_floor(self.cell)
        normal = np.sqrt((block * block).sum(axis=1, keepdims=True) + floor * floor)
        return snapped(block / normal, bits=16, limit=BLOCK_CLIP)


def block_floor(cell: int) -> float:
    """The least divisor of a block of cells.

    >>> block_floor(2)
    4080.0
    """
    return _FLOOR * LEVELS * cell**4 / 4


def cell_windows(side: int, cell: int) -> NDArray[Any]:
    """For each cell along a side, every pixel's weight: decreasing to zero at the next cell's center.

    Weights are integers up to twice the cell's side. Sums of up to 2·cell² of them, times lengths of at
    most 1443, in both directions are below 2^24 for cells of up to 7 and exact in float32; larger ones use float64.
    """
    cells = side // cell
    spare = side - cells * cell
    pixel, place = np.arange(side)[None], np.arange(cells)[:, None]
    weights = np.maximum(2 * cell - np.abs(2 * pixel + 1 - (2 * place + 1) * cell - spare), 0)
    return np.asarray(weights, dtype=np.float32 if cell <= 7 else np.float64)
