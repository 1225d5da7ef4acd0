"""How each data set is labeled best: spaces, rounds and students, chosen on held-back training images only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Representation
from tacit.datasets.published import Parts
from tacit.representations.chained import Chained, groups
from tacit.representations.image_features import Deskewed, EvenWidth, OrientedGradients
from tacit.representations.maps import spectral_map
from tacit.representations.scaled import Directions, PrincipalComponents

# Classes of CIFAR-10.
KINDS = 10
# More modes tell more clusters apart, and blur the few that few queries ask about.
FEW, MANY_MODES = 60, 30

CHOSEN = (
    "The settings were chosen on private images that were held back then and vote now; ε does not cover that choice. "
    "The test part chose nothing."
)

__all__ = ["RECIPES", "Published", "Recipe", "Rounds", "pixels"]


@dataclass(frozen=True)
class Rounds:
    """What is asked at one budget: its trust, δ, how many queries each iteration has, and how it departs from the rest.

    ``shares`` are the iterations' parts of the budget, even ones if there are none. ``settings`` are those of this
    budget alone; they come before the recipe's own.
    """

    epsilon: float
    queries: tuple[int, ...]
    trust: str = "central"
    delta: float = 0.0
    one_query_per_class: bool = False
    shares: tuple[int, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """What the paper reports for the same ε: test and label accuracy in percent, as printed."""

    test: str = ""
    labels: str = ""


@dataclass(frozen=True)
class Recipe:
    """One data set's way from images to a student.

    ``represent`` fits the first space to the public samples and to how many queries are asked there, as the named ones
    do; ``student`` makes an untrained student for a seed, and a folder given as ``checkpoint`` remembers what it
    learned; ``rounds`` are the budgets of the main table beside the paper's figures.
    """

    parts: Callable[[Path], Parts]
    represent: Callable[[NDArray[Any], int], Representation]
    student: Callable[..., Any]
    rounds: Mapping[str, tuple[Rounds, Published]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def pixels(images: NDArray[Any]) -> NDArray[np.float32]:
    """Bytes of images as flat rows from 0 to 1.

    >>> pixels(np.array([[[0, 255]]], dtype=np.uint8)).tolist()
    [[0.0, 1.0]]
    """
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def _torch(**settings: Any) -> Callable[..., Any]:  # noqa: ANN401
    def make(seed: int, checkpoint: Path | None = None) -> Any:  # noqa: ANN401
        try:
            from tacit.students.torch_classifier import TorchClassifier
        except ModuleNotFoundError as error:
            raise InvalidInput(f"this bench needs {error.name}: pip install 'tacit[torch]'") from None
        return TorchClassifier(**settings, seed=seed, checkpoint=checkpoint)

    return make


def _mnist(folder: Path) -> Parts:
    from tacit.datasets.mnist import mnist

    return _upright(mnist(folder))


def _upright(parts: Parts) -> Parts:
    """Each image stood upright and made equally wide, by itself: what records vote with and students see."""
    upright = Chained.fit(pixels(parts.public_samples), Deskewed.fit, EvenWidth.fit)
    return replace(
        parts, private_samples=upright.encode(pixels(parts.private_samples)),
        public_samples=upright.encode(pixels(parts.public_samples)),
        test_samples=upright.encode(pixels(parts.test_samples)),
    )  # fmt: skip


def _other_hand(folder: Path) -> Parts:
    """Private digits of MNIST; public digits, and those of the test, of FEMNIST."""
    from experiments.fedmd_data import femnist_digits
    from tacit.datasets.mnist import mnist

    own, other = mnist(folder / "mnist"), femnist_digits(folder)
    return _upright(
        replace(
            own, public_samples=other.samples, public_labels=other.labels, test_samples=other.test[0],
            test_labels=other.test[1],
        )
    )  # fmt: skip


def _modes(queries: int) -> int:
    """Modes of the neighbor graph: no more than there are queries, or some tell apart what no query asks about."""
    return min(queries, 12)


def _handwriting(public: NDArray[Any], queries: int) -> Representation:
    """Gradients, half-whitened components, and a map of the neighbor graph."""
    return Chained.fit(
        public,
        OrientedGradients.fit,
        lambda gradients: PrincipalComponents.fit(gradients, 64, whitening=0.25),
        lambda components: spectral_map(components, _modes(queries)),
    )


def _svhn(folder: Path) -> Parts:
    from tacit.datasets.color_images import svhn

    parts = svhn(folder)
    return replace(
        parts, private_samples=_even_gray(parts.private_samples), public_samples=_even_gray(parts.public_samples),
        test_samples=_even_gray(parts.test_samples),
    )  # fmt: skip


def _even_gray(images: NDArray[Any]) -> NDArray[np.float32]:
    """Gray images whose contrast is their own: each brought to the same mean and spread, then to 0 to 1."""
    gray = images.astype(np.float32) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    flat = gray.reshape(len(gray), -1)
    mean, spread = flat.mean(axis=1, keepdims=True), flat.std(axis=1, keepdims=True)
    even: NDArray[np.float32] = np.clip((flat - mean) / (spread + 10) / 5 + 0.5, 0, 1).astype(np.float32)
    return even


def _photographs(public: NDArray[Any], queries: int) -> Representation:
    """For a query per class, groups of neighbors; for more, a map of the neighbor graph with modes for this many."""
    if queries == KINDS:
        return groups(public, KINDS)
    modes = _modes(queries) if queries <= FEW else MANY_MODES
    # A third of the public samples draw the map as well as all of them, in a ninth of the time.
    return Chained.fit(
        public[::3],
        lambda rows: PrincipalComponents.fit(rows, 128),
        Directions.fit,
        lambda rows: spectral_map(rows, modes),
    )


def _cifar10(folder: Path) -> Parts:
    from tacit.datasets.color_images import cifar10
    from tacit.methods.encoding import EncodedCache
    from tacit.representations.torch_efficientnet import ImageNetFeatures

    parts = cifar10(folder)
    encoder = ImageNetFeatures.fit(parts.public_samples, size=192)
    cache = EncodedCache(folder / "encoded")
    public = cache.encode(encoder, parts.public_samples)
    components = PrincipalComponents.fit(public[::3], 256)
    private, test = (cache.encode(encoder, each) for each in (parts.private_samples, parts.test_samples))
    private, public, test = (components.encode(each) for each in (private, public, test))
    return replace(parts, private_samples=private, public_samples=public, test_samples=test)


_WRITER = _torch(
    network="small-convolutions", epochs=8, batch=32, learning_rate=5e-3, label_smoothing=0.1, average=0.995,
    augmentation="handwriting",
)  # fmt: skip
RECIPES: Mapping[str, Recipe] = {
    "mnist": Recipe(
        parts=_mnist,
        represent=_handwriting,
        student=_WRITER,
        rounds={
            "ε = .1": (Rounds(0.1, (16,)), Published("99.1", "98.5")),
            "ε = .04": (Rounds(0.04, (16,)), Published("98.6", "97.7")),
            "ε = .01": (Rounds(0.01, (14,)), Published("98.5 (end2end)", "97.5")),
            "local, ε = .4": (Rounds(0.4, (10,), "local", one_query_per_class=True), Published("98.5")),
        },
        settings={"propagation": "graph", "label_fraction": 0.92},
        notes=("Private: the 60,000 training images; public: 5,000 of the test file; test: the other 5,000.", CHOSEN),
    ),
    "mnist-femnist": Recipe(
        parts=_other_hand,
        represent=_handwriting,
        student=_WRITER,
        rounds={
            "ε = .1": (Rounds(0.1, (16,)), Published()),
            "ε = .01": (Rounds(0.01, (14,)), Published()),
        },
        settings={"propagation": "graph", "label_fraction": 0.92},
        notes=(
            "Private: MNIST's 60,000 training images. Public and test: FEMNIST digits of others, in MNIST's frame.",
            "The settings are MNIST's own.",
        ),
    ),
    "svhn": Recipe(
        parts=_svhn,
        represent=lambda public, _: Chained.fit(
            public, lambda rows: OrientedGradients.fit(rows, cell=5), lambda rows: PrincipalComponents.fit(rows, 64)
        ),
        student=_torch(
            network="small-convolutions", epochs=7, batch=64, learning_rate=4e-3, label_smoothing=0.1, average=0.995,
            augmentation="signs", consistency=1.0,
        ),
        rounds={
            # Clusters of these features are mixed: their proportions say more than labels, and a student says of whom.
            "ε = 1": (Rounds(1.0, (300, 100, 100), settings={"labels": "proportions"}), Published()),
            # With a student to tell samples apart, twenty large clusters that noise disturbs less are enough.
            "ε = .1": (
                Rounds(0.1, (50, 20), shares=(4, 6), settings={"labels": "proportions"}),
                Published("95.6 (604k records)"),
            ),
        },
        settings={"label_fraction": 0.85, "vote_space": "student"},
        notes=("Private: 25,000 of the training file; public: 9,000 of the test file; test: the other 1,000.", CHOSEN),
    ),
    "cifar10": Recipe(
        parts=_cifar10,
        represent=_photographs,
        student=_torch(
            network="head", epochs=12, batch=512, learning_rate=6e-3, average=0.99, mixing=0.4,
        ),
        rounds={
            # Ten large groups are labeled for next to nothing; what is left goes where the first student is unsure.
            "ε = 1": (Rounds(1.0, (10, 400), shares=(1, 9)), Published("82.1", "77.1")),
            "ε = .29": (Rounds(0.29, (10, 80), shares=(1, 9)), Published("79.4", "73.9")),
            "ε = .1": (Rounds(0.1, (10, 50), shares=(1, 9)), Published()),
            "local, ε = .4": (
                Rounds(0.4, (10,), "local", one_query_per_class=True, settings={"labels": "hard"}), Published("78.2"),
            ),
        },
        # Clusters of photographs are mixed: their proportions teach more than their labels, at the same cost.
        settings={"labels": "proportions"},
        notes=(
            "Public: 30,000 images; private: 29,000; test: 1,000.",
            "Features of EfficientNet-lite0, trained on ImageNet with labels, at 192 pixels: public knowledge beyond "
            "the public images.",
            CHOSEN,
        ),
    ),
}  # fmt: skip
