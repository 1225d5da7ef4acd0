"""The global network, its training on the answers, and the architecture that all networks of a run share.

Weights are sent as safetensors, which are read without running code. Images are augmented, so that a few labels go
farther.

A network may be pretrained on public samples alone, to classify clusters of them; only its features are used
afterwards. Local networks that start from such features give right labels after a few steps on a few hundred records,
while a random start would need many more.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn
from torch.nn import functional

from tacit.core import InvalidInput, Reals
from tacit.core.samples import as_images, image_shape
from tacit.methods.privatekt.coordinator import Lesson
from tacit.students.torch_classifier import TorchClassifier
from tacit.students.torch_networks import IMAGE_ARCHITECTURES, Network, build_network

__all__ = [
    "Architecture",
    "NetworkTrainer",
    "Pretext",
    "Training",
    "architecture_for",
    "learn_groups",
    "moved",
    "read_weights",
    "seeded_torch",
    "shapes_of",
    "weights_to_bytes",
]


def weights_to_bytes(tensors: dict[str, torch.Tensor]) -> bytes:
    """The tensors as bytes; equal tensors give equal bytes.

    >>> sorted(read_weights(weights_to_bytes({"b": torch.ones(2), "a": torch.zeros(1)}), {"a": (1,), "b": (2,)}))
    ['a', 'b']
    """
    written: bytes = save({name: tensors[name].detach().contiguous().clone() for name in sorted(tensors)})
    return written


def read_weights(weights: bytes, shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """The tensors in these bytes; refused unless they have exactly these names and shapes and are finite."""
    try:
        tensors: dict[str, torch.Tensor] = load(weights)
    except (SafetensorError, ValueError, TypeError) as error:
        raise InvalidInput(f"the weights cannot be read ({type(error).__name__}: {error})") from None
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != shapes:
        wrong = sorted(set(found.items()) ^ set(shapes.items()))
        raise InvalidInput(
            f"weights of a different network: {', '.join(f'{name} {shape}' for name, shape in wrong[:4])}"
        )
    if not all(tensor.dtype == torch.float32 and bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise InvalidInput("weights must be finite 32-bit numbers")
    return tensors


def shapes_of(network: Network) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a network's weights."""
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def moved(images: torch.Tensor, by: float, generator: torch.Generator) -> torch.Tensor:
    """Each image shifted, zoomed and rotated at random by up to ``by``; rows of features are unchanged.

    >>> moved(torch.ones(2, 1, 8, 8), 0.1, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 1, 8, 8])
    """
    if by == 0 or images.ndim != 4:
        return images
    down, right, zoom, angle = (2 * torch.rand(4, len(images), generator=generator) - 1) * by
    across, along = (1 + zoom) * torch.cos(angle), (1 + zoom) * torch.sin(angle)
    # Coordinates go from -1 to 1, so that a shift by a fraction of the side is twice that fraction.
    maps = torch.stack([torch.stack([across, -along, 2 * right], 1), torch.stack([along, across, 2 * down], 1)], 1)
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
    # Pixels from outside repeat the edge.
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


# The most samples for clustering, and the number of principal components.
_LOOKED_AT, DIRECTIONS = 20_000, 40


