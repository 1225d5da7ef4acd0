"""The plot of a leaderboard: accuracy over ε, every line named at its right end, in the same color on every board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.leaderboard import REFERENCES, Board
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
# Strokes of the lines that do not depend on ε; other ones get another, and none that is this near to a guess is drawn.
FIXED: Mapping[str, Any] = dict(zip(REFERENCES, (":", "-.", "--"), strict=True))
LEAST_APART = 3.0
# Where lines come near to all, errors are shown on a logarithmic scale, or all lines would be one.
NEARLY_ALL = 93.0
TICKS = (0, 20, 40, 60, 70, 80, 85, 90, 93, 95, 97, 98, 99, 100)
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
    figure = Figure(figsize=(8.8 * len(panels), 6.2))
    for place, (units, title) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        lines = {name: line for name, line in board.lines.items() if line.protects in units}
        _draw_lines(board, axes, lines, f"{board.data.parts.name}: {title}")
        if units != (RECORD,):
            axes.set_facecolor("#f3f0ea")
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=90, metadata={"Software": None})
    return file


def _draw_lines(board: Board, axes: Any, lines: Mapping[str, Line], title: str) -> None:  # noqa: ANN401
    shown = board.shown()
    marks = sorted({each for _, each in shown})
    names: list[tuple[str, str, float]] = []
    lowest = highest = 50.0
    for name, line in lines.items():
        found = [
            (each, [100 * run["test"] for run in runs]) for (method, each), runs in shown.items() if method == name
        ]
        if not found:
            continue
        across = [each for each, _ in found]
        means = np.array([np.mean(values) for _, values in found])
        spread = np.array([np.std(values, ddof=1) if len(values) > 1 else 0.0 for _, values in found])
        color, style, shape, width = STROKES.get(name, OTHER)
        filling = color if line.protects == RECORD else "white"
        axes.plot(
            across, means, color=color, linestyle=style, linewidth=width, marker=shape, markersize=6,
            markerfacecolor=filling,
        )  # fmt: skip
        axes.fill_between(across, means - spread, means + spread, color=color, alpha=0.13, linewidth=0)
        # Few test samples move every run alike: their interval is drawn, too.
        half = 1.96 * np.sqrt(means * (100 - means) / len(board.data.test))
        axes.errorbar(across, means, yerr=half, fmt="none", ecolor=color, elinewidth=0.8, alpha=0.6)
        names.append((_named(board, name, line), color, float(means[-1])))
        lowest, highest = min(lowest, *(means - spread)), max(highest, *(means + spread))
    fixed = _apart(board.references())
    for name in fixed:
        axes.axhline(fixed[name], color="black", linewidth=0.9, linestyle=FIXED.get(name, (0, (5, 1, 1, 1))), zorder=1)
    lowest, highest = max(0.0, min(lowest, *fixed.values()) - 3), max(highest, *fixed.values()) + 3
    if highest > NEARLY_ALL:
        axes.set_yscale("function", functions=(_stretched, _shrunk))
        axes.set_yticks([each for each in TICKS if lowest <= each <= highest])
        highest = min(highest, 100.0)
    axes.set_ylim(lowest, highest)
    axes.set_xscale("log")
    axes.set_xlim(marks[0] / 1.25, marks[-1] * 1.25)
    axes.set_xticks(marks, [f"{each:g}" for each in marks])
    axes.minorticks_off()
    axes.set_xlabel("ε (logarithmic)")
    axes.set_ylabel("test accuracy, %: mean; band: standard deviation over runs;\nbar: 95 % interval of the test part")
    axes.set_title(title, fontsize=11)
    axes.grid(True, which="major", alpha=0.25)
    names += [(name, "black", fixed[name]) for name in fixed]
    _name_ends(axes, names, (lowest, highest), highest > NEARLY_ALL)


def _apart(known: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The fixed lines in percent, without those that would lie on the line of a guess."""
    means = {name: 100 * float(np.mean(values)) for name, values in known.items()}
    guess = REFERENCES[0]
    return {name: mean for name, mean in means.items() if name == guess or mean > means[guess] + LEAST_APART}


def _named(board: Board, name: str, line: Line) -> str:
    """The line's name, what it protects if that is no record, and whether other code measured it."""
    said = name if line.protects == RECORD else f"{name} ({line.protects})"
    measured = {board.measured_by(name, each) for method, each in board.shown() if method == name}
    return f"{said}, earlier code" if measured == {"earlier"} else said


def _stretched(accuracy: Any) -> Any:  # noqa: ANN401
    """A scale on which halving the errors is about a step of the same length everywhere."""
    return -np.log2(np.maximum(101.0 - np.asarray(accuracy), 1e-3))


def _shrunk(place: Any) -> Any:  # noqa: ANN401
    return 101.0 - np.exp2(-np.asarray(place))


def _name_ends(
    axes: Any,  # noqa: ANN401
    names: Sequence[tuple[str, str, float]],
    shown: tuple[float, float],
    stretched: bool,
) -> None:
    """Each name in its line's color at the right, as near to the line's end as the others allow."""
    from matplotlib.transforms import blended_transform_factory

    across = blended_transform_factory(axes.transAxes, axes.transData)
    ordered = sorted(names, key=lambda each: each[2])
    ends = [each[2] for each in ordered]
    if stretched:
        low, high = (float(_stretched(each)) for each in shown)
        placed = spaced([float(_stretched(each)) for each in ends], (high - low) / 26, (low, high))
        places = [float(_shrunk(each)) for each in placed]
    else:
        places = spaced(ends, (shown[1] - shown[0]) / 26, shown)
    for (name, color, end), place in zip(ordered, places, strict=True):
        axes.plot([1.0, 1.03], [end, place], transform=across, color=color, linewidth=0.7, clip_on=False)
        axes.text(1.035, place, name, transform=across, color=color, fontsize=8.5, va="center")


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
