"""Images in MedMNIST's own format: one npz file with images and labels for training, validation and test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers

__all__ = ["medmnist"]

Labeled = tuple[NDArray[Any], Integers]


def medmnist(folder: str | Path, name: str = "pneumoniamnist") -> tuple[Labeled, Labeled]:
    """Images and labels for training, with those for validation, and for the test, from ``<name>.npz``.

    >>> medmnist("no-such-folder")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder/pneumoniamnist.npz: no such file
    """
    file = Path(folder) / f"{name}.npz"
    if not file.is_file():
        raise InvalidInput(f"{file}: no such file")
    parts: list[Labeled] = []
    try:
        with np.load(file, allow_pickle=False) as archive:
            for part in ("train", "val", "test"):
                parts.append((archive[f"{part}_images"], archive[f"{part}_labels"]))
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise InvalidInput(f"{file}: not in MedMNIST's format ({type(error).__name__})") from None
    checked = []
    for (images, labels), part in zip(parts, ("train", "val", "test"), strict=True):
        if images.ndim not in (3, 4) or labels.shape not in ((len(images),), (len(images), 1)) or not len(images):
            raise InvalidInput(f"{file}: {part} has images {images.shape} and labels {labels.shape}")
        if labels.dtype.kind not in "iub":
            raise InvalidInput(f"{file}: {part} has labels that are not whole numbers ({labels.dtype})")
        checked.append((images, labels.reshape(-1).astype(np.int64)))
    (first, second), test = checked[:2], checked[2]
    return (np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])), test
