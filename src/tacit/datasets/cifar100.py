"""CIFAR-100, binary version: records of a coarse label byte, a fine label byte and 3,072 bytes of color planes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers

__all__ = ["Cifar100", "read_cifar100"]

RECORD = 2 + 3 * 32 * 32
PARTS = ("train", "test")


@dataclass(frozen=True)
class Cifar100:
    """Images with their class (of 100) and superclass (of 20), and their names where the name files are there."""

    images: NDArray[np.uint8]  # (n, 32, 32, 3)
    fine: Integers  # (n,)
    coarse: Integers  # (n,)
    fine_names: tuple[str, ...]
    coarse_names: tuple[str, ...]


def read_cifar100(folder: str | Path, part: str = "train") -> Cifar100:
    """``train.bin`` or ``test.bin`` of the published folder.

    >>> read_cifar100("no-such-folder")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder: no file train.bin
    """
    if part not in PARTS:
        raise InvalidInput(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    folder = Path(folder)
    file = folder / f"{part}.bin"
    if not file.is_file():
        raise InvalidInput(f"{folder}: no file {file.name}")
    content = np.fromfile(file, dtype=np.uint8)
    if not content.size or content.size % RECORD:
        raise InvalidInput(f"{file}: {content.size} bytes are no whole number of records of {RECORD} bytes")
    records = content.reshape(-1, RECORD)
    coarse, fine = records[:, 0].astype(np.int64), records[:, 1].astype(np.int64)
    if coarse.max() >= 20 or fine.max() >= 100:
        wrong = int(np.flatnonzero((coarse >= 20) | (fine >= 100))[0])
        raise InvalidInput(f"{file}: the labels of image {wrong} are above 19 or 99; is it CIFAR-10 or another file?")
    images = records[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return Cifar100(np.ascontiguousarray(images), fine, coarse, _names(folder, "fine"), _names(folder, "coarse"))


def _names(folder: Path, level: str) -> tuple[str, ...]:
    file = folder / f"{level}_label_names.txt"
    if not file.is_file():
        return ()
    return tuple(line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
