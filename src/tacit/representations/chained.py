"""Chains of representations (for example gradients, principal components, a map), and the chains known by name.

Each named chain is fitted to the public samples and the number of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput, Representation
from tacit.core.codec import StrictReader
from tacit.core.samples import content_digest, image_shape, row_digests
from tacit.representations.arrays import require_narrow
from tacit.representations.groups import ClusteringHead, MixtureShares
from tacit.representations.image_features import Deskewed, EvenWidth, OrientedGradients
from tacit.representations.maps import spectral_map, umap_map
from tacit.representations.patches import PatchDictionary
from tacit.representations.registry import read_representation, representation_fields
from tacit.representations.scaled import Directions, Identity, PrincipalComponents
from tacit.representations.transformed_kmeans import TransformedShares

__all__ = [
    "Chained", "gradients", "groups", "handwriting", "imagenet", "mixture", "modes", "patches", "pca", "simclr",
    "spectral", "transformed", "umap",
]  # fmt: skip

LONGEST_CHAIN = 8


@dataclass(frozen=True)
class Chained:
    """Several representations, each applied to the output of the one before.

    >>> import numpy as np
    >>> from tacit.representations.scaled import Standardized
    >>> public = np.array([[0.0, 0.0], [2.0, 200.0], [4.0, 400.0]])
    >>> Chained.fit(public, Standardized.fit, PrincipalComponents.fit).encode(public).shape
    (3, 2)

    ``fitted_on`` is a digest of the samples it was fitted on, so that a holder can refuse one fitted on records.
    """

    name: ClassVar[str] = "chained"

    parts: tuple[Representation, ...]
    fitted_on: str | None = None

    @classmethod
    def fit(cls, public: NDArray[Any], *fits: Callable[[NDArray[Any]], Representation]) -> Chained:
        """Fit each on the public samples as the ones before it encode them."""
        if not fits:
            raise InvalidInput("a chain needs at least one representation")
        parts: list[Representation] = []
        fitted_on = content_digest(row_digests(public))
        for fit in fits:
            parts.append(fit(public))
            public = parts[-1].encode(public)
        return cls(tuple(parts), fitted_on)

    @classmethod
    def of(cls, parts: Iterable[Representation], fitted_on: str | None = None) -> Chained:
        """The chain of these parts without those that change nothing.

        >>> from tacit.representations.scaled import Identity
        >>> Chained.of([Identity(2), Directions(2)]).parts
        (Directions(width=2),)
        """
        return cls(tuple(each for each in parts if not isinstance(each, Identity)), fitted_on)

    def fields(self) -> dict[str, Any]:
        """The fields of its parts, without ``fitted_on``."""
        return {"parts": [representation_fields(part) for part in self.parts]}

    @classmethod
    def read(cls, fields: StrictReader) -> Chained:
        """Read a few parts, none of them a chain itself."""
        parts = fields.several("parts", LONGEST_CHAIN)
        if not parts:
            raise InvalidInput(f"the {fields.what} needs at least one part")
        for part in parts:
            if isinstance(kind := part.peek("kind"), str) and kind == cls.name:
                raise InvalidInput(f"the {fields.what} must not be a chain of chains")
        return cls(tuple(map(read_representation, parts)))

    def fitted_to(self, samples: NDArray[Any]) -> bool:
        """Whether it was fitted on these samples, in any order."""
        return self.fitted_on is not None and self.fitted_on == content_digest(row_digests(samples))

    def ground(self, public: NDArray[Any]) -> NDArray[Any]:
        """The features before the map if the last part is a map, otherwise the encoded samples."""
        *before, last = self.parts
        for part in before:
            public = part.encode(public)
        found: NDArray[Any] = last.ground(public) if hasattr(last, "ground") else last.encode(public)
        return found

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        found: NDArray[Any] = samples
        for part in self.parts:
            found = part.encode(found)
            # Also in between: the last part may have few features of very many.
            require_narrow(found.shape[1], samples)
        return found


def modes(public: int, queries: int) -> int:
    """The number of eigenvectors of the neighbor graph to use: about one per query, since each separates two groups.

    Chosen on MNIST at 8x8 pixels and on FEMNIST digits, which no reported figure of reverse k-NN uses: 20 are better
    than 12 there, and as good as 30 within the deviation of the splits. For ten queries ten are enough: of six sets of
    5,000 training images of MNIST, 12 eigenvectors split a digit of one set, 10 of none.

    >>> modes(500, 32), modes(500, 10), modes(500, 16), modes(5, 3)
    (20, 10, 16, 4)
    """
    return min(max(queries, 10), 20, public - 1)


def pca(public: NDArray[Any], queries: int) -> Representation:
    """The principal components that explain most of the variance."""
    return PrincipalComponents.fit(public)


def spectral(public: NDArray[Any], queries: int) -> Representation:
    """A spectral embedding of the neighbor graph."""
    return spectral_map(public, modes(len(public), queries))


def umap(public: NDArray[Any], queries: int) -> Representation:
    """A UMAP embedding."""
    return umap_map(public)


def gradients(public: NDArray[Any], queries: int) -> Representation:
    """Oriented gradients (HOG), half-whitened components, and a spectral embedding; for images."""
    return _mapped_gradients(public, queries)


def handwriting(public: NDArray[Any], queries: int) -> Representation:
    """The same after images were deskewed and made equally wide."""
    return _mapped_gradients(public, queries, Deskewed.fit, EvenWidth.fit)


def patches(public: NDArray[Any], queries: int) -> Representation:
    """Principal components of a dictionary of patches."""
    return Chained.fit(public, PatchDictionary.fit, PrincipalComponents.fit)


def imagenet(public: NDArray[Any], queries: int) -> Representation:
    """Features of a network trained on ImageNet: their first principal components, scaled to length 1."""
    try:
        from tacit.representations.torch_efficientnet import ImageNetFeatures
    except ModuleNotFoundError as error:
        raise InvalidInput(f"pretrained features need {error.name}: pip install 'tacit[features]'") from None
    return Chained.fit(public, ImageNetFeatures.fit, lambda rows: PrincipalComponents.fit(rows, 128), Directions.fit)


def simclr(public: NDArray[Any], queries: int) -> Representation:
    """A spectral embedding of features from SimCLR, trained on the public images without labels."""
    from tacit.representations.student_features import StudentFeatures

    try:
        from tacit.students.torch_simclr import ContrastiveEncoder
    except ModuleNotFoundError as error:
        raise InvalidInput(f"contrastive features need {error.name}: pip install 'tacit[torch]'") from None
    # The augmentation that keeps an image's class: images in color are taken for photographs.
    changes = "photographs" if image_shape(public)[2] == 3 else "handwriting"

    def seen(images: NDArray[Any]) -> Representation:
        return StudentFeatures(ContrastiveEncoder(epochs=10, augmentation=changes).fit(images))

    return Chained.fit(public, seen, lambda rows: spectral(rows, queries))


def groups(public: NDArray[Any], queries: int) -> Representation:
    """A clustering head (SCAN) with one group per query, on the direction of the first components."""

    def components(rows: NDArray[Any]) -> Representation:
        return PrincipalComponents.fit(rows, 128)

    return Chained.fit(public, components, Directions.fit, lambda rows: ClusteringHead.fit(rows, queries))


def mixture(public: NDArray[Any], queries: int) -> Representation:
    """A Gaussian mixture with one component per query, on a spectral embedding with a dimension for each.

    >>> from tacit.datasets.published import digits
    >>> rows = digits().public_samples[:200]
    >>> mixture(rows, 10).encode(rows).shape
    (200, 10)
    """

    def mapped(rows: NDArray[Any]) -> Representation:
        return spectral_map(rows, min(max(modes(len(rows), queries), queries), len(rows) - 1))

    return Chained.fit(public, mapped, lambda rows: MixtureShares.fit(rows, queries))


def transformed(public: NDArray[Any], queries: int) -> Representation:
    """One cluster per query, of images that are compared up to a small rotation, stretch and shear."""
    return TransformedShares.fit(public, queries)


def _mapped_gradients(
    public: NDArray[Any], queries: int, *before: Callable[[NDArray[Any]], Representation]
) -> Representation:
    def components(found: NDArray[Any]) -> Representation:
        return PrincipalComponents.fit(found, 64, whitening=0.25)

    return Chained.fit(public, *before, OrientedGradients.fit, components, lambda rows: spectral(rows, queries))
