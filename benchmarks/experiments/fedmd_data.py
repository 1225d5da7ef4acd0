"""Stand-ins for FedMD's data: public samples, private ones that parties share, and a test set.

FEMNIST letters and CIFAR-100 are not always at hand, so figures are made on sets that are: Fashion-MNIST beside public
MNIST, six classes of CIFAR-10 beside its other four, and FEMNIST digits by client beside public MNIST. Beside them is
Fashion-MNIST with public samples of the same classes, without labels: what someone has who collects samples of the
kind that is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, SeededRandomness, permutations
from tacit.datasets.color_images import read_cifar10, read_cifar100
from tacit.datasets.mnist import find_idx, read_idx
from tacit.private.partition import split_by_owner
from tacit.runs.task import Partition

__all__ = [
    "STAND_INS",
    "StandIn",
    "cifar100_six",
    "cifar100_superclasses",
    "cifar_six",
    "clothes",
    "fashion_six",
    "femnist_digits",
    "partitioned",
]

# The first six classes of Fashion-MNIST, and the six animals of CIFAR-10.
FASHION, ANIMALS = tuple(range(6)), (2, 3, 4, 5, 6, 7)
# Of CIFAR-100, as in the paper.
SUBCLASSES, SUPERCLASSES = (0, 2, 20, 63, 71, 82), tuple(range(6))
TESTED = 2000  # every party's model predicts the test part after every round
CHOSEN_WITH = 6000  # samples that chose a setting
INK = 50  # of 255: lighter pixels are paper
DEBIAN = Path("/usr/share/datasets/fashion-mnist")


@dataclass(frozen=True)
class StandIn:
    """A data set for FedMD: private samples with labels (and owners), public samples with labels, a test set."""

    name: str
    samples: NDArray[np.uint8]
    labels: Integers
    owners: NDArray[Any] | None
    public: NDArray[np.uint8]
    public_labels: Integers | None
    test: tuple[NDArray[np.uint8], Integers]
    classes: tuple[int, ...]


def _idx_pair(folder: Path, stem: str) -> tuple[NDArray[np.uint8], Integers]:
    images = read_idx(find_idx(folder, f"{stem}-images-idx3-ubyte"), dimensions=3).astype(np.uint8)
    return images, read_idx(find_idx(folder, f"{stem}-labels-idx1-ubyte"), dimensions=1).astype(np.int64)


def _shuffled(count: int, seed: int) -> Integers:
    order: Integers = permutations(1, count, SeededRandomness(seed))[0]
    return order


def _framed(image: NDArray[np.uint8], side: int = 20) -> NDArray[np.uint8]:
    """The ink of an image, enlarged to a box of that side in the middle: what MNIST's makers did to theirs."""
    from scipy.ndimage import zoom

    rows, columns = np.flatnonzero((image > INK).any(axis=1)), np.flatnonzero((image > INK).any(axis=0))
    if not len(rows):
        return image
    ink = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(np.float64)
    large = np.clip(zoom(ink, side / max(ink.shape), order=1, grid_mode=True, mode="nearest"), 0, 255)
    frame = np.zeros_like(image)
    top, left = (frame.shape[0] - large.shape[0]) // 2, (frame.shape[1] - large.shape[1]) // 2
    frame[top : top + large.shape[0], left : left + large.shape[1]] = large.astype(np.uint8)
    return frame


