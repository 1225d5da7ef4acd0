"""Fixed private, public and test parts of a data set, and scikit-learn's bundled digits in such parts.

A sample's part depends on the data set's name and the sample's place in the published file alone, by a hash: no
generator's version can change it, and nobody chose it. The parts are disjoint, and kept in a file to read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["LETTERS", "Parts", "digits", "rows_of", "split", "write_split"]

PRIVATE, PUBLIC = 1000, 500
SPLIT_SEED = 20260101
LETTERS = {"private": "p", "public": "u", "test": "t"}
_WIDTH = 100  # letters a line


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
    """The places of a part's samples.

    >>> rows_of("putt", "test").tolist()
    [2, 3]
    """
    return np.flatnonzero(np.array(list(letters)) == LETTERS[part]).astype(np.int64)


def write_split(letters: str, file: Path) -> None:
    """Publish a split, a hundred letters a line; a file that is there must say the same."""
    lines = [letters[start : start + _WIDTH] for start in range(0, len(letters), _WIDTH)]
    text = "\n".join(lines) + "\n"
    if file.exists():
        if file.read_text(encoding="ascii") != text:
            raise InvalidInput(f"{file}: holds another split of this data set; published splits never change")
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="ascii")
