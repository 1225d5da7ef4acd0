"""Charts: curves, and queries with their labels.

Queries of images are drawn as images; all others as points on a map, because a table's columns drawn as pixels show
nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput
from tacit.runs.run import Run
from tacit.runs.shown import query_certainty

__all__ = ["Chart", "Panel", "draw_chart", "draw_queries"]


# Distinguishable without color.
_MARKS = "osD^vP*X"
# A longer curve has markers at some of its points only.
MARKED = 25


@dataclass(frozen=True)
class Panel:
    """Curves over one pair of axes: name ↦ values at ``places``; None is a missing value."""

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


def draw_chart(chart: Chart, picture: Path) -> Path:
    """Draw the chart without writing its numbers."""
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
                *zip(*shown, strict=True), label=name, marker=_MARKS[index % len(_MARKS)], markersize=4, linewidth=1.3,
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
    # Without the program's version and the date, the file depends on the chart only.
    about = {"Date": None, "Creator": None} if picture.suffix.lower() == ".svg" else {"Software": None}
    figure.savefig(picture, dpi=90, metadata=about)
    return picture


_SHOWN = 60
_COLUMNS = 10
_SMALLEST_SIDE = 4
LISTED = 30
_LONGEST = {"tile": 11, "list": 24}
# A query whose samples' labels have a lower mean probability than this is marked.
DOUBTFUL = 0.75
ORANGE = "#d9730d"


def draw_queries(run: Run, public: NDArray[Any], file: Path, dark_ink: bool = False) -> None:
    """Draw one tile per query if the samples are images (n, height, width), also in color; otherwise a map.

    A tile is the mean of the public samples in the query's cluster, with the released label and its certainty; doubtful
    ones have an orange frame and a question mark, in a map an orange ring. With ``dark_ink`` large values are dark, as
    on paper; otherwise they are bright, as on a screen.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("pictures need matplotlib: pip install 'tacit[report]'") from None

    simulation = " (SIMULATION)" if run.guarantee.simulation else ""
    images = _images(public)
    with warnings.catch_warnings():
        # Class names may use a script that the font does not have; boxes in their place are acceptable.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        if images is not None:
            shown = min(len(run.query_labels), _SHOWN)
            rows = math.ceil(shown / _COLUMNS)
            height = rows * 1.35 + 0.85
            figure = Figure(figsize=(_COLUMNS * 0.95, height))
            figure.subplots_adjust(0.01, 0.55 / height, 0.99, 1 - 0.7 / height, 0.1, 0.6)
            _draw_tiles(figure, run, images, shown, "gray_r" if dark_ink else "gray")
            part = "" if shown == len(run.query_labels) else f", {shown} of {len(run.query_labels)} shown"
            known = _certainty(run) is not None
            what = (
                "Queries, the labels they got and how certain they are" if known else "Queries and the labels they got"
            )
            figure.suptitle(f"{what}{part}{simulation}", fontsize=11, y=1 - 0.1 / height)
            figure.supxlabel(_doubts(run), fontsize=9, color=ORANGE, y=0.08 / height)
        else:
            figure = Figure(figsize=(9, 5.5), layout="constrained")
            _draw_map(figure.add_subplot(), run, public.reshape(len(public), -1).astype(np.float64))
            figure.suptitle(
                f"{len(run.query_labels)} queries and the labels they got, among {len(public)} public "
                f"samples{simulation}",
                fontsize=11,
            )
        figure.savefig(file, dpi=110)


def _images(public: NDArray[Any]) -> NDArray[np.float64] | None:
    """The samples as (n, height, width) or (n, height, width, 3) from 0 to 1, if they were given as images."""
    images = public.astype(np.float64)
    if images.ndim == 4 and images.shape[1] in (1, 3) and images.shape[3] not in (1, 3):
        images = images.transpose(0, 2, 3, 1)
    if images.ndim == 4 and images.shape[3] == 1:
        images = images[..., 0]
    color = images.ndim == 4 and images.shape[3] == 3
    if not (images.ndim == 3 or color) or min(images.shape[1:3]) < _SMALLEST_SIDE:
        return None
    low, high = images.min(), images.max()
    scaled: NDArray[np.float64] = (images - low) / (high - low or 1)
    return scaled


