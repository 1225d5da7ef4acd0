"""The plot of a leaderboard: accuracy over ε, every line named at its right end, in the same color on every board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.leaderboard import REFERENCES, Board, reach
from experiments.leaderboard_parts import HOLDER, LABEL, RECORD, Line
from tacit.core import InvalidInput

__all__ = ["draw_board", "spaced"]

# One color per method, one stroke per variant. Thick lines are ours, thin ones baselines.
STROKES: Mapping[str, tuple[str, str, str, float]] = {
    "rknn": ("#1f4e9c", "-", "o", 2.4),
    "class_sums": ("#0f8b8d", "-", "s", 2.4),
    "auto": ("#c1121f", "-", "D", 2.4),
    "auto pure": ("#c1121f", "--", "D", 2.4),
    "fedmd rknn": ("#1f4e9c", "--", "o", 1.4),
    "noisy_sgd": ("#2b9348", "-", "^", 1.4),
    "noisy_sgd on the map": ("#2b9348", "--", "^", 1.4),
    "noisy_sgd two layers": ("#80b918", "-.", "v", 1.4),
    "noisy_sgd fine-tuned": ("#80b918", ":", "v", 1.4),
    "private_knn": ("#e36414", "-", "P", 1.4),
    "pate lnmax": ("#9d4edd", ":", "X", 1.4),
    "pate gnmax": ("#9d4edd", "-", "X", 1.4),
    "pate confident": ("#9d4edd", "--", "X", 1.4),
    "privatekt": ("#b5179e", "-", "h", 1.8),
    "fedmd response": ("#6c757d", "-", "<", 1.8),
    "fedmd ldp": ("#6c757d", "--", ">", 1.8),
    "label_dp": ("#a47148", "-", "*", 1.8),
}
OTHER = ("#343a40", "-", "p", 1.4)
OURS = ("rknn", "class_sums", "auto", "auto pure")
# Strokes of the lines that do not depend on ε; other ones get another, and none that is this near to a guess is drawn.
FIXED: Mapping[str, Any] = dict(zip(REFERENCES, (":", "-.", "--"), strict=True))
LEAST_APART = 3.0
# Errors are on a logarithmic scale, on which lines that come near to all can be told apart; ticks are accuracies.
TICKS = (10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 93, 95, 97, 98, 99, 99.5)
LEAST_ERROR = 0.3
# How far apart names are, as a share of the axis; how far beside each other the lines' bars are drawn.
APART, BESIDE = 1 / 26, 0.018
# What one ε covers decides which panel a line is in: numbers of different units are not to be compared.
PANELS = (
    ((RECORD,), "one record is protected"),
    ((HOLDER, LABEL), "a whole holder, or only a label, is protected:\nnot to be compared with the other panel"),
)


def draw_board(board: Board, file: Path) -> Path:
    """Curves over ε on a logarithmic axis, a line per method with its spread; a panel for what protects a record."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("pictures need matplotlib: pip install 'tacit[report]'") from None
    measured = {board.lines[name].protects for name, _ in board.shown()}
    panels = [each for each in PANELS if measured & set(each[0])]
    figure = Figure(figsize=(9.6 if len(panels) == 1 else 15.6, 6.4))
    grid = figure.add_gridspec(1, len(panels), width_ratios=(1.0, 0.55)[: len(panels)])
    bounds = _bounds(board)
    for place, (units, title) in enumerate(panels):
        axes = figure.add_subplot(grid[0, place])
        lines = {name: line for name, line in board.lines.items() if line.protects in units}
        _draw_lines(board, axes, lines, bounds)
        axes.set_title(f"{board.data.parts.name}: {title}", fontsize=11)
        if place:
            axes.set_facecolor("#f3f0ea")
        else:
            axes.set_ylabel("test accuracy, % (errors on a logarithmic scale)")
    figure.supxlabel(
        "Bands and colored bars: standard deviation over runs. Gray bar, at the best line: 95 % interval of the "
        f"{len(board.data.test):,} test samples. † not all by this code.",
        fontsize=8.5,
        color="#444444",
    )
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=90, metadata={"Software": None})
    return file


def _bounds(board: Board) -> tuple[float, float]:
    """The lowest and the highest accuracy that is drawn, the same in both panels: none below half of a guess."""
    fixed = _apart(board.references())
    means = [_percent(runs)[0] for runs in board.shown().values()]
    lowest, highest = min(*means, *fixed.values()), max(*means, *fixed.values())
    least = max(lowest - 2.0, fixed[REFERENCES[0]] / 2)
    return least, 100.0 - max(0.8 * (100.0 - highest), LEAST_ERROR)


