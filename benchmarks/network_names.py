"""CIFAR-10 by a network whose own classes have names: what the names say alone, and what the records add to it.

Run: python benchmarks/network_names.py --folder DATA [--runs 5] [--figure central,local] [--kept] [--cache FOLDER]

EfficientNet-lite0 was taught ImageNet's thousand classes, whose names belong to CIFAR-10's ten (experiments'
``leaderboard_public``). So the frozen encoder says what is in an image without any record. DATA/cifar10 has the
published files; needs the extra ``features``. Images are encoded once and kept in the cache; so is every measurement,
by its settings and a digest of the code. Writes docs/results/cifar10-names-*.json, .md and .png.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.charts import draw_rows
from experiments.development import read_set
from experiments.kept_encodings import KeptRows
from experiments.leaderboard_public import IMAGENET
from experiments.measured import Memory
from experiments.public_odds import DELTA, Known
from experiments.seeded import INTERVAL, MEASURES, MUCH, Seeded, line, noise_in_words
from experiments.table import Result, Row, write_result
from tacit.core import TacitWarning
from tacit.datasets.color_images import cifar10
from tacit.methods.auto.coordinator import PublicMixture, fit_public_mixture
from tacit.representations.chained import Chained
from tacit.representations.scaled import Directions, PrincipalComponents

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
EPSILONS, LOCAL = (1.0, 0.29, 0.1, 0.01), (1.0, 0.4, 0.2)
COMPONENTS, EVENINGS, MIXTURES = 128, 30, 3
CODE = ("experiments.public_odds", "experiments.leaderboard_public", "tacit.representations.torch_efficientnet")
VOTED = (*CODE, "tacit.methods.rknn.method")
KNOWLEDGE = (
    "Public knowledge: the public images without labels; EfficientNet-lite0, trained on ImageNet's labeled photos, at "
    "192 pixels, frozen; and which of ImageNet's class names belong to which of the ten (no deer: antelopes). The "
    "mixture knows also that the ten classes are equally frequent; that, and its three steps, were chosen by labels of "
    "public images."
)
SPLITS = {
    "complete": "Private: 29,000 and public: 21,000 of the training files; test: the published test file, 10,000.",
    "paper": "The paper's split: private 29,000, public 30,000, test 1,000 (splits/cifar10.txt).",
}


def read(folder: Path, cache: Path, which: str) -> Known:
    """The images as the network sees them, with the chances of the ten classes by its names."""
    from tacit.representations.torch_efficientnet import ImageNetFeatures

    private, public, test = _parts(folder, which)
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


def named(seen: NDArray[np.float32]) -> NDArray[np.float64]:
    """The chances of the ten classes by the network's own last layer, from its features."""
    import torch

    from tacit.representations.torch_efficientnet import _whole

    with torch.inference_mode():
        chances = torch.softmax(_whole()._fc(torch.from_numpy(seen)), dim=1).double().numpy()
    means = np.column_stack([chances[:, list(group)].mean(axis=1) for group in IMAGENET["cifar10"]]) + 1e-9
    said: NDArray[np.float64] = means / means.sum(axis=1, keepdims=True)
    return said


