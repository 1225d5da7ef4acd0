"""A finished run of any method: the student, the labels, the guarantee, and how to save and load them."""

from __future__ import annotations

import html
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Guarantee, InvalidInput, Receipt, TacitWarning
from tacit.encoders.kinds import read_encoder, write_encoder
from tacit.methods.task import HolderModels
from tacit.runs.export import label_columns, write_columns
from tacit.runs.folders import ARRAYS_FILE, RUN_FORMAT, new_folder, read_record, readable, versions
from tacit.runs.payment import file_name, group_guarantee
from tacit.students.registry import load_student, save_student
from tacit.students.wrapped import for_images, takes_images, with_encoder, with_names, without_names

__all__ = ["Run", "load"]

HOLDERS_OWN = (
    "the models in holders/ were trained on the holders' records without noise; no guarantee covers them. Give each to "
    "its own holder only"
)


@dataclass(frozen=True, repr=False)
class Run:
    """The result of ``distill``, for every method.

    ``labels`` has one label per public sample, or one row per sample for multi-label data; ``probabilities`` one row
    per sample, if known. ``guarantee`` is the weakest of ``guarantees``, of which there is one per paying account.
    ``recipe`` has every public choice, ``arrays`` the method's other releases, ``features`` the column names if the
    samples had any, by which the student matches tables. ``encoder`` encodes samples that are not numbers; it was
    fitted to public samples, is saved with the run, and the student applies it. ``metrics`` are measured on test
    data, never on private records. ``timing`` has whole seconds of steps that saw releases and public samples only; the
    time of other steps depends on records and is not stored. ``holder_models`` are not covered by any guarantee, and
    are saved only on request.
    """

    student: Any
    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None
    classes: NDArray[Any]
    guarantee: Any  # Guarantee, or Exposure where a variant has none
    guarantees: Mapping[str, Any]
    receipts: tuple[Receipt, ...]
    recipe: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    features: tuple[str, ...] | None = None
    holder_models: HolderModels | None = None
    encoder: Any = None
    timing: Mapping[str, int] = field(default_factory=dict)

    @property
    def queries(self) -> NDArray[Any]:
        """The queries, one per row."""
        return self._array("queries")

    @property
    def query_labels(self) -> NDArray[Any]:
        """The released label of each query."""
        return self._array("query_labels")

    @property
    def membership(self) -> NDArray[Any]:
        """The query of each public sample."""
        return self._array("membership")

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self.arrays:
            raise InvalidInput(f"a run of {self.recipe.get('method')} has no {name}")
        return self.arrays[name]

    def for_group(self, size: int) -> Guarantee:
        """The guarantee for any ``size`` records, persons or holders together, such as a family."""
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidInput("this run has no guarantee of differential privacy, so it has none for a group")
        return group_guarantee(self.guarantee, self.receipts, size)

    def __repr__(self) -> str:
        """Five lines: the method, the labels, the student and the guarantee."""
        return "\n".join(f"{name}{text}" for name, text in self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        shown, extra = ", ".join(map(str, self.classes[:8].tolist())), "" if len(self.classes) <= 8 else ", ..."
        claim = str(self.guarantee).splitlines()
        return [
            ("Run of ", f"{self.recipe.get('method')}, {len(self.receipts)} payment{'s' * (len(self.receipts) != 1)}"),
            ("  labels: ", f"{len(self.labels)} public samples, {len(self.classes)} classes ({shown}{extra})"),
            ("  student: ", str(self.recipe.get("student", type(self.student).__name__))),
            ("  claim: ", claim[0]),
            ("  ", claim[1] if len(claim) > 1 else ""),
        ]

    def _repr_html_(self) -> str:
        """The same as a table, with the whole privacy statement to unfold."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name.strip(' :'))}</th><td>{html.escape(text)}</td></tr>"
            for name, text in self._lines()
        )
        statement = html.escape(str(self.guarantee))
        return f"<table>{rows}</table><details><summary>privacy statement</summary><pre>{statement}</pre></details>"

    def save(self, folder: str | Path, holder_models: bool = False) -> Path:
        """Write ``run.json``, ``labels.csv``, ``arrays.npz`` and the student into a new folder, atomically.

        With ``holder_models`` the holders' own models are written, too, each into its own folder: no guarantee covers
        them. Give each to its holder only; the rest of the folder may be published.
        """
        with new_folder(Path(folder)) as partial:
            lost = self.write(partial, holder_models)
        for each in lost:
            warnings.warn(f"not saved: {each}", TacitWarning, stacklevel=2)
        return Path(folder)

    def write(self, folder: Path, holder_models: bool = False) -> list[str]:
        """Write the run's files into an existing folder; returns messages about models that could not be saved."""
        simulation = bool(self.guarantee.simulation)
        student = save_student(self.student, folder, simulation)
        write_columns(folder / "labels.csv", label_columns(self.labels, self.probabilities, self.classes, simulation))
        arrays = {"classes": self.classes, "labels": self.labels, "simulation": np.array(simulation), **self.arrays}
        if self.probabilities is not None:
            arrays["probabilities"] = self.probabilities
        np.savez_compressed(folder / ARRAYS_FILE, **arrays)  # type: ignore[arg-type]
        holders, lost = self._write_models(folder, simulation) if holder_models else (None, [])
        record = {
            "format": RUN_FORMAT,
            "guarantee": self.guarantee.to_json(),
            "guarantees": {account: each.to_json() for account, each in self.guarantees.items()},
            "receipts": [receipt.to_json() for receipt in self.receipts],
            "recipe": self.recipe,
            "metrics": self.metrics,
            "student": student,
            "features": self.features,
            "encoder": None if self.encoder is None else write_encoder(self.encoder, folder),
            "holder_models": holders,
            "versions": versions(),
            "timing": dict(self.timing),
        }
        (folder / "run.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return lost

    def _write_models(self, folder: Path, simulation: bool) -> tuple[dict[str, Any], list[str]]:
        """Save the holders' models, each in a folder that only its owner can read."""
        if self.holder_models is None:
            raise InvalidInput(f"a run of {self.recipe.get('method')} has no holder models")
        written: list[dict[str, str | None]] = []
        lost = []
        models = self.holder_models
        for name, kind, model in zip(models.names, models.kinds, models.models, strict=True):
            own = folder / "holders" / file_name(name)
            own.mkdir(parents=True, mode=0o700)
            student: Any = without_names(model)
            if hasattr(student, "fitted"):
                # A model that is refitted is saved as it is now; one of images, if the run's own student takes images.
                student = for_images(student.fitted) if takes_images(self.student) else student.fitted
            file: str | None = None
            try:
                file = save_student(student, own, simulation)
            except InvalidInput as error:
                lost.append(f"holder {name}: {error}")
            written.append({"name": name, "model": kind, "folder": own.name, "file": file})
        return {"about": HOLDERS_OWN, "models": written}, lost


def load(folder: str | Path) -> Run:
    """Load a saved run; an error if its receipts do not support its claims. No code in it is executed.

    >>> load("no-such-run")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-run: not a run folder, it has no run.json
    """
    record = read_record(folder)
    arrays = record.arrays()
    labels, classes = arrays.pop("labels"), arrays.pop("classes")
    probabilities = arrays.pop("probabilities", None)
    with readable(record.student):
        model = load_student(record.student)
    encoder = None
    if record.encoder is not None:
        with readable(record.encoder):
            encoder = read_encoder(record.encoder)
    return Run(
        student=with_encoder(with_names(model, record.features), encoder), labels=labels, probabilities=probabilities,
        classes=classes,
        guarantee=record.claim, guarantees=record.claims, receipts=record.receipts, recipe=record.written["recipe"],
        metrics=record.written["metrics"], arrays=arrays, features=record.features, encoder=encoder,
        timing=record.timing,
    )  # fmt: skip
