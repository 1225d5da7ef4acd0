"""CIFAR-10 by a network whose own classes have names: what the names say alone, and what the records add to it.

Run: python benchmarks/network_names.py --folder DATA [--runs 5] [--figure central,local] [--kept] [--cache FOLDER]

EfficientNet-lite0 was taught ImageNet's thousand classes, whose names belong to CIFAR-10's ten (experiments'
``leaderboard_public``). So the frozen encoder says what is in an image without any record. DATA/cifar10 has the
published files; needs the extra ``features``. Images are encoded once and kept in the cache; so is every measurement,
by its settings and a digest of the code. Writes docs/results/cifar10-names-*.json, .md and .png.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from experiments.charts import over_epsilon
from experiments.development import read_set
from experiments.kept_encodings import KeptRows
from experiments.measured import Memory
from experiments.named_groups import grouped_by, named, summed, voted
from experiments.public_odds import DELTA, Known
from experiments.seeded import INTERVAL, MEASURES, MUCH, Seeded, line, noise_in_words
from experiments.table import Result, Row, write_result
from tacit.datasets.color_images import cifar10
from tacit.report.charts import draw_chart
from tacit.representations.chained import Chained
from tacit.representations.scaled import Directions, PrincipalComponents

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
EPSILONS, LOCAL = (1.0, 0.29, 0.1, 0.01), (1.0, 0.4, 0.2)
COMPONENTS = 128
CODE = ("experiments.named_groups", "tacit.representations.torch_efficientnet", "tacit.methods.rknn.method")
KNOWLEDGE = (
    "Public knowledge: the public images without labels; EfficientNet-lite0, trained on ImageNet's labeled photos, at "
    "192 pixels, frozen; and which of ImageNet's class names belong to which of the ten (no deer: antelopes). The "
    "mixture knows also that the ten classes are equally frequent; that, and its three steps, were chosen by labels of "
    "public images."
)
JOINED = (
    "How names and answers are joined was changed once, because public labels were wrong before; the test figures of "
    "that run had been printed beside them. Lines stand side by side; none was chosen by the test part."
)
SPLITS = {
    "complete": "Public: 21,000 of the training files; private: of the 29,000 others, and test: of the published test "
    "file, as many as are named above, from the first on.",
    "paper": "The paper's split: public 30,000, private 29,000, test 1,000 (splits/cifar10.txt), or as many as above.",
}


def read(folder: Path, cache: Path, which: str, records: int | None = None, tests: int | None = None) -> Known:
    """The images as the network sees them, with the chances of the ten classes by its names.

    Of the private and the test images all, or the first ones.
    """
    from tacit.representations.torch_efficientnet import ImageNetFeatures

    private, public, test = _parts(folder, which)
    private, test = ((images[:most], truth[:most]) for (images, truth), most in ((private, records), (test, tests)))
    network, kept = ImageNetFeatures.fit(public[0]), KeptRows(cache / "encodings")
    seen = [kept.rows(network.digest, images, network.encode) for images, _ in (private, public, test)]
    encoder = Chained.fit(seen[1], lambda rows: PrincipalComponents.fit(rows, COMPONENTS), Directions.fit)
    rows = [encoder.encode(each) for each in seen]
    return Known(rows[0], private[1], rows[1], public[1], rows[2], test[1], named(seen[1]), named(seen[2]))


def _parts(folder: Path, which: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    if which == "paper":
        parts = cifar10(folder / "cifar10")
        return [
            (parts.private_samples, parts.private_labels), (parts.public_samples, parts.public_labels),
            (parts.test_samples, parts.test_labels),
        ]  # fmt: skip
    found = read_set("cifar10", folder)
    return [found.private, (found.public, found.public_labels), found.test]


def central_lines(known: Known, seeded: Seeded, about: Mapping[str, Any]) -> Iterator[Row]:
    """What the names say, and what records add."""
    yield from nothing(known)
    for epsilon in (*EPSILONS, MUCH):
        sums = seeded.runs("sums", epsilon, partial(summed, known), CODE, about)
        shown = noise_in_words(epsilon)
        yield line(shown, "the mixture, corrected by class sums", sums, "around")
        yield line(shown, "the mixture times class sums, then a mixture", sums, "both, mixed")
        yield line(shown, "class sums alone, then a mixture", sums, "alone, mixed")
        yield line(shown, "class sums alone", sums, "alone")


def local_lines(known: Known, seeded: Seeded, about: Mapping[str, Any]) -> Iterator[Row]:
    """One record per holder, which nobody is trusted with."""
    yield from nothing(known)
    for epsilon in LOCAL:
        answers = seeded.runs("answers", epsilon, partial(voted, known), CODE, about)
        yield line(f"local {epsilon:g}", "groups named by the answers and the names", answers, "both")
        yield line(f"local {epsilon:g}", "groups named by the answers alone", answers, "answers")


def nothing(known: Known) -> Iterator[Row]:
    """The lines without any record."""
    grouped = grouped_by(known)
    yield line("0", "the network's own classes, by name", [known.judged((known.chances, known.test_chances))])
    yield line(
        "0", "the same in a mixture of even classes", [known.judged((grouped.public, grouped.chances(known.test)))]
    )


FIGURES = {"central": central_lines, "local": local_lines}
CAPTIONS = {
    "central": f"class sums, δ = {DELTA:g}, replace-one, one curator",
    "local": "one randomized answer per record, δ = 0, nobody is trusted",
}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="one folder per data set")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--figure", default="central,local")
    parser.add_argument("--split", default="complete", choices=list(SPLITS))
    parser.add_argument("--records", type=int, help="the first private images only; all if left out")
    parser.add_argument("--tests", type=int, help="the first test images only; all if left out")
    parser.add_argument("--cache", type=Path, default=KEPT, help="where encodings and measurements are kept")
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    known = read(given.folder, given.cache, given.split, given.records, given.tests)
    sizes = {"records": len(known.labels), "tests": len(known.truth)}
    seeded = Seeded(Memory(given.cache / "network-names"), given.runs, partial(print, flush=True), given.kept)
    for figure in given.figure.split(","):
        rows = list(FIGURES[figure](known, seeded, {"split": given.split, **sizes}))
        name = f"cifar10-names-{figure}" + ("" if given.split == "complete" else f"-{given.split}")
        caption = (
            f"CIFAR-10, a frozen network and its names, {len(known.labels):,} records, {len(known.truth):,} test "
            f"images: {CAPTIONS[figure]}; % right."
        )
        notes = [
            SPLITS[given.split],
            KNOWLEDGE,
            INTERVAL,
            "ε = 0 uses no record. Nothing was chosen on records.",
            JOINED,
        ]
        result = Result(name, caption, rows, MEASURES, notes).measured()
        files = write_result(result, RESULTS)
        chart = over_epsilon(f"CIFAR-10, {figure}", result.rows, name)
        for file in [*files, draw_chart(chart, RESULTS / f"{name}.png")]:
            print(file)


if __name__ == "__main__":
    main()
