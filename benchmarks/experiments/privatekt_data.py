"""The data sets of the PrivateKT bench: which part is private, public or for the test, and who holds what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.development import medical_abstracts, read_set
from tacit.datasets.mnist import medmnist, mnist
from tacit.datasets.published import Parts, rows_of, split
from tacit.datasets.tables import row_marks
from tacit.methods.encoding import EncodedCache
from tacit.methods.privatekt.options import Learning, Teaching

__all__ = ["AUTHORS", "DATA", "Data", "Setting", "repartitioned"]


@dataclass(frozen=True)
class Setting:
    """One way to run: who is asked how often at what price, and what is made of the answers."""

    round_epsilon: str | None = "5"
    epsilon: str | None = None
    delta: str = "1e-5"
    rounds: int = 500
    answers: int = 2
    holders: int = 80
    alpha: float = 0.5
    participation: float = 0.5
    model: Any = "auto"
    local: Any = None
    groups: int | None = None
    representation: Any = "identity"
    names: bool = False  # whether beliefs from the classes' names are given
    learning: Learning = field(default_factory=Learning)
    teaching: Teaching = field(default_factory=lambda: Teaching(pool=2000))


# 80 holders, half of them per round, two answers each at ε = 5 per round, a buffer of 25 rounds, 500 rounds.
AUTHORS = Setting()


@dataclass(frozen=True)
class Data:
    """A data set: its parts, the setting of its main row, its lengths of shorter runs, and what is to be said of it."""

    parts: Callable[[Path, Path], Parts]
    setting: Setting
    short: int
    notes: tuple[str, ...]


def _mnist(folder: Path, cache: Path) -> Parts:
    known = mnist(folder)
    test = np.concatenate([known.public_samples, known.test_samples])
    labels = np.concatenate([known.public_labels, known.test_labels])
    return repartitioned("mnist", (known.private_samples, known.private_labels), (test, labels), 12_000)


def _pneumonia(folder: Path, cache: Path) -> Parts:
    known, test = medmnist(folder)
    return repartitioned("pneumonia", known, test, 1_232)


def _text(folder: Path, cache: Path) -> Parts:
    from tacit.representations.torch_minilm import TextFeatures

    words, names = medical_abstracts(folder)
    texts, labels = np.array(words), np.array(names, dtype=np.int64)
    encoded = EncodedCache(cache / "encoded").encode(TextFeatures(TOKENS), texts)
    letters = split("medical-abstracts privatekt", len(labels), {"test": TESTED, "private": len(labels) - TESTED})
    known, test = rows_of(letters, "private"), rows_of(letters, "test")
    return repartitioned("text", (encoded[known], labels[known]), (encoded[test], labels[test]), 788)


def _news(folder: Path, cache: Path) -> Parts:
    from tacit.representations.torch_minilm import TextFeatures

    known, kept = read_set("ag-news", folder), EncodedCache(cache / "encoded")
    private, public, test = (
        kept.encode(TextFeatures(NEWS_TOKENS), np.array(texts.tolist()))
        for texts in (known.private[0], known.public, known.test[0])
    )
    return Parts(
        private, known.private[1], public, known.public_labels, test, known.test[1], np.array(known.classes)
    )  # fmt: skip


# Of an abstract and of a piece of news, and abstracts for the test.
TOKENS, NEWS_TOKENS, TESTED = 128, 64, 600

DATA: Mapping[str, Data] = {
    "mnist": Data(
        _mnist,
        AUTHORS,
        80,
        (
            "12,000 of the 60,000 training images are public, 48,000 private: 80 holders, classes divided by "
            "Dirichlet draws (.5). The test file is for the test.",
        ),
    ),
    "mnist-1000": Data(
        _mnist,
        replace(AUTHORS, holders=1000),
        80,
        (
            "12,000 of the 60,000 training images are public, 48,000 private: 1,000 holders of 48 on average, classes "
            "divided by Dirichlet draws (.5). The test file is for the test.",
        ),
    ),
    "pneumonia": Data(
        _pneumonia,
        replace(AUTHORS, holders=40, rounds=100),
        40,
        (
            "PneumoniaMNIST, chest X-rays, two classes: 1,232 of the 5,232 images for training and validation are "
            "public (less 11 copies of private ones), 4,000 private: 40 holders, Dirichlet (.5). The test images come "
            "from another distribution than those for training, as published; 62.5 % of them are of one class.",
        ),
    ),
    "text": Data(
        _text,
        replace(AUTHORS, holders=30, rounds=100),
        40,
        (
            "Medical abstracts, five classes, 2,888 of the published test file only: 600 for the test, 788 public, "
            "1,500 private: 30 holders, Dirichlet (.5). Texts are encoded by MiniLM (public weights; the first "
            f"{TOKENS} tokens), and networks are perceptrons on the encodings.",
        ),
    ),
    "news": Data(
        _news,
        replace(AUTHORS, holders=200, alpha=1.0, rounds=100),
        40,
        (
            "AG News, four classes: of 10,000 texts of the training file 7,000 are private, 200 holders, Dirichlet (1: "
            "at .5 some holder has no text at all), and 3,000 public; the whole test file, 7,600, is for the test. "
            f"Texts are encoded by MiniLM (public weights; the first {NEWS_TOKENS} tokens).",
        ),
    ),
}


def repartitioned(
    name: str, known: tuple[NDArray[Any], NDArray[Any]], test: tuple[NDArray[Any], NDArray[Any]], public: int
) -> Parts:
    """This many public samples of a training set and the rest private, always the same; images are scaled to [0, 1].

    Public copies of private samples are left out.

    For text, hand over what an encoder that never saw the set makes of it.

    >>> parts = repartitioned("toy", (np.eye(5), np.arange(5) % 2), (np.zeros((1, 5)), np.zeros(1)), public=2)
    >>> len(parts.private_samples), len(parts.public_samples)
    (3, 2)
    """
    samples, labels = known
    letters = split(f"{name} privatekt", len(labels), {"public": public, "private": len(labels) - public})
    mine, shown = rows_of(letters, "private"), rows_of(letters, "public")
    # Some published sets hold the same sample twice; what is private is not public.
    known_marks = set(row_marks(samples[mine]))
    shown = np.array(
        [row for row, mark in zip(shown, row_marks(samples[shown]), strict=True) if mark not in known_marks]
    )

    def scaled(values: NDArray[Any]) -> NDArray[Any]:
        return values.astype(np.float32) / 255 if values.dtype == np.uint8 else values

    return Parts(
        scaled(samples[mine]), labels[mine], scaled(samples[shown]), labels[shown], scaled(test[0]), test[1],
        np.unique(labels),
    )  # fmt: skip
