"""Neural networks with scikit-learn's interface: any architecture, one training loop, saved as safetensors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from tacit.core import Floats, InvalidInput
from tacit.core.samples import as_images, image_shape
from tacit.students.torch_networks import (
    ARCHITECTURES,
    IMAGE_ARCHITECTURES,
    Network,
    build_network,
    read_tensors,
    write_tensors,
)
from tacit.students.torch_training import TrainingData, TrainingSchedule, train

__all__ = ["TorchClassifier"]

# Inference uses batches of exactly this size, the last one padded with zeros: a sample's result then does not depend on
# the number of other samples.
INFERENCE_BATCH = 256


class TorchClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network by name, or by a function of the user's own: ``network(shape, classes)`` makes a torch module.

    Input is scaled by the training samples. Images may be flat rows; ``shape`` is their (height, width, channels) if
    they are not square. ``held_back`` is the share of labeled samples used for early stopping (``patience``). With a
    ``checkpoint`` folder, interrupted training is resumed. With ``shifts`` above 0 images are predicted at five places,
    that many pixels apart, and the logits are averaged. The other parameters are those of ``TrainingSchedule``. The
    same seed gives the same student: training uses public data and releases only.

    >>> X, y = np.array([[0.0], [0.2], [0.8], [1.0]]), np.array(["low", "low", "high", "high"])
    >>> TorchClassifier(epochs=60).fit(X, y).predict(np.array([[0.1], [0.9]])).tolist()
    ['low', 'high']
    """

    format: ClassVar[str] = "tacit torch classifier 2"

    def __init__(
        self,
        network: str | Callable[[tuple[int, ...], int], torch.nn.Module] = "perceptron",
        epochs: int = 80,
        batch: int = 128,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-2,
        label_smoothing: float = 0.0,
        average: float = 0.9,
        augmentation: str = "none",
        consistency: float = 0.0,
        confidence: float = 0.95,
        patience: int | None = None,
        mixing: float = 0.0,
        held_back: float = 0.1,
        shape: tuple[int, ...] | None = None,
        checkpoint: str | Path | None = None,
        seed: int = 0,
        shifts: int = 0,
    ) -> None:
        self.network = network
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.average = average
        self.augmentation = augmentation
        self.consistency = consistency
        self.confidence = confidence
        self.patience = patience
        self.mixing = mixing
        self.held_back = held_back
        self.shape = shape
        self.checkpoint = checkpoint
        self.seed = seed
        self.shifts = shifts

    def fit(
        self, X: NDArray[Any], y: NDArray[Any], sample_weight: NDArray[np.float64] | None = None
    ) -> TorchClassifier:
        """Train on one label per sample; samples of weight 0 are unlabeled, and used for ``consistency`` only."""
        classes, indices = np.unique(np.asarray(y), return_inverse=True)
        return self.fit_probabilities(X, classes, np.eye(len(classes))[indices], sample_weight)

    def fit_probabilities(
        self,
        X: NDArray[Any],
        classes: NDArray[Any],
        probabilities: NDArray[np.float64],
        sample_weight: NDArray[np.float64] | None = None,
    ) -> TorchClassifier:
        """Train on a probability for every class of a sample, by cross-entropy."""
        samples, weights = np.asarray(X), np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        if probabilities.shape != (len(samples), len(classes)) or weights.shape != (len(samples),):
            raise InvalidInput(f"{len(samples)} samples need as many labels and weights, and {len(classes)} classes")
        if not (np.isfinite(probabilities).all() and np.isfinite(weights).all() and (weights >= 0).all()):
            raise InvalidInput("labels and weights must be finite numbers, and no weight below 0")
        if np.count_nonzero(weights) < 2:
            raise InvalidInput("a student needs at least two labeled samples with a weight above 0")
        self.classes_ = np.asarray(classes)
        self.shape_ = self._shape(samples)
        lesson = TrainingData(self._tensor(samples), _float(probabilities), _float(weights))
        schedule = self._schedule()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network_ = self._built()
            learned, held_back = self._held_back(lesson)
        # Samples that are not used for training must not change the scaling.
        used = slice(None) if schedule.consistency else learned.weights > 0
        _set_scaling(self.network_, learned.samples[used])
        state, name = self._state(lesson, schedule)
        self.network_ = train(self.network_, learned, schedule, held_back, state, name)
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """One row of class probabilities per sample."""
        logits = self._through(self.network_, X)
        probabilities: NDArray[np.float64] = torch.softmax(logits.double(), dim=1).numpy()
        return probabilities

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """The likeliest class of every sample."""
        predicted: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return predicted

    def features(self, X: NDArray[Any]) -> Floats:
        """The input of the last layer: a space to vote in without cost, since the student is a release."""
        if isinstance(self.network, str):
            found: Floats = self._through(self.network_.features, X).flatten(1).numpy()
            return found
        own = getattr(self.network_.body, "features", None)
        if own is None:
            raise InvalidInput("your own network has features only if its module has a method 'features'")
        network = self.network_
        mine: Floats = self._through(lambda batch: own((batch - network.mean) / network.spread), X).flatten(1).numpy()
        return mine

    @property
    def digest(self) -> str:
        """A digest of the architecture, the classes and the weights."""
        content = hashlib.sha256(repr((self.network, self.shape_, self.classes_.tolist())).encode())
        for name, tensor in sorted(self.network_.state_dict().items()):
            content.update(name.encode())
            content.update(tensor.contiguous().numpy().tobytes())
        return content.hexdigest()

    def save_tensors(self, file: Path) -> None:
        """Write the weights as plain tensors, with the parameters and the classes."""
        if not isinstance(self.network, str):
            raise InvalidInput(
                "only networks known by name can be saved so that they load without running code "
                f"({', '.join(sorted(ARCHITECTURES))}); keep the weights of your own module yourself"
            )
        parameters = self.get_params() | {"checkpoint": None}
        words = {"parameters": parameters, "shape": self.shape_, "classes": self.classes_.tolist()}
        write_tensors(file, self.format, self.network_.state_dict(), words)

    @classmethod
    def load_tensors(cls, file: Path) -> TorchClassifier:
        """The student that ``save_tensors`` wrote; nothing in the file is executed."""
        state, words = read_tensors(file, cls.format, "student")
        try:
            student = cls(**words["parameters"])
            student.classes_ = np.array(words["classes"])
            student.shape_ = tuple(words["shape"])
            student.network = str(student.network)
            student.network_ = student._built()
            if len(student.shape_) == 3:
                # As in training: in another memory layout sums are rounded in another order.
                student.network_.to(memory_format=torch.channels_last)
            student.network_.load_state_dict(state)
            student.network_.eval()
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InvalidInput(f"{file}: not a student that can be read ({type(error).__name__}: {error})") from error
        return student

    def _built(self) -> Network:
        """The untrained network."""
        side = min(self.shape_[1:], default=1)
        if not isinstance(self.shifts, int) or not 0 <= self.shifts < side:
            raise InvalidInput(f"shifts must be pixels of an image, from 0 to less than its side, got {self.shifts}")
        network = build_network(self.network, self.shape_, len(self.classes_))
        network.shifts = self.shifts
        return network

    def _schedule(self) -> TrainingSchedule:
        names = ("epochs", "batch", "learning_rate", "weight_decay", "label_smoothing", "average", "augmentation")
        more = ("consistency", "confidence", "patience", "mixing", "seed")
        return TrainingSchedule(**{name: getattr(self, name) for name in names + more})

    def _shape(self, samples: NDArray[Any]) -> tuple[int, ...]:
        """The shape of one input of the network: (features,), or (channels, height, width) for images."""
        images = self.network in IMAGE_ARCHITECTURES or self.augmentation != "none" or self.shape is not None
        if not images and (isinstance(self.network, str) or samples.ndim == 2):
            return (math.prod(samples.shape[1:]),)
        height, width, channels = image_shape(samples, self.shape)
        return channels, height, width

    def _tensor(self, X: NDArray[Any]) -> torch.Tensor:
        samples = np.asarray(X)
        if len(self.shape_) == 1:
            samples = as_images(samples, (1, 1, *self.shape_)).reshape(len(samples), *self.shape_)
            return _float(samples)
        channels, height, width = self.shape_
        return _float(np.moveaxis(as_images(samples, (height, width, channels)), 3, 1))

    def _through(self, function: Callable[[torch.Tensor], torch.Tensor], X: NDArray[Any]) -> torch.Tensor:
        """The function of every sample, a fixed number of samples at a time."""
        samples = np.asarray(X)
        results = []
        with torch.no_grad():
            for start in range(0, max(len(samples), 1), INFERENCE_BATCH):
                batch = torch.zeros(INFERENCE_BATCH, *self.shape_)
                part = self._tensor(samples[start : start + INFERENCE_BATCH])
                batch[: len(part)] = part
                if len(self.shape_) == 3:
                    batch = batch.contiguous(memory_format=torch.channels_last)
                results.append(function(batch)[: len(part)])
        return torch.cat(results)

    def _held_back(self, lesson: TrainingData) -> tuple[TrainingData, TrainingData | None]:
        """The training data, and the data for early stopping."""
        if self.patience is None:
            return lesson, None
        labeled = (lesson.weights > 0).nonzero().ravel()
        count = int(self.held_back * len(labeled))
        if not 1 <= count < len(labeled):
            raise InvalidInput(f"held_back must leave samples on both sides of {len(labeled)}, got {self.held_back}")
        kept_out = labeled[torch.randperm(len(labeled))[:count]]
        weights = lesson.weights.clone()
        weights[kept_out] = 0
        return TrainingData(lesson.samples, lesson.targets, weights), lesson.part(kept_out)

    def _state(self, lesson: TrainingData, schedule: TrainingSchedule) -> tuple[Path | None, str]:
        """The checkpoint file of this training, named by a digest of its data and parameters."""
        if self.checkpoint is None:
            return None, ""
        if not isinstance(self.network, str):
            raise InvalidInput(
                "only networks known by name can be checkpointed: the state of others cannot be identified"
            )
        content = hashlib.sha256(json.dumps([self.network, repr(schedule), self.held_back, self.shape_]).encode())
        for tensor in (lesson.samples, lesson.targets, lesson.weights):
            content.update(tensor.contiguous().numpy().tobytes())
        folder = Path(self.checkpoint)
        folder.mkdir(parents=True, exist_ok=True)
        name = content.hexdigest()
        return folder / f"training-{name[:16]}.safetensors", name


def _float(values: NDArray[Any]) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float32))


def _set_scaling(network: Network, samples: torch.Tensor) -> None:
    """Bring every feature, or every channel, of the training samples to mean 0 and spread 1."""
    over = (0,) if samples.ndim == 2 else (0, 2, 3)
    network.mean.copy_(samples.mean(dim=over, keepdim=True)[0])
    network.spread.copy_(samples.std(dim=over, keepdim=True, correction=0)[0].clamp_min(1e-6))
