"""MNIST as published, and sets in the same four files (Fashion-MNIST), in fixed and disjoint parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.datasets.digits import Parts
from tacit.datasets.idx import find_idx, read_idx
from tacit.datasets.splits import rows_of, split

__all__ = ["mnist"]


def mnist(folder: str | Path) -> Parts:
    """The training file is private, half of the test file public, half for the test; always the same halves.

    Reads ``train-images-idx3-ubyte`` and its three companions, with or without ``.gz``.

    >>> mnist("no-such-folder")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder: no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz
    """
    private_samples, private_labels = _pair(Path(folder), "train")
    samples, labels = _pair(Path(folder), "t10k")
    letters = split("mnist", len(labels), {"public": len(labels) // 2, "test": len(labels) - len(labels) // 2})
    public, test = rows_of(letters, "public"), rows_of(letters, "test")
    return Parts(
        private_samples,
        private_labels,
        samples[public],
        labels[public],
        samples[test],
        labels[test],
        np.arange(10),
    )


def _pair(folder: Path, part: str) -> tuple[NDArray[Any], Integers]:
    images = read_idx(find_idx(folder, f"{part}-images-idx3-ubyte"), dimensions=3)
    labels = read_idx(find_idx(folder, f"{part}-labels-idx1-ubyte"), dimensions=1)
    if len(images) != len(labels):
        raise InvalidInput(f"{folder}: the {part} files hold {len(images)} images and {len(labels)} labels")
    if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
        wrong = int(np.flatnonzero((labels < 0) | (labels > 9))[0])
        raise InvalidInput(f"{folder}: label {wrong} of the {part} file is not one from 0 to 9")
    return images, labels.astype(np.int64)
