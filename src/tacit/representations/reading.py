"""What the classes write and read themselves with, and the limits of what they read.

A vote is protected because a record's features depend on that record and on public numbers alone, to the last bit.
Whoever asks chooses those numbers, so whatever that property rests on (grids, ranges, shapes) is checked by each class
that reads itself and not taken on trust.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.samples import ImageShape
from tacit.core.strict_reader import StrictReader

__all__ = ["LARGEST_VALUE", "NARROW", "REAL", "SMALLEST_SCALE", "parameters", "read_range", "read_shape", "read_table"]

REAL, NARROW = ("<f8",), ("<f4",)
# Values of an image: more would make one image larger than a whole question may be.
LARGEST_IMAGE = 2**22
# Beyond this even halves of float32's range, differences overflow.
LARGEST_VALUE = 1e30
# What divides is no smaller, so that no scale is infinite: 0 times infinity is no number, and would single out the
# record that gives the 0.
SMALLEST_SCALE = 1e-30


def parameters(made: Any) -> dict[str, Any]:  # noqa: ANN401
    """Every parameter of a dataclass, as values that can be encoded.

    >>> @dataclasses.dataclass
    ... class Image:
    ...     shape: tuple[int, int]
    >>> parameters(Image((2, 3)))
    {'shape': [2, 3]}
    """
    found = {each.name: getattr(made, each.name) for each in dataclasses.fields(made)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def read_shape(fields: StrictReader, channels: tuple[int, ...] = (1, 3), least: int = 1) -> ImageShape:
    """The shape of an image, at least this many rows and columns.

    >>> read_shape(StrictReader({"shape": [8, 8, 1]}, "representation"))
    (8, 8, 1)
    """
    shape = fields.integers("shape", 3, 1, LARGEST_IMAGE)
    if len(shape) != 3 or math.prod(shape) > LARGEST_IMAGE or shape[2] not in channels:
        raise InvalidInput(f"the {fields.what}'s shape must be height, width and channels of a small image")
    if min(shape[:2]) < least:
        raise InvalidInput(f"the {fields.what}'s shape must have at least {least} rows and {least} columns")
    return shape[0], shape[1], shape[2]


def read_range(fields: StrictReader) -> tuple[float, float]:
    """The darkest and the brightest value of an image.

    >>> read_range(StrictReader({"dark": 0.0, "bright": 16.0}, "representation"))
    (0.0, 16.0)
    """
    dark, bright = (fields.number(name, -LARGEST_VALUE, LARGEST_VALUE) for name in ("dark", "bright"))
    if not bright - dark >= SMALLEST_SCALE:
        raise InvalidInput(f"the {fields.what}'s dark must be below its bright by at least {SMALLEST_SCALE:g}")
    return dark, bright


def read_table(
    fields: StrictReader, name: str, kinds: tuple[str, ...] = REAL, shape: tuple[int | None, ...] | None = None
) -> NDArray[Any]:
    """An array of finite numbers that is not empty.

    >>> import numpy as np
    >>> read_table(StrictReader({"mean": np.zeros(2)}, "representation"), "mean", shape=(None,)).tolist()
    [0.0, 0.0]
    """
    found = fields.array(name, kinds, shape, -LARGEST_VALUE, LARGEST_VALUE)
    if not found.size:
        raise InvalidInput(f"the {fields.what}'s {name} must not be empty")
    return found
