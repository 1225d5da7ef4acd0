"""Reverse k-NN labeling measured: the paper's main table, and how labels depend on queries, votes, trust and rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.cost import growth, noisy_gradients
from experiments.recipes import Published, Recipe, Rounds
from experiments.rknn_runs import Bench, Mapped, Runner, Stages, measure
from experiments.table import Result, Row
from tacit.methods.task import Observer

__all__ = ["FIGURES"]

MEASURES = {"labels": 100.0, "test": 100.0, "seconds": 1.0, "megabytes": 1.0}
SELECTIONS = ("diverse", "clusters", "margin", "entropy")
# A budget so large that noise never decides: the result of the same pipeline without privacy.
NO_NOISE = 1e6
SHARED = (
    "Lines of two iterations with the same seed begin alike: their first student was trained for the first of them, "
    "and may be missing from the seconds of the others."
)


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


def _main(bench: Bench, rounds: Rounds, checkpoint: Path | None = None, **others: Any) -> Runner:  # noqa: ANN401
    """A run of the whole recipe, with its own student."""
    recipe = bench.recipe
    return lambda seed: measure(
        bench.parts,
        rounds,
        seed,
        representation=bench.represented(rounds.queries[0]),
        student=recipe.student(seed, checkpoint=checkpoint),
        **_settings(recipe, rounds),
        **others,
    )


def _settings(recipe: Recipe, rounds: Rounds) -> dict[str, Any]:
    own = {
        "iterations": len(rounds.queries),
        "shares": rounds.shares,
        "one_query_per_class": rounds.one_query_per_class,
    }
    return {**recipe.settings, **own, **rounds.settings}


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
    """Every local mechanism, one record per holder, really encoded and decoded."""
    mapped, rows = Mapped(bench, 10), []
    for epsilon in (0.05, 0.1, 0.2, 0.4, 1.0):
        for mechanism in (
            "subset selection",
            "optimized unary encoding",
            "optimal local hashing",
            "generalized randomized response",
        ):
            rounds = Rounds(epsilon, (10,), "local")
            key = _key("local", rounds) | {"mechanism": mechanism}
            rows.append(
                bench.row(_named(ε=epsilon, mechanism=mechanism), key, mapped(rounds, mechanism=mechanism), NOTHING)
            )
    return _sweep(bench, "local", "Local privacy, one record per holder, 10 queries", rows)


def shuffle(bench: Bench) -> Result:
    """One message per holder, or many, behind a shuffler."""
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
    for count, selection in ((1, "diverse"), *((2, each) for each in SELECTIONS), (3, "diverse")):
        # As many queries per round as the recipe has, the last number again where it has fewer.
        given = rounds.queries + rounds.queries[-1:] * count
        asked = replace(rounds, queries=given[:count], shares=None)
        if asked == rounds and selection == "diverse":
            # The recipe itself, which is measured once for both figures.
            key, run = _key("table1", rounds), _main(bench, rounds)
        else:
            key = _key("iterations", asked) | {"iterations": count, "selection": selection}
            # Lines that begin alike have the same first student: it is trained once.
            run = _main(bench, asked, bench.memory.folder / "training", selection=selection)
        rows.append(bench.row(_named(iterations=count, selection=selection), key, run, NOTHING))
    caption = f"One budget, ε = {rounds.epsilon:g}, split evenly over iterations on {bench.name}, %."
    return Result(f"rknn-{bench.name}-iterations", caption, rows, MEASURES, (*recipe.notes, SHARED))


def teaching(bench: Bench) -> Result:
    """What a student is best taught: labels weighted by confidence, the surest ones, odds, or two resolutions' odds."""
    mapped, rows = Mapped(bench), []
    ways: Mapping[str, Mapping[str, Any]] = {
        "labels, weighted": {},
        "labels, the surest 92 %": {"label_fraction": 0.92},
        "labels, over the graph": {"propagation": "graph"},
        "odds of noisy counts": {"labels": "soft"},
        "proportions of noisy counts": {"labels": "proportions"},
    }
    for epsilon in (0.1, 0.02):
        rounds = Rounds(epsilon, (20,))
        runners = {way: mapped(rounds, **settings) for way, settings in ways.items()}
        runners["odds of 20 and 80 queries"] = mapped.resolutions(replace(rounds, queries=(20, 80)))
        for way, run in runners.items():
            key = _key("teaching", rounds) | {"way": way}
            rows.append(bench.row(_named(ε=epsilon, taught=way), key, run, NOTHING))
    return _sweep(bench, "teaching", "What the student is taught, 20 queries", rows)


def multilabel(bench: Bench) -> Result:
    """Sets of up to three labels per record, derived from digits: a set is right if all of it is."""
    mapped, rows = Mapped(bench), []
    lines = [Rounds(epsilon, (20,)) for epsilon in (1.0, 0.1, 0.05)] + [Rounds(e, (10,), "local") for e in (4.0, 1.0)]
    for rounds in lines:
        names = _named(trust=rounds.trust, ε=rounds.epsilon, queries=rounds.queries[0])
        rows.append(bench.row(names, _key("multilabel", rounds), mapped.properties(rounds), NOTHING))
    return _sweep(bench, "multilabel", "Whole sets of labels (even, prime, above four, closed loop) right", rows)


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
        f"Reverse k-NN beside noisy SGD on {bench.name}, %; the latter's best epoch on the test part, in its favor."
    )
    measures = {"test": 100.0, "seconds": 1.0, "processor seconds": 1.0}
    return Result(f"rknn-{bench.name}-opacus", caption, rows, measures, recipe.notes)


def stages(bench: Bench) -> Result:
    """A whole run from the published files to the student, stage by stage: with an empty cache, and with a full one."""
    rounds = next(iter(bench.recipe.rounds.values()))[0]
    rows = []
    with TemporaryDirectory() as folder:
        for caches in ("cold", "warm"):
            clock = Stages()
            clock("fitting the first space")
            represented = bench.recipe.represent(bench.parts.public_samples, rounds.queries[0])
            found = measure(
                bench.parts, rounds, 0, representation=represented, student=bench.recipe.student(0),
                observer=Observer(stage=clock), private_cache=folder, **_settings(bench.recipe, rounds),
            )  # fmt: skip
            seconds = {"reading and preparing": bench.reading} | clock.ended()
            bench.tell(f"{caches} cache: " + ", ".join(f"{name} {each:.0f} s" for name, each in seconds.items()))
            rows += [Row({"caches": caches, "stage": name}, [{"seconds": each}]) for name, each in seconds.items()]
            whole = {"seconds": sum(seconds.values()), "test": found["test"]}
            rows.append(Row({"caches": caches, "stage": "all"}, [whole]))
    caption = f"One whole run on {bench.name} at ε = {rounds.epsilon:g}, stage by stage; one run each."
    return Result(f"rknn-{bench.name}-stages", caption, rows, {"seconds": 1.0, "test": 100.0}, bench.recipe.notes)


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


NOTHING = Published()


def _key(figure: str, rounds: Rounds) -> dict[str, Any]:
    return {
        "figure": figure, "epsilon": rounds.epsilon, "delta": rounds.delta, "queries": list(rounds.queries),
        "trust": rounds.trust, "one to one": rounds.one_query_per_class, **rounds.settings,
        **({} if rounds.shares is None else {"shares": list(rounds.shares)}),
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
    "teaching": teaching,
    "multilabel": multilabel,
    "mechanisms": mechanisms,
    "opacus": opacus,
    "stages": stages,
    "cost": cost,
}
