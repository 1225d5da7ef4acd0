"""A federation on disk: what was agreed on and what it cost, and beside it each party's model, which is its own.

What the parties agreed on follows from what they sent. Their models do not: they were trained on records in the clear,
so each lies in a folder that only its owner can look into, and the record says so.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.experiment.fedmd import Federation
from tacit.experiment.fedmd_variants import file_name
from tacit.experiment.machine import versions
from tacit.methods.fedmd.agreement import agreed
from tacit.methods.fedmd.exposure import Exposure
from tacit.students.flattened import for_images
from tacit.students.refitted import Refitted
from tacit.students.saved import save_student

__all__ = ["write_federation"]

FORMAT = "FedMD 1"
OWN = (
    "the models in parties/ were trained on the parties' records in the clear; no guarantee covers them. Hand each to "
    "its own party, and to nobody else"
)


def write_federation(
    run: Federation, names: NDArray[Any], samples: int, parties: Sequence[str], folder: Path, images: bool
) -> list[str]:
    """Write ``run.json``, ``labels.csv``, ``consensus.npz`` and the models into an existing folder.

    Returns what could not be kept: the models that have no safe format, in words.
    """
    simulation = any(claim.simulation for claim in run.claims)
    labels, sure = agreed(run.history, samples)
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["public row", "simulated label" if simulation else "label", "probability"])
        for row in np.flatnonzero(labels >= 0):
            writer.writerow([row, names[labels[row]], f"{sure[row]:.6f}"])
    arrays = {"classes": names, "simulation": np.array(simulation)}
    for each in run.history:
        arrays |= {f"rows {each.round}": each.rows, f"targets {each.round}": each.targets}
    np.savez_compressed(folder / "consensus.npz", **arrays)  # type: ignore[arg-type]
    kept, lost = [], []
    for number, (name, model) in enumerate(zip(parties, run.students, strict=True)):
        own = folder / "parties" / file_name(name)
        own.mkdir(parents=True, mode=0o700)
        student: Any = model
        if isinstance(model, Refitted):
            student = for_images(model.fitted) if images else model.fitted
        try:
            written: str | None = save_student(student, own, simulation)
        except InvalidInput as error:
            written = None
            lost.append(f"party {name}: {error}")
        kept.append({"name": name, "model": run.models[number], "folder": own.name, "file": written})
    record = {
        "format": FORMAT,
        "method": "fedmd",
        "claim": run.claim.to_json(),
        "claims": [
            {"party": name, "kind": "stability" if isinstance(claim, Exposure) else "guarantee", **claim.to_json()}
            for name, claim in zip(parties, run.claims, strict=True)
        ],
        "receipts": [receipt.to_json() for receipt in run.receipts],
        "recipe": run.recipe,
        "classes": names.tolist(),
        "parties": kept,
        "models": OWN,
        "versions": versions(),
    }
    (folder / "run.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return lost
