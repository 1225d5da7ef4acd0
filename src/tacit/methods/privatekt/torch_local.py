"""Local networks, which start from the global one and train at once.

Local models of one round all have the same shape, so their weights are stacked and trained by the same calls. Each
still sees its own holder's records alone: the stacking is arithmetic, nothing is averaged. Every holder takes the same
number of steps on batches of the same size; only how many different records these draw depends on how many it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.methods.privatekt.torch_models import Architecture, Training, seeded_torch
from tacit.methods.privatekt.torch_stacked import Stack, Tensors
from tacit.methods.privatekt.torch_weights import from_bytes, shapes_of, to_bytes
from tacit.students.torch_architectures import build

__all__ = ["NetworkLocal", "Prepared"]

# Networks trained in one go: bounds the memory that their stacked weights and gradients take.
STACKED = 20
# What counts as the share of a class that a holder has no record of: its logit is left as it came.
ABSENT = 1e-9


class Prepared(NamedTuple):
    """A holder's records, ready for training."""

    samples: torch.Tensor  # (records, *shape)
    labels: torch.Tensor  # (records,)
    usual: torch.Tensor  # (classes,), logarithms of how common each class is


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
        with seeded_torch(0):
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
