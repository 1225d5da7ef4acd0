"""Networks on either side: a global one that is taught, and many local ones that start from it and train at once.

Local models of one round all have the same shape, so their weights are stacked and one call of ``torch.func`` trains
them all. Each still sees its own holder's records alone: the stacking is arithmetic, nothing is averaged. Every holder
takes the same number of steps on batches of the same size, so the time it takes says nothing about its records.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from tacit.core.errors import InvalidInput
from tacit.core.images import as_images, image_shape
from tacit.core.protocols import Integers
from tacit.methods.privatekt.knowledge import Lesson, Reals
from tacit.methods.privatekt.torch_moved import moved
from tacit.methods.privatekt.torch_pretext import Pretext, learn_groups
from tacit.methods.privatekt.torch_stacked import Stack, Tensors
from tacit.methods.privatekt.torch_weights import from_bytes, shapes_of, to_bytes
from tacit.students.torch_architectures import IMAGE_ARCHITECTURES, build
from tacit.students.torch_classifier import TorchClassifier

__all__ = ["Architecture", "NetworkLearner", "NetworkLocal", "Training", "architecture_for"]

# Samples that a trained network looks at in one go.
INFERENCE_BATCH = 1000
# Networks trained in one go: bounds the memory that their stacked weights and gradients take.
STACKED = 20
# Starts that were learned in this process, by what they were learned from.
STARTS: dict[bytes, bytes] = {}
# What counts as the share of a class that a holder has no record of: its logit is left as it came.
ABSENT = 1e-9


class Prepared(NamedTuple):
    """A holder's records, ready for training."""

    samples: torch.Tensor  # (records, *shape)
    labels: torch.Tensor  # (records,)
    usual: torch.Tensor  # (classes,), logarithms of how common each class is


@dataclass(frozen=True)
class Architecture:
    """A network by name and what it takes in: (features,), or (channels, height, width)."""

    network: str
    shape: tuple[int, ...]

    def tensor(self, samples: NDArray[Any]) -> torch.Tensor:
        """Samples as the network takes them in."""
        if len(self.shape) == 1:
            flat = as_images(np.asarray(samples), (1, 1, *self.shape)).reshape(len(samples), -1)
            return torch.as_tensor(np.ascontiguousarray(flat, dtype=np.float32))
        channels, height, width = self.shape
        images = np.moveaxis(as_images(np.asarray(samples), (height, width, channels)), 3, 1)
        return torch.as_tensor(np.ascontiguousarray(images, dtype=np.float32))


def architecture_for(
    samples: NDArray[Any], network: str = "auto", shape: tuple[int, ...] | None = None
) -> Architecture:
    """A small convolutional network for images, a perceptron for rows of features; or the one that is named.

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
    """How a network takes a lesson: plain gradient descent with momentum on so many batches.

    Images are ``moved`` a little each time they are seen: shifted and zoomed by up to this share of their side, and
    turned by up to this angle.
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