def _draw_tiles(figure: Any, run: Run, images: NDArray[np.float64], shown: int, grays: str) -> None:  # noqa: ANN401
    certain = _certainty(run)
    for index in range(shown):
        axes = figure.add_subplot(math.ceil(shown / _COLUMNS), _COLUMNS, index + 1)
        mine = run.membership == index
        if mine.any():
            axes.imshow(images[mine].mean(axis=0), cmap=grays, vmin=0, vmax=1)
        doubtful = certain is not None and certain[index] < DOUBTFUL
        mark = "?" if doubtful else ""
        axes.set_title(f"{_short(run.query_labels[index], 'tile')}{mark}", fontsize=11, pad=3, parse_math=False,
                       color=ORANGE if doubtful else "black", fontweight="bold" if doubtful else "normal")  # fmt: skip
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set(color=ORANGE if doubtful else "#d0d0d0", linewidth=2.2 if doubtful else 0.6)
        if certain is not None and np.isfinite(certain[index]):
            axes.set_xlabel(f"{certain[index]:.0%}", fontsize=8, labelpad=2, color=ORANGE if doubtful else "#555555")


def _certainty(run: Run) -> NDArray[np.float64] | None:
    known = {} if run.probabilities is None else {"probabilities": run.probabilities}
    return query_certainty({**run.arrays, **known})


def _doubts(run: Run) -> str:
    certain = _certainty(run)
    if certain is None:
        return ""
    count = int((certain < DOUBTFUL).sum())
    if count == 0:
        return f"no query is doubtful: all have a mean probability of at least {DOUBTFUL:.0%}"
    verb, whose = ("query is", "its") if count == 1 else ("queries are", "their")
    return f"{count} {verb} doubtful: {whose} public samples have a mean probability below {DOUBTFUL:.0%}"


def _draw_map(axes: Any, run: Run, rows: NDArray[np.float64]) -> None:  # noqa: ANN401
    """Public samples on their first two principal components, and each query at the mean of its samples."""
    from matplotlib import colormaps

    spread = rows.std(axis=0)
    centered = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1)
    if centered.shape[1] == 1:
        centered = np.hstack([centered, np.zeros_like(centered)])
    directions = np.linalg.svd(centered, full_matrices=False)[2][:2]
    places = centered @ directions.T
    if places.shape[1] == 1:
        places = np.hstack([places, np.zeros_like(places)])
    asked = np.array([places[run.membership == index].mean(axis=0) if (run.membership == index).any() else
                      (np.nan, np.nan) for index in range(len(run.query_labels))])  # fmt: skip
    names = [name for name in run.classes if (run.query_labels == name).any()]
    certain = _certainty(run)
    doubtful = np.zeros(len(asked), dtype=bool) if certain is None else certain < DOUBTFUL
    few = len(names) <= 10
    colors = colormaps["tab10"](np.arange(10)) if few else colormaps["turbo"](np.linspace(0.05, 0.95, len(names)))
    marks = []
    for name, color in zip(names, colors, strict=False):
        axes.scatter(*places[run.labels == name].T, s=8, alpha=0.35, linewidths=0, color=[color])
        mine = asked[run.query_labels == name]
        marks.append(axes.scatter(*mine.T, s=60, color=[color], edgecolors="black", linewidths=0.8))
    axes.scatter(*asked[doubtful].T, s=170, facecolors="none", edgecolors=ORANGE, linewidths=2)
    marks, listed = marks[:LISTED], [_short(name, "list") for name in names[:LISTED]]
    title = "label" if len(names) <= LISTED else f"label ({LISTED} of {len(names)})"
    # Names are set afterwards: a legend leaves out names that begin with an underscore.
    legend = axes.legend(
        marks, ["."] * len(marks), title=title, fontsize=8, ncols=1 + (len(marks) > 15),
        loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0,
    )  # fmt: skip
    for text, name in zip(legend.get_texts(), listed, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
    ringed = "; ringed: doubtful ones" if doubtful.any() else ""
    axes.set_xlabel(f"first principal direction of the public samples (large marks: queries{ringed})")
    axes.set_ylabel("second")


def _short(name: object, place: str) -> str:
    """A name on one line, shortened so that it does not overlap the next one."""
    text = " ".join(str(name).split())
    return text if len(text) <= _LONGEST[place] else text[: _LONGEST[place] - 1] + "…"
