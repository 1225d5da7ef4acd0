"""CIFAR-10 without knowledge beyond its own public images: typical patches of them, and class sums or gradients.

Run: python benchmarks/public_patches.py --folder DATA [--runs 3] [--kept] [--cache FOLDER]

A dictionary of small patches is learned from the public images alone (``PatchDictionary``, after Coates et al., 2011),
which encodes all images once; no labeled photograph of anybody else is used. DATA/cifar10 has the published files.
Every measurement is kept, by its settings and a digest of the code. Writes docs/results/cifar10-patches.json, .md and
.png.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from experiments.charts import over_epsilon
from experiments.development import DevelopmentSet, read_set
from experiments.kept_encodings import KeptRows
from experiments.measured import Memory
from experiments.public_odds import DELTA, Known
from experiments.seeded import INTERVAL, MEASURES, MUCH, Seeded, line, noise_in_words
from experiments.table import Result, Row, write_result
from tacit.core import TacitWarning
from tacit.report.charts import draw_chart
from tacit.representations.patches import PatchDictionary
from tacit.representations.scaled import PrincipalComponents

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
NAME = "cifar10-patches"
WORDS, STRIDE, COMPONENTS, WHITENING = 200, 2, 256, 0.5
EPSILONS = (1.0, 0.29, 0.1)
CODE = ("experiments.public_odds", "tacit.representations.patches", "tacit.methods.noisy_sgd.method")
NOTES = [
    "Private: 29,000 of the training files; public: the other 21,000, without labels; test: the whole published test "
    f"file. δ = {DELTA:g}, replace-one, one curator.",
    f"Public knowledge: the public images without labels, and nothing else. {WORDS} words of 6 by 6 pixels, at every "
    f"second place, averaged in quarters of the image; {COMPONENTS} components, half whitened. All was set before "
    "anything was measured.",
    "ε = 0: a guess among ten classes. No noise: ε = 10⁶, one run. No privacy: a logistic regression on all records.",
    INTERVAL,
]


def read(found: DevelopmentSet, cache: Path) -> Known:
    """The images by the patches of the public ones; nothing is known of their classes."""
    words, kept = PatchDictionary.fit(found.public, words=WORDS, stride=STRIDE), KeptRows(cache / "encodings")
    name = f"patches-{WORDS}-{STRIDE}"
    seen = [kept.rows(name, each, words.encode) for each in (found.private[0], found.public, found.test[0])]
    space = PrincipalComponents.fit(seen[1], COMPONENTS, whitening=WHITENING)
    private, public, test = (space.encode(each) for each in seen)
    even = [np.full((len(each), len(found.classes)), 1 / len(found.classes)) for each in (public, test)]
    return Known(private, found.private[1], public, found.public_labels, test, found.test[1], *even)


def summed(known: Known, epsilon: float, seed: int) -> Mapping[str, Any]:
    """One release of class sums, and a regression that has them."""
    released = known.sums(epsilon, seed)
    return {**known.judged(released.alone()), "components": released.run.recipe["components"]}


def descended(known: Known, epsilon: float, seed: int) -> Mapping[str, Any]:
    """Noisy SGD of a logistic regression, with its own defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(
            (known.private, known.labels), known.public, epsilon, delta=DELTA, classes=range(known.classes),
            method="noisy_sgd", representation="identity", seed=seed,
        )  # fmt: skip
    guessed = run.student.predict(known.test)
    return {"labels": float((run.labels == known.public_labels).mean()), "test": float((guessed == known.truth).mean())}


def direct(known: Known, *_: float) -> Mapping[str, Any]:
    """No privacy."""
    from tacit.students.weighted import logistic

    return {"test": float(logistic().fit(known.private, known.labels).score(known.test, known.truth))}


def lines(known: Known, seeded: Seeded) -> Iterator[Row]:
    """From nothing to no privacy."""
    yield line("0", "a guess", [{"labels": 1 / known.classes, "test": 1 / known.classes}])
    for epsilon in (*EPSILONS, MUCH):
        shown = noise_in_words(epsilon)
        yield line(shown, "class sums", seeded.runs("sums", epsilon, partial(summed, known), CODE))
        if epsilon != MUCH:
            yield line(shown, "noisy SGD", seeded.runs("gradients", epsilon, partial(descended, known), CODE))
    yield line("no privacy", "the records themselves", seeded.runs("direct", 0, partial(direct, known), CODE))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="one folder per data set")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=KEPT, help="where encodings and measurements are kept")
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    known = read(read_set("cifar10", given.folder), given.cache)
    seeded = Seeded(Memory(given.cache / NAME), given.runs, partial(print, flush=True), given.kept)
    caption = f"CIFAR-10 by patches of its public images, {len(known.labels):,} records; % right."
    result = Result(NAME, caption, list(lines(known, seeded)), MEASURES, NOTES).measured()
    files = write_result(result, RESULTS)
    chart = over_epsilon("CIFAR-10 by patches of its public images", result.rows, NAME)
    for file in [*files, draw_chart(chart, RESULTS / f"{NAME}.png")]:
        print(file)


if __name__ == "__main__":
    main()
