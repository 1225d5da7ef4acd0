"""A saved run in MLflow, an optional extra: parameters, figures, the privacy statement, and what may be shared."""

from __future__ import annotations

import json
import numbers
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Guarantee
from tacit.report.card import model_card, statement
from tacit.runs.folders import read_record
from tacit.students.registry import TYPES

__all__ = ["log_to_mlflow"]

# As long as a parameter's value may be there.
_LONGEST = 500


def log_to_mlflow(folder: str | Path, experiment: str = "tacit") -> str:
    """Log a run folder as one run of an MLflow experiment, and return its id there.

    Parameters are the method and every public choice, metrics the ε and δ that were spent, how many labels and what
    was measured. Artifacts are the statement, the model card, the labels and the student. What was computed from
    records without noise stays in the run folder, and so do the names of private files.

    >>> log_to_mlflow("no-such-run")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-run: not a run folder, it has no run.json
    """
    record = read_record(folder)
    said = statement(record)
    try:
        mlflow = import_module("mlflow")
    except ModuleNotFoundError:
        raise InvalidInput("logging to MLflow needs an extra: pip install 'tacit[mlflow]'") from None
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=Path(folder).name) as started:
        mlflow.log_params(dict(_flat({"method": said["method"], "trust": said["trust"], "recipe": said["recipe"]})))
        mlflow.log_metrics(_figures(said, record.claim))
        mlflow.set_tags({
            "tacit.simulation": str(said["simulation"]).lower(),
            "tacit.differential_privacy": str(said["differential_privacy"]).lower(),
            "tacit.statement": str(record.claim)[:_LONGEST],
        })  # fmt: skip
        mlflow.log_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", "statement.json")
        kind = record.student.suffix.removeprefix(".")
        mlflow.log_text(model_card(said, kind, record.student.name, TYPES), "MODEL_CARD.md")
        for file in (record.folder / "labels.csv", record.student, record.encoder):
            if file is not None and file.is_file():
                mlflow.log_artifact(str(file))
    found: str = started.info.run_id
    return found


def _figures(said: Mapping[str, Any], claim: Any) -> dict[str, float]:  # noqa: ANN401
    """The numbers of a run."""
    found = {"public_samples": float(said["public_samples"]), "delta": float(claim.delta)}
    if isinstance(claim, Guarantee):
        found["epsilon"] = float(claim.epsilon)
    for name, value in said["metrics"].items():
        last = value[-1] if isinstance(value, list) and value else value
        if isinstance(last, numbers.Real) and not isinstance(last, bool):
            found[str(name).replace(" ", "_")] = float(last)
    return found


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Nested values under one name each.

    >>> dict(_flat({"recipe": {"options": {"queries": 40}}}))
    {'recipe.options.queries': '40'}
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", str(value)[:_LONGEST]
