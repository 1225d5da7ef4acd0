"""Measurements as a table: mean and spread over runs beside what was published, in JSON and in Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core import InvalidInput
from tacit.runs.folders import machine, versions

__all__ = ["Result", "Row", "interval", "shown", "write_result"]


def shown(values: Sequence[float], scale: float = 100.0, digits: int = 1) -> str:
    """Mean and sample standard deviation.

    >>> shown([0.9, 0.92]), shown([0.5]), shown([])
    ('91.0 ± 1.4', '50.0', '')
    """
    if not values:
        return ""
    scaled = scale * np.asarray(values)
    spread = f" ± {scaled.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{scaled.mean():.{digits}f}{spread}"


def interval(values: Sequence[float], scale: float = 100.0) -> str:
    """The 95 % interval of the mean over runs (Student's t).

    >>> interval([0.5, 0.5]), interval([0.5])
    ('50.0 to 50.0', '')
    """
    from scipy.stats import t

    if len(values) < 2:
        return ""
    scaled = scale * np.asarray(values)
    reach = float(t.ppf(0.975, len(values) - 1)) * scaled.std(ddof=1) / len(values) ** 0.5
    return f"{scaled.mean() - reach:.1f} to {scaled.mean() + reach:.1f}"


@dataclass(frozen=True)
class Row:
    """One line of a table: what was set, what each run measured, and what the paper says."""

    names: Mapping[str, str]
    runs: Sequence[Mapping[str, Any]]
    published: Mapping[str, str] = field(default_factory=dict)

    def values(self, measure: str) -> list[float]:
        """A measure's value in every run that has it."""
        return [float(run[measure]) for run in self.runs if run.get(measure) is not None]


@dataclass(frozen=True)
class Result:
    """A table with its name, what it is about in words, and which measures it shows."""

    name: str
    caption: str
    rows: Sequence[Row]
    measures: Mapping[str, float]  # a measure and what it is multiplied by: 100 for a share in percent
    notes: Sequence[str] = ()

    def measured(self) -> Result:
        """The table without the lines that no run was finished for, and a note that there are some."""
        rows = [row for row in self.rows if row.runs]
        if not rows:
            raise InvalidInput(f"{self.name}: nothing was measured yet")
        if len(rows) == len(self.rows):
            return self
        missing = ", ".join(" · ".join(row.names.values()) for row in self.rows if not row.runs)
        return replace(self, rows=rows, notes=(*self.notes, f"Not measured yet: {missing}."))

    def markdown(self) -> str:
        """The table for people."""
        names, published = (
            list(self.rows[0].names),
            list(dict.fromkeys(key for row in self.rows for key in row.published)),
        )
        # What is computed, not measured, has no runs.
        counted = ["runs"] if self.measures else []
        heads = [*names, *self.measures, *counted, *(f"paper: {each}" for each in published)]
        lines = [f"# {self.name}", "", self.caption, "", _line(heads), _line(["---"] * len(heads))]
        for row in self.rows:
            figures = [shown(row.values(measure), scale, 1) for measure, scale in self.measures.items()]
            beside = [row.published.get(each, "") for each in published]
            runs = [str(len(row.runs)) for _ in counted]
            lines.append(_line([*(row.names.get(each, "") for each in names), *figures, *runs, *beside]))
        made = ", ".join(f"{name} {version}" for name, version in versions().items())
        lines += [
            "",
            *(f"- {note}" for note in self.notes),
            f"- {'Mean ± sample standard deviation. ' if self.measures else ''}{machine()}; {made}.",
        ]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """All that was measured, run by run."""
        rows = [
            {"names": dict(row.names), "published": dict(row.published), "runs": [dict(run) for run in row.runs]}
            for row in self.rows
        ]
        return {
            "name": self.name, "caption": self.caption, "notes": list(self.notes), "rows": rows,
            "machine": machine(), "versions": versions(),
        }  # fmt: skip


def write_result(result: Result, folder: Path) -> list[Path]:
    """Write the JSON and the Markdown of a result."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{result.name}.json", folder / f"{result.name}.md"]
    texts = [json.dumps(result.to_json(), indent=1, ensure_ascii=False) + "\n", result.markdown()]
    for file, text in zip(files, texts, strict=True):
        partial = file.with_name(file.name + ".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    return files


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
