"""Reverse k-NN labeling measured: the paper's main table, and how labels depend on queries, votes, trust and rounds.

Every run is a simulation with a seed, made by ``tacit.distill`` as a user would make it. A run is kept as soon as it
is over, so a bench that was stopped goes on where it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.bench.cost import growth, noisy_gradients
from tacit.bench.measured import Memory
from tacit.bench.recipes import RECIPES, Published, Recipe, Rounds
from tacit.bench.table import Result, Row
from tacit.catalog import STUDENTS
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.datasets.digits import Parts
from tacit.experiment.baselines import accuracy
from tacit.experiment.distill import distill

__all__ = ["FIGURES", "Bench", "measure"]

MEASURES = {"labels": 100.0, "test": 100.0, "seconds": 1.0, "megabytes": 1.0}
# So much budget that noise never decides: what the same pipeline would give without privacy.
NO_NOISE = 1e6


@dataclass(frozen=True)
class Bench:
    """One data set at hand, its recipe, how often each line is run, and where measurements are kept."""

    name: str
    parts: Parts
    recipe: Recipe
    memory: Memory
    runs: int
    tell: Callable[[str], None]

    @classmethod
    def open(cls, name: str, folder: Path, cache: Path, runs: int, tell: Callable[[str], None]) -> Bench:
        """Read the data set from its published files."""
        if name not in RECIPES:
            raise InvalidInput(f"unknown data set {name!r}: choose one of {', '.join(sorted(RECIPES))}")
        tell(f"reading {name}")
        recipe = RECIPES[name]
        return cls(name, recipe.parts(folder), recipe, Memory(cache), runs, tell)

    def row(self, names: Mapping[str, str], settings: Mapping[str, Any], run: Runner, paper: Published) -> Row:
        """One line of a table: the same settings with as many seeds as there are runs."""
        found = []
        for seed in range(self.runs):
            key = {"data": self.name, "seed": seed, "recipe": repr(self.recipe.settings), **settings}
            found.append(self.memory.recall(key, lambda seed=seed: run(seed)))  # type: ignore[misc]
            self.tell(f"{' · '.join(names.values())}, run {seed + 1} of {self.runs}: {_figures(found[-1])}")
        published = {"labels": paper.labels, "test": paper.test}
        return Row(names, found, {name: value for name, value in published.items() if value})


Runner = Callable[[int], Mapping[str, Any]]


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


def table(bench: Bench) -> Result:
    """The data set's main table: every budget beside the paper's figures, and the same without noise."""
    recipe = bench.recipe
    first = next(iter(recipe.rounds.values()))[0]
    exact = replace(first, epsilon=NO_NOISE)
    lines = {**recipe.rounds, "no noise (not private)": (exact, Published())}

    rows = [
        bench.row(
            {"budget": name, "queries": _numbers(rounds.queries)}, _key("table1", rounds), _main(bench, rounds), paper
        )
        for name, (rounds, paper) in lines.items()
    ]
    caption = f"Reverse k-NN labeling on {bench.name}: labels of the public samples and the student's test accuracy, %."
    return Result(f"rknn-{bench.name}-table1", caption, rows, MEASURES, recipe.notes)


def _main(bench: Bench, rounds: Rounds) -> Runner:
    """A run of the whole recipe, with its own student."""
    recipe, count = bench.recipe, len(rounds.queries)
    shares = recipe.shares if recipe.shares is not None and len(recipe.shares) == count else None
    settings = {**recipe.settings, "iterations": count, "shares": shares, "one_to_one": rounds.one_to_one}
    return lambda seed: measure(
        bench.parts, rounds, seed, representation=recipe.represent(bench.parts.public_samples, rounds),
        student=recipe.student(seed), **settings,
    )  # fmt: skip


def queries(bench: Bench) -> Result:
    """Labels over the number of queries, at several budgets."""
    mapped = Mapped(bench)
    lines = [Rounds(epsilon, (count,)) for epsilon in (1.0, 0.1, 0.02) for count in (10, 20, 50, 100, 200, 500)]
    rows = [
        bench.row(_named(ε=rounds.epsilon, queries=rounds.queries[0]), _key("queries", rounds), mapped(rounds), NOTHING)
        for rounds in lines
    ]
    return _sweep(bench, "queries", "Labels over the number of queries", rows)


def neighbors(bench: Bench) -> Result:
    """Labels over the number of queries that a record votes for."""
    mapped = Mapped(bench)
    rows = []
    for epsilon in (1.0, 0.1):
        for count in (1, 2, 3, 4, 10):
            rounds = Rounds(epsilon, (100,))
            key = _key("neighbors", rounds) | {"neighbors": count}
            rows.append(bench.row(_named(ε=epsilon, k=count), key, mapped(rounds, neighbors=count), NOTHING))
    return _sweep(bench, "neighbors", "Labels over k, 100 queries", rows)


def local(bench: Bench) -> Result:
    """Every local mechanism, one record a holder, really encoded and decoded."""
    mapped, rows = Mapped(bench), []
    for epsilon in (0.05, 0.1, 0.2, 0.4, 1.0):
        for mechanism in ("subset selection", "bit response, asymmetric", "local hashing", "generalized response"):
            rounds = Rounds(epsilon, (10,), "local")
            key = _key("local", rounds) | {"mechanism": mechanism}
            rows.append(
                bench.row(_named(ε=epsilon, mechanism=mechanism), key, mapped(rounds, mechanism=mechanism), NOTHING)
            )
    return _sweep(bench, "local", "Local privacy, one record a holder, 10 queries", rows)


def shuffle(bench: Bench) -> Result:
    """One message a holder, or many, behind a shuffler."""
    mapped, rows = Mapped(bench), []
    for epsilon in (0.05, 0.1, 0.2, 0.4, 1.0):
        for mechanism in ("many messages", "one message"):
            rounds = Rounds(epsilon, (20,), "shuffle", 1e-6)
            key = _key("shuffle", rounds) | {"mechanism": mechanism}
            rows.append(
                bench.row(_named(ε=epsilon, messages=mechanism), key, mapped(rounds, mechanism=mechanism), NOTHING)
            )
    return _sweep(bench, "shuffle", "Shuffled messages, δ = 1e-6, 20 queries", rows)


def iterations(bench: Bench) -> Result:
    """The same budget in one round, or split over several with votes in the student's own view."""
    recipe, rows = bench.recipe, []
    rounds = next(iter(recipe.rounds.values()))[0]
    for count in (1, 2, 3):
        for selection in ("diverse",) if count == 1 else ("diverse", "clusters", "margin", "entropy"):
            asked = replace(
                rounds, queries=(rounds.queries * 3)[:count] if len(rounds.queries) < count else rounds.queries[:count]
            )
            settings = {**recipe.settings, "iterations": count, "selection": selection, "view": "student"}

            def run(seed: int, asked: Rounds = asked, settings: Mapping[str, Any] = settings) -> Mapping[str, Any]:
                represented = recipe.represent(bench.parts.public_samples, asked)
                return measure(
                    bench.parts, asked, seed, representation=represented, student=recipe.student(seed), **settings
                )

            key = _key("iterations", asked) | {"iterations": count, "selection": selection}
            rows.append(bench.row(_named(iterations=count, selection=selection), key, run, NOTHING))
    caption = f"One budget, ε = {rounds.epsilon:g}, split evenly over iterations on {bench.name}, %."
    return Result(f"rknn-{bench.name}-iterations", caption, rows, MEASURES, recipe.notes)


