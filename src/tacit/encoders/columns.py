"""Encoders of one column of a mixed table: numbers, categories and dates.

Each class is fitted to public cells, encodes every cell by itself, and never fails: a cell that it cannot read counts
as missing, and a level that no public row has gets no code of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput
from tacit.core.codec import StrictReader
from tacit.datasets.frame import DATE_FORMATS, as_dates, as_levels, as_numbers, is_missing
from tacit.datasets.table import LARGEST_NUMBER
from tacit.representations.arrays import SMALLEST_SCALE, snapped

__all__ = ["INTERVALS", "CategoryColumn", "DateColumn", "NumberColumn", "few", "interval_edges", "written_as"]

# Values are clipped at this many public scales from the public median.
_LIMIT = 4.0
# A level, or missing values, of at least this many public rows gets a code; in a small table a twentieth of the rows.
SHARED = 5
MOST_LEVELS = 50
# Numbers are also divided into this many intervals; more did not help on the development tables.
INTERVALS, MOST_INTERVALS = 8, 64
# The fraction of nonempty public cells that must be dates, so that a few typing errors do not matter.
MOST_OF = 0.995
YEAR, WEEK, _DAY = 365.2425, 7.0, 1.0
CYCLES = {"year": YEAR, "week": WEEK, "day": _DAY}
_LONGEST_NAME = 1000


def few(rows: int) -> int:
    """The least number of public rows with a value for it to get its own code.

    >>> few(10_000), few(40), few(10)
    (5, 2, 2)
    """
    return max(2, min(SHARED, rows // 20))


@dataclass(frozen=True)
class NumberColumn:
    """A number's distance from the public median, divided by the public scale and clipped at 4; 0 if it is missing.

    A column of two values is 0 and 1. ``gaps`` adds an indicator of missing values, if public rows have any. ``edges``
    add an indicator for each interval between them, so that the effect of a number need not be monotone. They are
    public quantiles, and a value that many rows share, such as 0, has its own interval.

    >>> column = NumberColumn.fit("age", np.array([20.0, 30, 40, 50, 60]))
    >>> column.encode(np.array([40.0, 1e9, np.nan])).tolist()
    [[0.0], [4.0], [0.0]]
    """

    taken_as: ClassVar[str] = "number"

    name: str
    center: float
    scale: float
    gaps: bool
    edges: tuple[float, ...] = ()

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any], intervals: int = 0) -> NumberColumn:
        """Median and scale of the public cells that are numbers, and this many intervals with about equal counts."""
        values = _known(as_numbers(cells))
        known = values[~np.isnan(values)]
        center, scale = _center_and_scale(known)
        gaps = bool(np.isnan(values).sum() >= few(len(values)))
        return cls(name, center, scale, gaps, interval_edges(known, intervals) if intervals > 1 else ())

    @property
    def width(self) -> int:
        """The number of features."""
        return 1 + self.gaps + (len(self.edges) + 1 if self.edges else 0)

    def encode(self, cells: NDArray[Any]) -> Floats:
        """One row of features per cell."""
        values = _known(as_numbers(cells))
        found = _marked(_scaled(values, self.center, self.scale), self.gaps)
        if not self.edges:
            return found
        interval = np.searchsorted(np.array(self.edges), values, side="right")
        within = (interval[:, None] == np.arange(len(self.edges) + 1)) & ~np.isnan(values)[:, None]
        return np.column_stack([found, within]).astype(np.float32)

    def unread(self, cells: NDArray[Any]) -> int:
        """How many nonempty cells count as missing."""
        return int((_filled(cells) & np.isnan(_known(as_numbers(cells)))).sum())

    def fields(self) -> dict[str, Any]:
        """Its parameters."""
        return {
            "name": self.name, "center": self.center, "scale": self.scale, "gaps": self.gaps,
            "edges": np.array(self.edges, dtype=np.float64),
        }  # fmt: skip

    @classmethod
    def read(cls, fields: StrictReader) -> NumberColumn:
        """Read the parameters; a scale so small that a value could become infinite is refused."""
        name, (center, scale), gaps = _name(fields), _read_scale(fields), fields.flag("gaps")
        edges = fields.array("edges", ("<f8",), (None,), -LARGEST_NUMBER, LARGEST_NUMBER)
        if len(edges) >= MOST_INTERVALS or (np.diff(edges) <= 0).any():
            raise InvalidInput(f"the {fields.what}'s edges must be increasing, and fewer than {MOST_INTERVALS}")
        return cls(name, center, scale, gaps, tuple(edges.tolist()))


@dataclass(frozen=True)
class CategoryColumn:
    """An indicator for each level that a few public rows share, one for all other levels, one for missing values.

    The last two exist only if public rows have such cells. A level that no public row has counts among the others, or
    is all zeros if there is no indicator for them.

    >>> column = CategoryColumn.fit("sex", np.array(["f", "m"] * 10, dtype=object))
    >>> column.levels, column.encode(np.array(["m", "x", None], dtype=object)).tolist()
    (('f', 'm'), [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    """

    taken_as: ClassVar[str] = "category"

    name: str
    levels: tuple[str, ...]
    others: bool
    gaps: bool

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any]) -> CategoryColumn:
        """The levels that at least a few public rows have, at most the 50 most frequent."""
        counts = Counter(as_levels(cells).tolist())
        gaps, least = counts.pop(None, 0), few(len(cells))
        shared = [level for level, count in counts.items() if count >= least]
        kept = sorted(sorted(shared, key=lambda level: (-counts[level], level))[:MOST_LEVELS])
        return cls(name, tuple(kept), len(kept) < len(counts), gaps >= least)

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.levels) + self.others + self.gaps

    def encode(self, cells: NDArray[Any]) -> Floats:
        """One row of features per cell."""
        places = {level: place for place, level in enumerate(self.levels)}
        other = len(self.levels) if self.others else None
        if self.gaps:
            places[None] = self.width - 1  # type: ignore[index]
        found = np.zeros((len(cells), self.width), dtype=np.float32)
        for row, level in enumerate(as_levels(cells).tolist()):
            place = places.get(level, other if level is not None else None)
            if place is not None:
                found[row, place] = 1.0
        return found

    def unread(self, cells: NDArray[Any]) -> int:
        """How many cells have a level without its own code."""
        known = set(self.levels)
        return sum(level is not None and level not in known for level in as_levels(cells).tolist())

    def fields(self) -> dict[str, Any]:
        """Its parameters."""
        return {"name": self.name, "levels": list(self.levels), "others": self.others, "gaps": self.gaps}

    @classmethod
    def read(cls, fields: StrictReader) -> CategoryColumn:
        """Read the parameters."""
        return cls(_name(fields), fields.texts("levels", MOST_LEVELS), fields.flag("others"), fields.flag("gaps"))


@dataclass(frozen=True)
class DateColumn:
    """A date as a number, and its position in the year, the week and the day if public dates vary in it.

    ``weight`` multiplies them: together they vary about as much as one number does. Otherwise a date would be the first
    principal component of most tables, and where noise leaves room for one component, nothing else would be released.

    >>> cells = np.array(["2024-01-01", "2024-04-01", "2024-07-01", "2024-10-01"], dtype=object)
    >>> DateColumn.fit("seen", cells, "iso").encode(np.array(["soon"], dtype=object)).tolist()
    [[0.0, 0.0, 0.0, 0.0, 0.0]]
    """

    taken_as: ClassVar[str] = "date"

    name: str
    written: str
    center: float
    scale: float
    cycles: tuple[str, ...]
    gaps: bool
    weight: float = 1.0

    @classmethod
    def fit(cls, name: str, cells: NDArray[Any], written: str) -> DateColumn:
        """Median and scale of the public dates, and the cycles that they cover."""
        days = as_dates(cells, written)
        known = days[~np.isnan(days)]
        cycles = tuple(each for each, length in CYCLES.items() if _goes_through(known, length))
        gaps = bool(np.isnan(days).sum() >= few(len(days)))
        return cls(name, written, *_center_and_scale(known), cycles, gaps, 1 / math.sqrt(1 + len(cycles)))

    @property
    def width(self) -> int:
        """The number of features."""
        return 1 + 2 * len(self.cycles) + self.gaps

    def encode(self, cells: NDArray[Any]) -> Floats:
        """One row of features per cell."""
        days = as_dates(cells, self.written)
        missing = np.isnan(days)
        parts = [np.where(missing, 0.0, _scaled(days, self.center, self.scale))]
        for cycle in self.cycles:
            angle = np.where(missing, 0.0, days) % CYCLES[cycle] * (2 * math.pi / CYCLES[cycle])
            distinct, places = np.unique(angle, return_inverse=True)
            for wave in (math.sin, math.cos):
                # One by one: the last bit of numpy's functions may depend on how many cells are computed at once.
                waves = np.array([wave(each) for each in distinct.tolist()])
                parts.append(np.where(missing, 0.0, snapped(waves, 20)[places]))
        found = np.column_stack(parts) * self.weight
        return (np.column_stack([found, missing]) if self.gaps else found).astype(np.float32)

    def unread(self, cells: NDArray[Any]) -> int:
        """How many nonempty cells count as missing."""
        return int((_filled(cells) & np.isnan(as_dates(cells, self.written))).sum())

    def fields(self) -> dict[str, Any]:
        """Its parameters."""
        return {
            "name": self.name, "written": self.written, "center": self.center, "scale": self.scale,
            "cycles": list(self.cycles), "gaps": self.gaps, "weight": self.weight,
        }  # fmt: skip

    @classmethod
    def read(cls, fields: StrictReader) -> DateColumn:
        """Read the parameters; only known cycles and date formats are accepted."""
        name, written = _name(fields), fields.one_of("written", DATE_FORMATS)
        center, scale = _read_scale(fields)
        cycles = fields.texts("cycles", len(CYCLES))
        if not set(cycles) <= set(CYCLES):
            raise InvalidInput(f"the {fields.what}'s cycles must be among {', '.join(CYCLES)}")
        # Runs saved before it was there have full weight.
        weight = 1.0 if fields.peek("weight") is None else fields.number("weight", SMALLEST_SCALE, 1.0)
        return cls(name, written, center, scale, cycles, fields.flag("gaps"), weight)


def interval_edges(values: NDArray[np.float64], most: int) -> tuple[float, ...]:
    """The edges of at most this many intervals of public values with about equal counts.

    A value that a tenth of all have gets its own interval. No interval has less than a hundredth of the values.

    >>> interval_edges(np.array([0.0] * 50 + list(range(1, 51))), 4)
    (0.5, 25.5)
    """
    if not len(values):
        return ()
    distinct, counts = np.unique(values, return_counts=True)
    rest, wanted = values, most
    edges: list[float] = []
    if counts.max() >= len(values) / 10:
        place = int(counts.argmax())
        edges += [
            float(distinct[each - 1 : each + 1].mean()) for each in (place, place + 1) if 0 < each < len(distinct)
        ]
        rest = values[values != distinct[place]]
        wanted = max(2, round(most * len(rest) / len(values)))
    if len(rest):
        edges += np.quantile(rest, np.arange(1, wanted) / wanted).tolist()
    ordered, least = np.sort(values), max(few(len(values)), len(values) / 100)
    kept: list[float] = []
    below = 0
    for edge in sorted(set(edges)):
        here = int(np.searchsorted(ordered, edge, side="left"))
        if here - below >= least and len(values) - here >= least and len(kept) < MOST_INTERVALS - 1:
            kept.append(edge)
            below = here
    return tuple(kept)


def written_as(cells: NDArray[Any]) -> str | None:
    """The date format of a column; None unless nearly all of its cells are dates.

    >>> written_as(np.array(["31.12.2023", "01.01.2024"], dtype=object))
    '%d.%m.%Y'
    """
    if cells.dtype.kind == "M":
        return "iso"
    filled = int(_filled(cells).sum())
    for written in DATE_FORMATS if filled else ():
        if (~np.isnan(as_dates(cells, written))).sum() >= MOST_OF * filled:
            return written
    return None


def _filled(cells: NDArray[Any]) -> NDArray[np.bool_]:
    """Which cells are not empty."""
    if cells.dtype.kind in "fM":
        return np.asarray(~(np.isnan(cells) if cells.dtype.kind == "f" else np.isnat(cells)), dtype=np.bool_)
    return np.array([not is_missing(each) for each in cells.tolist()], dtype=np.bool_)


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers, with infinite and too large ones as missing and one zero: a text "-0" loses its sign."""
    return np.where(np.abs(values) <= LARGEST_NUMBER, values, math.nan) + 0.0


def _center_and_scale(values: NDArray[np.float64]) -> tuple[float, float]:
    """A robust center and scale of the values."""
    distinct = np.unique(values)
    if len(distinct) == 0:
        return 0.0, 1.0
    if len(distinct) <= 2:
        return float(distinct[0]), max(float(distinct[-1] - distinct[0]), SMALLEST_SCALE) if len(distinct) == 2 else 1.0
    center = float(np.median(values))
    spread = float(np.clip(values, *np.quantile(values, (0.01, 0.99))).std())
    if spread <= abs(center) * 1e-12:
        # Nearly all are equal: the scale is that of the others.
        spread = float(np.median(np.abs(values[values != center] - center)))
    return center, max(spread, SMALLEST_SCALE)


def _scaled(values: NDArray[np.float64], center: float, scale: float) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        found: NDArray[np.float64] = np.clip((values - center) / scale, -_LIMIT, _LIMIT)
    return found


def _marked(values: NDArray[np.float64], gaps: bool) -> Floats:
    """The values with 0 for missing ones, and an indicator of missing values if there is one."""
    missing = np.isnan(values)
    filled = np.where(missing, 0.0, values)
    return np.column_stack([filled, missing] if gaps else [filled]).astype(np.float32)


def _goes_through(days: NDArray[np.float64], length: float) -> bool:
    """Whether the dates cover most of a cycle: four fifths of a year, several days, or several hours."""
    if length == _DAY:
        return bool(len(days) and len(np.unique(days % 1)) > 2)
    return bool(len(days) and np.ptp(days) >= 0.7 * length)


def _name(fields: StrictReader) -> str:
    return fields.text("name", _LONGEST_NAME)


def _read_scale(fields: StrictReader) -> tuple[float, float]:
    center = fields.number("center", -LARGEST_NUMBER, LARGEST_NUMBER)
    return center, fields.number("scale", SMALLEST_SCALE, 2 * LARGEST_NUMBER)
