"""Local networks, which start from the global one and are trained in one batch.

Local models of one round have the same shape, so their weights are stacked and trained by the same calls. Each is still
trained on its own holder's records alone: nothing is averaged, and each has its own generator for its batches, so that
the number of one holder's records has no effect on another. Every holder has the same number of steps and batch size.

Convolutions of all networks are one grouped convolution, and dense layers one batched product. The gradient of the sum
of losses is the gradient of each network's own loss. If the convolutions are not trained, they are the same in all
networks, and their output is computed once for all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from tacit.core import Integers, InvalidInput
from tacit.methods.privatekt.torch_models import (
    Architecture,
    Training,
    read_weights,
    seeded_torch,
    shapes_of,
    weights_to_bytes,
)
from tacit.students.torch_networks import Network, build_network

__all__ = ["TRAINED", "NetworkLocal", "Prepared", "Stack", "Tensors"]

Tensors = dict[str, torch.Tensor]
Layers = Sequence[tuple[str, nn.Module]]
_KNOWN = (nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten)
TRAINED = ("dense", "all")
# Samples per batch of features.
FEATURE_BATCH = 500


class Stack:
    """The layers of one architecture: those that stay fixed, and those that every network trains.

    ``trained`` is "all", or "dense" for the layers after the convolutions.

    >>> from tacit.students.torch_networks import build_network
    >>> sorted(Stack(build_network("strided-convolutions", (1, 8, 8), 2), "dense").names)
    ['body.5.bias', 'body.5.weight', 'head.bias', 'head.weight']
    """

    def __init__(self, network: Network, trained: str) -> None:
        if trained not in TRAINED:
            raise InvalidInput(f"trained layers must be one of {', '.join(TRAINED)}, got {trained!r}")
        layers = _layers(network)
        for _, layer in layers:
            if not isinstance(layer, _KNOWN):
                raise InvalidInput(f"networks with {type(layer).__name__} cannot be trained together")
        flat = next(place for place, (_, layer) in enumerate(layers) if not isinstance(layer, nn.Conv2d | nn.ReLU))
        cut = 0 if trained == "all" else flat
        self._kept, self._trained = layers[:cut], layers[cut:]
        inside = {name for name, _ in self._trained}
        self.names = {name for name, _ in network.named_parameters() if name.rpartition(".")[0] in inside}

    def expanded(self, start: Tensors, count: int) -> Tensors:
        """The trained weights, one copy per network."""
        return {name: start[name].expand(count, *start[name].shape).clone() for name in sorted(self.names)}

    def features(self, start: Tensors, samples: torch.Tensor) -> torch.Tensor:
        """The output of the fixed layers for samples: (n, *shape) -> (n, *inner shape)."""
        with torch.no_grad():
            parts = [self._features(start, part) for part in samples.split(FEATURE_BATCH)]
        return torch.cat(parts)

    def _features(self, start: Tensors, samples: torch.Tensor) -> torch.Tensor:
        values = (samples - start["mean"]) / start["spread"]
        for name, layer in self._kept:
            values = _applied(layer, values, start.get(f"{name}.weight"), start.get(f"{name}.bias"), 1)
        return values

    def logits(self, own: Tensors, values: torch.Tensor) -> torch.Tensor:
        """Logits of every network for its own samples: (batch, networks, *inner shape) -> (networks, batch, classes).

        Images have the shape (batch, networks * channels, height, width) in the layers, rows (networks, batch,
        features).
        """
        batch, count = values.shape[:2]
        values = values.flatten(1, 2) if values.ndim == 5 else values.transpose(0, 1)
        for name, layer in self._trained:
            weight, bias = own.get(f"{name}.weight"), own.get(f"{name}.bias")
            if isinstance(layer, nn.Flatten):
                values = values.reshape(batch, count, -1).transpose(0, 1) if values.ndim == 4 else values
            elif isinstance(layer, nn.Linear) and weight is not None and bias is not None:
                values = torch.baddbmm(bias.unsqueeze(1), values, weight.transpose(1, 2))
            elif weight is not None and bias is not None:
                values = _applied(layer, values, weight.flatten(0, 1), bias.flatten(), count)
            else:
                values = functional.relu(values)
        return values


def _layers(network: Network) -> Layers:
    """The layers in order, with the names of their weights."""
    found = []
    for name, part in (("body", network.body), ("head", network.head)):
        inside = part.named_children() if isinstance(part, nn.Sequential) else [("", part)]
        found += [(f"{name}.{each}".rstrip("."), layer) for each, layer in inside]
    return found


def _applied(
    layer: nn.Module, values: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int
) -> torch.Tensor:
    """A convolution with these weights; any other layer before the dense ones is a ReLU."""
    if isinstance(layer, nn.Conv2d):
        return functional.conv2d(values, weight, bias, layer.stride, layer.padding, groups=groups)
    return functional.relu(values)


# The most networks per stack, to limit the memory of weights and gradients.
STACKED = 20
# The assumed fraction of a class of which a holder has no record: its logit is not trained.
ABSENT = 1e-9


class Prepared(NamedTuple):
    """A holder's records, ready for training."""

    samples: torch.Tensor  # (records, *shape)
    labels: torch.Tensor  # (records,)
    usual: torch.Tensor  # (classes,), log frequencies of the classes


