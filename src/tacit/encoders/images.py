"""Image files as arrays of one size, chosen by public images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.samples import ImageShape
from tacit.core.strict_reader import StrictReader
from tacit.datasets.image_files import ImageFiles, common_shape, read_images
from tacit.datasets.samples import samples_of
from tacit.representations.reading import read_shape

__all__ = ["ImageEncoder"]


@dataclass(frozen=True)
class ImageEncoder:
    """Brings image files to a shape; arrays of that shape are taken as they are.

    >>> ImageEncoder((8, 8, 1)).encode(np.zeros((2, 8, 8))).shape
    (2, 8, 8)
    """

    name: ClassVar[str] = "images"

    shape: ImageShape

    @classmethod
    def fit(cls, public: ImageFiles) -> ImageEncoder:
        """The shape of public images."""
        return cls(common_shape(public.files))

    @property
    def names(self) -> None:
        """Pixels have no names."""
        return None

    @property
    def blocks(self) -> dict[str, int]:
        """How many features come from what."""
        return {"pixels": int(np.prod(self.shape))}

    @property
    def lines(self) -> tuple[str, ...]:
        """What it does, in words."""
        height, width, channels = self.shape
        return (f"{height}x{width} pixels, {'gray' if channels == 1 else 'color'}",)

    def encode(self, samples: Any) -> NDArray[Any]:  # noqa: ANN401
        """The images, (n, height, width) or with channels; a file that cannot be read is blank."""
        found = samples_of(samples)
        if isinstance(found, ImageFiles):
            return read_images(found.files, self.shape)[0]
        height, width, channels = self.shape
        wanted = (height, width) if channels == 1 else self.shape
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiub" or found.shape[1:] != wanted:
            raise InvalidInput(f"samples must be image files, or arrays of shape {wanted}")
        return found

    def unread(self, samples: Any) -> list[str]:  # noqa: ANN401
        """What who loads the images should know: how many cannot be read, and which is the first."""
        found = samples_of(samples)
        lost = read_images(found.files, self.shape)[1] if isinstance(found, ImageFiles) else []
        if not lost:
            return []
        return [f"{len(lost)} image{'s' * (len(lost) > 1)} cannot be read, the first is row {lost[0]}"]

    def fields(self) -> dict[str, Any]:
        """Its parameters."""
        return {"shape": list(self.shape)}

    @classmethod
    def read(cls, fields: StrictReader) -> ImageEncoder:
        """Read the shape."""
        return cls(read_shape(fields))
