"""Images as rows of numbers and back: which shape a row stands for, checked once and the same everywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["ImageShape", "as_images", "image_shape", "pixel_side"]

ImageShape = tuple[int, int, int]  # height, width, channels
SMALLEST_SIDE = 8


def image_shape(samples: NDArray[Any], shape: tuple[int, ...] | None = None) -> ImageShape:
    """Height, width and channels of a sample: as told, as the array says, or the square that fits a flat row.

    >>> image_shape(np.zeros((5, 28, 28))), image_shape(np.zeros((5, 64))), image_shape(np.zeros((5, 3072)))
    ((28, 28, 1), (8, 8, 1), (32, 32, 3))
    """
    if samples.ndim < 2 or not samples[:1].size:
        raise InvalidInput(f"images must be an array with a sample a row, got shape {samples.shape}")
    size = math.prod(samples.shape[1:])
    if shape is None and samples.ndim > 2:
        shape = samples.shape[1:]
    if shape is None:
        grey, colour = math.isqrt(size), math.isqrt(size // 3)
        if grey * grey == size:
            shape = (grey, grey)
        elif 3 * colour * colour == size:
            shape = (colour, colour, 3)
        else:
            raise InvalidInput(f"{size} features are no square image; say its shape (height, width, channels)")
    if len(shape) not in (2, 3) or min(shape) < 1 or math.prod(shape) != size:
        raise InvalidInput(
            f"shape must be (height, width) or (height, width, channels) with {size} values, got {shape}"
        )
    height, width, channels = (*shape, 1)[:3]
    return height, width, channels


def as_images(samples: NDArray[Any], shape: ImageShape) -> NDArray[Any]:
    """The samples as (n, height, width, channels), refused where they are of another size or not finite.

    >>> as_images(np.zeros((2, 784)), (28, 28, 1)).shape
    (2, 28, 28, 1)
    """
    if samples.ndim < 2 or math.prod(samples.shape[1:]) != math.prod(shape):
        raise InvalidInput(f"samples of shape {samples.shape[1:]} are not images of shape {shape}")
    if samples.dtype.kind not in "fiub":
        raise InvalidInput(f"images must be numbers, got {samples.dtype}")
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        row = int(np.flatnonzero(~np.isfinite(samples.reshape(len(samples), -1)).all(axis=1))[0])
        raise InvalidInput(f"sample {row} has a value that is not a finite number")
    return samples.reshape(len(samples), *shape)


def pixel_side(rows: NDArray[Any]) -> int | None:
    """The side of the square images that flat rows hold, if they look like pixels: whole numbers from 0 to 255.

    >>> pixel_side(np.zeros((5, 64))), pixel_side(np.full((5, 64), 0.5)), pixel_side(np.zeros((5, 16)))
    (8, None, None)
    """
    side = math.isqrt(rows.shape[1])
    if side < SMALLEST_SIDE or side * side != rows.shape[1] or not rows.size:
        return None
    if rows.min() < 0 or rows.max() > 255 or (rows.dtype.kind == "f" and (rows % 1 != 0).any()):
        return None
    return side
