"""Transformation-invariant k-means: clusters of images compared up to a small rotation, shift, stretch and shear.

Each center is compared in all its transformed forms from a fixed grid, and an image belongs to the center with the
nearest form. Between rounds every image is transformed back by the inverse of its form's transformation, and a center
is the mean of its aligned images. So one center stands for one character in different handwritings.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput
from tacit.core.codec import StrictReader
from tacit.core.samples import ImageShape, as_images, image_shape
from tacit.representations.arrays import LARGEST_PARAMETER, WIDEST_ENCODING, blocks, parameters, read_range, read_shape
from tacit.representations.groups import axes, require_groups, shares

__all__ = ["Changes", "TransformedShares"]

# Few enough that a product of two images of 32x32 pixels is exact in float32: 1024·127² < 2^24.
_LEVELS = 127
_STARTS, _ROUNDS = 3, 20
# For each next center this many candidates are drawn, and the one with the least total difference is taken.
CANDIDATES = 3
# The scale of differences in the shares, relative to the public images' mean squared deviation.
SOFTNESS = 0.1


@dataclass(frozen=True)
class Changes:
    """The grid of transformations: rotations (degrees), shears, horizontal stretches, and shifts (pixels) both ways.

    >>> len(Changes(turns=(0,), shifts=(-1, 1)).matrices())
    36
    """

    turns: tuple[float, ...] = (-10.0, 0.0, 10.0)
    leans: tuple[float, ...] = (-0.2, 0.0, 0.2)
    stretches: tuple[float, ...] = (0.8, 1.0, 1.25)
    shifts: tuple[float, ...] = (0.0,)

    def matrices(self) -> NDArray[np.float64]:
        """For each transformation the matrix from a position in the transformed image to that in the original."""
        found = []
        for turn, lean, stretch, down, right in itertools.product(
            self.turns, self.leans, self.stretches, self.shifts, self.shifts
        ):
            cosine, sine = math.cos(math.radians(turn)), math.sin(math.radians(turn))
            rotation = np.array([[cosine, -sine, down], [sine, cosine, right], [0, 0, 1]])
            shape = np.array([[1, 0, 0], [lean, 1 / stretch, 0], [0, 0, 1]])
            found.append(rotation @ shape)
        if not found:
            raise InvalidInput("every kind of transformation needs at least one amount; 0 (or a stretch of 1) for none")
        return np.array(found)


@dataclass(frozen=True)
class TransformedShares:
    """Shares in each group by the difference from the best form of its center; ``queries`` are the unit vectors.

    Images and forms are integers and their products are exact (see ``arrays``), so a sample's encoding does not depend
    on other samples.

    >>> upright, flat, leaning = np.zeros((3, 9, 9))
    >>> upright[1:8, 4], flat[4, 1:8], leaning[range(1, 8), [5, 5, 4, 4, 4, 3, 3]] = 1.0, 1.0, 1.0
    >>> fitted = TransformedShares.fit(np.stack([upright, flat]), groups=2)
    >>> shown = fitted.encode(np.stack([upright, leaning, flat])).argmax(axis=1)
    >>> bool(shown[0] == shown[1] != shown[2])
    True
    """

    name: ClassVar[str] = "transformed"

    shape: ImageShape
    dark: float
    bright: float
    forms: NDArray[np.uint8]  # (groups, changes, values): whole levels
    softness: float

    @classmethod
    def fit(
        cls,
        public: NDArray[Any],
        groups: int,
        shape: tuple[int, ...] | None = None,
        changes: Changes | None = None,
        seed: int = 0,
    ) -> TransformedShares:
        """Cluster the public images; of a few starts the one with the least difference is kept."""
        fitted = image_shape(public, shape)
        images = as_images(public, fitted)
        dark, bright = float(images.min()), float(images.max())
        if not dark < bright:
            raise InvalidInput("the public images are all of one value: they have no clusters")
        require_groups(images, groups)
        levels = _levels(images, dark, bright)
        search = _Search(levels, fitted, changes or Changes(), np.random.default_rng(seed))
        tries = [search.descend(search.spread_out(groups)) for _ in range(_STARTS)]
        _, centers = min(tries, key=lambda each: each[0])
        softness = SOFTNESS * float(np.square(levels - levels.mean(axis=0)).sum(axis=1).mean())
        forms = search.forms(centers)
        _require_few(forms, "representation")
        return cls(fitted, dark, bright, forms, softness)

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> TransformedShares:
        """Read forms of integer levels, with which sums are exact."""
        shape = read_shape(fields)
        dark, bright = read_range(fields)
        forms = fields.array("forms", ("|u1",), (None, None, math.prod(shape)), 0, _LEVELS)
        softness = fields.number("softness", 1e-9, LARGEST_PARAMETER)
        _require_few(forms, fields.what)
        return cls(shape, dark, bright, forms, softness)

    @property
    def queries(self) -> Floats:
        """The queries: one per group."""
        return axes(len(self.forms))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 shares per sample."""
        images = as_images(samples, self.shape)
        result = np.empty((len(images), len(self.forms)), dtype=np.float32)
        for block in blocks(len(images)):
            levels = _levels(images[block], self.dark, self.bright)
            result[block] = shares(_differences(levels, self.forms).min(axis=2) / self.softness)
        return result


