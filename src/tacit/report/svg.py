"""Charts as inline SVG: they take their colors from the page, so that they are right in light, dark and print.

Every chart is given with its numbers; who puts one on a page puts the table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

__all__ = ["bars", "columns", "intervals", "matrix", "reliability", "share", "steps", "unit_curve"]

_WIDTH, _ROW = 520.0, 24.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 18.0, 14.0, 44.0
_LONGEST = 22
# A matrix with more classes than this has no numbers in its cells.
_NUMBERED = 15


def bars(rows: Sequence[tuple[str, float]], what: str, percent: bool = False) -> str:
    """A horizontal bar per row, its name before it and its number behind it.

    >>> chart = bars([("ill", 3), ("well", 9)], "samples per class")
    >>> chart.count("<rect"), ">ill</text>" in chart
    (2, True)
    """
    most = max([*(abs(value) for _, value in rows), 1e-9])
    name_width = _names_width([name for name, _ in rows])
    room = _WIDTH - name_width - 70
    drawn = []
    for place, (name, value) in enumerate(rows):
        y = place * _ROW
        wide = room * max(0.0, value) / most
        told = f"{value:.1%}" if percent else f"{value:,g}"
        drawn.append(
            f"{_text(name_width - 8, y + 16, _short(name), 'end')}"
            f"<rect class='fill' x='{name_width:.1f}' y='{y + 4:.1f}' width='{max(wide, 1):.1f}' height='16' rx='2'/>"
            f"{_text(name_width + max(wide, 1) + 7, y + 16, told, 'start', 'number')}"
        )
    return _svg(_WIDTH, _ROW * len(rows), what, "".join(drawn))


def intervals(rows: Sequence[tuple[str, float, float, float]], what: str) -> str:
    """A line from low to high per row with a dot at its middle, on a scale from 0 to 100 %.

    >>> chart = intervals([("votes", 0.7, 0.8, 0.95)], "labels right")
    >>> chart.count("<circle"), "70% to 95%" in chart
    (1, True)
    """
    name_width = _names_width([name for name, *_ in rows])
    room, high = _WIDTH - name_width - 100, _ROW * len(rows)
    drawn = [
        f"<line class='grid' x1='{name_width + room * part:.1f}' x2='{name_width + room * part:.1f}' y1='0' "
        f"y2='{high:.1f}'/>{_text(name_width + room * part, high + 16, f'{part:.0%}', 'middle')}"
        for part in (0, 0.25, 0.5, 0.75, 1)
    ]
    for place, (name, low, middle, top) in enumerate(rows):
        y = place * _ROW + 12
        left, dot, right = (name_width + room * min(1.0, max(0.0, each)) for each in (low, middle, top))
        drawn.append(
            f"{_text(name_width - 8, y + 4, _short(name), 'end')}"
            f"<rect class='fill faint' x='{left:.1f}' y='{y - 4:.1f}' width='{max(right - left, 1):.1f}' height='8' "
            f"rx='4'/><circle class='fill' cx='{dot:.1f}' cy='{y:.1f}' r='5'/>"
            f"{_text(name_width + room + 10, y + 4, f'{low:.0%} to {top:.0%}', 'start', 'number')}"
        )
    return _svg(_WIDTH, high + 24, what, "".join(drawn))


def columns(rows: Sequence[tuple[str, int]], across: str, up: str, marked: int = 0) -> str:
    """A column per row over equal steps from 0 to 1; the first ``marked`` are drawn as doubtful.

    >>> columns([("0", 2), ("0.5", 5)], "probability", "samples", marked=1).count("class='doubt'")
    1
    """
    high = 230.0
    most = max([1, *(count for _, count in rows)])
    step = (_WIDTH - _LEFT - _RIGHT) / len(rows)
    ticks = [each for each in _ticks(most) if each == int(each)]
    drawn = [_grid(high, [(each / most, f"{each / 1000:g}k" if each >= 10_000 else f"{each:,.0f}") for each in ticks])]
    for place, (_, count) in enumerate(rows):
        tall = (high - _TOP - _BOTTOM) * count / most
        kind = "doubt" if place < marked else "fill"
        x, y = _LEFT + place * step, high - _BOTTOM - tall
        drawn.append(
            f"<rect class='{kind}' x='{x + 1.5:.1f}' y='{y:.1f}' width='{step - 3:.1f}' height='{tall:.1f}' rx='1.5'/>"
        )
    for place in range(0, len(rows) + 1, max(1, len(rows) // 5)):
        drawn.append(_text(_LEFT + place * step, high - _BOTTOM + 17, f"{place / len(rows):.0%}", "middle"))
    return _svg(_WIDTH, high, f"{up} by {across}", "".join(drawn) + _axes(high, across, up))


def steps(values: Sequence[float], ceiling: float | None, across: str, up: str) -> str:
    """What was spent after each payment, as a staircase from 0, and the ceiling as a line.

    >>> "class='limit'" in steps([0.2, 0.4], 1.0, "payments", "ε")
    True
    """
    high = 230.0
    most = max([1e-9, *values, *([ceiling] if ceiling is not None else [])]) * 1.08
    room, tall = _WIDTH - _LEFT - _RIGHT, high - _TOP - _BOTTOM

    def place(index: float, value: float) -> tuple[float, float]:
        return _LEFT + room * index / len(values), high - _BOTTOM - tall * value / most

    points = [(0.0, 0.0)]
    for index, value in enumerate(values):
        points += [(index, value), (index + 1, value)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*each) for each in points))
    end, base = place(len(values), 0), place(0, 0)
    drawn = [
        _grid(high, [(tick / most, f"{tick:.3g}") for tick in _ticks(most)]),
        f"<polygon class='area' points='{base[0]:.1f},{base[1]:.1f} {line} {end[0]:.1f},{end[1]:.1f}'/>",
        f"<polyline class='line' points='{line}'/>",
    ]
    if ceiling is not None:
        y = place(0, ceiling)[1]
        drawn.append(f"<line class='limit' x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{y:.1f}' y2='{y:.1f}'/>")
        drawn.append(_text(_WIDTH - _RIGHT, y - 5, f"ceiling {ceiling:g}", "end", "limit-name"))
    for index in sorted({0, len(values) // 2, len(values)}):
        drawn.append(_text(place(index, 0)[0], high - _BOTTOM + 17, str(index), "middle"))
    return _svg(_WIDTH, high, f"{up} over {across}", "".join(drawn) + _axes(high, across, up))


def unit_curve(
    points: Sequence[tuple[float, float]], marked: Sequence[tuple[float, float]], across: str, up: str
) -> str:
    """A curve in the unit square beside its diagonal, with some of its points marked.

    >>> unit_curve([(0, 0), (1, 1)], [(0.1, 0.2)], "before", "after").count("<circle")
    1
    """
    drawn = [_square()]
    drawn.append(f"<polyline class='line' points='{' '.join(f'{_x(x):.1f},{_y(y):.1f}' for x, y in points)}'/>")
    drawn += [f"<circle class='dot' cx='{_x(x):.1f}' cy='{_y(y):.1f}' r='4.5'/>" for x, y in marked]
    return _svg(_SIDE, _y(0) + 48, f"{up} by {across}", "".join(drawn) + _square_axes(across, up))


def reliability(bins: Sequence[tuple[float, float, int]]) -> str:
    """How often what was held this likely is right; the diagonal is a perfect match, a larger dot has more samples.

    >>> reliability([(0.55, 0.5, 10), (0.95, 0.9, 40)]).count("<circle")
    2
    """
    most = max([1, *(count for _, _, count in bins)])
    drawn = [_square()]
    for likely, right, count in bins:
        radius = 4 + 9 * (count / most) ** 0.5
        x, y = _x(likely), _y(right)
        drawn.append(
            f"<line class='gap' x1='{x:.1f}' x2='{x:.1f}' y1='{_y(likely):.1f}' y2='{y:.1f}'/>"
            f"<circle class='dot' cx='{x:.1f}' cy='{y:.1f}' r='{radius:.1f}'/>"
        )
    axes = _square_axes("the student's confidence", "fraction that is right")
    return _svg(_SIDE, _y(0) + 48, "reliability diagram", "".join(drawn) + axes)


def matrix(table: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """A confusion matrix: a row per true class, darker the larger its share of the row.

    >>> matrix([[8, 2], [1, 9]], ["ill", "well"]).count("<rect")
    4
    """
    size = len(names)
    cell = min(46.0, 420.0 / size)
    longest = max(len(_short(name, 14)) for name in names)
    aside = 18 + min(120.0, 8 * longest)
    # Few classes have room for their names above their columns.
    wide = max(cell, min(8.0 * longest + 8, 420.0 / size))
    drawn = []
    for row, counts in enumerate(table):
        total = max(1, sum(counts))
        for column, count in enumerate(counts):
            x, y, part = aside + column * wide, 26 + row * cell, count / total
            kind = "zero" if count == 0 else "right" if row == column else "wrong"
            drawn.append(
                f"<rect class='cell {kind}' x='{x:.1f}' y='{y:.1f}' width='{wide - 2:.1f}' height='{cell - 2:.1f}' "
                f"rx='2' opacity='{0.15 + 0.85 * part if count else 0.45:.3f}'/>"
            )
            if size <= _NUMBERED and count:
                tone = "on" if part > 0.5 else "off"
                drawn.append(_text(x + wide / 2 - 1, y + cell / 2 + 3, str(count), "middle", f"count {tone}"))
        drawn.append(_text(aside - 8, 26 + row * cell + cell / 2 + 3, _short(names[row], 14), "end"))
        drawn.append(_text(aside + row * wide + wide / 2, 18, _short(names[row], max(2, int(wide / 8))), "middle"))
    high = 26 + size * cell
    drawn.append(_text(aside + size * wide / 2, high + 18, "predicted class", "middle", "axis"))
    return _svg(aside + size * wide + 4, high + 26, "confusion matrix, one row per true class", "".join(drawn))


def share(spent: float, ceiling: float) -> str:
    """A budget as one bar: what is spent, and what is left.

    >>> "class='fill'" in share(0.3, 1.0)
    True
    """
    part = min(1.0, spent / ceiling) if ceiling > 0 else 1.0
    full = "full" if part > 0.9 else "fill"
    return _svg(
        220, 14, f"{part:.0%} of the budget is spent",
        "<rect class='track' x='0' y='1' width='220' height='12' rx='6'/>"
        f"<rect class='{full}' x='0' y='1' width='{max(3.0, 220 * part) if spent > 0 else 0:.1f}' height='12' rx='6'/>",
        "small",
    )  # fmt: skip


_SIDE, _INSIDE = 330.0, 330.0 - _LEFT - _RIGHT


def _x(value: float) -> float:
    return _LEFT + _INSIDE * value


def _y(value: float) -> float:
    return _TOP + _INSIDE * (1 - value)


def _square() -> str:
    lines = [
        f"<line class='grid' x1='{_LEFT}' x2='{_x(1):.1f}' y1='{_y(part):.1f}' y2='{_y(part):.1f}'/>"
        f"{_text(_LEFT - 7, _y(part) + 4, f'{part:.0%}', 'end')}{_text(_x(part), _y(0) + 17, f'{part:.0%}', 'middle')}"
        for part in (0, 0.25, 0.5, 0.75, 1)
    ]
    diagonal = f"<line class='diagonal' x1='{_x(0):.1f}' x2='{_x(1):.1f}' y1='{_y(0):.1f}' y2='{_y(1):.1f}'/>"
    return "".join(lines) + diagonal


def _square_axes(across: str, up: str) -> str:
    middle = _TOP + _INSIDE / 2
    return (
        _text(_LEFT + _INSIDE / 2, _y(0) + 38, across, "middle", "axis")
        + f"<text class='axis' x='12' y='{middle}' text-anchor='middle' "
        f"transform='rotate(-90 12 {middle})'>{escape(up)}</text>"
    )


def _names_width(names: Sequence[str]) -> float:
    """Room for the names before a chart, of which the widest letters take about 8 units."""
    return min(190.0, 16 + 8 * max([0, *(len(_short(name)) for name in names)]))


def _ticks(most: float) -> list[float]:
    """Round numbers from 0, at most six."""
    unit = 10.0 ** math.floor(math.log10(most))
    step = next(each * unit for each in (0.2, 0.25, 0.5, 1, 2) if most / (each * unit) <= 5)
    return [step * place for place in range(int(most / step) + 1)]


def _grid(high: float, ticks: Sequence[tuple[float, str]]) -> str:
    tall = high - _TOP - _BOTTOM
    return "".join(
        f"<line class='grid' x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{high - _BOTTOM - tall * part:.1f}' "
        f"y2='{high - _BOTTOM - tall * part:.1f}'/>{_text(_LEFT - 7, high - _BOTTOM - tall * part + 4, told, 'end')}"
        for part, told in ticks
    )


def _axes(high: float, across: str, up: str) -> str:
    middle = _TOP + (high - _TOP - _BOTTOM) / 2
    return (
        _text(_LEFT + (_WIDTH - _LEFT - _RIGHT) / 2, high - 8, across, "middle", "axis")
        + f"<text class='axis' x='11' y='{middle:.1f}' text-anchor='middle' "
        f"transform='rotate(-90 11 {middle:.1f})'>{escape(up)}</text>"
    )


def _text(x: float, y: float, said: str, anchor: str, kind: str = "") -> str:
    named = f" class='{kind}'" if kind else ""
    return f"<text{named} x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(said)}</text>"


def _short(name: str, most: int = _LONGEST) -> str:
    plain = " ".join(name.split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _svg(width: float, height: float, what: str, content: str, kind: str = "chart") -> str:
    return (
        f"<svg class='{kind}' role='img' aria-label='{escape(what, quote=True)}' "
        f"viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}' height='{height:.0f}'>{content}</svg>"
    )
