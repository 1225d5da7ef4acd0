"""Writes the splits of the published settings into docs/results/splits: one letter per sample of the published file.

A file that is there must contain the same split: published splits never change.

Run: python benchmarks/splits.py
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.core import InvalidInput
from tacit.datasets.color_images import CIFAR10_TEST, SVHN_TEST
from tacit.datasets.published import split

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "splits"
_WIDTH = 100  # letters per line
# Of each set: the samples in the published file, and the sizes of the parts.
SPLITS: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "cifar10": (60_000, {"public": 30_000, "test": CIFAR10_TEST, "private": 30_000 - CIFAR10_TEST}),
    "mnist": (10_000, {"public": 5000, "test": 5000}),
    "svhn": (10_000, {"test": SVHN_TEST, "public": 10_000 - SVHN_TEST}),
    # The whole published test file; the training file is private.
    "svhn-complete": (26_032, {"test": 6032, "public": 20_000}),
}


def write_split(letters: str, file: Path) -> None:
    """Write a split, a hundred letters per line; an existing file must contain the same split."""
    lines = [letters[start : start + _WIDTH] for start in range(0, len(letters), _WIDTH)]
    text = "\n".join(lines) + "\n"
    if file.exists():
        if file.read_text(encoding="ascii") != text:
            raise InvalidInput(f"{file}: contains another split of this data set; published splits never change")
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="ascii")


def main() -> None:
    """Write every split."""
    for name, (samples, sizes) in SPLITS.items():
        write_split(split(name, samples, sizes), RESULTS / f"{name}.txt")
        print(f"{name}: {', '.join(f'{count} {part}' for part, count in sizes.items())}")


if __name__ == "__main__":
    main()
