"""Names people can type, and what they stand for. Constructors import what they need only when called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Representation
from tacit.representations.chained import Chained
from tacit.representations.clustering_head import ClusteringHead
from tacit.representations.deskewed import Deskewed
from tacit.representations.even_width import EvenWidth
from tacit.representations.hog import OrientedGradients
from tacit.representations.patches import PatchDictionary
from tacit.representations.principal import PrincipalComponents
from tacit.representations.scaled import Directions, Identity, Standardised, flat
from tacit.representations.spectral import spectral_map
from tacit.students.weighted import forest, logistic

__all__ = ["REPRESENTATIONS", "STUDENTS", "find", "suggest_representation"]

Entry = TypeVar("Entry")

# Fitted to the public samples and the number of queries that will be asked about them.
REPRESENTATIONS: Mapping[str, Callable[[NDArray[Any], int], Representation]] = {
    "identity": lambda public, _: Identity.fit(public),
    "standardised": lambda public, _: Standardised.fit(public),
    "pca": lambda public, _: PrincipalComponents.fit(public),
    "spectral": lambda public, queries: spectral_map(public, modes(len(public), queries)),
    "groups": lambda public, queries: _groups(public, queries),
    "gradients": lambda public, queries: _gradients(public, queries),
    "handwriting": lambda public, queries: _gradients(public, queries, Deskewed.fit, EvenWidth.fit),
    "patches": lambda public, _: Chained.fit(public, PatchDictionary.fit, PrincipalComponents.fit),
    "imagenet": lambda public, _: _imagenet(public),
    "umap": lambda public, _: _umap(public),
}


def _groups(public: NDArray[Any], queries: int) -> Representation:
    """As many groups as queries on which neighbours agree, by the direction of the first components."""

    def components(rows: NDArray[Any]) -> Representation:
        return PrincipalComponents.fit(rows, 128)

    return Chained.fit(public, components, Directions.fit, lambda rows: ClusteringHead.fit(rows, queries))


def _gradients(public: NDArray[Any], queries: int, *before: Callable[[NDArray[Any]], Representation]) -> Representation:
    """Oriented gradients, half-whitened components, and a map of the neighbour graph; for images."""

    def components(gradients: NDArray[Any]) -> Representation:
        return PrincipalComponents.fit(gradients, 64, whitening=0.25)

    def mapped(rows: NDArray[Any]) -> Representation:
        return spectral_map(rows, modes(len(public), queries))

    return Chained.fit(public, *before, OrientedGradients.fit, components, mapped)


def _imagenet(public: NDArray[Any]) -> Representation:
    try:
        from tacit.representations.torch_efficientnet import ImageNetFeatures
    except ModuleNotFoundError as error:
        raise InvalidInput(f"pretrained features need {error.name}: pip install 'tacit[features]'") from None
    return Chained.fit(public, ImageNetFeatures.fit, lambda rows: PrincipalComponents.fit(rows, 128), Directions.fit)


def _umap(public: NDArray[Any]) -> Representation:
    from tacit.representations.umap_map import umap_map

    return umap_map(public)


def _map() -> Any:  # noqa: ANN401
    """Logistic regression on a map of the samples it is taught."""
    from sklearn.pipeline import Pipeline

    from tacit.representations.neighbor_map import NeighborMap

    return Pipeline([("map", NeighborMap()), *logistic().steps])


def _network(**settings: Any) -> Any:  # noqa: ANN401
    try:
        from tacit.students.torch_classifier import TorchClassifier
    except ModuleNotFoundError as error:
        raise InvalidInput(f"neural students need {error.name}: pip install 'tacit[torch]'") from None
    return TorchClassifier(**settings)


STUDENTS: Mapping[str, Callable[[], Any]] = {
    "logistic": logistic,
    "forest": forest,
    "map": lambda: _map(),
    "network": _network,
    "handwriting": lambda: _network(
        network="small-convolutions", epochs=8, batch=32, learning_rate=5e-3, label_smoothing=0.1, average=0.995,
        augmentation="handwriting",
    ),
    "photographs": lambda: _network(
        network="wide-resnet-28-2", epochs=30, label_smoothing=0.1, average=0.995, augmentation="photographs",
        consistency=1.0,
    ),
}  # fmt: skip
# Below this many samples a neighbourhood graph is mostly gaps.
GRAPH_SAMPLES = 100
# Where so few features decide all distances, each must count the same.
FEW_FEATURES = 8
# How much larger than that of a quarter of the features the largest spread may be, for all to be of one scale.
UNEVEN = 10


def modes(public: int, queries: int) -> int:
    """How many modes of the neighbour graph to map: about one a query, for each tells two groups apart.

    Chosen on MNIST at 8x8 pixels and on femnist digits, which no reported figure of reverse k-NN uses: 20 are better
    than 12 there, and as good as 30 within the spread of the splits, so the fewer are taken. For ten queries ten are
    enough: of six sets of 5,000 training images of MNIST, 12 modes split a digit of one set, 10 of none.

    >>> modes(500, 32), modes(500, 10), modes(500, 16), modes(5, 3)
    (20, 10, 16, 4)
    """
    return min(max(queries, 10), 20, public - 1)


def find(entries: Mapping[str, Entry], name: str, what: str) -> Entry:
    """The entry of that name, or an error that lists the names there are.

    >>> find(STUDENTS, "oracle", "student")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown student 'oracle': choose one of forest, ...
    """
    if name not in entries:
        raise InvalidInput(f"unknown {what} {name!r}: choose one of {', '.join(sorted(entries))}")
    return entries[name]


def suggest_representation(public: NDArray[Any]) -> str:
    """A representation that suits the public samples.

    Features of one scale (pixels, counts, embeddings) keep it and are mapped by their neighbourhood graph, if
    there are enough samples for one; features of very different scales (ages beside incomes) are standardised,
    or the largest would decide every distance alone.

    >>> suggest_representation(np.random.default_rng(0).normal(size=(200, 64)))
    'spectral'
    >>> suggest_representation(np.array([[1.0, 20_000], [2.0, 50_000], [3.0, 30_000]]))
    'standardised'
    """
    rows = flat(public).astype(np.float64)
    spreads = rows.std(axis=0)
    if not spreads.any():
        raise InvalidInput("the public samples are all alike: there is nothing to tell them apart by")
    # Relative to the largest, so that squares neither overflow nor vanish.
    shares = (spreads / spreads.max()) ** 2
    # How many features of equal spread would make distances as these do.
    deciding = shares.sum() ** 2 / (shares**2).sum()
    # The faint border of an image hardly ever leaves its background: that is not a small scale but a rare event,
    # so only features that differ between most samples say what the scale is.
    low, high = np.quantile(rows, (0.25, 0.75), axis=0)
    busy = spreads[high > low]
    uneven = len(busy) > 0 and spreads.max() > UNEVEN * np.quantile(busy, 0.25)
    # Samples given as images are pixels of one scale, however dim most of them are.
    if deciding <= FEW_FEATURES or (uneven and public.ndim == 2):
        return "standardised"
    return "spectral" if len(public) >= GRAPH_SAMPLES else "pca"
