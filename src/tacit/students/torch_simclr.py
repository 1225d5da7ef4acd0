"""A network trained without labels by contrastive learning: SimCLR (Chen et al., 2020).

Two augmented copies of an image get similar features, two images different ones. It is trained on public images alone,
so it costs no privacy budget, and its features are a space to vote in:
``StudentFeatures(ContrastiveEncoder().fit(public))``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import nn
from torch.nn import functional

from tacit.core import Floats, InvalidInput
from tacit.core.samples import as_images, image_shape
from tacit.students.torch_classifier import TorchClassifier
from tacit.students.torch_networks import IMAGE_ARCHITECTURES, build_network, read_tensors, write_tensors
from tacit.students.torch_training import TrainingSchedule, augmented

__all__ = ["ContrastiveEncoder"]

_STATE = "tacit contrastive state 1"
# The dimensions of the projection in which copies are compared; it is not used after training.
COMPARED = 64


class ContrastiveEncoder(BaseEstimator):  # type: ignore[misc]
    """A network for images, by name, trained by comparing augmented copies of public images.

    ``augmentation`` names changes that keep an image's class; its strong form is used. A lower ``temperature`` gives
    more weight to images that are hard to distinguish. With a ``checkpoint`` folder, interrupted training is resumed,
    with the same result.

    >>> images = np.random.default_rng(0).normal(size=(16, 8, 8))
    >>> ContrastiveEncoder(epochs=1, batch=8).fit(images).features(images).shape
    (16, 128)
    """

    format: ClassVar[str] = "tacit contrastive encoder 1"

    def __init__(
        self,
        network: str = "small-convolutions",
        epochs: int = 30,
        batch: int = 256,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-4,
        temperature: float = 0.2,
        augmentation: str = "handwriting",
        shape: tuple[int, ...] | None = None,
        checkpoint: str | Path | None = None,
        seed: int = 0,
    ) -> None:
        self.network = network
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.temperature = temperature
        self.augmentation = augmentation
        self.shape = shape
        self.checkpoint = checkpoint
        self.seed = seed

    def fit(self, X: NDArray[Any], y: None = None, progress: Callable[[int], None] | None = None) -> ContrastiveEncoder:
        """Train on public images; ``progress`` is called with the number of epochs done."""
        schedule = self._schedule()
        samples = np.asarray(X)
        height, width, channels = image_shape(samples, self.shape)
        if len(samples) < 4:
            raise InvalidInput(f"at least 4 public images are needed, got {len(samples)}")
        images = np.moveaxis(as_images(samples, (height, width, channels)), 3, 1)
        tensor = torch.as_tensor(np.ascontiguousarray(images, dtype=np.float32))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.encoder_ = self._encoder((channels, height, width))
            network = self.encoder_.network_
            network.mean.copy_(tensor.mean(dim=(0, 2, 3), keepdim=True)[0])
            network.spread.copy_(tensor.std(dim=(0, 2, 3), keepdim=True, correction=0)[0].clamp_min(1e-6))
            trainee = _Trainee(network, schedule, self.temperature)
            state, name = self._state(tensor, schedule)
            if state is not None and state.exists():
                trainee.resume(state, name)
            while trainee.epochs < schedule.epochs:
                trainee.learn(tensor)
                if state is not None:
                    trainee.save(state, name)
                if progress is not None:
                    progress(trainee.epochs)
        network.eval()
        return self

    def features(self, X: NDArray[Any]) -> Floats:
        """The features of every sample, independent of other samples."""
        return self.encoder_.features(X)

    @property
    def digest(self) -> str:
        """The digest of the trained weights."""
        return self.encoder_.digest

    def save_tensors(self, file: Path) -> None:
        """Write the weights as plain tensors, with the parameters of the architecture."""
        words = {
            "parameters": self.get_params() | {"checkpoint": None},
            "shape": self.encoder_.shape_,
            "classes": self.encoder_.classes_.tolist(),
        }
        write_tensors(file, self.format, self.encoder_.network_.state_dict(), words)

    @classmethod
    def load_tensors(cls, file: Path) -> ContrastiveEncoder:
        """The encoder that ``save_tensors`` wrote; nothing in the file is executed."""
        tensors, words = read_tensors(file, cls.format, "contrastive encoder")
        try:
            encoder = cls(**words["parameters"])
            encoder.network = str(encoder.network)
            encoder.encoder_ = encoder._encoder(tuple(words["shape"]))
            encoder.encoder_.network_.load_state_dict(tensors)
            encoder.encoder_.network_.eval()
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InvalidInput(
                f"{file}: not a contrastive encoder that can be read ({type(error).__name__}: {error})"
            ) from error
        return encoder

    def _schedule(self) -> TrainingSchedule:
        if self.network not in IMAGE_ARCHITECTURES:
            known = ", ".join(sorted(IMAGE_ARCHITECTURES))
            raise InvalidInput(f"unknown network for images {self.network!r}: choose one of {known}")
        if not 0 < self.temperature <= 10:
            raise InvalidInput(f"temperature must be above 0 and at most 10, got {self.temperature}")
        if self.augmentation == "none":
            raise InvalidInput("augmentation must change images: equal copies cannot be contrasted")
        return TrainingSchedule(
            epochs=self.epochs,
            batch=self.batch,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            augmentation=self.augmentation,
            seed=self.seed,
        )

    def _encoder(self, shape: tuple[int, ...]) -> TorchClassifier:
        """A network used for its features; its last layer is the first of the projection."""
        encoder = TorchClassifier(network=self.network)
        encoder.shape_, encoder.classes_ = shape, np.arange(COMPARED)
        encoder.network_ = build_network(self.network, shape, COMPARED).to(memory_format=torch.channels_last)
        return encoder

    def _state(self, images: torch.Tensor, schedule: TrainingSchedule) -> tuple[Path | None, str]:
        """The checkpoint file of this training, named by a digest of its data and parameters."""
        if self.checkpoint is None:
            return None, ""
        content = hashlib.sha256(json.dumps([self.network, repr(schedule), self.temperature]).encode())
        content.update(repr(tuple(images.shape)).encode() + images.numpy().tobytes())
        folder = Path(self.checkpoint)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"contrastive-{content.hexdigest()[:16]}.safetensors", content.hexdigest()


class _Trainee:
    """The state of a training: network, optimizer and counters."""

    def __init__(self, network: nn.Module, schedule: TrainingSchedule, temperature: float) -> None:
        self.model = nn.Sequential(network, nn.ReLU(), nn.Linear(COMPARED, COMPARED))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), weight_decay=schedule.weight_decay)
        self.schedule = schedule
        self.temperature = temperature
        self.epochs = 0

    def learn(self, images: torch.Tensor) -> None:
        """One epoch."""
        plan = self.schedule
        self.model.train()
        batches = max(1, len(images) // plan.batch)
        order = torch.randperm(len(images))[: batches * plan.batch].chunk(batches)
        for number, rows in enumerate(order):
            for group in self.optimizer.param_groups:
                group["lr"] = plan.rate((self.epochs + number / batches) / plan.epochs)
            copies = [augmented(images[rows], plan.augmentation, strong=True) for _ in range(2)]
            loss = self._loss(torch.cat(copies).contiguous(memory_format=torch.channels_last))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.epochs += 1

    def _loss(self, copies: torch.Tensor) -> torch.Tensor:
        """The normalized temperature-scaled cross-entropy (NT-Xent): find each copy's pair among all others."""
        places = functional.normalize(self.model(copies), dim=1)
        alike = (places @ places.T / self.temperature).fill_diagonal_(-torch.inf)
        half = len(copies) // 2
        return functional.cross_entropy(alike, torch.arange(len(copies)).roll(half))

    def save(self, file: Path, name: str) -> None:
        """Write the whole state, including that of torch's generator."""
        tensors = {"random": torch.get_rng_state()}
        tensors |= {f"model {key}": value for key, value in self.model.state_dict().items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer {index} {key}": value for key, value in state.items()}
        write_tensors(file, _STATE, tensors, {"training": name, "epochs": self.epochs})

    def resume(self, file: Path, name: str) -> None:
        """Resume from a state of the same training; any other file is refused."""
        tensors, words = read_tensors(file, _STATE, "training state")
        try:
            if words["training"] != name:
                raise InvalidInput(f"{file}: the state of another training; remove it or choose another folder")
            memory: dict[int, dict[str, torch.Tensor]] = {}
            model = {}
            for key, value in tensors.items():
                match key.split(" "):
                    case ["optimizer", index, entry]:
                        memory.setdefault(int(index), {})[entry] = value
                    case ["model", entry]:
                        model[entry] = value
            self.model.load_state_dict(model)
            self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": memory})
            self.epochs = int(words["epochs"])
            torch.set_rng_state(tensors["random"])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise InvalidInput(f"{file}: not a training state that can be read ({error})") from error
