"""How every network is trained: one loop, with averaged weights and optional augmentation of images.

Interrupted training can be resumed. All randomness is torch's own, from a public seed, and the training data are public
or released: training is post-processing and costs no privacy budget.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from tacit.core import InvalidInput
from tacit.students.torch_networks import Network, read_tensors, write_tensors

__all__ = ["AUGMENTATIONS", "Affine", "TrainingData", "TrainingSchedule", "augmented", "train"]

_STATE = "tacit training state 1"
WARMING = 0.2  # the share of all steps in which the learning rate rises


@dataclass(frozen=True)
class Affine:
    """The largest rotation (degrees), shift (share of the side), scaling and shear of an image, in each direction."""

    turn: float
    move: float
    scale: float
    shear: float

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Every image transformed independently."""
        count = len(images)

        def uniform(reach: float) -> torch.Tensor:
            return (2 * torch.rand(count) - 1) * reach

        angle, size, lean = uniform(math.radians(self.turn)), 1 + uniform(self.scale), uniform(self.shear)
        cosine, sine = torch.cos(angle) / size, torch.sin(angle) / size
        upper = torch.stack([cosine, lean * cosine - sine, uniform(2 * self.move)], dim=1)
        lower = torch.stack([sine, lean * sine + cosine, uniform(2 * self.move)], dim=1)
        matrices = torch.stack([upper, lower], dim=1)  # (batch, 2, 3)
        grid = functional.affine_grid(matrices, list(images.shape), align_corners=False)
        # The border is repeated, so that no artificial edge appears.
        return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _flipped(images: torch.Tensor) -> torch.Tensor:
    """Horizontal flips of half of the images."""
    exchanged = torch.rand(len(images)) < 0.5
    return torch.where(exchanged[:, None, None, None], images.flip(3), images)


