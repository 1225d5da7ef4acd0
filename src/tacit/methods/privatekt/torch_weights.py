"""Weights as they travel: safetensors, plain numbers with names, read without running code."""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from tacit.core.errors import InvalidInput
from tacit.students.torch_architectures import Network

__all__ = ["from_bytes", "shapes_of", "to_bytes"]


def to_bytes(tensors: dict[str, torch.Tensor]) -> bytes:
    """The tensors as bytes; equal tensors give equal bytes.

    >>> sorted(from_bytes(to_bytes({"b": torch.ones(2), "a": torch.zeros(1)}), {"a": (1,), "b": (2,)}))
    ['a', 'b']
    """
    written: bytes = save({name: tensors[name].detach().contiguous().clone() for name in sorted(tensors)})
    return written


def from_bytes(weights: bytes, shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """The tensors in these bytes, if they have just the names and shapes expected and are finite."""
    try:
        tensors: dict[str, torch.Tensor] = load(weights)
    except (SafetensorError, ValueError, TypeError) as error:
        raise InvalidInput(f"not weights that can be read ({type(error).__name__}: {error})") from None
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != shapes:
        wrong = sorted(set(found.items()) ^ set(shapes.items()))
        raise InvalidInput(f"weights of another network: {', '.join(f'{name} {shape}' for name, shape in wrong[:4])}")
    if not all(tensor.dtype == torch.float32 and bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise InvalidInput("weights must be finite 32-bit numbers")
    return tensors


def shapes_of(network: Network) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a network's weights."""
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
