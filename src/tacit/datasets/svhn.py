"""Street View House Numbers in the published format of cropped digits: ``train_32x32.mat`` and its companions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, why_unreadable
from tacit.core.protocols import Integers
from tacit.datasets.digits import Parts
from tacit.datasets.splits import rows_of, split

__all__ = ["read_svhn", "svhn"]

TEST = 1000


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
    if len(labels) <= TEST:
        raise InvalidInput(f"{folder}: {len(labels)} images in the test file are too few to keep {TEST} for the test")
    letters = split("svhn", len(labels), {"test": TEST, "public": len(labels) - TEST})
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
