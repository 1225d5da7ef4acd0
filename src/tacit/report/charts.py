"""Results as charts: curves, written as a small PNG and as the JSON they were drawn from, and rows of two measures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.errors import InvalidInput

__all__ = ["Chart", "Panel", "draw_chart", "draw_rows", "write_chart"]


def draw_rows(
    title: str,
    rows: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    file: Path,
    measures: tuple[str, str] = ("labels", "student, test"),
) -> Path:
    """One line per row: two shares, in percent; usually of labels that are right and of the student's answers.

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


# Told apart without color as well.
MARKS = "osD^vP*X"
# A longer curve is marked at some of its places.
MARKED = 25


@dataclass(frozen=True)
class Panel:
    """Curves over one pair of axes: name ↦ heights, over the places ``across``; nothing where there is no height."""

    title: str
    across: str
    up: str
    places: Sequence[float]
    curves: Mapping[str, Sequence[float | None]]
    log_across: bool = False
    log_up: bool = False


@dataclass(frozen=True)
class Chart:
    """Panels side by side under one name, with the settings they were computed for."""

    name: str
    caption: str
    panels: Sequence[Panel]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All numbers of the chart, to nine significant digits."""
        return {
            "name": self.name,
            "caption": self.caption,
            "settings": dict(self.settings),
            "panels": [
                {
                    "title": panel.title,
                    "across": {panel.across: [_short(place) for place in panel.places]},
                    "up": panel.up,
                    "curves": {
                        name: [_short(height) for height in query_offsets]
                        for name, query_offsets in panel.curves.items()
                    },
                }
                for panel in self.panels
            ],
        }


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.9g}")


def write_chart(chart: Chart, folder: Path) -> tuple[Path, Path]:
    """Write ``name.png`` and ``name.json`` into a folder; the same chart gives the same bytes."""
    picture, numbers = folder / f"{chart.name}.png", folder / f"{chart.name}.json"
    draw_chart(chart, picture)
    numbers.write_text(json.dumps(chart.to_json(), indent=1) + "\n", encoding="utf-8")
    return picture, numbers


def draw_chart(chart: Chart, picture: Path) -> Path:
    """Draw the chart alone, where its numbers are written elsewhere."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("pictures need matplotlib: pip install 'tacit[report]'") from None

    picture.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(5.4 * len(chart.panels), 4.2))
    for place, panel in enumerate(chart.panels, start=1):
        axes = figure.add_subplot(1, len(chart.panels), place)
        for index, (name, query_offsets) in enumerate(panel.curves.items()):
            shown = [(x, y) for x, y in zip(panel.places, query_offsets, strict=True) if y is not None]
            axes.plot(
                *zip(*shown, strict=True), label=name, marker=MARKS[index % len(MARKS)], markersize=4, linewidth=1.3,
                markevery=max(1, len(shown) // MARKED),
            )  # fmt: skip
        if panel.log_across:
            axes.set_xscale("log")
        if panel.log_up:
            axes.set_yscale("log")
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlabel(panel.across, fontsize=9)
        axes.set_ylabel(panel.up, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(fontsize=8)
    figure.tight_layout()
    # Without the program's version in it, the file depends on the chart alone.
    figure.savefig(picture, dpi=90, metadata={"Software": None})
    return picture