def _percent(runs: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Mean and standard deviation of some runs in percent."""
    values = [100 * run["test"] for run in runs]
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _draw_lines(board: Board, axes: Any, lines: Mapping[str, Line], bounds: tuple[float, float]) -> None:  # noqa: ANN401
    shown = board.shown()
    marks = sorted({each for _, each in shown})
    names: list[tuple[str, str, float]] = []
    best: dict[float, float] = {}
    drawn = [name for name in lines if any(name == each for each, _ in shown)]
    for order, name in enumerate(drawn):
        across = np.array([at for method, at in shown if method == name])
        means, spread = np.array([_percent(runs) for (method, _), runs in shown.items() if method == name]).T
        _draw_line(axes, name, lines[name], (across, means, spread), 1 + BESIDE * (order - len(drawn) / 2))
        best |= {at: max(mean, best.get(at, 0.0)) for at, mean in zip(across, means, strict=True)}
        names.append((_named(board, name, lines[name]), STROKES.get(name, OTHER)[0], float(means[-1])))
    tops = list(best.values())
    half = [reach(each, len(board.data.test)) for each in tops]
    axes.errorbar(list(best), tops, yerr=half, fmt="none", ecolor="#555555", elinewidth=5, alpha=0.35, zorder=0)
    fixed = _apart(board.references())
    for name in fixed:
        axes.axhline(fixed[name], color="black", linewidth=0.9, linestyle=FIXED.get(name, (0, (5, 1, 1, 1))), zorder=1)
    axes.set_yscale("function", functions=(_stretched, _shrunk))
    ticks = [each for each in TICKS if bounds[0] <= each <= bounds[1]]
    axes.set_yticks(ticks, [f"{each:g}" for each in ticks])
    axes.set_ylim(*bounds)
    axes.set_xscale("log")
    axes.set_xlim(marks[0] / 1.25, marks[-1] * 1.25)
    axes.set_xticks(marks, [f"{each:g}" for each in marks])
    axes.minorticks_off()
    axes.set_xlabel("ε (logarithmic)")
    axes.grid(True, which="major", alpha=0.25)
    _name_ends(axes, [*names, *((name, "black", fixed[name]) for name in fixed)], bounds)


def _draw_line(axes: Any, name: str, line: Line, curve: tuple[Any, Any, Any], aside: float) -> None:  # noqa: ANN401
    """Lines of ours with a band, the others with bars: many bands hide each other."""
    across, means, spread = curve
    color, style, shape, width = STROKES.get(name, OTHER)
    filling = color if line.protects == RECORD else "white"
    axes.plot(
        across,
        means,
        color=color,
        linestyle=style,
        linewidth=width,
        marker=shape,
        markersize=6,
        markerfacecolor=filling,
    )
    if name in OURS:
        axes.fill_between(across, means - spread, means + spread, color=color, alpha=0.13, linewidth=0)
    else:
        axes.errorbar(across * aside, means, yerr=spread, fmt="none", ecolor=color, elinewidth=1, capsize=2, alpha=0.6)


def _apart(known: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The fixed lines in percent, without those that would lie on the line of a guess."""
    means = {name: 100 * float(np.mean(values)) for name, values in known.items()}
    guess = REFERENCES[0]
    return {name: mean for name, mean in means.items() if name == guess or mean > means[guess] + LEAST_APART}


def _named(board: Board, name: str, line: Line) -> str:
    """The line's name, what it protects if that is no record, and whether other code measured some of it."""
    said = name if line.protects == RECORD else f"{name} ({line.protects})"
    measured = {board.measured_by(name, each) for method, each in board.shown() if method == name}
    return f"{said} †" if "earlier" in measured else said


def _stretched(accuracy: Any) -> Any:  # noqa: ANN401
    """A scale on which halving the error is a step of the same length everywhere."""
    return -np.log2(np.maximum(100.0 - np.asarray(accuracy), 1e-3))


def _shrunk(place: Any) -> Any:  # noqa: ANN401
    return 100.0 - np.exp2(-np.asarray(place))


def _name_ends(axes: Any, names: Sequence[tuple[str, str, float]], shown: tuple[float, float]) -> None:  # noqa: ANN401
    """Each name in its line's color at the right, as near to the line's end as the others allow."""
    ordered = sorted(names, key=lambda each: each[2])
    low, high = (float(_stretched(each)) for each in shown)
    ends = [(float(_stretched(end)) - low) / (high - low) for _, _, end in ordered]
    for (name, color, _), end, place in zip(ordered, ends, spaced(ends, APART, (0.0, 1.0)), strict=True):
        axes.plot([1.0, 1.03], [end, place], transform=axes.transAxes, color=color, linewidth=0.7, clip_on=False)
        axes.text(1.035, place, name, transform=axes.transAxes, color=color, fontsize=8.5, va="center")


def spaced(wanted: Sequence[float], least: float, bounds: tuple[float, float]) -> list[float]:
    """Ascending places near those wanted, at least this far apart and within the bounds as far as there is room.

    >>> spaced([1.0, 1.0, 9.0], 2.0, (0.0, 10.0))
    [1.0, 3.0, 9.0]
    >>> spaced([9.0, 9.5], 2.0, (0.0, 10.0))
    [8.0, 10.0]
    """
    places: list[float] = []
    for each in wanted:
        places.append(max(each, places[-1] + least) if places else each)
    ceiling = bounds[1]
    for place in reversed(range(len(places))):
        places[place] = min(places[place], ceiling)
        ceiling = places[place] - least
    return places
