"""A finished run: the student, the labels, what they cost, and how to keep them."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, TacitError
from tacit.core.guarantee import Guarantee
from tacit.core.release import Receipt
from tacit.experiment.machine import versions
from tacit.students.saved import load_student, save_student

__all__ = ["Run", "load"]

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """What ``distill`` returns.

    ``labels`` has one label for every public sample; ``probabilities`` a row for each, where counts were paid
    for; ``membership`` says which query each belongs to. ``recipe`` holds every public choice that was made,
    ``metrics`` what was measured: a run itself measures its time only, never a private figure.
    """

    student: Any
    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None
    classes: NDArray[Any]
    queries: NDArray[np.float32]
    query_labels: NDArray[Any]
    membership: NDArray[np.int64]
    guarantee: Guarantee
    receipts: tuple[Receipt, ...]
    recipe: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: str | Path) -> Path:
        """Write ``run.json``, ``labels.csv``, ``queries.npz`` and the student into a new folder, all or nothing."""
        with new_folder(Path(folder)) as partial:
            self.write(partial)
        return Path(folder)

    def write(self, folder: Path) -> None:
        """Write the run's files into an existing folder."""
        simulation = self.guarantee.simulation
        student = save_student(self.student, folder, simulation)
        with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            shown = [] if self.probabilities is None else [f"probability of {name}" for name in self.classes]
            writer.writerow(["public row", "simulated label" if simulation else "label", *shown])
            for row, label in enumerate(self.labels):
                chances = [] if self.probabilities is None else [f"{p:.6f}" for p in self.probabilities[row]]
                writer.writerow([row, label, *chances])
        arrays = {"queries": self.queries, "query_labels": self.query_labels, "classes": self.classes}
        arrays |= {"labels": self.labels, "membership": self.membership, "simulation": np.array(simulation)}
        if self.probabilities is not None:
            arrays["probabilities"] = self.probabilities
        np.savez_compressed(folder / "queries.npz", **arrays)  # type: ignore[arg-type]
        record = {
            "format": FORMAT,
            "guarantee": self.guarantee.to_json(),
            "receipts": [receipt.to_json() for receipt in self.receipts],
            "recipe": self.recipe,
            "metrics": self.metrics,
            "student": student,
            "versions": versions(),
        }
        (folder / "run.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(folder: str | Path) -> Run:
    """The run that was saved in a folder. Nothing in the folder is executed.

    >>> load("no-such-run")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-run: not a run folder, it has no run.json
    """
    folder = Path(folder)
    file = folder / "run.json"
    if not file.is_file():
        raise InvalidInput(f"{folder}: not a run folder, it has no run.json")
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise InvalidInput(f"{file}: written in format {record['format']}, this version reads format {FORMAT}")
        with np.load(folder / "queries.npz", allow_pickle=False) as archive:
            arrays = dict(archive)
        return Run(
            student=load_student(folder / record["student"]),
            labels=arrays["labels"],
            probabilities=arrays.get("probabilities"),
            classes=arrays["classes"],
            queries=arrays["queries"],
            query_labels=arrays["query_labels"],
            membership=arrays["membership"],
            guarantee=Guarantee.from_json(record["guarantee"]),
            receipts=tuple(Receipt.from_json(each) for each in record["receipts"]),
            recipe=record["recipe"],
            metrics=record["metrics"],
        )
    except (ValueError, KeyError, TypeError, OSError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{folder}: the run cannot be read ({type(error).__name__}: {error})") from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder that appears complete or not at all: written beside its place, then renamed into it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder}: exists already and is not an empty folder; choose another --out")
    partial = folder.with_name(folder.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        partial.replace(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else os.strerror(error.errno or 0)
        raise TacitError(f"{folder}: the run could not be written, {why}; nothing was left behind") from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