def _blanked(images: torch.Tensor) -> torch.Tensor:
    """Cutout: a square of half the side at a random position, replaced by the image's mean."""
    height, width = images.shape[2:]
    down = torch.randint(0, height, (len(images), 1, 1, 1)) - torch.arange(height)[None, None, :, None]
    across = torch.randint(0, width, (len(images), 1, 1, 1)) - torch.arange(width)[None, None, None, :]
    hidden = (down.abs() <= height // 4) & (across.abs() <= width // 4)
    return torch.where(hidden, images.mean(dim=(2, 3), keepdim=True), images)


def _relit(images: torch.Tensor) -> torch.Tensor:
    """Contrast and brightness changed by up to a third."""
    contrast, light = (1 + (torch.rand(2, len(images), 1, 1, 1) * 2 - 1) / 3).unbind()
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return (images - mean) * contrast + mean * light


# Weak augmentation for training, and strong augmentation for consistency (FixMatch) and contrastive learning.
AUGMENTATIONS: Mapping[str, tuple[list[Callable[[torch.Tensor], torch.Tensor]], ...]] = {
    "none": ([], []),
    "handwriting": ([Affine(10, 0.05, 0.1, 0.1)], [Affine(20, 0.1, 0.2, 0.3), _blanked]),
    "signs": ([Affine(5, 0.08, 0.08, 0.05)], [Affine(15, 0.12, 0.15, 0.15), _relit, _blanked]),
    "photographs": ([_flipped, Affine(0, 0.12, 0, 0)], [_flipped, Affine(15, 0.12, 0.2, 0.15), _relit, _blanked]),
}


def augmented(images: torch.Tensor, kind: str, strong: bool = False) -> torch.Tensor:
    """The images, each randomly transformed by this kind of augmentation.

    >>> augmented(torch.ones(2, 1, 8, 8), "handwriting").shape
    torch.Size([2, 1, 8, 8])
    """
    for change in AUGMENTATIONS[kind][strong]:
        images = change(images)
    return images


@dataclass(frozen=True)
class TrainingSchedule:
    """The parameters of training.

    ``average`` is the decay of the moving average of weights. ``consistency`` is the weight of the FixMatch loss:
    training on the student's own predictions above ``confidence``, on labeled and unlabeled samples. ``patience`` ends
    training after that many epochs without improvement on held-back samples. ``mixing`` above 0 is the parameter of
    mixup: samples and labels are mixed in shares drawn from Beta(mixing, mixing).
    """

    epochs: int
    batch: int
    learning_rate: float
    weight_decay: float = 0.01
    label_smoothing: float = 0.0
    average: float = 0.99
    augmentation: str = "none"
    consistency: float = 0.0
    confidence: float = 0.95
    patience: int | None = None
    mixing: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        allowed = {
            "epochs": self.epochs >= 1,
            "batch": self.batch >= 2,
            "learning_rate": 0 < self.learning_rate < math.inf,
            "weight_decay": 0 <= self.weight_decay < math.inf,
            "label_smoothing": 0 <= self.label_smoothing < 1,
            "average": 0 <= self.average < 1,
            "consistency": 0 <= self.consistency < math.inf,
            "confidence": 0 < self.confidence <= 1,
            "patience": self.patience is None or self.patience >= 1,
            "mixing": 0 <= self.mixing < math.inf,
        }
        for name, fine in allowed.items():
            if not fine:
                raise InvalidInput(f"{name} is out of range: {getattr(self, name)}")
        if self.augmentation not in AUGMENTATIONS:
            known = ", ".join(sorted(AUGMENTATIONS))
            raise InvalidInput(f"unknown augmentation {self.augmentation!r}: choose one of {known}")

    def rate(self, share: float) -> float:
        """The learning rate when this share of all steps is done: linear warm-up, then cosine decay.

        >>> plan = TrainingSchedule(epochs=1, batch=2, learning_rate=1.0)
        >>> plan.rate(0.0), plan.rate(0.2), round(plan.rate(0.6), 6)
        (0.04, 1.0, 0.5)
        """
        if share < WARMING:
            return self.learning_rate * (0.04 + 0.96 * share / WARMING)
        return self.learning_rate * (1 + math.cos(math.pi * (share - WARMING) / (1 - WARMING))) / 2


@dataclass(frozen=True)
class TrainingData:
    """Samples, their class probabilities and their weights; weight 0 means unlabeled."""

    samples: torch.Tensor  # (n, *shape)
    targets: torch.Tensor  # (n, classes)
    weights: torch.Tensor  # (n,)

    def part(self, rows: torch.Tensor) -> TrainingData:
        """Some of the rows."""
        return TrainingData(self.samples[rows], self.targets[rows], self.weights[rows])


class _Trainee:
    """The state of a training: networks, optimizer and counters."""

    def __init__(self, network: Network, schedule: TrainingSchedule) -> None:
        self.network = network
        self.average = copy.deepcopy(network)
        self.best = copy.deepcopy(network)
        self.optimizer = torch.optim.AdamW(network.parameters(), weight_decay=schedule.weight_decay)
        self.schedule = schedule
        self.steps = self.epochs = self.stale = 0
        self.loss = math.inf

    def learn(self, labeled: TrainingData, everything: TrainingData) -> None:
        """One epoch."""
        plan = self.schedule
        self.network.train()
        batches = max(1, len(labeled.samples) // plan.batch)
        for rows in torch.randperm(len(labeled.samples))[: batches * plan.batch].chunk(batches):
            share = self.steps / (batches * plan.epochs)
            for group in self.optimizer.param_groups:
                group["lr"] = plan.rate(share)
            loss = self._loss(labeled.part(rows))
            if plan.consistency:
                loss = loss + plan.consistency * self._own_guesses(everything, len(rows))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.steps += 1
            self._remember()
        self.epochs += 1

    def _loss(self, lesson: TrainingData) -> torch.Tensor:
        shown = augmented(lesson.samples, self.schedule.augmentation)
        if self.schedule.mixing:
            share = torch.distributions.Beta(self.schedule.mixing, self.schedule.mixing).sample()
            other = torch.randperm(len(shown))
            shown = torch.lerp(shown, shown[other], share)
            targets = torch.lerp(lesson.targets, lesson.targets[other], share)
            lesson = TrainingData(shown, targets, torch.lerp(lesson.weights, lesson.weights[other], share))
        classes = lesson.targets.shape[1]
        smooth = self.schedule.label_smoothing
        wanted = lesson.targets * (1 - smooth) + smooth / classes
        losses = -(wanted * functional.log_softmax(self.network(shown), dim=1)).sum(dim=1)
        return (losses * lesson.weights).mean()

    def _own_guesses(self, lesson: TrainingData, count: int) -> torch.Tensor:
        """The FixMatch loss: confident predictions of the averaged network, learned on strongly augmented copies."""
        samples = lesson.samples[torch.randint(0, len(lesson.samples), (2 * count,))]
        with torch.no_grad():
            self.average.eval()
            guesses = torch.softmax(self.average(augmented(samples, self.schedule.augmentation)), dim=1)
        confidence, classes = guesses.max(dim=1)
        changed = self.network(augmented(samples, self.schedule.augmentation, strong=True))
        losses = functional.cross_entropy(changed, classes, reduction="none")
        return (losses * (confidence >= self.schedule.confidence)).mean()

    def _remember(self) -> None:
        # Early weights are poor, so the average forgets them faster at first.
        keep = min(self.schedule.average, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            for mean, now in zip(self.average.state_dict().values(), self.network.state_dict().values(), strict=True):
                if mean.dtype.is_floating_point:
                    mean.lerp_(now, 1 - keep)
                else:
                    mean.copy_(now)

    def examine(self, held_back: TrainingData | None) -> None:
        """Keep the averaged weights if they are the best so far on held-back samples, or if there are none."""
        loss = -math.inf
        if held_back is not None:
            self.average.eval()
            with torch.no_grad():
                logs = functional.log_softmax(self.average(held_back.samples), dim=1)
            loss = float(-((held_back.targets * logs).sum(dim=1) * held_back.weights).mean())
        self.stale += 1
        if loss <= self.loss:
            self.loss, self.stale = loss, 0
            self.best.load_state_dict(self.average.state_dict())

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or early stopping applies."""
        impatient = self.schedule.patience is not None and self.stale >= self.schedule.patience
        return impatient or self.epochs >= self.schedule.epochs

    def save(self, file: Path, name: str) -> None:
        """Write the whole state, including that of torch's generator."""
        tensors = {"random": torch.get_rng_state()}
        for part in ("network", "average", "best"):
            state = getattr(self, part).state_dict()
            tensors |= {f"{part} {key}": value for key, value in state.items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer {index} {key}": value for key, value in state.items()}
        words = {"training": name, "steps": self.steps, "epochs": self.epochs, "stale": self.stale, "loss": self.loss}
        write_tensors(file, _STATE, tensors, words)

    def resume(self, file: Path, name: str) -> None:
        """Resume from a state of the same training; any other file is refused."""
        tensors, words = read_tensors(file, _STATE, "training state")
        try:
            if words["training"] != name:
                raise InvalidInput(f"{file}: the state of another training; remove it or choose another folder")
            for part in ("network", "average", "best"):
                prefix = f"{part} "
                state = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
                getattr(self, part).load_state_dict(state)
            memory: dict[int, dict[str, torch.Tensor]] = {}
            for key, value in tensors.items():
                if key.startswith("optimizer "):
                    _, index, entry = key.split(" ")
                    memory.setdefault(int(index), {})[entry] = value
            self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": memory})
            self.steps, self.epochs, self.stale = words["steps"], words["epochs"], words["stale"]
            self.loss = words["loss"]
            torch.set_rng_state(tensors["random"])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise InvalidInput(f"{file}: not a training state that can be read ({error})") from error


def train(
    network: Network,
    lesson: TrainingData,
    schedule: TrainingSchedule,
    held_back: TrainingData | None,
    state: Path | None,
    name: str,
) -> Network:
    """The network with averaged weights after training; with a state file, interrupted training is resumed.

    ``name`` identifies the training, so that the state of another one is refused.
    """
    layout = torch.channels_last if lesson.samples.ndim == 4 else torch.contiguous_format
    trainee = _Trainee(network.to(memory_format=layout), schedule)
    labeled = lesson.part((lesson.weights > 0).nonzero().ravel())
    if len(labeled.samples) < 2:
        raise InvalidInput("a student needs at least two labeled samples with a weight above 0")
    with _seeded(schedule.seed):
        if state is not None and state.exists():
            trainee.resume(state, name)
        while not trainee.finished:
            trainee.learn(labeled, lesson)
            trainee.examine(held_back)
            if state is not None:
                trainee.save(state, name)
    trainee.best.eval()
    return trainee.best


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's generator from a seed; its former state is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
