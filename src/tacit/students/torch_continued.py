"""Small networks for continued training: a few epochs on labels, a few on a consensus, and again.

The networks differ in depth and width, as the models of different parties do. They have no batch normalization: its
statistics would be wrong at a party with only two classes. Input is scaled by public samples only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from tacit.core import Floats, Integers, InvalidInput
from tacit.core.samples import ImageShape, as_images, image_shape
from tacit.students.torch_networks import Network, read_tensors, write_tensors

__all__ = ["CONTINUED", "ContinuedNetwork"]


# A few dozen records still make several steps per epoch; more records make larger, faster batches.
SMALLEST_BATCH, _LARGEST_BATCH, _STEPS = 8, 64, 16
_INFERENCE_BATCH = 512


def _convolutions(widths: tuple[int, ...], hidden: int) -> Callable[[ImageShape, int], Network]:
    """Convolutions of stride 2, and a dense layer that keeps positions."""

    def build(shape: ImageShape, classes: int) -> Network:
        height, width, channels = shape
        layers: list[nn.Module] = []
        for place, (before, after) in enumerate(pairwise((channels, *widths))):
            size = 5 if place == 0 else 3
            layers += [nn.Conv2d(before, after, size, stride=2, padding=size // 2), nn.ReLU()]
            height, width = -(-height // 2), -(-width // 2)
        body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(widths[-1] * height * width, hidden), nn.ReLU())
        return Network((channels, *shape[:2]), body, nn.Linear(hidden, classes))

    return build


def _perceptron(shape: ImageShape, classes: int) -> Network:
    height, width, channels = shape
    body = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 128), nn.ReLU())
    return Network((channels, height, width), body, nn.Linear(128, classes))


CONTINUED: Mapping[str, Callable[[ImageShape, int], Network]] = {
    "two-narrow-convolutions": _convolutions((8, 16), 48),
    "two-convolutions": _convolutions((16, 32), 64),
    "two-wide-convolutions": _convolutions((32, 48), 96),
    "three-convolutions": _convolutions((16, 32, 64), 64),
    "three-wide-convolutions": _convolutions((24, 48, 96), 96),
    "perceptron": _perceptron,
}


class ContinuedNetwork:
    """A network of one of the ``CONTINUED`` kinds with the state of its optimizer.

    The same seed and the same calls in the same order give the same network.

    >>> samples = np.zeros((4, 8, 8), dtype=np.float32)
    >>> samples[2:] = 1.0
    >>> model = ContinuedNetwork("two-convolutions", samples, classes=2)
    >>> model.learn(samples, np.array([0, 0, 1, 1]), epochs=30)
    >>> model.predict(samples).tolist()
    [0, 0, 1, 1]
    """

    format: ClassVar[str] = "tacit continued network 1"
    gives_scores = True

    def __init__(
        self, kind: str, public: NDArray[Any], classes: int, learning_rate: float = 1e-3, seed: int = 0
    ) -> None:
        if kind not in CONTINUED:
            raise InvalidInput(f"unknown network {kind!r}: choose one of {', '.join(CONTINUED)}")
        if learning_rate <= 0:
            raise InvalidInput(f"learning_rate must be above 0, got {learning_rate}")
        self.kind = kind
        self._shape = _shape(kind, public)
        self._classes = classes
        self._learning_rate = learning_rate
        self._generator = torch.Generator().manual_seed(seed)
        with self._seeded():
            # The memory layout in which convolutions on a CPU are fastest.
            self._network = CONTINUED[kind](self._shape, classes).to(memory_format=torch.channels_last)
        shown = self._tensor(public[: 10 * _INFERENCE_BATCH])
        self._network.mean.copy_(shown.mean(dim=(0, 2, 3))[:, None, None])
        spread = shown.std(dim=(0, 2, 3), correction=0)
        # A constant channel has no scale.
        self._network.spread.copy_(torch.where(spread > 1e-6, spread, 1.0)[:, None, None])
        self._optimizer = self._fresh_optimizer()

    def pretrain(self, samples: NDArray[Any], labels: Integers, classes: int, epochs: int) -> None:
        """Train on labeled public samples; if they have other classes, only the feature layers are kept."""
        if classes == self._classes:
            self.learn(samples, labels, epochs)
        else:
            features = self._network.head.in_features
            with self._seeded():
                own, self._network.head = self._network.head, nn.Linear(features, classes)
            self._optimizer = self._fresh_optimizer()
            self.learn(samples, labels, epochs)
            self._network.head = own
        self._optimizer = self._fresh_optimizer()

    def learn(self, samples: NDArray[Any], labels: Integers, epochs: int) -> None:
        """Train on labels by cross-entropy."""
        wanted = torch.from_numpy(np.array(labels, dtype=np.int64))
        self._epochs(samples, wanted, functional.cross_entropy, epochs)

    def fit_consensus(self, samples: NDArray[Any], targets: Floats, logits: bool, epochs: int) -> None:
        """Train on probabilities by cross-entropy, or on centered logits by mean absolute error."""
        wanted = torch.from_numpy(np.array(targets, dtype=np.float32))
        self._epochs(samples, wanted, _distance if logits else functional.cross_entropy, epochs)

    def logits(self, samples: NDArray[Any]) -> Floats:
        """One row of logits per sample."""
        self._network.eval()
        found = []
        with torch.inference_mode():
            for start in range(0, len(samples), _INFERENCE_BATCH):
                found.append(self._network(self._tensor(samples[start : start + _INFERENCE_BATCH])).numpy())
        return np.concatenate([np.empty((0, self._classes), dtype=np.float32), *found])

    def predict(self, samples: NDArray[Any]) -> Integers:
        """One class index per sample."""
        predicted: Integers = self.logits(samples).argmax(axis=1).astype(np.int64)
        return predicted

    def save_tensors(self, file: Path) -> None:
        """Write the weights as plain tensors, with the kind of network; the optimizer's state is not saved."""
        words = {"kind": self.kind, "shape": self._shape, "classes": self._classes}
        write_tensors(file, self.format, self._network.state_dict(), words)

    @classmethod
    def load_tensors(cls, file: Path) -> ContinuedNetwork:
        """The network that ``save_tensors`` wrote; nothing in the file is executed."""
        state, words = read_tensors(file, cls.format, "student")
        try:
            height, width, channels = words["shape"]
            table = words["kind"] == "perceptron" and height == width == 1
            blank = np.zeros((1, channels) if table else (1, height, width, channels))
            student = cls(words["kind"], blank, words["classes"])
            student._network.load_state_dict(state)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InvalidInput(f"{file}: not a student that can be read ({type(error).__name__}: {error})") from error
        return student

    def _epochs(
        self,
        samples: NDArray[Any],
        wanted: torch.Tensor,
        loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        epochs: int,
    ) -> None:
        shown = self._tensor(samples)
        batch = min(max(len(shown) // _STEPS, SMALLEST_BATCH), _LARGEST_BATCH)
        self._network.train()
        for _ in range(epochs):
            for rows in torch.randperm(len(shown), generator=self._generator).split(batch):
                self._optimizer.zero_grad()
                loss(self._network(shown[rows]), wanted[rows]).backward()
                self._optimizer.step()

    def _tensor(self, samples: NDArray[Any]) -> torch.Tensor:
        # Always a copy: arrays decoded from a ledger are read-only, and torch needs writable memory.
        images = np.array(as_images(np.asarray(samples), self._shape), dtype=np.float32, order="C")
        return torch.from_numpy(images).permute(0, 3, 1, 2)

    def _fresh_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self._network.parameters(), lr=self._learning_rate, fused=True)

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Torch's global generator, seeded from this network's, while layers are created."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=self._generator)))
            yield


def _shape(kind: str, public: NDArray[Any]) -> ImageShape:
    """The shape of a sample: an image, or for a perceptron a row of features, each scaled separately."""
    if kind == "perceptron" and public.ndim == 2:
        return 1, 1, public.shape[1]
    return image_shape(public)


def _distance(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The mean absolute error of centered logits: a constant added to a row changes no prediction."""
    centered = found - found.mean(dim=1, keepdim=True)
    return functional.l1_loss(centered, wanted - wanted.mean(dim=1, keepdim=True))
