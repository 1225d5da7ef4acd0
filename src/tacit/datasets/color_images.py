"""Published color images: CIFAR-10, CIFAR-100 and Street View House Numbers (SVHN).

CIFAR's binary version has records of one label byte (CIFAR-100: a coarse and a fine one) and 3,072 bytes of color
planes. SVHN is read in the published format of cropped digits: ``train_32x32.mat`` and its companions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, why_unreadable
from tacit.datasets.published import Parts, rows_of, split

__all__ = ["Cifar100", "cifar10", "read_cifar10", "read_cifar100", "read_svhn", "svhn"]

CIFAR10_RECORD = 1 + 3 * 32 * 32
CIFAR10_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_TEST = 1000
CIFAR100_RECORD = 2 + 3 * 32 * 32
CIFAR100_PARTS = ("train", "test")
SVHN_TEST = 1000


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
    if not content.size or content.size % CIFAR10_RECORD:
        raise InvalidInput(
            f"{path}: {content.size} bytes are not a multiple of the record size, {CIFAR10_RECORD} bytes; "
            "is it the binary version?"
        )
    records = content.reshape(-1, CIFAR10_RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= len(CIFAR10_CLASSES):
        raise InvalidInput(f"{path}: label {labels.argmax()} is above 9; is it CIFAR-100 or another file?")
    return np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def cifar10(folder: str | Path) -> Parts:
    """The published setting: of all 60,000 images half are public, 1,000 for the test, the others private.

    The parts are disjoint and always the same.
    """
    batches = [read_cifar10(Path(folder) / name) for name in CIFAR10_FILES]
    images, labels = (np.concatenate([batch[part] for batch in batches]) for part in (0, 1))
    if len(labels) <= 2 * CIFAR10_TEST:
        raise InvalidInput(f"{folder}: {len(labels)} images are too few to keep {CIFAR10_TEST} for the test")
    half = len(labels) // 2
    letters = split(
        "cifar10", len(labels), {"public": half, "test": CIFAR10_TEST, "private": len(labels) - half - CIFAR10_TEST}
    )
    private, public, test = (rows_of(letters, part) for part in ("private", "public", "test"))
    return Parts(
        images[private],
        labels[private],
        images[public],
        labels[public],
        images[test],
        labels[test],
        np.arange(len(CIFAR10_CLASSES)),
    )


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
    if part not in CIFAR100_PARTS:
        raise InvalidInput(f"part must be one of {', '.join(CIFAR100_PARTS)}, got {part!r}")
    folder = Path(folder)
    file = folder / f"{part}.bin"
    if not file.is_file():
        raise InvalidInput(f"{folder}: no file {file.name}")
    content = np.fromfile(file, dtype=np.uint8)
    if not content.size or content.size % CIFAR100_RECORD:
        raise InvalidInput(
            f"{file}: {content.size} bytes are not a multiple of the record size, {CIFAR100_RECORD} bytes"
        )
    records = content.reshape(-1, CIFAR100_RECORD)
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


def read_svhn(path: str | Path) -> tuple[NDArray[np.uint8], Integers]:
    """Images (n, 32, 32, 3) and digits of one file; the file's 10 stands for the digit 0.

    >>> import tempfile
    >>> from scipy.io import savemat
    >>> file = Path(tempfile.mkdtemp()) / "test_32x32.mat"
    >>> savemat(file, {"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": np.array([[10], [3]])})
    >>> images, digits = read_svhn(file)
    >>> images.shape, digits.tolist()
    ((2, 32, 32, 3), [0, 3])
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    path = Path(path)
    try:
        content = loadmat(path, variable_names=["X", "y"])
    except (OSError, ValueError, TypeError, MatReadError, NotImplementedError) as error:
        raise InvalidInput(f"{path}: cannot be read as a MATLAB file ({why_unreadable(error)})") from None
    if not {"X", "y"} <= content.keys():
        raise InvalidInput(f"{path}: images 'X' and labels 'y' are missing; give a file of cropped digits")
    stacked, digits = np.asarray(content["X"]), np.asarray(content["y"]).ravel()
    if (
        stacked.ndim != 4
        or stacked.shape[2] != 3
        or stacked.dtype != np.uint8
        or stacked.shape[3] != len(digits)
        or digits.dtype.kind not in "iuf"
    ):
        raise InvalidInput(
            f"{path}: X must be bytes of shape (height, width, 3, n) with n labels, "
            f"got {stacked.dtype} of {stacked.shape} and {len(digits)} labels of {digits.dtype}"
        )
    wrong = np.flatnonzero(~((digits >= 1) & (digits <= 10)))
    if len(wrong):
        raise InvalidInput(f"{path}: label {wrong[0]} is not one from 1 to 10")
    return np.ascontiguousarray(np.moveaxis(stacked, 3, 0)), digits.astype(np.int64) % 10


def svhn(folder: str | Path) -> Parts:
    """The published setting: the training file is private, 1,000 of the test file for the test, the others public."""
    private_samples, private_labels = read_svhn(Path(folder) / "train_32x32.mat")
    images, labels = read_svhn(Path(folder) / "test_32x32.mat")
    if len(labels) <= SVHN_TEST:
        raise InvalidInput(
            f"{folder}: {len(labels)} images in the test file are too few to keep {SVHN_TEST} for the test"
        )
    letters = split("svhn", len(labels), {"test": SVHN_TEST, "public": len(labels) - SVHN_TEST})
    public, test = rows_of(letters, "public"), rows_of(letters, "test")
    return Parts(
        private_samples,
        private_labels,
        images[public],
        labels[public],
        images[test],
        labels[test],
        np.arange(10),
    )