class NetworkLearner:
    """The global network: weights that travel to the holders and are taught on what comes back.

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
        with _seeded(seed):
            self._network = build(architecture.network, architecture.shape, len(names))
        mean, spread = _scaling(architecture.tensor(public))
        self._network.mean.copy_(mean)
        self._network.spread.copy_(spread)
        if any(isinstance(each, torch.nn.modules.batchnorm._BatchNorm) for each in self._network.modules()):
            raise InvalidInput(
                f"{architecture.network} normalises over batches, which networks that train together cannot share; "
                "choose strided-convolutions, perceptron or linear"
            )
        self._shapes = shapes_of(self._network)
        self._initial = to_bytes(self._network.state_dict())
        self._public, self._pretext = public, pretext

    def begin(self) -> bytes:
        """The network as it was initialised, or after it learned to tell groups of public samples apart.

        The latter takes as long as many rounds, so that the same start is not learned twice in a process.
        """
        if self._pretext is None or self._pretext.steps == 0:
            return self._initial
        named = hashlib.sha256(self._initial + np.ascontiguousarray(self._public).tobytes())
        named.update(repr((self._pretext, self._seed)).encode())
        if named.digest() not in STARTS:
            self._network.load_state_dict(from_bytes(self._initial, self._shapes))
            with _seeded(self._seed):
                learn_groups(self._network, self.architecture.tensor(self._public), self._pretext, self._seed)
            STARTS[named.digest()] = to_bytes(self._network.state_dict())
        return STARTS[named.digest()]

    def learn(self, model: bytes, lesson: Lesson, seed: int) -> bytes:
        """The network after some batches of the lesson, each sample as likely as its weight."""
        self._network.load_state_dict(from_bytes(model, self._shapes))
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
        # A lesson that went astray is forgotten: what was paid for in all the rounds before is not lost to it.
        return to_bytes(learned) if all(bool(each.isfinite().all()) for each in learned.values()) else model

    def probabilities(self, model: bytes, samples: NDArray[Any]) -> Reals:
        """One row of class probabilities a sample."""
        self._network.load_state_dict(from_bytes(model, self._shapes))
        results = []
        with torch.no_grad():
            for start in range(0, len(samples), INFERENCE_BATCH):
                logits = self._network(self.architecture.tensor(samples[start : start + INFERENCE_BATCH]))
                results.append(torch.softmax(logits.double(), dim=1).numpy())
        joined: Reals = np.concatenate(results)
        return joined

    def finished(self, model: bytes) -> TorchClassifier:
        """The network as a classifier that can be saved and loaded like any other student."""
        classifier = TorchClassifier(network=self.architecture.network, seed=self._seed)
        classifier.classes_ = self.names
        classifier.shape_ = self.architecture.shape
        classifier.network_ = build(self.architecture.network, self.architecture.shape, len(self.names))
        classifier.network_.load_state_dict(from_bytes(model, self._shapes))
        classifier.network_.eval()
        return classifier


class NetworkLocal:
    """Local networks: each starts from the weights that came, and takes some steps on its holder's own records.

    ``trained`` says which layers the steps change, all or those after the convolutions. The loss adds how common a
    class is among the records to its logit, so a network learns what tells classes apart and not which one its holder
    has most of; of a class that the holder never saw it keeps the global network's opinion.
    """

    def __init__(self, architecture: Architecture, classes: int, training: Training, trained: str = "dense") -> None:
        self.architecture = architecture
        self.classes = classes
        self.training = training
        with _seeded(0):
            network = build(architecture.network, architecture.shape, classes)
        self._shapes = shapes_of(network)
        self._stack = Stack(network, trained)

    def prepare(self, samples: NDArray[Any], labels: Integers) -> Prepared:
        """The records as tensors, and how common each class is among them."""
        counts = np.bincount(labels, minlength=self.classes)
        usual = np.log(np.maximum(counts / len(labels), ABSENT))
        return Prepared(
            self.architecture.tensor(samples), torch.as_tensor(labels), torch.as_tensor(usual, dtype=torch.float32)
        )

    def labels(
        self, prepared: Sequence[Prepared], weights: bytes | None, asked: NDArray[Any], seed: int
    ) -> list[Integers]:
        """What each trained network says of the samples."""
        start = self._start(weights)
        shown = self._stack.features(start, self.architecture.tensor(asked)).unsqueeze(1)
        found: list[Integers] = []
        for place in range(0, len(prepared), STACKED):
            own = self._trained(prepared[place : place + STACKED], start, seed + place)
            count = min(STACKED, len(prepared) - place)
            with torch.no_grad():
                logits = self._stack.logits(own, shown.expand(-1, count, *shown.shape[2:]))
            found += [np.asarray(each, dtype=np.int64) for each in logits.argmax(dim=2).numpy()]
        return found

    def averaged(self, prepared: Sequence[Prepared], weights: bytes, seed: int) -> bytes:
        """The mean of the trained networks: what federated averaging sends in the clear. For comparison only."""
        start = self._start(weights)
        sums: Tensors = {}
        for place in range(0, len(prepared), STACKED):
            for name, stacked in self._trained(prepared[place : place + STACKED], start, seed + place).items():
                sums[name] = sums.get(name, torch.zeros(())) + stacked.detach().sum(dim=0)
        return to_bytes(start | {name: total / len(prepared) for name, total in sums.items()})

    def _start(self, weights: bytes | None) -> Tensors:
        if weights is None:
            raise InvalidInput("local networks start from the global weights, and none came")
        return from_bytes(weights, self._shapes)

    def _trained(self, prepared: Sequence[Prepared], start: Tensors, seed: int) -> Tensors:
        """The weights of all networks, stacked, after training."""
        plan = self.training
        generator = torch.Generator().manual_seed(seed)
        rows = [torch.randint(len(each.labels), (plan.steps, plan.batch), generator=generator) for each in prepared]
        drawn = [row.unique(return_inverse=True) for row in rows]
        samples = torch.cat([each.samples[own] for each, (own, _) in zip(prepared, drawn, strict=True)])
        features = self._stack.features(start, samples).split([len(own) for own, _ in drawn])
        own = {name: each.requires_grad_() for name, each in self._stack.expanded(start, len(prepared)).items()}
        usual = torch.stack([each.usual for each in prepared]).unsqueeze(1)
        optimizer = torch.optim.SGD(own.values(), plan.learning_rate, plan.momentum, weight_decay=plan.weight_decay)
        for step in range(plan.steps):
            batch = torch.stack([each[place[step]] for each, (_, place) in zip(features, drawn, strict=True)], dim=1)
            labels = torch.stack([each.labels[row[step]] for each, row in zip(prepared, rows, strict=True)])
            logits = self._stack.logits(own, batch) + usual
            # The sum of every network's own mean loss.
            loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / plan.batch
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return own


def _scaling(samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and spread of every feature, or every channel.

    A feature that is the same in all public samples may yet vary in private ones, so it is scaled like the others.
    """
    over = (0,) if samples.ndim == 2 else (0, 2, 3)
    spread = samples.std(dim=over, keepdim=True, correction=0)[0]
    varied = spread[spread > 0]
    usual = varied.mean() if len(varied) else torch.ones(())
    return samples.mean(dim=over, keepdim=True)[0], torch.where(spread > 0, spread, usual)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's generator from a seed, and afterwards as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
