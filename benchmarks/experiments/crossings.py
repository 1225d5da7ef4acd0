"""Where methods cross: accuracy over the number of records, of classes, or over features, all else being equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.development import ORDER, DevelopmentSet
from experiments.leaderboard import FEATURES, image_features
from experiments.leaderboard_lines import LINES
from experiments.leaderboard_parts import Encoded, encoded
from experiments.measured import Memory
from experiments.table import Result, Row
from tacit.core import InvalidInput
from tacit.core.errors import plural
from tacit.report.charts import Chart, Panel

__all__ = ["CROSSING", "OVER", "Crossings", "of_classes", "of_records", "on_the_map"]

# The methods that the question is about: of PATE's mechanisms the best one of the leaderboards.
CROSSING = ("rknn", "class_sums", "noisy_sgd", "pate gnmax")
MAP = "map"


def of_records(parts: DevelopmentSet, count: int) -> DevelopmentSet:
    """The parts with this many private records, the first of a fixed permutation.

    >>> from pathlib import Path
    >>> from experiments.development import read_set
    >>> len(of_records(read_set("digits", Path()), 100).private[1])
    100
    """
    held = len(parts.private[1])
    if not 0 < count <= held:
        raise InvalidInput(f"{parts.name} has {held:,} private records: choose from 1 to that, not {count}")
    if count == held:
        return parts  # as on the leaderboard
    rows = np.random.default_rng(ORDER).permutation(held)[:count]
    persons = None if parts.persons is None else parts.persons[rows]
    return replace(parts, private=(_taken(parts.private[0], rows), parts.private[1][rows]), persons=persons)


def of_classes(parts: DevelopmentSet, count: int, fewest: int) -> DevelopmentSet:
    """The samples of the first ``count`` classes; as many private and public ones as ``fewest`` classes have.

    >>> from pathlib import Path
    >>> from experiments.development import read_set
    >>> digits = read_set("digits", Path())
    >>> small, large = (of_classes(digits, count, 2) for count in (2, 5))
    >>> len(small.private[1]) == len(large.private[1]), sorted(set(large.test[1].tolist()))
    (True, [0, 1, 2, 3, 4])
    """
    if not 1 < fewest <= count <= len(parts.classes):
        raise InvalidInput(f"{parts.name} has {len(parts.classes)} classes: choose from 2 to that, not {count}")

    def rows(labels: NDArray[Any], few: bool) -> NDArray[np.int64]:
        order = np.random.default_rng(ORDER).permutation(len(labels))
        found = order[np.isin(labels[order], parts.classes[:count])]
        return found[: int(np.isin(labels, parts.classes[:fewest]).sum())] if few else found

    private, public = rows(parts.private[1], True), rows(parts.public_labels, True)
    test = rows(parts.test[1], False)
    return replace(
        parts,
        private=(_taken(parts.private[0], private), parts.private[1][private]),
        public=_taken(parts.public, public),
        public_labels=parts.public_labels[public],
        test=(_taken(parts.test[0], test), parts.test[1][test]),
        classes=parts.classes[:count],
        persons=None if parts.persons is None else parts.persons[private],
    )


def _taken(samples: Any, rows: NDArray[np.int64]) -> Any:  # noqa: ANN401
    return samples.iloc[rows].reset_index(drop=True) if hasattr(samples, "iloc") else samples[rows]


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"values must be whole numbers, got {text[:80]!r}") from None


Varied = Callable[[DevelopmentSet, str, Sequence[str]], Encoded]


def _by_records(parts: DevelopmentSet, value: str, _: Sequence[str]) -> Encoded:
    cut = of_records(parts, _whole(value))
    return encoded(cut, image_features(cut))


def _by_classes(parts: DevelopmentSet, value: str, values: Sequence[str]) -> Encoded:
    cut = of_classes(parts, _whole(value), min(map(_whole, values)))
    return encoded(cut, image_features(cut))


def _by_features(parts: DevelopmentSet, value: str, _: Sequence[str]) -> Encoded:
    return encoded(on_the_map(parts)) if value == MAP else encoded(parts, image_features(parts, value))


def on_the_map(parts: DevelopmentSet) -> DevelopmentSet:
    """The parts with samples as their places on the map of public samples that votes on pixels are cast on.

    >>> from pathlib import Path
    >>> from experiments.development import read_set
    >>> on_the_map(read_set("digits", Path())).test[0].shape
    (297, 20)
    """
    from tacit.representations.registry import fit_representation

    if image_features(parts) is None:
        raise InvalidInput(f"a map is for images, and {parts.name} is of another kind")
    found = fit_representation(FEATURES["identity"], np.asarray(parts.public), 4 * len(parts.classes))[1]
    private, public, test = (found.encode(np.asarray(each)) for each in (parts.private[0], parts.public, parts.test[0]))
    return replace(parts, private=(private, parts.private[1]), public=public, test=(test, parts.test[1]))


# What is varied, how, and the values if none are given.
OVER: Mapping[str, tuple[Varied, tuple[str, ...]]] = {
    "records": (_by_records, ("500", "2000", "8000", "20000", "60000")),
    "classes": (_by_classes, ("2", "5", "10")),
    "features": (_by_features, (*(each for each in FEATURES if each != "imagenet"), MAP)),
}


@dataclass(frozen=True)
class Crossings:
    """Methods on variants of one data set that differ in one thing; kept by content and code, as a leaderboard."""

    parts: DevelopmentSet
    over: str
    memory: Memory
    values: Sequence[str] = ()
    methods: Sequence[str] = CROSSING
    epsilons: Sequence[float] = (0.1, 1.0)
    runs: int = 1
    tell: Callable[[str], None] = lambda _: None
    kept: bool = False
    found: dict[tuple[str, str, float], list[Mapping[str, Any]]] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.over not in OVER:
            raise InvalidInput(f"unknown variation {self.over[:80]!r}: choose one of {', '.join(OVER)}")
        for each in self.methods:
            if each not in LINES:
                raise InvalidInput(f"unknown method {each[:80]!r}: choose some of {', '.join(LINES)}")

    def measure(self) -> None:
        """All runs of one variant before the next, each encoded once."""
        vary, usual = OVER[self.over]
        values = self.values or usual
        for value in values:
            data = vary(self.parts, value, values)
            self.sizes[value] = (len(data.private), data.classes, len(data.public))
            for name in self.methods:
                for epsilon in self.epsilons:
                    for seed in range(self.runs):
                        self._measure_one(value, name, data, epsilon, seed)

    def _measure_one(self, value: str, name: str, data: Encoded, epsilon: float, seed: int) -> None:
        line = LINES[name]
        about = line.about(name, data, epsilon, seed)
        run = self.memory.kept(about)
        if run is None and not self.kept:
            try:
                run = self.memory.recall(about, partial(line.measure, data, epsilon, seed))
            except InvalidInput as refused:  # too few records for any question at this ε
                self.tell(f"{self.parts.name} {self.over} {value} {name} ε = {epsilon:g}: {refused}")
                return
            self.tell(f"{self.parts.name} {self.over} {value} {name} ε = {epsilon:g} seed {seed}: {run['test']:.4f}")
        if run is not None:
            self.found.setdefault((value, name, epsilon), []).append(run)

    def result(self) -> Result:
        """The table: one row per ε, variant and method."""
        rows = []
        for epsilon in self.epsilons:
            for value, (records, classes, public) in self.sizes.items():
                for name in self.methods:
                    said = {
                        "ε": f"{epsilon:g}", "records": f"{records}", "classes": f"{classes}", "public": f"{public}",
                        "features": value if self.over == "features" else "the leaderboard's", "method": name,
                    }  # fmt: skip
                    rows.append(Row(said, self.found.get((value, name, epsilon), ())))
        return Result(
            f"crossings-{self.parts.name}-{self.over}",
            f"Methods on {self.parts.name} over {self.over}, all else being equal: mean test accuracy, %.",
            rows,
            {"test": 100.0, "labels": 100.0, "processor seconds": 1.0},
            (
                "Lines, settings, representation and test part of the leaderboard of this data set; "
                f"{plural(self.runs, 'seeded run')} per cell at most. One record is protected, replace-one, δ = 1e-05; "
                "0 for rknn.",
                *NOTES[self.over],
            ),
        ).measured()

    def chart(self) -> Chart | None:
        """A panel per ε; None over features, which are no axis."""
        if self.over not in AXES:
            return None
        panels = []
        for epsilon in self.epsilons:
            curves: dict[str, list[float | None]] = {}
            for name in self.methods:
                runs = [self.found.get((value, name, epsilon)) for value in self.sizes]
                if any(runs):
                    curves[name] = [
                        100 * float(np.mean([run["test"] for run in some])) if some else None for some in runs
                    ]
            places, logarithmic = [float(value) for value in self.sizes], self.over == "records"
            panels.append(Panel(f"ε = {epsilon:g}", AXES[self.over], "test accuracy, %", places, curves, logarithmic))
        return Chart(f"crossings-{self.parts.name}-{self.over}", f"{self.parts.name} over {self.over}", panels)


AXES = {"records": "private records (logarithmic)", "classes": "classes, of as many records"}
NOTES: Mapping[str, tuple[str, ...]] = {
    "records": ("The fewer are the first of a fixed permutation; public samples and test part stay the same.",),
    "classes": (
        "Samples of the first classes; as many private records and public samples as the smallest number of classes "
        "has. The test part has all test samples of these classes.",
    ),
    "features": (
        "Every model and every vote sees images by these features alone. identity: models see pixels, votes are cast "
        "on a spectral map of them. map: models and votes see the places on that map, made of public samples, alone.",
    ),
}
