"""What a saved run is, in a few values: for a screen, a model card, and programs that read JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tacit.core.guarantee import Guarantee
from tacit.runs.record import Record

__all__ = ["label_counts", "statement", "summary_lines"]

FORMAT = "tacit run statement 1"
MOST_CLASSES = 20


def label_counts(labels: NDArray[Any], classes: NDArray[Any]) -> dict[str, int]:
    """How many public samples got each class: released labels, so this is public.

    >>> import numpy as np
    >>> label_counts(np.array(["a", "b", "a"]), np.array(["a", "b", "c"]))
    {'a': 2, 'b': 1, 'c': 0}
    """
    if labels.ndim == 2:
        return {str(name): int(labels[:, place].sum()) for place, name in enumerate(classes)}
    return {str(name): int((labels == name).sum()) for name in classes}


def statement(record: Record) -> dict[str, Any]:
    """The run as JSON values: what was made, what is guaranteed, and what was paid. The layout has a version."""
    arrays = record.arrays()
    recipe, written = record.written["recipe"], record.written
    return {
        "format": FORMAT,
        "method": recipe.get("method"),
        "trust": recipe.get("trust"),
        "simulation": bool(record.claim.simulation),
        "differential_privacy": isinstance(record.claim, Guarantee),
        "guarantee": record.claim.to_json(),
        "payments": [receipt.to_json() for receipt in record.receipts],
        "public_samples": len(arrays["labels"]),
        "labels": label_counts(arrays["labels"], arrays["classes"]),
        "several_labels_per_sample": arrays["labels"].ndim == 2,
        "student": {"file": record.student.name, "kind": recipe.get("student")},
        "features": None if record.features is None else list(record.features),
        "encoder": None if record.encoder is None else record.encoder.name,
        # What was computed from records without noise stays in the run folder of who computed it.
        "metrics": {name: value for name, value in written["metrics"].items() if name != "not private"},
        "recipe": recipe,
        "versions": written.get("versions", {}),
    }


def summary_lines(said: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """A statement in a few lines, titles and what they say."""
    counts = said["labels"]
    shown = ", ".join(f"{name[:40]} {count}" for name, count in list(counts.items())[:MOST_CLASSES])
    more = f" and {len(counts) - MOST_CLASSES} more" if len(counts) > MOST_CLASSES else ""
    payments, features = len(said["payments"]), said["features"]
    recipe = said["recipe"]
    chosen = [
        f"{recipe[key]} {word}" if key == "queries" else str(recipe[key])
        for key, word in (("chosen", ""), ("mechanism", ""), ("queries", "queries"), ("representation", ""))
        if recipe.get(key) not in (None, "auto")
    ]
    columns = recipe.get("features")
    return [
        ("method", f"{said['method']} ({said['trust']} trust)" + (f": {', '.join(chosen)}" if chosen else "")),
        ("labels", f"{said['public_samples']} public samples: {shown}{more}"),
        ("student", f"{said['student']['kind']} in {said['student']['file']}, {columns} features"
         + ("" if features is None else f" ({', '.join(features[:5])}{', …' if len(features) > 5 else ''})")),
        ("paid", f"{payments} payment{'s' * (payments != 1)}, randomness: {recipe.get('randomness', 'not said')}"),
        ("made with", ", ".join(f"{name} {version}" for name, version in said["versions"].items())),
    ]  # fmt: skip