def femnist_digits(folder: str | Path, public: int = 10_000) -> StandIn:
    """FEMNIST digits of twelve clients, a fifth of each held out for the test; public MNIST digits.

    The folder holds ``femnist-digits/femnist_digits.npz`` and ``mnist/`` with MNIST's idx files.
    """
    file = Path(folder) / "femnist-digits" / "femnist_digits.npz"
    if not file.is_file():
        raise InvalidInput(f"{file}: no such file")
    with np.load(file, allow_pickle=False) as archive:
        # FEMNIST writes dark on light and small, MNIST light on dark and filling the frame.
        images, labels, owners = archive["images"], archive["labels"].astype(np.int64), archive["client"]
        images = np.stack([_framed(255 - image) for image in images])
    held = np.zeros(len(labels), dtype=np.bool_)
    for rows in split_by_owner(owners):
        held[rows[_shuffled(len(rows), 7)[: len(rows) // 5]]] = True
    shown, marks = _idx_pair(Path(folder) / "mnist", "train")
    chosen = np.sort(_shuffled(len(shown), 11)[:public])
    return StandIn(
        "femnist digits by client", images[~held], labels[~held], owners[~held], shown[chosen], marks[chosen],
        (images[held], labels[held]), tuple(range(10)),
    )  # fmt: skip


def _fashion(folder: str | Path) -> tuple[NDArray[np.uint8], Integers, tuple[NDArray[np.uint8], Integers]]:
    """Six classes of Fashion-MNIST, shuffled, and of its test part the first samples of these classes."""
    places = [Path(folder) / "fashion-mnist", DEBIAN]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise InvalidInput(f"Fashion-MNIST is at none of {', '.join(map(str, places))} (Debian: dataset-fashion-mnist)")
    images, labels = _idx_pair(found, "train")
    test_images, test_labels = _idx_pair(found, "t10k")
    own, tested = np.flatnonzero(np.isin(labels, FASHION)), np.flatnonzero(np.isin(test_labels, FASHION))[:TESTED]
    own = own[_shuffled(len(own), 13)]
    return images[own], labels[own], (test_images[tested], test_labels[tested])


def fashion_six(folder: str | Path, records: int = 28_800, public: int = 10_000) -> StandIn:
    """Six classes of Fashion-MNIST, in ``fashion-mnist/`` or where Debian's package puts them; public MNIST."""
    images, labels, test = _fashion(folder)
    shown, marks = _idx_pair(Path(folder) / "mnist", "train")
    seen = np.sort(_shuffled(len(shown), 11)[:public])
    return StandIn(
        "six classes of Fashion-MNIST, public MNIST", images[:records], labels[:records], None, shown[seen],
        marks[seen], test, FASHION,
    )  # fmt: skip


def clothes(folder: str | Path, records: int = 22_800) -> StandIn:
    """The same six classes of Fashion-MNIST; public are 7,200 other samples of these classes, without their labels.

    The first samples chose how many predictions ``tacit bench fedmd --figure guarantees`` asks for. They are left out
    here, so that what chose a setting is not what is measured with it.
    """
    images, labels, test = _fashion(folder)
    last = CHOSEN_WITH + records
    return StandIn(
        "six classes of Fashion-MNIST, other samples of the same public without labels", images[CHOSEN_WITH:last],
        labels[CHOSEN_WITH:last], None, images[last:], None, test, FASHION,
    )  # fmt: skip


def cifar_six(folder: str | Path, records: int = 3000, public: int = 10_000) -> StandIn:
    """Six classes of CIFAR-10 (binary version, in ``cifar10/``) are private, the other four public."""
    place = Path(folder) / "cifar10"
    batches = [read_cifar10(place / f"data_batch_{number}.bin") for number in range(1, 6)]
    images, labels = (np.concatenate([batch[part] for batch in batches]) for part in (0, 1))
    test_images, test_labels = read_cifar10(place / "test_batch.bin")
    own, other = np.flatnonzero(np.isin(labels, ANIMALS)), np.flatnonzero(~np.isin(labels, ANIMALS))
    private = own[_shuffled(len(own), 13)[:records]]
    shown = np.sort(other[_shuffled(len(other), 11)[:public]])
    tested = np.flatnonzero(np.isin(test_labels, ANIMALS))[:TESTED]
    return StandIn(
        "six classes of CIFAR-10, public the other four", images[private], labels[private], None,
        images[shown], labels[shown], (test_images[tested], test_labels[tested]), ANIMALS,
    )  # fmt: skip


def cifar100_six(folder: str | Path, public: int = 10_000) -> StandIn:
    """The paper's own: six subclasses of CIFAR-100 (``cifar100/``), 3,000 images, are private; public CIFAR-10."""
    train, test = (read_cifar100(Path(folder) / "cifar100", part) for part in ("train", "test"))
    own, tested = (np.flatnonzero(np.isin(part.fine, SUBCLASSES)) for part in (train, test))
    own = own[_shuffled(len(own), 13)]
    shown, marks = read_cifar10(Path(folder) / "cifar10" / "data_batch_1.bin")
    return StandIn(
        "six subclasses of CIFAR-100, public CIFAR-10", train.images[own], train.fine[own], None, shown[:public],
        marks[:public], (test.images[tested], test.fine[tested]), SUBCLASSES,
    )  # fmt: skip


def cifar100_superclasses(folder: str | Path, parties: int = 10, records: int = 300) -> StandIn:
    """The paper's non-IID case: superclasses 0 to 5 of CIFAR-100, each party has one subclass of each; public CIFAR-10.

    The test has as many images of every subclass, of which a party knows one in five.
    """
    train, test = (read_cifar100(Path(folder) / "cifar100", part) for part in ("train", "test"))
    rows, owners = [], []
    for superclass in SUPERCLASSES:
        inside = np.unique(train.fine[train.coarse == superclass])
        for place, subclass in enumerate(inside):
            own = np.flatnonzero(train.fine == subclass)
            own = own[_shuffled(len(own), 13)]
            # Parties that share a subclass have different images of it.
            for nth, party in enumerate(range(place, parties, len(inside))):
                share = own[nth * records // len(SUPERCLASSES) :][: records // len(SUPERCLASSES)]
                rows.append(share)
                owners.append(np.full(len(share), party))
    kept, tested = np.concatenate(rows), np.flatnonzero(np.isin(test.coarse, SUPERCLASSES))
    tested = tested[_shuffled(len(tested), 7)[:TESTED]]
    shown, marks = read_cifar10(Path(folder) / "cifar10" / "data_batch_1.bin")
    return StandIn(
        "superclasses 0 to 5 of CIFAR-100, one subclass of each per party, public CIFAR-10", train.images[kept],
        train.coarse[kept], np.concatenate(owners), shown, marks, (test.images[tested], test.coarse[tested]),
        SUPERCLASSES,
    )  # fmt: skip


STAND_INS: Mapping[str, Callable[[str | Path], StandIn]] = {
    "fashion": fashion_six,
    "cifar10": cifar_six,
    "femnist": femnist_digits,
    "clothes": clothes,
    "cifar100": cifar100_six,
    "cifar100-superclasses": cifar100_superclasses,
}


def partitioned(
    data: StandIn, parties: int, how: str = "iid", alpha: float = 0.5, seed: int = 0
) -> list[tuple[NDArray[np.uint8], Integers]]:
    """The private samples as pairs (X, y), one per party: ``iid``, ``dirichlet``, ``class`` or ``owner``.

    By owner, only the first this many owners take part. A party that a Dirichlet draw left without records is dropped.

    >>> toy = StandIn("toy", np.zeros((6, 2, 2), dtype=np.uint8), np.arange(6) % 2, None, None, None, None, (0, 1))
    >>> [len(y) for _, y in partitioned(toy, 3)]
    [2, 2, 2]
    """
    if how == "owner":
        if data.owners is None:
            raise InvalidInput(f"{data.name}: the samples have no owners")
        split = split_by_owner(data.owners)
        if not 1 <= parties <= len(split):
            raise InvalidInput(f"parties must be between 1 and the {len(split)} owners, got {parties}")
        split = split[:parties]
    else:
        divided = Partition(parties, "even" if how == "iid" else how, alpha)
        split = [rows for rows in divided.split(data.labels, None, seed) if len(rows)]
    return [(data.samples[rows], data.labels[rows]) for rows in split]
