"""EMNIST in both published releases: gzipped idx files, and Matlab files that also name the writers.

Both store images column by column, so a letter read as it stands lies on its side: the loaders turn it upright.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, why_unreadable
from tacit.core.protocols import Integers
from tacit.datasets.idx import find_idx, read_idx

__all__ = ["Emnist", "read_emnist_idx", "read_emnist_mat"]

PARTS = ("train", "test")


@dataclass(frozen=True)
class Emnist:
    """One part of one split: upright images, labels, what each label stands for, and the writers where known."""

    images: NDArray[np.uint8]  # (n, 28, 28)
    labels: Integers  # (n,)
    characters: dict[int, str]
    writers: Integers | None = None  # (n,)


def read_emnist_idx(folder: str | Path, split: str = "letters", part: str = "train") -> Emnist:
    """A part of a split of the idx release, such as ``emnist-letters-train-images-idx3-ubyte.gz``.

    >>> read_emnist_idx("no-such-folder")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder: no file emnist-letters-train-images-idx3-ubyte or ...
    """
    _check(part)
    folder = Path(folder)
    images = read_idx(find_idx(folder, f"emnist-{split}-{part}-images-idx3-ubyte"), dimensions=3)
    labels = read_idx(find_idx(folder, f"emnist-{split}-{part}-labels-idx1-ubyte"), dimensions=1).astype(np.int64)
    if len(images) != len(labels):
        raise InvalidInput(f"{folder}: {len(images)} images and {len(labels)} labels in emnist-{split}-{part}")
    mapping = folder / f"emnist-{split}-mapping.txt"
    characters = {}
    if mapping.is_file():
        try:
            # A label, then the code of each character it stands for: capital first, small where they are merged.
            rows = [list(map(int, line.split())) for line in mapping.read_text().splitlines() if line.strip()]
            characters = {row[0]: "".join(map(chr, row[1:])) for row in rows}
        except (ValueError, IndexError, OverflowError):
            raise InvalidInput(f"{mapping}: not a table of labels and character codes") from None
    return Emnist(images.transpose(0, 2, 1).astype(np.uint8), labels, characters)


def read_emnist_mat(path: str | Path, part: str = "train") -> Emnist:
    """A part of a Matlab file of the release, such as ``emnist-byclass.mat``, with its writers.

    >>> read_emnist_mat("no-such-file.mat")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-file.mat: cannot be read as a Matlab file (...)
    """
    from scipy.io import loadmat

    _check(part)
    path = Path(path)
    try:
        content = loadmat(path, struct_as_record=False, squeeze_me=True, appendmat=False)
    except Exception as error:
        # scipy raises whatever a damaged file makes it stumble over.
        raise InvalidInput(f"{path}: cannot be read as a Matlab file ({why_unreadable(error)})") from None
    try:
        dataset = content["dataset"]
        chosen = getattr(dataset, part)
        labels = np.atleast_1d(chosen.labels).astype(np.int64)
        images = np.asarray(chosen.images, dtype=np.uint8).reshape(len(labels), 28, 28)
        mapping = np.atleast_2d(dataset.mapping).astype(np.int64)
    except (KeyError, AttributeError, ValueError, TypeError) as error:
        raise InvalidInput(f"{path}: not an EMNIST file ({type(error).__name__})") from None
    writers: Any = getattr(chosen, "writers", None)
    if writers is not None:
        writers = np.atleast_1d(writers).astype(np.int64)
        if writers.shape != labels.shape:
            raise InvalidInput(f"{path}: {len(writers)} writers for {len(labels)} labels")
    characters = {int(row[0]): "".join(chr(code) for code in row[1:]) for row in mapping}
    return Emnist(images.transpose(0, 2, 1), labels, characters, writers)


def _check(part: str) -> None:
    if part not in PARTS:
        raise InvalidInput(f"part must be one of {', '.join(PARTS)}, got {part!r}")
