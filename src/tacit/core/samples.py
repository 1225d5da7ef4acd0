"""Samples as rows: the names of their columns, the image shape of a flat row, and digests of their content.

Columns of two tables are matched by name, never by position alone. A table is anything with ``columns`` (pandas,
polars) or ``column_names`` (pyarrow) that numpy converts to an array; none of these needs to be installed. As in
scikit-learn, an array without names is used as it is. Column names are public, so messages may list them; values are
never shown.

A digest of samples is the same for the same rows in any order and number format.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, listed, nearest

__all__ = [
    "ImageShape",
    "Named",
    "as_images",
    "column_names",
    "content_digest",
    "image_shape",
    "in_order",
    "match_names",
    "numbered",
    "pixel_side",
    "row_digests",
]


@dataclass(frozen=True)
class Named:
    """An array with names for its columns: a minimal data frame.

    >>> column_names(Named(np.zeros((1, 2)), ("age", "dose")))
    ('age', 'dose')
    """

    values: NDArray[Any]
    columns: tuple[str, ...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: ANN401
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)


def column_names(values: Any, what: str = "the table") -> tuple[str, ...] | None:  # noqa: ANN401
    """The names of a table's columns, or None if it has none.

    Columns that are numbered 0, 1, 2 and so on count as unnamed: a data frame made from a plain array has them.

    >>> column_names(np.zeros((2, 2))) is None
    True
    """
    found = getattr(values, "column_names", None)
    if found is None:
        found = getattr(values, "columns", None)
    if found is None or callable(found):
        return None
    given = list(found)
    if all(isinstance(name, int | np.integer) for name in given) and given == list(range(len(given))):
        return None
    names = tuple(str(name) for name in given)
    if repeated := sorted(name for name, times in Counter(names).items() if times > 1):
        raise InvalidInput(f"{what}: several columns have the same name ({listed(repeated)}); rename them")
    return names


def match_names(given: Sequence[str], wanted: Sequence[str], what: str, like: str, surplus: str = "") -> list[int]:
    """The position of each wanted column among the given ones, or an error that names the difference.

    ``surplus`` says what to do where there are only too many.

    >>> match_names(("dose", "age"), ("age", "dose"), "private samples", "the public ones")
    [1, 0]
    >>> match_names(("dose", "agge"), ("age", "dose"), "private samples", "the public ones")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: private samples: the columns are not those of the public ones: ...
    """
    have, want = set(given), set(wanted)
    missing, extra = [each for each in wanted if each not in have], [each for each in given if each not in want]
    if missing or extra:
        parts = [f"missing {listed(missing)}"] if missing else []
        parts += [f"unknown {listed(extra)}"] if extra else []
        # A few differences may be typing errors; many mean that it is another table.
        close = [f"{each} for {found}" for each in missing if len(missing) < 4 and (found := nearest(each, extra))]
        hint = f"; did you mean {listed(close)}?" if close else "" if missing or not surplus else f"; {surplus}"
        raise InvalidInput(f"{what}: the columns are not those of {like}: {', '.join(parts)}{hint}")
    places = {name: place for place, name in enumerate(given)}
    return [places[name] for name in wanted]


def in_order(values: Any, wanted: Sequence[str] | None, what: str, like: str) -> Any:  # noqa: ANN401
    """The values with their columns in the wanted order; unchanged if either side has no names.

    >>> in_order(Named(np.array([[1, 2]]), ("dose", "age")), ("age", "dose"), "samples", "the others").values.tolist()
    [[2, 1]]
    """
    given = column_names(values, what)
    # Columns of a data frame without names are numbered, and keep their numbers when they are reordered.
    if wanted is None and given is not None and numbered(given):
        wanted = sorted(given, key=int)
    elif given is None and wanted is not None and numbered(wanted) and hasattr(values, "columns"):
        given = tuple(sorted(wanted, key=int))
    if given is None or wanted is None:
        return values
    order = match_names(given, wanted, what, like)
    # Contiguous, so that sums over rows are the same to the last bit as for an array in that order.
    return Named(np.ascontiguousarray(np.asarray(values)[:, order]), tuple(wanted))


def numbered(names: Sequence[str]) -> bool:
    """Whether the names are the numbers from 0 on, in any order.

    >>> numbered(("2", "0", "1")), numbered(("age", "0"))
    (True, False)
    """
    return set(names) == {str(place) for place in range(len(names))}


ImageShape = tuple[int, int, int]  # height, width, channels
_SMALLEST_SIDE = 8


def image_shape(samples: NDArray[Any], shape: tuple[int, ...] | None = None) -> ImageShape:
    """Height, width and channels of a sample: ``shape`` if given, else the array's, else a square for flat rows.

    >>> image_shape(np.zeros((5, 28, 28))), image_shape(np.zeros((5, 64))), image_shape(np.zeros((5, 3072)))
    ((28, 28, 1), (8, 8, 1), (32, 32, 3))
    """
    if samples.ndim < 2 or not samples[:1].size:
        raise InvalidInput(f"images must be an array with a sample per row, got shape {samples.shape}")
    size = math.prod(samples.shape[1:])
    if shape is None and samples.ndim > 2:
        shape = samples.shape[1:]
    if shape is None:
        gray, color = math.isqrt(size), math.isqrt(size // 3)
        if gray * gray == size:
            shape = (gray, gray)
        elif 3 * color * color == size:
            shape = (color, color, 3)
        else:
            raise InvalidInput(f"{size} features are not a square image; give its shape (height, width, channels)")
    if len(shape) not in (2, 3) or min(shape) < 1 or math.prod(shape) != size:
        raise InvalidInput(
            f"shape must be (height, width) or (height, width, channels) with {size} values, got {shape}"
        )
    height, width, channels = (*shape, 1)[:3]
    return height, width, channels


def as_images(samples: NDArray[Any], shape: ImageShape) -> NDArray[Any]:
    """The samples as (n, height, width, channels); refused if their size differs or a value is not finite.

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
    """The side of the square images in flat rows, if the rows look like pixels (integers from 0 to 255), else None.

    >>> pixel_side(np.zeros((5, 64))), pixel_side(np.full((5, 64), 0.5)), pixel_side(np.zeros((5, 16)))
    (8, None, None)
    """
    side = math.isqrt(rows.shape[1])
    if side < _SMALLEST_SIDE or side * side != rows.shape[1] or not rows.size:
        return None
    if rows.min() < 0 or rows.max() > 255 or (rows.dtype.kind == "f" and (rows % 1 != 0).any()):
        return None
    return side


def row_digests(samples: NDArray[Any]) -> list[bytes]:
    """A digest of each row, flattened and converted to float32.

    >>> row_digests(np.array([[1, 2]])) == row_digests(np.array([[[1.0], [2.0]]]))
    True
    """
    rows = np.ascontiguousarray(samples, dtype=np.float32).reshape(len(samples), -1)
    return [hashlib.sha256(row.tobytes()).digest() for row in rows]


def content_digest(rows: Iterable[bytes]) -> str:
    """One digest of all rows' digests, independent of their order.

    A representation may have it as ``fitted_on``: ``content_digest(row_digests(samples))`` of its fitting samples.

    >>> content_digest([b"a", b"b"]) == content_digest([b"b", b"a"]) != content_digest([b"a"])
    True
    """
    return hashlib.sha256(b"".join(sorted(rows))).hexdigest()
