"""Many small networks that start alike, trained at once: weights are stacked, and each network sees its own samples.

Convolutions of all networks are one grouped convolution and dense layers one batched product. A gradient of the sum
of their losses is the gradient of each network's own loss, so nothing is shared but the call. Where the convolutions
stay as they came, they are the same in all networks, and their output is computed once for all the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from tacit.core.errors import InvalidInput
from tacit.students.torch_architectures import Network

__all__ = ["TRAINED", "Stack", "Tensors"]

Tensors = dict[str, torch.Tensor]
Layers = Sequence[tuple[str, nn.Module]]
KNOWN = (nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten)
TRAINED = ("dense", "all")
# Samples whose features are computed in one go.
FEATURE_BATCH = 500


class Stack:
    """The layers of one architecture: those that stay as they came, and those that every network trains.

    ``trained`` is "all", or "dense": what comes after the convolutions.

    >>> from tacit.students.torch_architectures import build
    >>> sorted(Stack(build("strided-convolutions", (1, 8, 8), 2), "dense").names)
    ['body.5.bias', 'body.5.weight', 'head.bias', 'head.weight']
    """

    def __init__(self, network: Network, trained: str) -> None:
        if trained not in TRAINED:
            raise InvalidInput(f"trained layers must be one of {', '.join(TRAINED)}, got {trained!r}")
        layers = _layers(network)
        for _, layer in layers:
            if not isinstance(layer, KNOWN):
                raise InvalidInput(f"networks with {type(layer).__name__} cannot be trained together")
        flat = next(place for place, (_, layer) in enumerate(layers) if not isinstance(layer, nn.Conv2d | nn.ReLU))
        cut = 0 if trained == "all" else flat
        self._kept, self._trained = layers[:cut], layers[cut:]
        inside = {name for name, _ in self._trained}
        self.names = {name for name, _ in network.named_parameters() if name.rpartition(".")[0] in inside}

    def expanded(self, start: Tensors, count: int) -> Tensors:
        """The weights that are trained, once for every network."""
        return {name: start[name].expand(count, *start[name].shape).clone() for name in sorted(self.names)}

    def features(self, start: Tensors, samples: torch.Tensor) -> torch.Tensor:
        """What the layers that stay make of samples: (n, *shape) -> (n, *inner shape)."""
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

        Images travel through the layers as (batch, networks * channels, height, width), rows as (networks, batch,
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
    """The layers in the order in which they are applied, with the names their weights go by."""
    found = []
    for name, part in (("body", network.body), ("head", network.head)):
        inside = part.named_children() if isinstance(part, nn.Sequential) else [("", part)]
        found += [(f"{name}.{each}".rstrip("."), layer) for each, layer in inside]
    return found


def _applied(
    layer: nn.Module, values: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int
) -> torch.Tensor:
    """A convolution with these weights; any other layer that comes before the dense ones bends its input."""
    if isinstance(layer, nn.Conv2d):
        return functional.conv2d(values, weight, bias, layer.stride, layer.padding, groups=groups)
    return functional.relu(values)
