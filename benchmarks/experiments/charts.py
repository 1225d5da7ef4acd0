"""Pictures of results: rows of two measures, and charts with their numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.table import Row
from tacit.core import InvalidInput
from tacit.report.charts import Chart, Panel, draw_chart

__all__ = ["draw_rows", "over_epsilon", "write_chart"]


def draw_rows(
    title: str,
    rows: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    file: Path,
    measures: tuple[str, str] = ("labels", "student, test"),
) -> Path:
    """One line per row with two fractions in percent, usually of correct labels and of correct predictions.

    >>> import tempfile
    >>> draw_rows("toy", [("ε = 1", [0.9, 0.92], [0.88, 0.9])], Path(tempfile.mkdtemp()) / "toy.png").name
    'toy.png'
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("pictures need matplotlib: pip install 'tacit[report]'") from None
    figure = Figure(figsize=(7.2, 1.2 + 0.32 * len(rows)))
    axes = figure.add_subplot()
    places = np.arange(len(rows))[::-1]
    series = (
        (0.12, "o", measures[0], [first for _, first, _ in rows]),
        (-0.12, "D", measures[1], [second for _, _, second in rows]),
    )
    for shift, mark, name, runs in series:
        means = [100 * float(np.mean(values)) if len(values) else np.nan for values in runs]
        spreads = [100 * float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 for values in runs]
        axes.errorbar(means, places + shift, xerr=spreads, fmt=mark, markersize=4, capsize=2, label=name)
    axes.set_yticks(places, [row[0] for row in rows], fontsize=8, parse_math=False)
    axes.set_xlabel("% right, mean and standard deviation over runs", fontsize=9)
    axes.set_title(title, fontsize=9, wrap=True, parse_math=False)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110, metadata={"Software": None})
    return file


def over_epsilon(title: str, rows: Sequence[Row], name: str) -> Chart:
    """The mean test accuracy of each line over ε; lines without a number for ε are levels.

    >>> names = [("1", "sums"), ("0.1", "sums"), ("no noise", "sums"), ("0", "a guess")]
    >>> rows = [Row({"ε": each, "line": line}, [{"test": 0.5}]) for each, line in names]
    >>> over_epsilon("toy", rows, "toy").panels[0].curves
    {'sums': [50.0, 50.0], 'no noise: sums': [50.0, 50.0], '0: a guess': [50.0, 50.0]}
    """

    def budget(row: Row) -> float:
        try:
            return float(row.names["ε"].removeprefix("local "))
        except ValueError:
            return 0.0

    places = sorted({budget(row) for row in rows} - {0.0})
    curves: dict[str, list[float | None]] = {}
    for row in rows:
        mean = 100 * float(np.mean(row.values("test")))
        if budget(row):
            curve = curves.setdefault(row.names["line"], [None] * len(places))
            curve[places.index(budget(row))] = mean
        else:
            curves[f"{row.names['ε']}: {row.names['line']}"] = [mean] * len(places)
    return Chart(name, title, [Panel(title, "ε", "test, % right", places, curves, log_across=True)])


def write_chart(chart: Chart, folder: Path) -> tuple[Path, Path]:
    """Write ``name.png`` and ``name.json`` into a folder; the same chart gives the same bytes."""
    picture, numbers = folder / f"{chart.name}.png", folder / f"{chart.name}.json"
    draw_chart(chart, picture)
    numbers.write_text(json.dumps(_numbers(chart), indent=1) + "\n", encoding="utf-8")
    return picture, numbers


def _numbers(chart: Chart) -> dict[str, Any]:
    """All numbers of the chart, to nine significant digits."""
    return {
        "name": chart.name,
        "caption": chart.caption,
        "settings": dict(chart.settings),
        "panels": [
            {
                "title": panel.title,
                "across": {panel.across: [_rounded(place) for place in panel.places]},
                "up": panel.up,
                "curves": {name: [_rounded(height) for height in heights] for name, heights in panel.curves.items()},
            }
            for panel in chart.panels
        ],
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.9g}")
