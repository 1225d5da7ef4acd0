"""The accuracy of DP-SGD on the same machine: Opacus, as its users run it.

Its noise is floating-point and from an ordinary generator (the library's secure mode needs a package that no longer
installs), so its guarantee is weaker in kind than ours; it is compared as published.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tacit.core import InvalidInput

__all__ = ["noisy_sgd"]

BATCH, RATE, CLIP, AT_ONCE = 2048, 4.0, 0.1, 512


def noisy_sgd(
    images: NDArray[Any],
    labels: NDArray[Any],
    test_images: NDArray[Any],
    test_labels: NDArray[Any],
    epsilon: float,
    delta: float,
    epochs: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> list[dict[str, float]]:
    """Test accuracy and processor seconds after every epoch of a small convolutional network with tanh units.

    The network and its bounded units are the ones that are known to suit noisy gradients on digits (Papernot et
    al. 2021); batch, rate and clipping follow it.
    """
    try:
        from opacus import PrivacyEngine
        from opacus.utils.batch_memory_manager import BatchMemoryManager
    except ModuleNotFoundError as error:
        raise InvalidInput(f"noisy SGD needs {error.name}: pip install 'tacit[compare]'") from None

    torch.manual_seed(seed)
    network: nn.Module = nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip
    data = torch.utils.data.TensorDataset(_pixels(images), torch.as_tensor(labels.astype(np.int64)))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.0)
    curve = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus and torch warn of each other's hooks
        begun = time.process_time()
        network, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
            module=network, optimizer=optimizer, data_loader=loader, target_epsilon=epsilon, target_delta=delta,
            epochs=epochs, max_grad_norm=CLIP,
        )  # fmt: skip
        for epoch in range(epochs):
            with BatchMemoryManager(data_loader=loader, max_physical_batch_size=AT_ONCE, optimizer=optimizer) as steps:
                for batch, target in steps:
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(network(batch), target).backward()
                    optimizer.step()
            curve.append({"processor seconds": time.process_time() - begun, "test accuracy": 0.0})
            curve[-1]["test accuracy"] = _accuracy(network, test_images, test_labels)
            if progress is not None:
                progress(epoch + 1)
    return curve


def _pixels(images: NDArray[Any]) -> torch.Tensor:
    """Images with values from 0 to 1, as a batch."""
    return torch.as_tensor(images.reshape(-1, 1, 28, 28).astype(np.float32))


def _accuracy(network: nn.Module, images: NDArray[Any], labels: NDArray[Any]) -> float:
    with torch.no_grad():
        guessed = torch.cat([network(part) for part in _pixels(images).split(AT_ONCE)]).argmax(dim=1)
    return float((guessed.numpy() == labels).mean())
