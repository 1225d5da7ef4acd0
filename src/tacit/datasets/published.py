"""Published data sets by the name of their format, and fixed private, public and test parts of such sets.

A hash of the data set's name and the sample's index in the published file decides the sample's part: it does not
depend on the version of a random generator, and nobody could choose it. The parts are disjoint, and stored in a file.

Three sets are read here: scikit-learn's bundled digits; medical abstracts with the kind of condition they are about,
from the published csv file; and LEAF's json, in which FEMNIST and other federated sets are published: a folder holds
any number of ``*.json`` files, each with ``users``, ``num_samples`` and ``user_data``, which maps a user to ``x`` (rows
of numbers, for FEMNIST 784 gray values between 0 and 1 with dark ink) and ``y`` (labels). Error messages name a user by
its index in the list, from 0, because the users' names are private.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, Integers, InvalidInput
from tacit.core.registry import find

__all__ = [
    "FEMNIST_CLASSES",
    "FORMATS",
    "LETTERS",
    "OwnedSamples",
    "Parts",
    "PublishedSamples",
    "digits",
    "read_leaf",
    "read_published",
    "rows_of",
    "split",
]

PRIVATE, PUBLIC = 1000, 500
SPLIT_SEED = 20260101
LETTERS = {"private": "p", "public": "u", "test": "t"}
_WIDTH = 100  # letters per line
FEMNIST_CLASSES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
LABEL, TEXT = "condition_label", "medical_abstract"


@dataclass(frozen=True)
class Parts:
    """A labeled data set for experiments: the public labels are for scoring only."""

    private_samples: NDArray[Any]
    private_labels: NDArray[Any]
    public_samples: NDArray[Any]
    public_labels: NDArray[Any]
    test_samples: NDArray[Any]
    test_labels: NDArray[Any]
    classes: NDArray[Any]


def digits() -> Parts:
    """The 1,797 digits of 8x8 pixels: 1,000 private, 500 public, 297 for the test, always the same.

    >>> parts = digits()
    >>> len(parts.private_samples), len(parts.public_samples), len(parts.test_samples)
    (1000, 500, 297)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(bunch.target))
    private, public, test = np.split(order, [PRIVATE, PRIVATE + PUBLIC])
    X, y = bunch.data, bunch.target
    return Parts(X[private], y[private], X[public], y[public], X[test], y[test], np.arange(10))


def split(name: str, samples: int, sizes: Mapping[str, int]) -> str:
    """One letter per sample, in the order of the published file: p private, u public, t test.

    >>> letters = split("toy", 10, {"public": 6, "test": 4})
    >>> letters, letters.count("u")
    ('tuuututuut', 6)
    """
    if unknown := set(sizes) - set(LETTERS):
        raise InvalidInput(f"a part is one of {', '.join(LETTERS)}, got {', '.join(sorted(unknown))}")
    if sum(sizes.values()) != samples or min(sizes.values()) < 1:
        raise InvalidInput(f"the parts must be at least 1 each and add up to the {samples} samples, got {dict(sizes)}")
    order = sorted(range(samples), key=lambda index: hashlib.sha256(f"tacit {name} {index}".encode()).digest())
    letters = np.empty(samples, dtype="<U1")
    start = 0
    for part, size in sizes.items():
        letters[order[start : start + size]] = LETTERS[part]
        start += size
    return "".join(letters)


def rows_of(letters: str, part: str) -> NDArray[np.int64]:
    """The indices of a part's samples.

    >>> rows_of("putt", "test").tolist()
    [2, 3]
    """
    return np.flatnonzero(np.array(list(letters)) == LETTERS[part]).astype(np.int64)


@dataclass(frozen=True)
class OwnedSamples:
    """Samples with the label and the owner of each."""

    samples: Floats  # (n, features)
    labels: Integers  # (n,)
    owners: NDArray[np.str_]  # (n,)