def evened(chances: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The chances times a factor per class, with which all classes are equally frequent; and the factors."""
    factors = np.ones(chances.shape[1])
    for _ in range(EVENINGS):
        even = chances * factors
        even /= even.sum(axis=1, keepdims=True)
        factors /= even.mean(axis=0) * len(factors)
    even = chances * factors
    return even / even.sum(axis=1, keepdims=True), factors


@dataclass(frozen=True)
class Grouped:
    """A mixture of the public samples, one normal law per class, begun at the names and kept to even classes."""

    mixture: PublicMixture
    factors: NDArray[np.float64]
    public: NDArray[np.float64]

    @classmethod
    def of(cls, known: Known) -> Grouped:
        """Fit it to public samples."""
        chances = evened(known.chances)[0]
        for _ in range(MIXTURES):
            mixture = fit_public_mixture(known.public, chances)
            assert mixture is not None
            chances, factors = evened(mixture.probabilities)
        return cls(mixture, factors, chances)

    def chances(self, samples: NDArray[Any]) -> NDArray[np.float64]:
        """The chances of each class."""
        points = np.asarray(self.mixture.components.transform(samples))
        found: NDArray[np.float64] = self.mixture.odds.probabilities(points) * self.factors
        return found / found.sum(axis=1, keepdims=True)


def summed(known: Known, epsilon: float, seed: int) -> Mapping[str, Any]:
    """One release of class sums, read in four ways; what is known is the mixture of the public samples."""
    grouped = Grouped.of(known)
    known = replace(known, chances=grouped.public, test_chances=grouped.chances(known.test))
    released = known.sums(epsilon, seed)
    ways = {"alone": released.alone(), "around": released.around()}
    mixed = {f"{name}, mixed": known.mixed(each) for name, each in ways.items()}
    return {name: known.judged(each) for name, each in (ways | mixed).items()} | {
        "components": released.run.recipe["components"]
    }


def voted(known: Known, epsilon: float, seed: int) -> Mapping[str, Any]:
    """One randomized answer per record: its group and label; groups are those of the mixture.

    The answers give the chance of each class for a group, by the posterior over all assignments; names give another,
    the mean chance of the group's public samples. Their product is what both say.
    """
    from sklearn.dummy import DummyClassifier

    grouped = Grouped.of(known)
    private, public, test = (grouped.chances(each) for each in (known.private, known.public, known.test))
    corners = np.eye(known.classes, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(
            (corners[private.argmax(axis=1)], known.labels), corners[public.argmax(axis=1)], epsilon, trust="local",
            classes=range(known.classes), method="rknn", representation="identity", queries=known.classes,
            one_query_per_class=True, labels="soft", student=DummyClassifier(), seed=seed,
        )  # fmt: skip
    groups = [np.flatnonzero(public.argmax(axis=1) == group) for group in range(known.classes)]
    answered = np.stack([run.probabilities[each[0]] for each in groups])
    names = np.stack([known.chances[each].mean(axis=0) for each in groups])
    both = answered * names
    both /= both.sum(axis=1, keepdims=True)
    return {
        "answers": known.judged((public @ answered, test @ answered)),
        "both": known.judged((public @ both, test @ both)),
        "mechanism": run.recipe["mechanism"],
    }


def central_lines(known: Known, seeded: Seeded, about: Mapping[str, Any]) -> Iterator[Row]:
    """What the names say, and what records add."""
    yield from nothing(known)
    for epsilon in (*EPSILONS, MUCH):
        sums = seeded.runs("sums", epsilon, partial(summed, known), CODE, about)
        shown = noise_in_words(epsilon)
        yield line(shown, "class sums around that mixture, and a mixture again", sums, "around, mixed")
        yield line(shown, "class sums around that mixture", sums, "around")
        yield line(shown, "class sums alone, then a mixture", sums, "alone, mixed")
        yield line(shown, "class sums alone", sums, "alone")


def local_lines(known: Known, seeded: Seeded, about: Mapping[str, Any]) -> Iterator[Row]:
    """One record per holder, which nobody is trusted with."""
    yield from nothing(known)
    for epsilon in LOCAL:
        answers = seeded.runs("answers", epsilon, partial(voted, known), VOTED, about)
        yield line(f"local {epsilon:g}", "groups named by the answers and the names", answers, "both")
        yield line(f"local {epsilon:g}", "groups named by the answers alone", answers, "answers")


def nothing(known: Known) -> Iterator[Row]:
    """The lines without any record."""
    grouped = Grouped.of(known)
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
    parser.add_argument("--cache", type=Path, default=KEPT, help="where encodings and measurements are kept")
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    known = read(given.folder, given.cache, given.split)
    seeded = Seeded(Memory(given.cache / "network-names"), given.runs, partial(print, flush=True), given.kept)
    for figure in given.figure.split(","):
        rows = list(FIGURES[figure](known, seeded, {"split": given.split}))
        name = f"cifar10-names-{figure}" + ("" if given.split == "complete" else f"-{given.split}")
        caption = f"CIFAR-10, a frozen network and its names: {CAPTIONS[figure]}; % right."
        notes = [SPLITS[given.split], KNOWLEDGE, INTERVAL, "ε = 0 uses no record. Nothing was chosen on records."]
        result = Result(name, caption, rows, MEASURES, notes).measured()
        files = write_result(result, RESULTS)
        shown = [
            (f"{each.names['ε']}: {each.names['line']}", each.values("labels"), each.values("test"))
            for each in result.rows
        ]
        for file in [*files, draw_rows(f"CIFAR-10: {CAPTIONS[figure]}", shown, RESULTS / f"{name}.png")]:
            print(file)


if __name__ == "__main__":
    main()
