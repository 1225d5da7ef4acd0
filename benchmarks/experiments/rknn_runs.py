"""Single runs of reverse k-NN labeling, and the bench that repeats and keeps them.

Every run is a simulation with a seed, made by ``tacit.distill`` as a user would make it. A run is kept as soon as it
is over, so a bench that was stopped goes on where it was.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.measured import Memory
from experiments.recipes import RECIPES, Published, Recipe, Rounds
from experiments.table import Row
from tacit.core import InvalidInput, Representation, TacitWarning
from tacit.datasets.published import Parts
from tacit.runs.baselines import accuracy
from tacit.runs.distill import distill
from tacit.students.registry import STUDENTS
from tacit.students.weighted import fit_soft

__all__ = ["Bench", "Mapped", "Runner", "Stages", "measure", "properties_of"]

Runner = Callable[[int], Mapping[str, Any]]
# Sets of labels made of digits: what is true of each. No digit has more than three of these.
PROPERTIES: Mapping[str, tuple[int, ...]] = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "above four": (5, 6, 7, 8, 9),
    "closed loop": (0, 6, 8, 9),
}
MOST_PROPERTIES = 3


@dataclass(frozen=True)
class Bench:
    """One data set at hand, its recipe, how often each line is run, and where measurements are kept."""

    name: str
    parts: Parts
    recipe: Recipe
    memory: Memory
    runs: int
    tell: Callable[[str], None]
    # Seconds from the published files to samples as records vote with them.
    reading: float = 0.0
    # Whether lines are made of kept measurements alone, however few; nothing is run.
    kept_only: bool = False
    _spaces: dict[int, Representation] = field(default_factory=dict)

    @classmethod
    def open(
        cls, name: str, folder: Path, cache: Path, runs: int, tell: Callable[[str], None], kept_only: bool = False
    ) -> Bench:
        """Read the data set from its published files."""
        if name not in RECIPES:
            raise InvalidInput(f"unknown data set {name!r}: choose one of {', '.join(sorted(RECIPES))}")
        tell(f"reading {name}")
        recipe, begun = RECIPES[name], time.perf_counter()
        parts = recipe.parts(folder)
        return cls(name, parts, recipe, Memory(cache), runs, tell, time.perf_counter() - begun, kept_only)

    def represented(self, queries: int) -> Representation:
        """The recipe's first space for this many queries, fitted once: it depends on public samples and no seed."""
        if queries not in self._spaces:
            self._spaces[queries] = self.recipe.represent(self.parts.public_samples, queries)
        return self._spaces[queries]

    def row(self, names: Mapping[str, str], settings: Mapping[str, Any], run: Runner, paper: Published) -> Row:
        """One line of a table: the same settings with as many seeds as there are runs."""
        found = []
        for seed in range(self.runs):
            key = {"data": self.name, "seed": seed, "recipe": repr(self.recipe.settings), **settings}
            if self.kept_only and self.memory.kept(key) is None:
                continue
            found.append(self.memory.recall(key, lambda seed=seed: run(seed)))  # type: ignore[misc]
            self.tell(f"{' · '.join(names.values())}, run {seed + 1} of {self.runs}: {_figures(found[-1])}")
        published = {"labels": paper.labels, "test": paper.test}
        return Row(names, found, {name: value for name, value in published.items() if value})