def read_leaf(path: str | Path) -> OwnedSamples:
    """Every sample of a LEAF file, or of all the ``*.json`` files of a folder, in the order of file and user.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "all_data_0.json"
    >>> _ = file.write_text('{"users": ["f01"], "num_samples": [1], "user_data": {"f01": {"x": [[0, 1]], "y": [3]}}}')
    >>> found = read_leaf(file)
    >>> found.samples.shape, found.labels.tolist(), found.owners.tolist()
    ((1, 2), [3], ['f01'])
    """
    path = Path(path)
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"{path}: the folder has no .json file")
    samples: list[Floats] = []
    labels: list[Integers] = []
    owners: list[str] = []
    for file in files:
        for index, (user, rows, marks) in enumerate(_users(file)):
            if samples and rows.shape[1] != samples[0].shape[1]:
                raise InvalidInput(
                    f"{file}: the user at index {index} has {rows.shape[1]} features, others {samples[0].shape[1]}"
                )
            samples.append(rows)
            labels.append(marks)
            owners += [user] * len(marks)
    if not owners:
        raise InvalidInput(f"{path}: no user has a sample")
    return OwnedSamples(np.concatenate(samples), np.concatenate(labels), np.array(owners))


def _users(file: Path) -> list[tuple[str, Floats, Integers]]:
    """The users of one file that have samples."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        users, sizes, data = content["users"], content["num_samples"], content["user_data"]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidInput(f"{file}: not a LEAF file ({type(error).__name__})") from None
    if len(users) != len(sizes):
        raise InvalidInput(f"{file}: {len(users)} users and {len(sizes)} sizes")
    found = []
    for index, (user, size) in enumerate(zip(users, sizes, strict=True)):
        who = f"{file}: the user at index {index}"
        try:
            rows = np.array(data[user]["x"], dtype=np.float32)
            marks = np.array(data[user]["y"], dtype=np.int64)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"{who} must have 'x', rows of numbers, and 'y', labels that are whole numbers"
            ) from None
        if len(rows) != size or marks.shape != (size,):
            raise InvalidInput(f"{who} has {len(rows)} samples and {len(marks)} labels, and declares {size}")
        if size and (rows.ndim != 2 or not np.isfinite(rows).all()):
            raise InvalidInput(f"{who} must have samples that are rows of finite numbers")
        if size:
            found.append((str(user), rows, marks))
    return found


@dataclass(frozen=True)
class PublishedSamples:
    """Samples with the label of each, and the owner where the format names it.

    Sets of labels are a ``Named`` table with one column per label.
    """

    samples: Any  # an array, or a Named table
    labels: Any
    owners: NDArray[Any] | None = None


def _leaf(path: Path) -> PublishedSamples:

    found = read_leaf(path)
    return PublishedSamples(found.samples, found.labels, found.owners)


def _emnist(path: Path) -> PublishedSamples:
    from tacit.datasets.mnist import read_emnist_idx, read_emnist_mat

    found = read_emnist_mat(path) if path.suffix == ".mat" else read_emnist_idx(path)
    return PublishedSamples(found.images, found.labels, found.writers)


def _cifar10(path: Path) -> PublishedSamples:
    from tacit.datasets.color_images import read_cifar10

    return PublishedSamples(*read_cifar10(path))


def _cifar100(path: Path) -> PublishedSamples:
    from tacit.datasets.color_images import read_cifar100

    found = read_cifar100(path)
    return PublishedSamples(found.images, found.fine)


def _medmnist(path: Path) -> PublishedSamples:
    from tacit.datasets.mnist import medmnist

    return PublishedSamples(*medmnist(path.parent, path.stem)[0])


def _mnist(path: Path) -> PublishedSamples:
    from tacit.datasets.mnist import read_mnist

    return PublishedSamples(*read_mnist(path))


def _svhn(path: Path) -> PublishedSamples:
    from tacit.datasets.color_images import read_svhn

    return PublishedSamples(*read_svhn(path))


def _mulan(path: Path) -> PublishedSamples:
    from tacit.datasets.mulan import read_mulan

    return PublishedSamples(*read_mulan(path))


FORMATS: Mapping[str, Callable[[Path], PublishedSamples]] = {
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "emnist": _emnist,
    "leaf": _leaf,
    "medmnist": _medmnist,
    "mnist": _mnist,
    "mulan": _mulan,
    "svhn": _svhn,
}


def read_published(format: str, path: str | Path) -> PublishedSamples:
    """The training part of a published set, by the name of its format; ``leaf`` has samples by owner.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "all_data_0.json"
    >>> _ = file.write_text('{"users": ["f01"], "num_samples": [1], "user_data": {"f01": {"x": [[0, 1]], "y": [3]}}}')
    >>> read_published("leaf", file).owners.tolist()
    ['f01']
    >>> read_published("leef", file)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown format 'leef': choose one of cifar10, cifar100, emnist, leaf, medmnist, \
mnist, mulan, svhn; did you mean leaf?
    """
    return find(FORMATS, format, "format")(Path(path))
