"""Exact arithmetic for representations, and strict reading of their arrays.

A record's features must depend on that record and on public data alone, to the last bit: a rounding that depends on the
other rows of a batch could change a record's nearest query, and then one changed record changes more votes than the
sensitivity says. In a matrix product the rounding of a row depends on the number of rows and on its position. So
encoders multiply integers: values are rounded to multiples of a power of two, coarse enough that every product and
every sum is exact. Then every order of additions, batch size and machine gives the same bits.

A hostile coordinator may choose the public numbers, so each class that is read checks what this relies on (grids,
ranges, shapes).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput
from tacit.core.codec import StrictReader
from tacit.core.samples import ImageShape

__all__ = [
    "FLOAT32",
    "LARGEST_PARAMETER",
    "REAL",
    "SMALLEST_SCALE",
    "WIDEST_ENCODING",
    "blocks",
    "exact_bits",
    "parameters",
    "read_finite_array",
    "read_range",
    "read_shape",
    "require_narrow",
    "snapped",
]

# Integers up to 2^53 are exact in float64.
EXACT_BITS = 53
_BLOCK = 1024
REAL, FLOAT32 = ("<f8",), ("<f4",)
# What a representation may make of a record, unless the record itself has more: a few thousand are in memory at a time.
WIDEST_ENCODING = 2**14
# Values of an image: with more, one image would be larger than the largest question.
LARGEST_IMAGE = 2**22
# Differences of larger values may overflow in float32.
LARGEST_PARAMETER = 1e30
# Divisors are no smaller, so that no scale is infinite: 0 times infinity is NaN, which would single out the record with
# the 0.
SMALLEST_SCALE = 1e-30


def snapped(values: NDArray[Any], bits: int, limit: float = math.inf) -> NDArray[np.float64]:
    """The values as multiples of 2^-bits, none further from 0 than ``limit``.

    >>> snapped(np.array([0.3, -7.0]), bits=2, limit=4.0).tolist()
    [0.25, -4.0]
    """
    scale = 2.0**bits
    return np.rint(np.clip(values.astype(np.float64), -limit, limit) * scale) / scale


def exact_bits(terms: int, limit: float, other_limit: float, other_bits: int) -> int:
    """The finest grid (in bits) for which sums of ``terms`` products are exact; the other factor has its own grid.

    >>> exact_bits(terms=1024, limit=1.0, other_limit=1.0, other_bits=20)
    23
    """
    bits = EXACT_BITS - other_bits - math.ceil(math.log2(terms * limit * other_limit))
    # A coarser grid would lose the features themselves.
    if bits < 4 - math.ceil(math.log2(limit)):
        raise InvalidInput(f"{terms} features are too many for exact arithmetic: reduce them first")
    return bits


def blocks(rows: int) -> list[slice]:
    """Slices that cover the rows a few at a time, so that memory stays small.

    >>> blocks(1500)
    [slice(0, 1024, None), slice(1024, 1500, None)]
    """
    return [slice(start, min(start + _BLOCK, rows)) for start in range(0, rows, _BLOCK)]


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
    """The shape of an image with at least ``least`` rows and columns.

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
    dark, bright = (fields.number(name, -LARGEST_PARAMETER, LARGEST_PARAMETER) for name in ("dark", "bright"))
    if not bright - dark >= SMALLEST_SCALE:
        raise InvalidInput(f"the {fields.what}'s dark must be below its bright by at least {SMALLEST_SCALE:g}")
    return dark, bright


def require_narrow(width: int, samples: NDArray[Any]) -> None:
    """Refuse features that are over ``WIDEST_ENCODING`` more than the samples' own values.

    Whoever asks chooses how many there are, and they are in memory for thousands of records at a time.

    >>> require_narrow(10**6, np.zeros((1, 10**6)))
    >>> require_narrow(10**6, np.zeros((1, 2)))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a representation may add at most 16384 features to a record's own 2, got 1000000
    """
    own = math.prod(samples.shape[1:]) if samples.dtype.names is None else len(samples.dtype.names)
    if width > WIDEST_ENCODING + own:
        raise InvalidInput(
            f"a representation may add at most {WIDEST_ENCODING} features to a record's own {own}, got {width}"
        )


def read_finite_array(
    fields: StrictReader, name: str, kinds: tuple[str, ...] = REAL, shape: tuple[int | None, ...] | None = None
) -> NDArray[Any]:
    """An array of finite numbers that is not empty.

    >>> import numpy as np
    >>> read_finite_array(StrictReader({"mean": np.zeros(2)}, "representation"), "mean", shape=(None,)).tolist()
    [0.0, 0.0]
    """
    found = fields.array(name, kinds, shape, -LARGEST_PARAMETER, LARGEST_PARAMETER)
    if not found.size:
        raise InvalidInput(f"the {fields.what}'s {name} must not be empty")
    return found
