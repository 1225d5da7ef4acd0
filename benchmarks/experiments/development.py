"""Data sets that the default was developed on, raw as a user has them, in fixed and disjoint parts.

Each is read from its publisher's own files. Parts are drawn by a fixed permutation, so that every run sees the same
private, public and test samples. Labels of public samples are kept for one line of the tables only: what the same
student would reach if it were taught the truth.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Unit
from tacit.datasets.published import Parts

__all__ = ["SETS", "DevelopmentSet", "read_set"]

ORDER = 20_260_101
FASHION = "/usr/share/datasets/fashion-mnist"  # where Debian's package puts it


@dataclass(frozen=True)
class DevelopmentSet:
    """Raw samples in three parts; of persons where records belong to some."""

    name: str
    private: tuple[Any, NDArray[Any]]
    public: Any
    public_labels: NDArray[Any]
    test: tuple[Any, NDArray[Any]]
    classes: tuple[Any, ...]
    persons: NDArray[Any] | None = None
    column: str = ""

    def settings(self, records: int = 1) -> dict[str, Any]:
        """What the door is told of this set beside its samples: the classes and whose the records are."""
        known: dict[str, Any] = {"classes": self.classes}
        if self.persons is not None:
            known |= {"persons": self.persons, "unit": Unit.person(self.column, records)}
        return known


def _shuffled(count: int) -> NDArray[np.int64]:
    return np.random.default_rng(ORDER).permutation(count)


def _digits(_: Path) -> DevelopmentSet:
    from tacit.datasets.published import digits

    return _divided("digits", digits())


def _images(name: str, folder: Path) -> DevelopmentSet:
    """60,000 private images; the published test images are half public, half test."""
    from tacit.datasets.mnist import mnist

    return _divided(name, mnist(folder))


def _divided(name: str, parts: Parts) -> DevelopmentSet:
    return DevelopmentSet(
        name,
        (parts.private_samples, parts.private_labels),
        parts.public_samples,
        parts.public_labels,
        (parts.test_samples, parts.test_labels),
        tuple(parts.classes.tolist()),
    )


def _cifar10(folder: Path) -> DevelopmentSet:
    """29,000 private and the 21,000 other training images public; the whole published test file is the test."""
    from tacit.datasets.color_images import read_cifar10

    parts = [read_cifar10(folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    images, labels = (np.concatenate([part[each] for part in parts]) for each in (0, 1))
    order = _shuffled(len(images))
    private, public = order[:29_000], order[29_000:]
    test = read_cifar10(folder / "test_batch.bin")
    return DevelopmentSet(
        "cifar10", (images[private], labels[private]), images[public], labels[public], test, tuple(range(10))
    )


def _svhn(folder: Path) -> DevelopmentSet:
    """The training file is private; the published test file is half public, half test."""
    from tacit.datasets.color_images import read_svhn

    private, (images, labels) = read_svhn(folder / "train_32x32.mat"), read_svhn(folder / "test_32x32.mat")
    order = _shuffled(len(images))
    public, test = np.array_split(order, 2)
    return DevelopmentSet(
        "svhn", private, images[public], labels[public], (images[test], labels[test]), tuple(range(10))
    )


def _cifar100(folder: Path) -> DevelopmentSet:
    """29,000 private and the 21,000 other training images public; the whole published test file is the test."""
    from tacit.datasets.color_images import read_cifar100

    train, test = (read_cifar100(folder, part) for part in ("train", "test"))
    order = _shuffled(len(train.images))
    private, public = order[:29_000], order[29_000:]
    return DevelopmentSet(
        "cifar100", (train.images[private], train.fine[private]), train.images[public], train.fine[public],
        (test.images, test.fine), tuple(range(100)),
    )  # fmt: skip


def _adult(folder: Path) -> DevelopmentSet:
    import pandas as pd

    table = pd.read_csv(folder / "adult.csv", skipinitialspace=True)
    train, test = (table[table["split"] == part].drop(columns="split") for part in ("train", "test"))
    train = train.iloc[_shuffled(len(train))]
    return _table("adult", train[:20_000], train[20_000:], test, "income")


def _diabetes(folder: Path) -> DevelopmentSet:
    """Of the patients 60 % are private, 20 % public and 20 % test, with all encounters of each."""
    import pandas as pd

    table = pd.read_csv(folder / "diabetic_data.csv", na_values="?", keep_default_na=False, low_memory=False)
    table["readmitted"] = np.where(table["readmitted"] == "NO", "no", "yes")
    patients = table["patient_nbr"].unique()
    patients = patients[_shuffled(len(patients))]
    bounds = [int(0.6 * len(patients)), int(0.8 * len(patients))]
    parts = [table[table["patient_nbr"].isin(some)] for some in np.split(patients, bounds)]
    owners = parts[0]["patient_nbr"].to_numpy()
    private, public, test = (part.drop(columns="patient_nbr") for part in parts)
    return _table("diabetes130", private, public, test, "readmitted", owners, "patient_nbr")


def _table(
    name: str,
    private: Any,  # noqa: ANN401
    public: Any,  # noqa: ANN401
    test: Any,  # noqa: ANN401
    label: str,
    persons: NDArray[Any] | None = None,
    column: str = "",
) -> DevelopmentSet:
    def pair(part: Any) -> tuple[Any, NDArray[Any]]:  # noqa: ANN401
        return part.drop(columns=label).reset_index(drop=True), part[label].to_numpy(dtype=str)

    samples, truth = pair(public)
    classes = tuple(sorted(set(truth.tolist())))
    return DevelopmentSet(name, pair(private), samples, truth, pair(test), classes, persons, column)


def _texts(
    name: str, texts: list[str], labels: list[str], sizes: tuple[int, int], test: tuple[list[str], list[str]] | None
) -> DevelopmentSet:
    """The first of a permutation are private, the next public; the rest is the test where none is given."""
    order = _shuffled(len(texts))
    said, told = np.array(texts, dtype=object)[order], np.array(labels)[order]
    first, second = sizes[0], sum(sizes)
    rest = (said[second:], told[second:]) if test is None else (np.array(test[0], dtype=object), np.array(test[1]))
    return DevelopmentSet(
        name, (said[:first], told[:first]), said[first:second], told[first:second], rest, tuple(sorted(set(labels)))
    )


def _ag_news(folder: Path) -> DevelopmentSet:
    def read(file: str) -> tuple[list[str], list[str]]:
        with (folder / file).open(newline="", encoding="utf-8") as lines:
            rows = list(csv.reader(lines))
        return [f"{title}. {text}" for _, title, text in rows], [label for label, _, _ in rows]

    return _texts("ag-news", *read("train.csv"), (7000, 3000), read("test.csv"))


def medical_abstracts(folder: Path) -> tuple[list[str], list[str]]:
    """The texts and the labels of ``medical_abstracts.csv``."""
    with (folder / "medical_abstracts.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return [row["medical_abstract"] for row in rows], [row["condition_label"] for row in rows]


def _medical_abstracts(folder: Path) -> DevelopmentSet:
    return _texts("medical-abstracts", *medical_abstracts(folder), (1444, 722), None)


def _ohsumed(folder: Path) -> DevelopmentSet:
    """The published training part is private; the published test part is half public, half test."""
    with (folder / "ohsumed23.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    train = [row for row in rows if row["split"] == "train"]
    others = [row for row in rows if row["split"] != "train"]
    order = _shuffled(len(others))

    def part(chosen: list[dict[str, str]]) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.array([row["text"] for row in chosen], dtype=object), np.array([row["label"] for row in chosen])

    half = len(others) // 2
    public, truth = part([others[place] for place in order[:half]])
    test = part([others[place] for place in order[half:]])
    classes = tuple(sorted({row["label"] for row in rows}))
    return DevelopmentSet("ohsumed", part(train), public, truth, test, classes)


SETS: Mapping[str, Callable[[Path], DevelopmentSet]] = {
    "digits": _digits,
    "mnist": partial(_images, "mnist"),
    "fashion": lambda folder: _images("fashion", folder if folder.exists() else Path(FASHION)),
    "svhn": _svhn,
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "adult": _adult,
    "diabetes130": _diabetes,
    "ag-news": _ag_news,
    "medical-abstracts": _medical_abstracts,
    "ohsumed": _ohsumed,
}


def read_set(name: str, folder: Path) -> DevelopmentSet:
    """The data set of that name, whose files lie in ``folder``/name.

    >>> read_set("digits", Path()).public.shape
    (500, 64)
    >>> read_set("letters", Path())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown data set 'letters': choose one of digits, ...
    """
    if name not in SETS:
        raise InvalidInput(f"unknown data set {name!r}: choose one of {', '.join(SETS)}")
    try:
        return SETS[name](folder / name)
    except FileNotFoundError as error:
        raise InvalidInput(f"{name}: {error.filename} is missing; see the data sets' own pages") from None
