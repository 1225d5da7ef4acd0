"""Persons with several records: accuracy over the bound m on a person's records, and what bounding costs.

Run: python benchmarks/persons.py --folder DATA [--runs 5] [--kept]

DATA/diabetes130 has diabetic_data.csv; see the data set's own page. Of the patients 60 % are private, 20 % public and
20 % the test, each with all encounters. The question is whether a patient is readmitted. Rows are encoded once by the
encoder of mixed tables, which is fitted to the public rows; class sums are then asked through ``tacit.distill`` with
nothing chosen on private or test rows. Every measurement is stored in .tacit-bench under its settings and a digest of
the code, so that an interrupted bench resumes. Writes docs/results/persons.json, .md and .png.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.development import read_set
from experiments.measured import Memory, code_of
from experiments.table import Result, Row, interval, write_result
from tacit.core import TacitWarning
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize
from tacit.report.charts import Chart, Panel, draw_chart

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
BOUNDS, EPSILONS, MUCH, DELTA = (1, 2, 4, 8), (1.0, 0.1), 1e6, 1e-5
COLUMN = "patient_nbr"
CODE = ("tacit.runs.distill", "tacit.methods.class_sums.method", "tacit.encoders.kinds", "experiments.development")


class Encounters:
    """The encounters of diabetes130 as numbers, with the patient of each private one."""

    def __init__(self, folder: Path) -> None:
        parts = read_set("diabetes130", folder)
        assert parts.persons is not None
        encoder = recognize(samples_of(parts.public)).encoder
        assert encoder is not None

        def numbers(samples: Any) -> NDArray[np.float32]:  # noqa: ANN401
            return np.asarray(encoder.encode(samples_of(samples)), dtype=np.float32)

        self.private, self.labels, self.persons = numbers(parts.private[0]), parts.private[1], parts.persons
        self.public, self.test, self.truth = numbers(parts.public), numbers(parts.test[0]), parts.test[1]
        self.classes = parts.classes

    def measure(self, unit: tacit.Unit, epsilon: float, seed: int) -> dict[str, Any]:
        """Accuracy and AUC of one simulated run of class sums."""
        from sklearn.metrics import roc_auc_score

        persons = {} if unit.column is None else {"persons": self.persons}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            run = tacit.distill(
                (self.private, self.labels), self.public, epsilon, delta=DELTA, classes=self.classes, unit=unit,
                method="class_sums", representation="identity", whitening=0.0, seed=seed, **persons,
            )  # fmt: skip
        chances = run.student.predict_proba(self.test)
        guessed = np.asarray(run.student.classes_)[chances.argmax(axis=1)]
        return {
            "test": float((guessed == self.truth).mean()),
            "auc": float(roc_auc_score(self.truth == run.student.classes_[1], chances[:, 1])),
        }

    def counted(self, most: int | None) -> int:
        """How many private records a bound leaves."""
        each = np.unique(self.persons, return_counts=True)[1]
        return int(each.sum() if most is None else np.minimum(each, most).sum())


def lines() -> Iterator[tuple[str, tacit.Unit, int | None, float]]:
    """What is protected, its unit, the bound, and ε: with noise, and with hardly any."""
    for epsilon in (*EPSILONS, MUCH):
        for most in BOUNDS:
            yield "a patient", tacit.Unit.person(COLUMN, most), most, epsilon
        yield "one encounter alone", tacit.Unit(), None, epsilon


def main() -> None:
    """Measure, print as it goes, and write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="one folder per data set")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    memory, data, rows = Memory(KEPT / "persons"), Encounters(given.folder), []
    for protects, unit, most, epsilon in lines():
        runs = []
        for seed in range(given.runs if epsilon < MUCH else 1):
            about = {"protects": protects, "bound": most, "ε": epsilon, "seed": seed, "code": code_of(*CODE)}
            if not given.kept or memory.kept(about) is not None:
                runs.append(memory.recall(about, partial(data.measure, unit, epsilon, seed)))
        shown = "no noise" if epsilon == MUCH else f"{epsilon:g}"
        names = {"ε": shown, "protects": protects, "bound m": "" if most is None else str(most),
                 "records used": f"{data.counted(most):,}"}  # fmt: skip
        names["95 % interval of AUC"] = interval([run["auc"] for run in runs])
        rows.append(Row(names, runs))
        print(" · ".join(names.values()), [round(100 * run["auc"], 2) for run in runs], flush=True)
    guess = {"ε": "0", "protects": "", "bound m": "", "records used": "0", "95 % interval of AUC": ""}
    rows.append(Row(guess, [{"test": 1 / len(data.classes), "auc": 0.5}]))
    write(rows)


def write(rows: list[Row]) -> None:
    """The table, and AUC over the bound as curves."""
    notes = [
        "Private: the encounters of 60 % of the patients; public: those of 20 %, without labels; test: those of 20 %. "
        "Public knowledge: the public encounters' features, and nothing else.",
        f"Class sums, δ = {DELTA:g}, replace-one adjacency, one curator. Of a patient with more than m encounters m "
        "are drawn at random; a patient is then protected with all of them, so the noise grows with m.",
        "one encounter alone: all records are used, and a patient with several is not protected as a whole.",
        "ε = 0: a guess between both classes. no noise: ε = 10⁶, one run.",
        "Seeded runs: simulations. The interval is that of the mean over runs (Student's t).",
    ]
    caption = "diabetes130 by patient: test accuracy and AUC (%) over the bound m on a patient's encounters."
    for file in write_result(
        Result("persons", caption, rows, {"test": 100.0, "auc": 100.0, "processor seconds": 1.0}, notes).measured(),
        RESULTS,
    ):
        print(file)
    curves = {
        f"ε = {epsilon}" if epsilon != "no noise" else epsilon: [
            _mean([each for each in rows if each.names["ε"] == epsilon and each.names["bound m"] == str(most)])
            for most in BOUNDS
        ]
        for epsilon in dict.fromkeys(row.names["ε"] for row in rows if row.names["bound m"])
    }
    panel = Panel("diabetes130, a patient is protected", "bound m", "AUC, %", BOUNDS, curves, log_across=True)
    print(draw_chart(Chart("persons", caption, [panel]), RESULTS / "persons.png"))


def _mean(rows: list[Row]) -> float | None:
    values = rows[0].values("auc") if rows else []
    return 100 * float(np.mean(values)) if values else None


if __name__ == "__main__":
    main()
