"""Sets of labels: micro-F1 of the default beside a student without privacy and randomized response per label.

Run: python benchmarks/multilabel.py --folder DATA [--data scene,yeast,codes] [--runs 5] [--kept]

DATA/mulan has Mulan's scene and yeast, DATA/diabetes130 diabetic_data.csv; see the data sets' own pages. Of Mulan's
sets the published training file is private, and of the published test file one half is public and one half the test.
The labels of codes are groups of an encounter's three diagnoses in diabetes130 (ICD-9, grouped as by Strack et al.,
2014), of each patient's first encounter. A hash of a row's place in its file decides its part, so no part shares a row
with another. Nothing was chosen on these sets: constants were set on emotions, medical (both Mulan's), digits and
generated tables. Every measurement is stored in .tacit-bench under its settings and a digest of the code, so that an
interrupted bench resumes. Writes docs/results/multilabel.json, .md and .png.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.charts import draw_rows
from experiments.measured import Memory, code_version
from experiments.table import Result, Row, write_result
from tacit.core import InvalidInput, TacitWarning
from tacit.core.samples import Named
from tacit.datasets.mulan import read_mulan
from tacit.datasets.published import rows_of, split
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize
from tacit.students.weighted import fit_by_label, label_thresholds, logistic

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
EPSILONS, DELTA, MUCH = (1.0, 0.1), 1e-5, 1000.0
RESAMPLED = 2000
# Groups of ICD-9 codes: a name and the intervals of the codes' whole numbers.
GROUPS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "circulatory": ((390, 459), (785, 785)),
    "respiratory": ((460, 519), (786, 786)),
    "digestive": ((520, 579), (787, 787)),
    "diabetes": ((250, 250),),
    "injury": ((800, 999),),
    "musculoskeletal": ((710, 739),),
    "genitourinary": ((580, 629), (788, 788)),
    "neoplasms": ((140, 239),),
}
DIAGNOSES = ["diag_1", "diag_2", "diag_3"]
SIZES = {"private": 10_000, "public": 2000, "test": 5000}


@dataclass(frozen=True)
class LabelSets:
    """Private, public and test samples with their sets of labels.

    ``most`` is the public bound of a set's size. ``switched``: whether parts of the default are left out one by one.
    """

    private: tuple[Any, NDArray[np.bool_]]
    public: tuple[Any, NDArray[np.bool_]]
    test: tuple[Any, NDArray[np.bool_]]
    classes: tuple[str, ...]
    most: int
    switched: bool = True


def mulan(name: str, folder: Path) -> LabelSets:
    """The published training file is private; the test file is half public, half test."""
    try:
        private, other = (read_mulan(folder / "mulan" / f"{name}-{part}.arff") for part in ("train", "test"))
    except FileNotFoundError as error:
        raise InvalidInput(f"{name}: {error.filename} is missing; see the data sets' own pages") from None
    count = len(other[1].values)
    letters = split(f"mulan {name}", count, {"public": count // 2, "test": count - count // 2})

    def part(which: str) -> tuple[Named, NDArray[np.bool_]]:
        rows = rows_of(letters, which)
        return Named(other[0].values[rows], other[0].columns), other[1].values[rows]

    classes = private[1].columns
    return LabelSets((private[0], private[1].values), part("public"), part("test"), classes, len(classes))


def codes(folder: Path) -> LabelSets:
    """Groups of the diagnoses of each patient's first encounter; neither diagnoses nor what came after are features."""
    import pandas as pd

    file = folder / "diabetes130" / "diabetic_data.csv"
    if not file.is_file():
        raise InvalidInput(f"codes: {file} is missing; see the data set's own page")
    table = pd.read_csv(file, na_values="?", keep_default_na=False, low_memory=False)
    table = table.drop_duplicates("patient_nbr")[: sum(SIZES.values())].reset_index(drop=True)
    sets = np.zeros((len(table), len(GROUPS) + 1), dtype=np.bool_)
    for column in DIAGNOSES:
        for row, code in enumerate(table[column]):
            if isinstance(code, str):
                sets[row, group(code)] = True
    features = table.drop(columns=[*DIAGNOSES, "patient_nbr", "encounter_id", "readmitted"])
    letters = split("diabetes130 codes", len(table), SIZES)

    def part(which: str) -> tuple[Any, NDArray[np.bool_]]:
        rows = rows_of(letters, which)
        return features.iloc[rows].reset_index(drop=True), sets[rows]

    return LabelSets(part("private"), part("public"), part("test"), (*GROUPS, "other"), len(DIAGNOSES), False)


