"""Histograms of oriented gradients: which way the edges run in each part of an image.

They forgive small shifts and changes of light, and need nothing but the image: the public samples only say how
large images are and how bright they get.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.core.samples import ImageShape, as_images, image_shape
from tacit.core.strict_reader import StrictReader
from tacit.representations.grid import blocks, snapped
from tacit.representations.reading import parameters, read_range, read_shape

__all__ = ["OrientedGradients"]

LEVELS = 1020  # a multiple of 255, so that 8-bit values stay apart
# A block of cells is divided by its length, but no more than this much ink would have: empty parts stay quiet.
FLOOR = 1.0
CLIP = 0.2  # no single orientation may dominate a block
GREY = (77, 150, 29)  # of 256: how bright red, green and blue look


@dataclass(frozen=True)
class OrientedGradients:
    """Gradients without sign in ``bins`` orientations, over overlapping square cells in blocks of two by two.

    All sums are over whole numbers and exact (see ``grid``), so a sample's encoding is the same bits in any
    company. Color is turned to gray first.

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
        """Take shape and brightness from the public samples; seven cells a side unless told otherwise."""
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
        """Read the shape of an image and its range, and cells that fit in it."""
        shape = read_shape(fields, least=4)
        dark, bright = read_range(fields)
        cell = fields.integer("cell", 2, min(shape[:2]) // 2)
        return cls(shape, dark, bright, cell, fields.integer("bins", 2, 64))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        images = as_images(samples, self.shape)
        across = [_windows(side, self.cell) for side in self.shape[:2]]
        high, wide = len(across[0]) - 1, len(across[1]) - 1
        result = np.empty((len(images), 4 * self.bins * high * wide), dtype=np.float32)
        for block in blocks(len(images)):
            result[block] = self._histograms(self._grey(images[block]), *across).reshape(-1, result.shape[1])
        return result

    def _grey(self, images: NDArray[Any]) -> Floats:
        scale = LEVELS / (self.bright - self.dark)
        levels = np.rint(np.clip((images.astype(np.float64) - self.dark) * scale, 0, LEVELS))
        if self.shape[2] == 3:
            weighted = sum(levels[..., channel] * weight for channel, weight in enumerate(GREY))
            return np.rint(weighted / sum(GREY)).astype(np.float32)
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
            # 1 where the gradient runs this way, 0 from the next orientation on.
            share = np.rint(np.maximum(along - length * edge, 0) / (1 - edge))
            cells[:, orientation] = rows @ share @ columns.T
        # The four cells of every block side by side: (n, 4 bins, blocks down, blocks across).
        corners = [
            cells[:, :, top : len(rows) - 1 + top, left : len(columns) - 1 + left] for top in (0, 1) for left in (0, 1)
        ]
        block = np.concatenate(corners, axis=1)
        floor = FLOOR * LEVELS * self.cell**4 / 4
        normal = np.sqrt((block * block).sum(axis=1, keepdims=True) + floor * floor)
        return snapped(block / normal, bits=16, limit=CLIP)


def _windows(side: int, cell: int) -> NDArray[Any]:
    """For each cell along a side, every pixel's weight: falling off to zero at the next cell's centre.

    Weights are whole numbers up to twice the cell's side. Sums of up to 2·cell² of them, times lengths of at
    most 1443, in both directions are below 2^24 for cells of up to 7 and exact in float32; larger ones use float64.
    """
    cells = side // cell
    spare = side - cells * cell
    pixel, place = np.arange(side)[None], np.arange(cells)[:, None]
    weights = np.maximum(2 * cell - np.abs(2 * pixel + 1 - (2 * place + 1) * cell - spare), 0)
    return np.asarray(weights, dtype=np.float32 if cell <= 7 else np.float64)
