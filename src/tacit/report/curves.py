"""Curves as numbers and as pictures: each chart is written as a small PNG and as the JSON it was drawn from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput

__all__ = ["Chart", "Panel", "draw_chart", "write_chart"]

# Told apart without colour as well.
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
                    "curves": {name: [_short(height) for height in heights] for name, heights in panel.curves.items()},
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
        for index, (name, heights) in enumerate(panel.curves.items()):
            shown = [(x, y) for x, y in zip(panel.places, heights, strict=True) if y is not None]
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