def _figures(run: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {100 * run[name]:.1f} %" for name in ("labels", "test") if name in run)


def measure(parts: Parts, rounds: Rounds, seed: int, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """One simulated run: how many labels are right, how good the student is, and what was claimed."""
    queries = list(rounds.queries) if len(rounds.queries) > 1 else rounds.queries[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)  # a bench asks for settings that a user is warned of
        run = distill(
            (parts.private_samples, parts.private_labels), parts.public_samples, rounds.epsilon, delta=rounds.delta,
            classes=parts.classes, queries=queries, trust=rounds.trust, seed=seed, **settings,
        )  # fmt: skip
    return {
        "labels": accuracy(run.labels, parts.public_labels),
        "test": accuracy(run.student.predict(parts.test_samples), parts.test_labels),
        "mechanism": run.recipe["mechanism"],
        "epsilon": float(run.guarantee.epsilon),
        "delta": float(run.guarantee.delta),
    }


class Stages:
    """How long each stage of a run took, by the words it was announced with.

    >>> stages = Stages(lambda: next(ticks))
    >>> ticks = iter([0.0, 2.0, 5.0])
    >>> for word in ("votes", "student"): stages(word)
    >>> stages.ended()
    {'votes': 2.0, 'student': 3.0}
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._open: tuple[str, float] | None = None

    def __call__(self, stage: str) -> None:
        """A stage begins, and the one before it is over."""
        now = self._clock()
        self._close(now)
        self._open = stage, now

    def ended(self) -> dict[str, float]:
        """The seconds of every stage, the last one over now; what came again is added up."""
        self._close(self._clock())
        self._open = None
        return self._seconds

    def _close(self, now: float) -> None:
        if self._open is not None:
            stage, begun = self._open
            self._seconds[stage] = self._seconds.get(stage, 0.0) + now - begun


def properties_of(digits: NDArray[Any]) -> NDArray[np.bool_]:
    """Which properties each digit has, a column each.

    >>> properties_of(np.array([2, 8])).astype(int).tolist()
    [[1, 1, 0, 0], [1, 0, 1, 1]]
    """
    return np.column_stack([np.isin(digits, members) for members in PROPERTIES.values()])


class Mapped:
    """Runs on the recipe's first space alone, encoded once, with a linear student: quick enough for sweeps."""

    def __init__(self, bench: Bench, queries: int = 20) -> None:
        self._bench = bench
        self._queries = queries
        self._encoded: Parts | None = None

    def __call__(self, rounds: Rounds, **settings: Any) -> Runner:  # noqa: ANN401
        """A run of these rounds."""
        return lambda seed: measure(
            self._parts(), rounds, seed, representation="identity", student=STUDENTS["logistic"](),
            **settings,
        )  # fmt: skip

    def resolutions(self, rounds: Rounds) -> Runner:
        """A run that asks few queries and many at once, half the budget each, and multiplies their odds."""

        def run(seed: int) -> dict[str, Any]:
            parts = self._parts()
            given = (parts.private_samples, parts.private_labels)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                asked = [
                    distill(given, parts.public_samples, rounds.epsilon / len(rounds.queries), classes=parts.classes,
                            labels="soft", queries=count, representation="identity", seed=seed * 2 + place)
                    for place, count in enumerate(rounds.queries)
                ]  # fmt: skip
            odds = np.prod([np.asarray(each.probabilities) for each in asked], axis=0) + 1e-12
            odds /= odds.sum(axis=1, keepdims=True)
            student = fit_soft(STUDENTS["logistic"](), parts.public_samples, parts.classes, odds)
            return {
                "labels": accuracy(parts.classes[odds.argmax(axis=1)], parts.public_labels),
                "test": accuracy(student.predict(parts.test_samples), parts.test_labels),
            }

        return run

    def properties(self, rounds: Rounds) -> Runner:
        """A run about sets of labels: which of four properties a digit has. A set is right if all of it is."""

        def run(seed: int) -> dict[str, Any]:
            parts = self._parts()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                made = distill(
                    (parts.private_samples, properties_of(parts.private_labels)), parts.public_samples, rounds.epsilon,
                    max_labels=MOST_PROPERTIES, classes=list(PROPERTIES), queries=rounds.queries[0],
                    representation="identity", thresholds="half", trust=rounds.trust, seed=seed,
                )  # fmt: skip
            public, test = properties_of(parts.public_labels), properties_of(parts.test_labels)
            return {
                "labels": float((made.labels == public).all(axis=1).mean()),
                "test": float((made.student.predict(parts.test_samples) == test).all(axis=1).mean()),
            }

        return run

    def _parts(self) -> Parts:
        """The samples as the recipe's first space shows them."""
        if self._encoded is None:
            bench = self._bench
            bench.tell("encoding")
            fitted = bench.represented(self._queries)
            self._encoded = replace(
                bench.parts,
                private_samples=fitted.encode(bench.parts.private_samples),
                public_samples=fitted.encode(bench.parts.public_samples),
                test_samples=fitted.encode(bench.parts.test_samples),
            )
        return self._encoded
