"""Encoders of images: files resized to one shape, and photographs as a network trained on ImageNet sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput, Representation
from tacit.core.codec import StrictReader
from tacit.core.samples import ImageShape, content_digest, image_shape, row_digests
from tacit.datasets.image_files import ImageFiles, common_shape, read_images
from tacit.datasets.samples import samples_of
from tacit.representations.arrays import read_shape
from tacit.representations.chained import Chained
from tacit.representations.registry import read_representation, representation_fields
from tacit.representations.scaled import Directions, PrincipalComponents

__all__ = ["ImageEncoder", "PhotographEncoder"]

# Principal components of a network's features. More change nothing that a regression could use.
_COMPONENTS = 128


@dataclass(frozen=True)
class ImageEncoder:
    """Resizes image files to one shape; arrays of that shape are not changed.

    >>> ImageEncoder((8, 8, 1)).encode(np.zeros((2, 8, 8))).shape
    (2, 8, 8)
    """

    name: ClassVar[str] = "images"
    # Nodes have arrays of the same shape.
    at_nodes: ClassVar[str] = "not needed"

    shape: ImageShape

    @classmethod
    def fit(cls, public: ImageFiles) -> ImageEncoder:
        """The encoder with the common shape of public images."""
        return cls(common_shape(public.files))

    @property
    def names(self) -> None:
        """Pixels have no names."""
        return None

    @property
    def blocks(self) -> dict[str, int]:
        """The number of features by source."""
        return {"pixels": int(np.prod(self.shape))}

    @property
    def lines(self) -> tuple[str, ...]:
        """A description of the encoding."""
        height, width, channels = self.shape
        return (f"{height}x{width} pixels, {'gray' if channels == 1 else 'color'}",)

    def encode(self, samples: Any) -> NDArray[Any]:  # noqa: ANN401
        """The images, (n, height, width) or with channels; an unreadable file is a blank image."""
        found = samples_of(samples)
        if isinstance(found, ImageFiles):
            return read_images(found.files, self.shape)[0]
        height, width, channels = self.shape
        wanted = (height, width) if channels == 1 else self.shape
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiub" or found.shape[1:] != wanted:
            raise InvalidInput(f"samples must be image files, or arrays of shape {wanted}")
        return found

    def unread(self, samples: Any) -> list[str]:  # noqa: ANN401
        """A message for the operator: how many images cannot be read, and the first row."""
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


@dataclass(frozen=True)
class PhotographEncoder:
    """Images as a network trained on ImageNet sees them: principal components of its features, scaled to length 1.

    Photographs of one class lie around one point there, as embeddings do.
    """

    name: ClassVar[str] = "photographs"
    at_nodes: ClassVar[str] = "impossible"
    why_not: ClassVar[str] = "nodes may have other weights of the network, or none: choose kind images over nodes"

    images: ImageEncoder
    features: Representation
    width: int

    @classmethod
    def fit(cls, public: ImageFiles | NDArray[Any]) -> tuple[PhotographEncoder, Floats]:
        """The encoder, and the public images as it encodes them: the network sees each of them once."""
        try:
            from tacit.representations.torch_efficientnet import ImageNetFeatures
        except ImportError as error:
            raise InvalidInput(f"photographs need {error.name}: pip install 'tacit[features]'") from None

        images = ImageEncoder.fit(public) if isinstance(public, ImageFiles) else ImageEncoder(image_shape(public))
        pixels = images.encode(public)
        network = ImageNetFeatures.fit(pixels)
        seen = network.encode(pixels)
        rest = Chained.fit(
            seen, lambda rows: PrincipalComponents.fit(rows, min(_COMPONENTS, *rows.shape)), Directions.fit
        )
        features = Chained((network, *rest.parts), content_digest(row_digests(pixels)))
        encoded = rest.encode(seen)
        return cls(images, features, encoded.shape[1]), encoded

    @property
    def names(self) -> None:
        """Features of a network have no names."""
        return None

    @property
    def blocks(self) -> dict[str, int]:
        """The number of features by source."""
        return {"network": self.width}

    @property
    def lines(self) -> tuple[str, ...]:
        """A description of the encoding."""
        trained = "encoded by EfficientNet-lite0, which was trained on ImageNet's labeled photographs"
        return (*self.images.lines, trained)

    def encode(self, samples: Any) -> NDArray[Any]:  # noqa: ANN401
        """One row of features per image; an unreadable file is a blank image."""
        return self.features.encode(self.images.encode(samples))

    def unread(self, samples: Any) -> list[str]:  # noqa: ANN401
        """A message for the operator: how many images cannot be read, and the first row."""
        return self.images.unread(samples)

    def fields(self) -> dict[str, Any]:
        """Its parameters; the network's weights are in a package, and named by their digest."""
        return {**self.images.fields(), "features": representation_fields(self.features), "width": self.width}

    @classmethod
    def read(cls, fields: StrictReader) -> PhotographEncoder:
        """Read the parameters, and refuse other weights."""
        images = ImageEncoder.read(fields)
        return cls(images, read_representation(fields.nested("features")), fields.integer("width", 1, _COMPONENTS))
