"""A saved run's statement for screens and programs, and the model card of an exported student."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tacit.core import Guarantee
from tacit.core.errors import plural
from tacit.report.html import short
from tacit.runs.folders import Record

__all__ = ["code_span", "label_counts", "model_card", "plain_text", "statement", "summary_lines"]

_FORMAT = "tacit run statement 1"
_MOST_CLASSES = 20


def label_counts(labels: NDArray[Any], classes: NDArray[Any]) -> dict[str, int]:
    """How many public samples got each class: released labels, so this is public.

    >>> import numpy as np
    >>> label_counts(np.array(["a", "b", "a"]), np.array(["a", "b", "c"]))
    {'a': 2, 'b': 1, 'c': 0}
    """
    if labels.ndim == 2:
        return {str(name): int(labels[:, place].sum()) for place, name in enumerate(classes)}
    return {str(name): int((labels == name).sum()) for name in classes}


def plain_text(text: object) -> str:
    """Words for Markdown, on one line, in which names from a file start no heading, quote, element, link, code or cell.

    >>> plain_text("## age"), plain_text("---")
    ('\\\\## age', '\\\\---')
    >>> plain_text("age\\n\\n## <img src=x> `a|b` [c](d)")
    'age ## &lt;img src=x> \\\\`a\\\\|b\\\\` [c]\\\\(d)'
    """
    words = re.sub(r"([\\`|])", r"\\\1", " ".join(str(text).split()))
    words = re.sub(r"^([#>]|[=-]+$)", r"\\\1", words)
    return words.replace("<", "&lt;").replace("](", "]\\(")


def code_span(name: object) -> str:
    """A name as code in Markdown, on one line, between more backticks than it has in a row.

    Code shows "&lt;" as it is written, so only what could begin an element is replaced by it.

    >>> code_span("age"), code_span("age`\\n<b>"), code_span("<=50K")
    ('`age`', '`` age` &lt;b> ``', '`<=50K`')
    """
    words = re.sub("<(?=[A-Za-z/!?])", "&lt;", " ".join(str(name).split()))
    if "`" not in words:
        return f"`{words}`"
    fence = "`" * (1 + max(map(len, re.findall("`+", words))))
    return f"{fence} {words} {fence}"


def statement(record: Record) -> dict[str, Any]:
    """The run's statement as JSON values: labels, student, guarantee and payments. The format has a version."""
    arrays = record.arrays()
    recipe, written = record.written["recipe"], record.written
    return {
        "format": _FORMAT,
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
        # Figures computed from records without noise stay in the run folder.
        "metrics": {name: value for name, value in written["metrics"].items() if name != "not private"},
        "recipe": recipe,
        "versions": written.get("versions", {}),
        "timing": record.timing,
    }


