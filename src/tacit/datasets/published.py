"""Published data sets by the name of their format, each as samples, labels and, where there are any, owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tacit.core.registry import find

__all__ = ["FORMATS", "PublishedSamples", "read_published"]


@dataclass(frozen=True)
class PublishedSamples:
    """Samples with a label each, and whose each is where the format says so."""

    samples: NDArray[Any]
    labels: NDArray[Any]
    owners: NDArray[Any] | None = None


def _leaf(path: Path) -> PublishedSamples:
    from tacit.datasets.leaf import read_leaf

    found = read_leaf(path)
    return PublishedSamples(found.samples, found.labels, found.owners)


def _emnist(path: Path) -> PublishedSamples:
    from tacit.datasets.emnist import read_emnist_idx, read_emnist_mat

    found = read_emnist_mat(path) if path.suffix == ".mat" else read_emnist_idx(path)
    return PublishedSamples(found.images, found.labels, found.writers)


def _cifar10(path: Path) -> PublishedSamples:
    from tacit.datasets.cifar10 import read_cifar10

    return PublishedSamples(*read_cifar10(path))


def _cifar100(path: Path) -> PublishedSamples:
    from tacit.datasets.cifar100 import read_cifar100

    found = read_cifar100(path)
    return PublishedSamples(found.images, found.fine)


def _svhn(path: Path) -> PublishedSamples:
    from tacit.datasets.svhn import read_svhn

    return PublishedSamples(*read_svhn(path))


FORMATS: Mapping[str, Callable[[Path], PublishedSamples]] = {
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "emnist": _emnist,
    "leaf": _leaf,
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
    tacit.core.errors.InvalidInput: unknown format 'leef': choose one of cifar10, cifar100, emnist, leaf, svhn; is \
leaf meant?
    """
    return find(FORMATS, format, "format")(Path(path))
