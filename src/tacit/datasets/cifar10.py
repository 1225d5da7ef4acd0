"""CIFAR-10, binary version: records of a label byte and 3,072 bytes of color planes, in fixed and disjoint parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.datasets.digits import Parts
from tacit.datasets.splits import rows_of, split

__all__ = ["cifar10", "read_cifar10"]

RECORD = 1 + 3 * 32 * 32
FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TEST = 1000


def read_cifar10(path: str | Path) -> tuple[NDArray[np.uint8], Integers]:
    """Images (n, 32, 32, 3) and labels of one batch file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "data_batch_1.bin"
    >>> _ = file.write_bytes(bytes([6]) + bytes(3072))
    >>> images, labels = read_cifar10(file)
    >>> images.shape, labels.tolist()
    ((1, 32, 32, 3), [6])
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"{path.parent}: no file {path.name}")
    content = np.fromfile(path, dtype=np.uint8)
    if not content.size or content.size % RECORD:
        raise InvalidInput(
            f"{path}: {content.size} bytes are no whole number of records of {RECORD} bytes; is it the binary version?"
        )
    records = content.reshape(-1, RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= len(CLASSES):
        raise InvalidInput(f"{path}: label {labels.argmax()} is above 9; is it CIFAR-100 or another file?")
    return np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def cifar10(folder: str | Path) -> Parts:
    """The published setting: of all 60,000 images half are public, 1,000 for the test, the others private.

    The parts are disjoint and always the same.
    """
    batches = [read_cifar10(Path(folder) / name) for name in FILES]
    images, labels = (np.concatenate([batch[part] for batch in batches]) for part in (0, 1))
    if len(labels) <= 2 * TEST:
        raise InvalidInput(f"{folder}: {len(labels)} images are too few to keep {TEST} for the test")
    half = len(labels) // 2
    letters = split("cifar10", len(labels), {"public": half, "test": TEST, "private": len(labels) - half - TEST})
    private, public, test = (rows_of(letters, part) for part in ("private", "public", "test"))
    return Parts(
        images[private],
        labels[private],
        images[public],
        labels[public],
        images[test],
        labels[test],
        np.arange(len(CLASSES)),
    )