def _require_few(forms: NDArray[np.uint8], what: str) -> None:
    """Refuse more forms than there is room for, when they are made as when they are read."""
    if not forms.size or forms.shape[0] * forms.shape[1] > WIDEST_ENCODING:
        raise InvalidInput(f"the {what} must have from 1 to {WIDEST_ENCODING} forms: use fewer groups or changes")


def _levels(images: NDArray[Any], dark: float, bright: float) -> NDArray[np.uint8]:
    scaled = np.clip((images.astype(np.float64) - dark) * (_LEVELS / (bright - dark)), 0, _LEVELS)
    return np.rint(scaled).astype(np.uint8).reshape(len(images), -1)


def _differences(levels: NDArray[np.uint8], forms: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The squared difference of every image and every form, exactly: (images, groups, changes)."""
    groups, changes, values = forms.shape
    exact = np.float32 if values * _LEVELS**2 < 2**24 else np.float64
    product = levels.astype(exact) @ forms.reshape(-1, values).T.astype(exact)
    own = np.square(levels.astype(np.int64)).sum(axis=1)
    other = np.square(forms.reshape(-1, values).astype(np.int64)).sum(axis=1)
    differences: NDArray[np.float64] = own[:, None] + other - 2 * product.astype(np.float64)
    return differences.reshape(-1, groups, changes)


class _Search:
    """The public images, and the search for their centers."""

    def __init__(
        self, levels: NDArray[np.uint8], shape: ImageShape, changes: Changes, random: np.random.Generator
    ) -> None:
        matrices = changes.matrices()
        self._levels = levels
        self._change = [_resampling(matrix, shape) for matrix in matrices]
        self._undo = [_resampling(np.linalg.inv(matrix), shape) for matrix in matrices]
        self._random = random

    def forms(self, centers: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Every transformed form of every center."""
        changed = np.stack([(change @ centers.T).T for change in self._change], axis=1)
        levels: NDArray[np.uint8] = np.rint(np.clip(changed, 0, _LEVELS)).astype(np.uint8)
        return levels

    def spread_out(self, groups: int) -> NDArray[np.float64]:
        """Initial centers: images far from each other (k-means++)."""
        chosen = [int(self._random.integers(len(self._levels)))]
        left = self._left(chosen[0])
        while len(chosen) < groups:
            odds = left / left.sum() if left.sum() > 0 else None
            candidates = [int(each) for each in self._random.choice(len(left), CANDIDATES, p=odds)]
            remaining = [np.minimum(left, self._left(each)) for each in candidates]
            best = int(np.argmin([each.sum() for each in remaining]))
            chosen.append(candidates[best])
            left = remaining[best]
        return self._levels[chosen].astype(np.float64)

    def descend(self, centers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Centers after rounds of assigning and averaging, and the images' mean difference from them."""
        before, loss = math.inf, math.inf
        for _ in range(_ROUNDS):
            group, form, difference = self._assign(self.forms(centers))
            loss = float(difference.mean())
            if loss >= before * (1 - 1e-4):
                break
            before = loss
            centers = self._averaged(centers, group, form, difference)
        return loss, centers

    def _left(self, image: int) -> NDArray[np.float64]:
        return self._assign(self.forms(self._levels[[image]].astype(np.float64)))[2]

    def _assign(self, forms: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """For each image its group, the form that fits it best, and how much that differs."""
        best = np.empty(len(self._levels), dtype=np.int64)
        difference = np.empty(len(self._levels))
        for block in blocks(len(self._levels)):
            all_forms = _differences(self._levels[block], forms).reshape(block.stop - block.start, -1)
            best[block] = all_forms.argmin(axis=1)
            difference[block] = all_forms.min(axis=1)
        return best // forms.shape[1], best % forms.shape[1], difference

    def _averaged(
        self,
        centers: NDArray[np.float64],
        group: NDArray[np.int64],
        form: NDArray[np.int64],
        difference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        total, count = np.zeros_like(centers), np.bincount(group, minlength=len(centers))
        for number, undo in enumerate(self._undo):
            mine = np.flatnonzero(form == number)
            np.add.at(total, group[mine], (undo @ self._levels[mine].T.astype(np.float64)).T)
        # A center without images starts again at the image with the largest difference.
        worst = self._levels[int(difference.argmax())]
        return np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], worst)


def _resampling(matrix: NDArray[np.float64], shape: ImageShape) -> Any:  # noqa: ANN401
    """The sparse matrix that transforms a flat image by bilinear interpolation."""
    from scipy.sparse import coo_array

    height, width, channels = shape
    down, right, channel = (each.ravel() for each in np.indices(shape))
    centered = np.stack([down - (height - 1) / 2, right - (width - 1) / 2, np.ones(len(down))])
    from_down, from_right, _ = matrix @ centered
    from_down, from_right = from_down + (height - 1) / 2, from_right + (width - 1) / 2
    parts = []
    for step_down, step_right in itertools.product((0, 1), (0, 1)):
        row, column = np.floor(from_down) + step_down, np.floor(from_right) + step_right
        weight = (1 - np.abs(from_down - row)) * (1 - np.abs(from_right - column))
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width) & (weight > 0)
        source = (row * width + column) * channels + channel
        parts.append((weight[inside], np.flatnonzero(inside), source[inside].astype(np.int64)))
    weights, targets, sources = (np.concatenate(each) for each in zip(*parts, strict=True))
    size = math.prod(shape)
    return coo_array((weights, (targets, sources)), shape=(size, size)).tocsr()