@dataclass(frozen=True)
class Pretext:
    """Pretraining: clusters to classify, steps and batch size; with 0 steps a network stays unchanged."""

    groups: int = 100
    steps: int = 1500
    batch: int = 64
    learning_rate: float = 0.05
    moved: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("groups", 2), ("steps", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise InvalidInput(f"{name} must be at least {least}, got {getattr(self, name)}")


def learn_groups(network: Network, samples: torch.Tensor, plan: Pretext, seed: int) -> None:
    """Train the network's body to classify clusters of the samples; its head stays unchanged."""
    groups = min(plan.groups, len(samples) // 10)
    if plan.steps == 0 or groups < 2 or not any(True for _ in network.body.parameters()):
        return
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(samples), generator=generator)[:_LOOKED_AT]
    samples = samples[rows]
    targets = torch.as_tensor(_groups(samples.flatten(1).numpy(), groups, seed))
    head = nn.Linear(network.head.in_features, groups)
    optimizer = torch.optim.SGD([*network.body.parameters(), *head.parameters()], plan.learning_rate, momentum=0.9)
    for step in range(plan.steps):
        for each in optimizer.param_groups:
            each["lr"] = plan.learning_rate * (1 - step / plan.steps)
        picked = torch.randint(len(samples), (plan.batch,), generator=generator)
        features = network.features(moved(samples[picked], plan.moved, generator))
        loss = functional.cross_entropy(head(features), targets[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _groups(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The cluster of each row among ``count``, by k-means in the principal components."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import PCA

    reduced = PCA(min(DIRECTIONS, *rows.shape), random_state=seed).fit_transform(rows)
    means = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=2048)
    found: np.ndarray = means.fit_predict(reduced).astype(np.int64)
    return found


# Samples per batch of predictions.
_INFERENCE_BATCH = 1000
# Pretrained weights of this process, by a digest of their inputs.
_STARTS: dict[bytes, bytes] = {}


@dataclass(frozen=True)
class Architecture:
    """A network by name and its input shape: (features,), or (channels, height, width)."""

    network: str
    shape: tuple[int, ...]

    def tensor(self, samples: NDArray[Any]) -> torch.Tensor:
        """Samples as input of the network."""
        if len(self.shape) == 1:
            flat = as_images(np.asarray(samples), (1, 1, *self.shape)).reshape(len(samples), -1)
            return torch.as_tensor(np.ascontiguousarray(flat, dtype=np.float32))
        channels, height, width = self.shape
        images = np.moveaxis(as_images(np.asarray(samples), (height, width, channels)), 3, 1)
        return torch.as_tensor(np.ascontiguousarray(images, dtype=np.float32))


def architecture_for(
    samples: NDArray[Any], network: str = "auto", shape: tuple[int, ...] | None = None
) -> Architecture:
    """A small convolutional network for images, a perceptron for rows of features; or the named one.

    >>> architecture_for(np.zeros((3, 28, 28)))
    Architecture(network='strided-convolutions', shape=(1, 28, 28))
    >>> architecture_for(np.zeros((3, 384)))
    Architecture(network='perceptron', shape=(384,))
    """
    if network == "auto":
        network = "strided-convolutions" if samples.ndim > 2 or shape is not None else "perceptron"
    if network not in IMAGE_ARCHITECTURES:
        return Architecture(network, (math.prod(samples.shape[1:]),))
    height, width, channels = image_shape(samples, shape)
    return Architecture(network, (channels, height, width))


@dataclass(frozen=True)
class Training:
    """How a network is trained on a lesson: gradient descent with momentum on ``steps`` batches.

    Images are augmented by ``moved``: shifted and zoomed by up to this fraction of their side, and rotated by up to
    this angle.
    """

    steps: int
    batch: int
    learning_rate: float
    momentum: float = 0.9
    weight_decay: float = 1e-4
    moved: float = 0.0

    def __post_init__(self) -> None:
        allowed = {
            "steps": self.steps >= 1,
            "batch": self.batch >= 1,
            "learning_rate": 0 < self.learning_rate < math.inf,
            "momentum": 0 <= self.momentum < 1,
            "weight_decay": 0 <= self.weight_decay < math.inf,
            "moved": 0 <= self.moved <= 1,
        }
        for name, fine in allowed.items():
            if not fine:
                raise InvalidInput(f"{name} is out of range: {getattr(self, name)}")


class NetworkTrainer:
    """The global network: its weights are sent to the holders, and it is trained on their answers.

    Its input is scaled by the public samples, once.
    """

    def __init__(
        self,
        architecture: Architecture,
        public: NDArray[Any],
        names: NDArray[Any],
        training: Training,
        seed: int = 0,
        travels: bool = True,
        pretext: Pretext | None = None,
    ) -> None:
        self.travels = travels
        self.architecture = architecture
        self.names = names
        self.training = training
        self._seed = seed
        with seeded_torch(seed):
            self._network = build_network(architecture.network, architecture.shape, len(names))
        mean, spread = _scaling(architecture.tensor(public))
        self._network.mean.copy_(mean)
        self._network.spread.copy_(spread)
        if any(isinstance(each, torch.nn.modules.batchnorm._BatchNorm) for each in self._network.modules()):
            raise InvalidInput(
                f"{architecture.network} has batch normalization, with which networks cannot be trained together; "
                "choose strided-convolutions, perceptron or linear"
            )
        self._shapes = shapes_of(self._network)
        self._initial = weights_to_bytes(self._network.state_dict())
        self._public, self._pretext = public, pretext

    def begin(self) -> bytes:
        """The initial network, or the pretrained one, which is cached because pretraining is slow."""
        if self._pretext is None or self._pretext.steps == 0:
            return self._initial
        named = hashlib.sha256(self._initial + np.ascontiguousarray(self._public).tobytes())
        named.update(repr((self._pretext, self._seed)).encode())
        if named.digest() not in _STARTS:
            self._network.load_state_dict(read_weights(self._initial, self._shapes))
            with seeded_torch(self._seed):
                learn_groups(self._network, self.architecture.tensor(self._public), self._pretext, self._seed)
            _STARTS[named.digest()] = weights_to_bytes(self._network.state_dict())
        return _STARTS[named.digest()]

    def learn(self, model: bytes, lesson: Lesson, seed: int) -> bytes:
        """The network after training on the lesson, whose samples are drawn in proportion to their weights."""
        self._network.load_state_dict(read_weights(model, self._shapes))
        if not (lesson.weights > 0).any():
            return model
        samples, plan = self.architecture.tensor(lesson.samples), self.training
        targets = torch.as_tensor(lesson.targets, dtype=torch.float32)
        weights = torch.as_tensor(lesson.weights, dtype=torch.float32)
        optimizer = torch.optim.SGD(
            self._network.parameters(), plan.learning_rate, plan.momentum, weight_decay=plan.weight_decay
        )
        generator = torch.Generator().manual_seed(seed)
        for _ in range(plan.steps):
            rows = torch.multinomial(weights, plan.batch, replacement=True, generator=generator)
            batch = moved(samples[rows], plan.moved, generator)
            loss = functional.cross_entropy(self._network(batch), targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        learned = self._network.state_dict()
        # Training that diverged is discarded, so that what was paid in earlier rounds is not lost.
        return weights_to_bytes(learned) if all(bool(each.isfinite().all()) for each in learned.values()) else model

    def probabilities(self, model: bytes, samples: NDArray[Any]) -> Reals:
        """One row of class probabilities per sample."""
        self._network.load_state_dict(read_weights(model, self._shapes))
        results = []
        with torch.no_grad():
            for start in range(0, len(samples), _INFERENCE_BATCH):
                logits = self._network(self.architecture.tensor(samples[start : start + _INFERENCE_BATCH]))
                results.append(torch.softmax(logits.double(), dim=1).numpy())
        joined: Reals = np.concatenate(results)
        return joined

    def finished(self, model: bytes) -> TorchClassifier:
        """The network as a classifier that can be saved and loaded like any other student."""
        classifier = TorchClassifier(network=self.architecture.network, seed=self._seed)
        classifier.classes_ = self.names
        classifier.shape_ = self.architecture.shape
        classifier.network_ = build_network(self.architecture.network, self.architecture.shape, len(self.names))
        classifier.network_.load_state_dict(read_weights(model, self._shapes))
        classifier.network_.eval()
        return classifier


def _scaling(samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of every feature or channel.

    A feature that is constant in the public samples may vary in private ones, so it is scaled like the others.
    """
    over = (0,) if samples.ndim == 2 else (0, 2, 3)
    spread = samples.std(dim=over, keepdim=True, correction=0)[0]
    varied = spread[spread > 0]
    usual = varied.mean() if len(varied) else torch.ones(())
    return samples.mean(dim=over, keepdim=True)[0], torch.where(spread > 0, spread, usual)


@contextmanager
def seeded_torch(seed: int) -> Iterator[None]:
    """Torch's generator seeded, and restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