class NetworkLocal:
    """Local networks: each starts from the global weights and is trained for some steps on its holder's records.

    ``trained`` are the layers that change: all, or those after the convolutions. The loss adds the log frequency of a
    class among the records to its logit (logit adjustment), so that a network learns to separate classes and not their
    frequencies; for a class that the holder does not have it keeps the global network's logit.
    """

    def __init__(self, architecture: Architecture, classes: int, training: Training, trained: str = "dense") -> None:
        self.architecture = architecture
        self.classes = classes
        self.training = training
        with seeded_torch(0):
            network = build_network(architecture.network, architecture.shape, classes)
        self._shapes = shapes_of(network)
        self._stack = Stack(network, trained)

    def prepare(self, samples: NDArray[Any], labels: Integers) -> Prepared:
        """The records as tensors, and the log frequencies of their classes."""
        counts = np.bincount(labels, minlength=self.classes)
        usual = np.log(np.maximum(counts / len(labels), ABSENT))
        return Prepared(
            self.architecture.tensor(samples), torch.as_tensor(labels), torch.as_tensor(usual, dtype=torch.float32)
        )

    def labels(
        self, prepared: Sequence[Prepared], weights: bytes | None, asked: NDArray[Any], seed: int
    ) -> list[Integers]:
        """The labels of the samples by each trained network."""
        start = self._start(weights)
        shown = self._stack.features(start, self.architecture.tensor(asked)).unsqueeze(1)
        found: list[Integers] = []
        for place in range(0, len(prepared), STACKED):
            own = self._trained(prepared[place : place + STACKED], start, seed)
            count = min(STACKED, len(prepared) - place)
            with torch.no_grad():
                logits = self._stack.logits(own, shown.expand(-1, count, *shown.shape[2:]))
            found += [np.asarray(each, dtype=np.int64) for each in logits.argmax(dim=2).numpy()]
        return found

    def averaged(self, prepared: Sequence[Prepared], weights: bytes, seed: int) -> bytes:
        """The mean of the trained networks, as in federated averaging without noise; for comparison only."""
        start = self._start(weights)
        sums: Tensors = {}
        for place in range(0, len(prepared), STACKED):
            for name, stacked in self._trained(prepared[place : place + STACKED], start, seed).items():
                sums[name] = sums.get(name, torch.zeros(())) + stacked.detach().sum(dim=0)
        return weights_to_bytes(start | {name: total / len(prepared) for name, total in sums.items()})

    def _start(self, weights: bytes | None) -> Tensors:
        if weights is None:
            raise InvalidInput("local networks start from the global weights, which are missing")
        return read_weights(weights, self._shapes)

    def _trained(self, prepared: Sequence[Prepared], start: Tensors, seed: int) -> Tensors:
        """The weights of all networks, stacked, after training."""
        plan = self.training
        rows = [_batches(len(each.labels), plan, seed) for each in prepared]
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


def _batches(records: int, plan: Training, seed: int) -> torch.Tensor:
    """The records of each step; all holders use the same seed, as if each were alone."""
    return torch.randint(records, (plan.steps, plan.batch), generator=torch.Generator().manual_seed(seed))