def summary_lines(said: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """A summary of a statement, as titles and lines."""
    counts = said["labels"]
    shown = ", ".join(f"{name[:40]} {count}" for name, count in list(counts.items())[:_MOST_CLASSES])
    more = f" and {len(counts) - _MOST_CLASSES} more" if len(counts) > _MOST_CLASSES else ""
    payments, features = len(said["payments"]), said["features"]
    recipe = said["recipe"]
    chosen = [
        words.format(recipe[key])
        for key, words in (("chosen", "chose {}"), ("votes because", "chose votes, because {}"),
                           ("gradients because", "chose gradients, because {}"), ("mechanism", "{}"),
                           ("queries", "queries: {}"),
                           ("representation", "representation: {}"))
        if recipe.get(key) not in (None, "auto")
    ]  # fmt: skip
    columns = recipe.get("features")
    return [
        ("method", f"{said['method']} ({said['trust']} trust)" + (f": {', '.join(chosen)}" if chosen else "")),
        ("labels", f"{plural(said['public_samples'], 'public sample')}: {shown}{more}"),
        ("student", f"{said['student']['kind']} in {said['student']['file']}, {columns} features"
         + ("" if features is None else f" ({', '.join(features[:5])}{', …' if len(features) > 5 else ''})")),
        ("paid", f"{plural(payments, 'payment')}, randomness: {recipe.get('randomness', 'not said')}"),
        ("made with", ", ".join(f"{name} {version}" for name, version in said["versions"].items())),
    ]  # fmt: skip


# How each format is loaded: its imports, and what follows them.
LOADS = {
    "onnx": (("import onnxruntime",), """session = onnxruntime.InferenceSession("{file}")
# rows: float32, (samples, {features})
labels, probabilities = session.run(["label", "probabilities"], {{"X": rows}})"""),
    "skops": (("import skops.io",), """student = skops.io.load("{file}", trusted={trusted})
labels = student.predict(rows)"""),
    "safetensors": (("from pathlib import Path", "from tacit.students.registry import load_student"),
                    """student = load_student(Path("{file}"))
labels = student.predict(rows)"""),
}  # fmt: skip
ENCODES = (("from pathlib import Path", "from tacit.encoders.kinds import read_encoder"),
           """encoder = read_encoder(Path("{encoder}"))
rows = encoder.encode(samples)  # samples as they were given to the run: a data frame, texts or images""")  # fmt: skip
NOT_COVERED = (
    "What is true of people in general: the student learns general patterns from the records, and applies them to "
    "people who were never in them.",
    "The public samples, the list of classes, and the names of the columns.",
    "Other releases about the same records: each adds to the cost of this one.",
    "What is done with the predictions: a prediction about a person is information about that person.",
)


def model_card(said: dict[str, Any], kind: str, file: str, trusted: tuple[str, ...] = ()) -> str:
    """The model card of a student, from the run's statement, as Markdown with YAML metadata.

    >>> from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
    >>> claim = Guarantee(1, 0, Unit(), Adjacency.REPLACE_ONE, Trust.CENTRAL).to_json()
    >>> said = {"guarantee": claim, "simulation": False, "method": "rknn", "labels": {"a": 3}, "public_samples": 3,
    ...         "features": None, "recipe": {"features": 2}, "metrics": {}, "versions": {"tacit": "0.1"},
    ...         "payments": [], "differential_privacy": True, "student": {"kind": "logistic", "file": "student.skops"}}
    >>> "epsilon = 1, delta = 0" in model_card(said, "onnx", "student.onnx")
    True
    """
    claim, recipe = said["guarantee"], said["recipe"]
    features = said["features"]
    parts = [
        _head(said),
        f"# {'SIMULATED: ' if said['simulation'] else ''}A student of private records\n",
        f"A classifier ({plain_text(said['student']['kind'])}) trained by Tacit on {said['public_samples']} public "
        f"samples, whose labels were released from private records by the method `{said['method']}`.\n",
        "## What is guaranteed\n",
        "".join(f"> {plain_text(line)}  \n" for line in claim["statement"].splitlines()),
        _numbers(claim) if said["differential_privacy"] else "**This is not differential privacy.**\n",
        "## What is not\n",
        "".join(f"- {each}\n" for each in NOT_COVERED),
        "## Input and output\n",
        f"Rows of {recipe.get('features')} numbers"
        + (f", as `{said['encoder']}` makes them of the columns" if said.get("encoder") else "")
        + (" in this order: " + ", ".join(map(code_span, features)) if features else "")
        + f". Classes: {', '.join(map(code_span, said['labels']))}.\n",
        _example(said, kind, file, trusted),
        "## How it was made\n",
        _table(
            ("choice", "value"), [(name, _short(short(value))) for name, value in recipe.items() if name != "options"]
        ),
        _measured(said["metrics"]),
        f"Made with {', '.join(f'{name} {version}' for name, version in said['versions'].items())}.\n",
    ]
    return "\n".join(part for part in parts if part)


def _example(said: dict[str, Any], kind: str, file: str, trusted: tuple[str, ...]) -> str:
    """An example of loading and using the student."""
    steps = [ENCODES, LOADS[kind]] if said.get("encoder") else [LOADS[kind]]
    imports = {line for needed, _ in steps for line in needed}
    own = sorted(line for line in imports if "pathlib" in line)
    others = sorted(imports.difference(own), key=lambda line: line.split()[1])
    code = "\n".join(body for _, body in steps).format(
        encoder=said.get("encoder"), file=file, features=said["recipe"].get("features"), trusted=list(trusted)
    )
    blocks = ["\n".join(lines) for lines in (own, others) if lines]
    return "```python\n" + "\n\n".join([*blocks, code]) + "\n```\n"


def _head(said: dict[str, Any]) -> str:
    claim = said["guarantee"]
    lines = ["library_name: tacit", "tags: [differential-privacy, knowledge-distillation, tabular-classification]"]
    if "epsilon" in claim:
        lines += [f"epsilon: {claim['epsilon']}", f"delta: {claim['delta']}"]
    return "---\n" + "\n".join([*lines, f"simulation: {str(said['simulation']).lower()}"]) + "\n---\n"


def _numbers(claim: dict[str, Any]) -> str:
    rows = [
        ("epsilon", claim["epsilon"]), ("delta", claim["delta"]), ("protects", claim["unit"]["in_words"]),
        ("adjacency", claim["adjacency"]), ("trust", claim["trust"]), ("accountant", claim["accountant"]),
    ]  # fmt: skip
    return _table(("", "value"), rows)


def _measured(metrics: dict[str, Any]) -> str:
    numbers = [(name, _short(short(value))) for name, value in metrics.items() if isinstance(value, int | float | list)]
    return _table(("measured", "value"), numbers) if numbers else ""


def _table(heads: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [
        f"| {heads[0]} | {heads[1]} |",
        "|---|---|",
        *(f"| {plain_text(name)} | {plain_text(value)} |" for name, value in rows),
    ]
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:  # noqa: ANN401
    text = " ".join(str(value).split())
    return text if len(text) <= 120 else text[:119] + "…"