def mechanisms(bench: Bench) -> Result:
    """Permute-and-flip beside the paper's Laplace noise: the same votes, the same ε."""
    mapped, rows = Mapped(bench), []
    for epsilon in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1):
        for mechanism in ("permute-and-flip", "laplace"):
            rounds = Rounds(epsilon, (40,))
            key = _key("mechanisms", rounds) | {"mechanism": mechanism}
            rows.append(
                bench.row(_named(ε=epsilon, mechanism=mechanism), key, mapped(rounds, mechanism=mechanism), NOTHING)
            )
    result = _sweep(bench, "mechanisms", "Permute-and-flip beside Laplace noise, 40 queries", rows)
    return replace(result, notes=(*result.notes, _saved(rows)))


def opacus(bench: Bench) -> Result:
    """The smallest budget of the main table beside noisy gradients at a hundred times as much, on one machine."""
    recipe, rows = bench.recipe, []
    for name, (rounds, paper) in recipe.rounds.items():
        if rounds.trust == "central":
            row = bench.row({"budget": name}, _key("table1", rounds), _main(bench, rounds), paper)
            rows.append(replace(row, names={"method": "reverse k-NN", "budget": name}, published={}))
    rows.append(noisy_gradients(bench.parts, bench.memory, 1, bench.tell))
    caption = (
        f"Reverse k-NN beside noisy SGD on {bench.name}, %; the latter's best epoch on the test part, in its favour."
    )
    measures = {"test": 100.0, "seconds": 1.0, "processor seconds": 1.0}
    return Result(f"rknn-{bench.name}-opacus", caption, rows, measures, recipe.notes)


