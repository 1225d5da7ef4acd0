"""MNIST and its relatives, in fixed and disjoint parts or as published: Fashion-MNIST, EMNIST and MedMNIST.

MNIST and Fashion-MNIST are four idx files: two zero bytes, a byte for the type of the numbers, a byte for the number of
dimensions, the size of each dimension as a 32-bit number, and then the numbers, all big-endian; plain or gzipped.
EMNIST is published as gzipped idx files, and as Matlab files that also name the writers. Both store images column by
column, so a character read row by row lies on its side: the loaders turn it upright. MedMNIST is one npz file per set.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, why_unreadable
from tacit.datasets.published import Parts, rows_of, split

__all__ = ["Emnist", "find_idx", "medmnist", "mnist", "read_emnist_idx", "read_emnist_mat", "read_idx", "read_mnist"]

GZIP = b"\x1f\x8b"
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
EMNIST_PARTS = ("train", "test")
Labeled = tuple[NDArray[Any], Integers]


def read_idx(path: str | Path, dimensions: int | None = None) -> NDArray[Any]:
    """The array in an idx file, gzipped or not; anything else is refused with the reason.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    >>> read_idx(file, dimensions=1)
    array([7, 9], dtype=uint8)
    """
    path = Path(path)
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\x00\x00" or content[2] not in IDX_TYPES:
        raise InvalidInput(f"{path}: not an idx file: its first bytes are wrong")
    dtype, sides = np.dtype(IDX_TYPES[content[2]]), content[3]
    if dimensions is not None and sides != dimensions:
        raise InvalidInput(f"{path}: an array of {sides} dimensions, {dimensions} were expected (images or labels?)")
    start = 4 + 4 * sides
    if len(content) < start:
        raise InvalidInput(f"{path}: the file ends inside its header")
    shape = struct.unpack(f">{sides}I", content[4:start])
    size = math.prod(shape) * dtype.itemsize
    if len(content) - start != size:
        raise InvalidInput(
            f"{path}: shape {shape} needs {size} bytes and the file has {len(content) - start}; is it cut short?"
        )
    return np.frombuffer(content, dtype=dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def find_idx(folder: str | Path, stem: str) -> Path:
    """The file of that name in a folder, with or without ``.gz`` and with a dot or a dash before ``idx``.

    >>> find_idx("no-such-folder", "train-images-idx3-ubyte")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder: no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz
    """
    for name in (stem, stem.replace("-idx", ".idx")):
        for candidate in (Path(folder) / name, Path(folder) / f"{name}.gz"):
            if candidate.is_file():
                return candidate
    raise InvalidInput(f"{folder}: no file {stem} or {stem}.gz")


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == GZIP else content
    except OSError as error:
        # A damaged gzip file raises BadGzipFile, which is an OSError without a number.
        raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except (EOFError, zlib.error) as error:
        raise InvalidInput(f"{path}: the gzip file is damaged or cut short ({error})") from None


def mnist(folder: str | Path) -> Parts:
    """The training file is private, half of the test file public, half for the test; always the same halves.

    Reads ``train-images-idx3-ubyte`` and its three companions, with or without ``.gz``.

    >>> mnist("no-such-folder")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder: no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz
    """
    private_samples, private_labels = read_mnist(Path(folder), "train")
    samples, labels = read_mnist(Path(folder), "t10k")
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


def read_mnist(folder: str | Path, part: str = "train") -> tuple[NDArray[Any], Integers]:
    """Images and labels of one part of MNIST, or of a set in its format, such as Fashion-MNIST.

    >>> read_mnist("no-such-folder")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder: no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz
    """
    folder = Path(folder)
    images = read_idx(find_idx(folder, f"{part}-images-idx3-ubyte"), dimensions=3)
    labels = read_idx(find_idx(folder, f"{part}-labels-idx1-ubyte"), dimensions=1)
    if len(images) != len(labels):
        raise InvalidInput(f"{folder}: the {part} files hold {len(images)} images and {len(labels)} labels")
    if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
        wrong = int(np.flatnonzero((labels < 0) | (labels > 9))[0])
        raise InvalidInput(f"{folder}: label {wrong} of the {part} file is not one from 0 to 9")
    return images, labels.astype(np.int64)


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
    if part not in EMNIST_PARTS:
        raise InvalidInput(f"part must be one of {', '.join(EMNIST_PARTS)}, got {part!r}")


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