def group(code: str) -> int:
    """The place of a code's group; codes of other groups, and those that begin with a letter, are the last.

    >>> group("428"), group("V57"), group("250.6")
    (0, 8, 3)
    """
    whole = code.partition(".")[0]
    if whole.isdigit():
        for place, intervals in enumerate(GROUPS.values()):
            if any(low <= int(whole) <= high for low, high in intervals):
                return place
    return len(GROUPS)


SETS: Mapping[str, Callable[[Path], LabelSets]] = {
    "scene": partial(mulan, "scene"),
    "yeast": partial(mulan, "yeast"),
    "codes": codes,
}


def micro_f1(truth: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> float:
    """The F1 of all labels together.

    >>> micro_f1(np.array([[True, False]]), np.array([[True, True]]))
    0.6666666666666666
    """
    return float(2 * (truth & predicted).sum() / max(1, truth.sum() + predicted.sum()))


def macro_f1(truth: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> float:
    """The mean F1 of the labels."""
    right, both = (truth & predicted).sum(axis=0), truth.sum(axis=0) + predicted.sum(axis=0)
    return float((2 * right / np.maximum(both, 1)).mean())


def measured(truth: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> dict[str, Any]:
    """The measures, and what a micro-F1 of resampled test samples needs: right, predicted and present per sample."""
    told = [(truth & predicted).sum(axis=1), predicted.sum(axis=1), truth.sum(axis=1)]
    return {
        "test": micro_f1(truth, predicted),
        "macro": macro_f1(truth, predicted),
        "per sample": [each.tolist() for each in told],
    }


def interval(runs: list[Mapping[str, Any]]) -> tuple[float, float]:
    """95 % of the means over resampled runs on resampled test samples (bootstrap)."""
    rng = np.random.default_rng(0)
    counts = np.array([run["per sample"] for run in runs])  # (runs, 3, samples)
    found = []
    for _ in range(RESAMPLED):
        drawn = counts[rng.integers(len(runs), size=len(runs))][
            :, :, rng.integers(counts.shape[2], size=counts.shape[2])
        ]
        right, predicted, present = drawn.sum(axis=2).T
        found.append((2 * right / np.maximum(1, predicted + present)).mean())
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def through_the_door(
    parts: LabelSets,
    epsilon: float,
    seed: int,
    patched: Iterable[tuple[str, Any]] = (),
    **options: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """One simulated run, saved, loaded and asked to predict."""
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", TacitWarning)
        for place, value in patched:
            stack.enter_context(patch(place, value))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run = tacit.distill(
            parts.private, parts.public[0], epsilon, classes=parts.classes, seed=seed, max_labels=parts.most,
            **options,
        )  # fmt: skip
        loaded = tacit.load(run.save(folder / "run"))
    chosen = {each: run.recipe[each] for each in ("mechanism", "components", "queries", "count") if each in run.recipe}
    return {
        **measured(parts.test[1], loaded.student.predict(parts.test[0])),
        "labels": micro_f1(parts.public[1], loaded.labels),
        "chosen": chosen,
    }


def numbers(parts: LabelSets, *samples: Any) -> list[NDArray[np.float64]]:  # noqa: ANN401
    """Samples as the student sees them: by the encoder that is fitted to public samples."""
    encoder = recognize(samples_of(parts.public[0])).encoder
    return [
        np.asarray(each if encoder is None else encoder.encode(samples_of(each)), dtype=np.float64) for each in samples
    ]


def truth(parts: LabelSets, private: bool, rule: str, _: int) -> dict[str, Any]:
    """The same student taught true labels: of the private records, or of the public samples."""
    samples, sets = parts.private if private else parts.public
    rows, test = numbers(parts, samples, parts.test[0])
    student = fit_by_label(logistic(), rows, sets.astype(np.float64), rule)
    return measured(parts.test[1], student.predict(test))


def randomized_response(parts: LabelSets, epsilon: float, seed: int) -> dict[str, Any]:
    """Every label of every record is randomized by itself, and a student learns from the records' own features.

    Two sets of at most m of K labels differ in min(2m, K) of them, so each label has that part of ε. Probabilities of
    randomized labels are corrected for the known rate of flips, and thresholds are those of the best expected micro-F1.
    """
    sets = parts.private[1]
    rate = 1 / (1 + np.exp(epsilon / min(2 * parts.most, sets.shape[1])))
    flipped = sets ^ (np.random.default_rng(seed).random(sets.shape) < rate)
    rows, public, test = numbers(parts, parts.private[0], parts.public[0], parts.test[0])
    student = fit_by_label(logistic(), rows, flipped.astype(np.float64))

    def corrected(samples: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip((student.predict_proba(samples) - rate) / (1 - 2 * rate), 0, 1)

    thresholds = np.array(label_thresholds("f1", corrected(public)))
    return measured(parts.test[1], corrected(test) >= thresholds)


def noisy_frequencies(noisy: NDArray[np.float64], *_: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """The released frequencies as they are, for the line without the model of them."""
    return np.clip(noisy, 0.01, 0.99)


PLAN, SUMS = "tacit.methods.class_sums.plan", "tacit.methods.class_sums.sets"
# What the default consists of, each left out: parts of the package that are replaced, and options.
PLAIN, RAW = ((f"{PLAN}.LARGEST_RADIUS", 0),), ((f"{SUMS}.label_frequencies", noisy_frequencies),)
SWITCHES: Mapping[str, tuple[tuple[tuple[str, Any], ...], Mapping[str, Any]]] = {
    "default, thresholds half": ((), {"thresholds": "half"}),
    "default, thresholds frequency": ((), {"thresholds": "frequency"}),
    "default, sums not centered": (PLAIN, {}),
    "default, counts always light": ((), {"method": "class_sums", "count_weight": 0.25}),
    "default, frequencies as released": (RAW, {}),
    "votes": ((), {"method": "rknn"}),
    "votes, thresholds half (before)": ((), {"method": "rknn", "thresholds": "half"}),
}


def lines(parts: LabelSets) -> Iterator[tuple[str, str, float, Callable[[int], Mapping[str, Any]], bool]]:
    """Every line: what it is, its δ, its ε, how one run is measured, and whether runs differ."""
    small, door = f"{DELTA:g}", partial(through_the_door, parts)
    before = "votes, thresholds half (before)"
    for epsilon in EPSILONS:
        yield "default", small, epsilon, partial(door, epsilon, delta=DELTA), True
        yield "default", "0", epsilon, partial(door, epsilon), True
        yield before, "0", epsilon, partial(door, epsilon, **SWITCHES[before][1]), True
        response = partial(randomized_response, parts, epsilon)
        yield "randomized response per label, labels alone are protected", "0", epsilon, response, True
    yield "default, hardly any noise", small, MUCH, partial(door, MUCH, delta=DELTA), True
    for rule in ("f1", "half"):
        name = f"no privacy: same student, true private labels, thresholds {rule}"
        yield name, "", np.inf, partial(truth, parts, True, rule), False
    yield "same student, true public labels", "", np.inf, partial(truth, parts, False, "f1"), False
    everything = np.ones_like(parts.test[1])
    yield "ε = 0: every label, public knowledge alone", "", 0.0, lambda _: measured(parts.test[1], everything), False
    for epsilon in EPSILONS if parts.switched else ():
        for name, (patched, options) in SWITCHES.items():
            run = partial(door, epsilon, patched=patched, delta=DELTA, **options)
            yield name, small, epsilon, run, True
        yield "class sums", "0", epsilon, partial(door, epsilon, method="class_sums"), True


def main() -> None:
    """Measure, print as it goes, and write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="one folder per data set")
    parser.add_argument("--data", default=",".join(SETS), help="names with commas between them")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    memory, rows, begun = Memory(KEPT / "multilabel"), [], time.perf_counter()
    for name in given.data.split(","):
        parts = SETS[name](given.folder)
        sizes = ", ".join(f"{len(each[1])} {what}" for each, what in (
            (parts.private, "private"), (parts.public, "public"), (parts.test, "test")
        ))  # fmt: skip
        print(f"{name}: {sizes} samples, {len(parts.classes)} labels, at most {parts.most} each", flush=True)
        for line, delta, epsilon, measure, random in lines(parts):
            runs = []
            for seed in range(given.runs if random else 1):
                about = {"data": name, "line": line, "delta": delta, "ε": epsilon, "seed": seed, "code": code_version()}
                if not given.kept or memory.kept(about) is not None:
                    runs.append(memory.recall(about, partial(measure, seed)))
            if not runs:
                continue
            low, high = interval(runs)
            within = f"{100 * low:.1f} to {100 * high:.1f}"
            shown = "" if np.isinf(epsilon) else f"{epsilon:g}"
            rows.append(Row({"data": name, "line": line, "ε": shown, "δ": delta, "95 % interval": within}, [
                {key: value for key, value in run.items() if key != "per sample"} for run in runs
            ]))  # fmt: skip
            print(f"{name:6} ε = {shown:5} δ = {delta:6} {line:60} {rows[-1].values('test')} {within}", flush=True)
    write(rows)
    print(f"{time.perf_counter() - begun:.0f} s")


def write(rows: list[Row]) -> None:
    """The table, the picture and the measurements."""
    notes = [
        "Seeded runs: simulations. One record is protected, under replace-one adjacency; one curator has all records; "
        "public samples are assumed to contain no private ones.",
        "scene and yeast: Mulan's training file is private, its test file half public, half test; all labels may be in "
        "one set. codes: groups of the three diagnoses of each patient's first encounter in diabetes130, so at most "
        "three labels; of the first 17,000 patients 10,000 are private, 2,000 public and 5,000 the test.",
        "Every run is saved and loaded before it predicts. labels: micro-F1 of the public samples' released labels.",
        "95 % interval of the mean micro-F1: bootstrap over runs and test samples.",
        "Without a delta the default asks for votes. Lines below the default leave out one of its parts; votes with "
        "thresholds at one half are what was done before.",
        "Randomized response uses the private records' own features without protection: it protects labels alone.",
        "No constant was set on these sets; that thresholds matter was first seen on scene. Times are those of the "
        "processor, with what the evaluation takes.",
    ]
    measures = {"test": 100.0, "macro": 100.0, "labels": 100.0, "processor seconds": 1.0}
    caption = "Sets of labels: mean micro-F1 on the test part (test), macro-F1 there (macro), both in %."
    for file in write_result(Result("multilabel", caption, rows, measures, notes), RESULTS):
        print(file)
    shown = [
        (f"{row.names['data']} · {_marked(row)}{row.names['line']}", row.values("test"), row.values("labels"))
        for row in rows
    ]
    print(draw_rows(caption, shown, RESULTS / "multilabel.png", ("student, test", "public labels")))


def _marked(row: Row) -> str:
    said = [f"{name} = {row.names[name]}" for name in ("ε", "δ") if row.names[name]]
    return f"{', '.join(said)} · " if said and "ε = 0" not in row.names["line"] else ""


if __name__ == "__main__":
    main()