def cost(bench: Bench) -> Result:
    """Time and memory over records and queries."""
    return growth(bench.memory, bench.tell)


def _saved(rows: Sequence[Row]) -> str:
    """How much less ε permute-and-flip needs for the label accuracy that Laplace noise reaches."""
    curves: dict[str, dict[float, float]] = {}
    for row in rows:
        curves.setdefault(row.names["mechanism"], {})[float(row.names["ε"])] = float(np.mean(row.values("labels")))
    ours, theirs = curves["permute-and-flip"], curves["laplace"]
    budgets = sorted(ours)
    reached = np.maximum.accumulate([ours[each] for each in budgets])
    ratios = []
    for budget in budgets:
        if reached[0] < theirs[budget] < reached[-1]:
            needed = np.exp(np.interp(theirs[budget], reached, np.log(budgets)))
            ratios.append(f"{needed / budget:.2f} of ε = {budget:g}")
    return "For the label accuracy of Laplace noise, permute-and-flip needs " + (", ".join(ratios) or "(out of range)")


class Mapped:
    """Runs on the recipe's first space alone, encoded once, with a linear student: quick enough for sweeps."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._encoded: Parts | None = None

    def __call__(self, rounds: Rounds, **settings: Any) -> Runner:  # noqa: ANN401
        """A run of these rounds."""
        return lambda seed: measure(
            self._parts(), rounds, seed, representation="identity", student=STUDENTS["logistic"](),
            **settings,
        )  # fmt: skip

    def _parts(self) -> Parts:
        """The samples as the recipe's first space shows them."""
        if self._encoded is None:
            bench = self._bench
            bench.tell("encoding")
            fitted = bench.recipe.represent(bench.parts.public_samples, Rounds(1.0, (20,)))
            self._encoded = replace(
                bench.parts,
                private_samples=fitted.encode(bench.parts.private_samples),
                public_samples=fitted.encode(bench.parts.public_samples),
                test_samples=fitted.encode(bench.parts.test_samples),
            )
        return self._encoded


NOTHING = Published()


def _key(figure: str, rounds: Rounds) -> dict[str, Any]:
    return {
        "figure": figure, "epsilon": rounds.epsilon, "delta": rounds.delta, "queries": list(rounds.queries),
        "trust": rounds.trust, "one to one": rounds.one_to_one,
    }  # fmt: skip


def _named(**values: Any) -> dict[str, str]:  # noqa: ANN401
    return {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in values.items()}


def _numbers(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


def _sweep(bench: Bench, figure: str, caption: str, rows: Sequence[Row]) -> Result:
    return Result(
        f"rknn-{bench.name}-{figure}",
        f"{caption}, on {bench.name}, %. The student is linear on the first space.",
        rows,
        MEASURES,
        bench.recipe.notes,
    )


FIGURES: Mapping[str, Callable[[Bench], Result]] = {
    "table1": table,
    "queries": queries,
    "neighbors": neighbors,
    "local": local,
    "shuffle": shuffle,
    "iterations": iterations,
    "mechanisms": mechanisms,
    "opacus": opacus,
    "cost": cost,
}
