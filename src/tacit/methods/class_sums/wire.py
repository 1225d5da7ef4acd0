"""What is sent in class sums: a public encoding one way, a noisy sum per class the other.

A sum's sensitivity rests on the length of the vectors in it, so features become whole numbers whose length is bounded:
integers decide, not floating point. Scaling and clipping are done in floating point and may be off by a little;
rounding to the nearest number can make a vector longer, by a fifth and more where there are many coordinates. So
coordinates are rounded toward zero, which makes none longer, and then the length is computed in whole numbers. What is
longer than it may be contributes nothing.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core import Adjacency, Integers, InvalidInput, Mechanism, Representation, Sensitivity, Unit
from tacit.core.codec import StrictReader
from tacit.mechanisms.forms import AnswerForm
from tacit.methods import question as asked

__all__ = [
    "LARGEST_RADIUS",
    "MOST_COMPONENTS",
    "Norm",
    "SumAsk",
    "lengths",
    "longest_l1",
    "on_grid",
    "read_norm",
    "read_scale",
    "require_grid",
    "sum_sensitivity",
]

Norm = Literal["l1", "l2"]
# Squares of this many coordinates of this size add up to 2^62 at most, and sums of 10^12 records fit in 64 bits.
LARGEST_RADIUS = 2**20
MOST_COMPONENTS = 2**22
NORMS: tuple[Norm, ...] = ("l1", "l2")
# Grid units per unit of a feature: beyond, squares of what float32 holds are not finite any more.
_SMALLEST_SCALE, LARGEST_SCALE = 1e-30, 1e18


def lengths(vectors: NDArray[Any], norm: Norm) -> NDArray[Any]:
    """How long each row is.

    >>> lengths(np.array([[3.0, -4.0]]), "l2"), lengths(np.array([[3.0, -4.0]]), "l1")
    (array([5.]), array([7.]))
    """
    rows = np.ascontiguousarray(vectors)
    found: NDArray[Any] = np.abs(rows).sum(axis=1) if norm == "l1" else np.sqrt((rows * rows).sum(axis=1))
    return found


def require_grid(scale: float, norm: str) -> None:
    """Refuse a grid that whole numbers cannot be on.

    >>> require_grid(1e3, "l2")
    """
    if norm not in NORMS:
        raise InvalidInput(f"norm must be one of {', '.join(NORMS)}, got {norm!r}")
    if not _SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise InvalidInput(f"scale must be in [{_SMALLEST_SCALE:g}, {LARGEST_SCALE:g}], got {scale!r}")


def read_scale(fields: StrictReader) -> float:
    """Grid units per unit of a feature."""
    return fields.number("scale", _SMALLEST_SCALE, LARGEST_SCALE)


def read_norm(fields: StrictReader) -> Norm:
    """The norm that bounds a record.

    >>> read_norm(StrictReader({"norm": "l1"}, "question"))
    'l1'
    """
    return "l1" if fields.one_of("norm", NORMS) == "l1" else "l2"


def longest_l1(radius: int, components: int, norm: Norm) -> int:
    """The largest sum of absolute coordinates of whole numbers within the radius.

    In L2 it is at most √components · radius, by Cauchy and Schwarz, and a whole number.

    >>> longest_l1(10, 2, "l2"), longest_l1(10, 2, "l1")
    (14, 10)
    """
    return radius if norm == "l1" else math.isqrt(components * radius * radius)


def on_grid(features: NDArray[Any], scale: float, radius: int, norm: Norm = "l2") -> tuple[Integers, NDArray[np.bool_]]:
    """Each row as whole numbers no longer than ``radius``, and whether it is there at all.

    A row that is no number anywhere, or is still too long, is zero and not there. Every row is made by itself, in the
    same way whatever rows are around it.

    >>> on_grid(np.array([[0.29, 0.0], [30.0, 40.0], [np.nan, 0.0]]), scale=10, radius=100)
    (array([[ 2,  0],
           [60, 80],
           [ 0,  0]]), array([ True,  True, False]))
    """
    with np.errstate(all="ignore"):
        rows = np.ascontiguousarray(features, dtype=np.float64) * scale
        rows *= (radius / np.maximum(lengths(rows, norm), radius))[:, None]
        # What was no number, or infinite, is no number now.
        there = np.isfinite(rows).all(axis=1)
        rows[~there] = 0.0
        # What is far beyond the radius, whatever floating point made of it, must not wrap around in whole numbers.
        whole: Integers = np.trunc(np.clip(rows, -radius, radius)).astype(np.int64)
    exact = np.abs(whole).sum(axis=1) if norm == "l1" else (whole * whole).sum(axis=1)
    there &= exact <= (radius if norm == "l1" else radius * radius)
    whole[~there] = 0
    return whole, there


def sum_sensitivity(
    components: int,
    radius: int,
    count: int,
    norm: Norm = "l2",
    unit: Unit = Unit(),  # noqa: B008
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    centered: int | None = None,
) -> Sensitivity:
    """How far the sums of all classes move when one privacy unit changes.

    A record adds (z, c) to the row of its class: z are whole numbers no longer than R, ``radius``, in ``norm``, and c
    is ``count``, at most R. A record that cannot be encoded, or has no such class, adds nothing: that is an input, too.

    **Replace-one.** With the same label the row moves by z − z′ and the count not at all: at most 2R in L2. With
    another label two rows move, each by (z, c): √(2(R² + c²)) ≤ 2R, because c ≤ R. From or to nothing it is √(R² + c²),
    which is less. So Δ2 = 2R, and counts cost nothing. In L1 the other label is the worst, 2(B + c), where B bounds
    the sum of absolute coordinates: R itself where that is the norm, and ⌊√d · R⌋ for d ``components`` in L2.

    **Add/remove.** One (z, c) comes or goes: √(R² + c²) in L2, B + c in L1.

    **Persons.** m records move each at most that far, and can all move in one direction: m times as far. A person with
    fewer records than another leaves some to be compared with nothing.

    A vector within R in L1 is within R in L2, so the bounds in L2 hold for both norms.

    **Centered**, of that many classes K: a record adds (K − 1)·(z, c) to the row of its class and −(z, c) to each other
    row, so that rows add up to nothing and none of the budget goes into what they add up to. Rows are multiples a of
    (z, c), with |a|² = K(K − 1), and ⟨a, b⟩ = −K for two classes. Replace-one, same label: 4R²·K(K − 1). Other label:
    K(K − 1)(|z|² + |z′|²) + 2K⟨z, z′⟩ and 2K²c² for the counts, at most 2K²(R² + c²). From or to nothing, and
    add/remove: K(K − 1)(R² + c²), which is less. Divided by K², which is the scale of the rows, that is (1 − 1/K) of
    what it is otherwise: half for two classes. In L1 a record adds 2(K − 1)(B + c), and another label moves z and z′ by
    4(K − 1)B, counts by 2Kc.

    >>> sum_sensitivity(components=2, radius=10, count=10)
    Sensitivity(l1=48, l2_squared=400, linf=20, row_range=inf)
    >>> sum_sensitivity(components=2, radius=10, count=5, adjacency=Adjacency.ADD_REMOVE).l2_squared
    125
    >>> sum_sensitivity(components=2, radius=10, count=5, unit=Unit.person("patient", 3)).l2_squared
    3600
    >>> sum_sensitivity(components=2, radius=10, count=0, centered=2).l2_squared / 2**2
    200.0
    """
    if unit.holder:
        raise InvalidInput("class sums protect records, or persons with a bounded number of them; not a whole holder")
    if components < 1 or radius < 1 or not 0 <= count <= radius:
        raise InvalidInput("class sums need components and a radius of at least 1, and a count from 0 to the radius")
    absolute, times = longest_l1(radius, components, norm), unit.records
    if centered is not None:
        if centered < 2:
            raise InvalidInput(f"centered sums are of at least 2 classes, got {centered}")
        others, squares = centered - 1, centered * (centered - 1)
        if adjacency is Adjacency.REPLACE_ONE:
            l1, linf = 4 * others * absolute + 2 * centered * count, 2 * others * radius
            l2_squared = max(4 * squares * radius**2, 2 * centered**2 * (radius**2 + count**2))
        else:
            l1, l2_squared, linf = 2 * others * (absolute + count), squares * (radius**2 + count**2), others * radius
    elif adjacency is Adjacency.REPLACE_ONE:
        l1, l2_squared, linf = 2 * (absolute + count), 4 * radius**2, 2 * radius
    else:
        l1, l2_squared, linf = absolute + count, radius**2 + count**2, radius
    return Sensitivity(l1=times * l1, l2_squared=times**2 * l2_squared, linf=times * linf)


@dataclass(frozen=True)
class SumAsk:
    """Question for the sums of the encoded records of each class.

    A record's features, as ``representation`` encodes it, are multiplied by ``scale``, clipped to ``radius`` in
    ``norm`` and rounded toward zero; ``count`` stands behind them in one more column. ``class_names`` are in the order
    of the labels' indices. The answer is what ``mechanism`` makes of the table, a row per class; where it is
    ``centered``, of the number of classes times each row, less what all rows add up to.
    """

    name: ClassVar[str] = "class_sums-sums"
    method: ClassVar[str] = "class_sums"
    may_refuse: ClassVar[bool] = False
    signed: ClassVar[bool] = True

    representation: Representation
    components: int
    scale: float
    radius: int
    norm: Norm
    count: int
    class_names: tuple[str, ...]
    space: str
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str
    centered: bool = False

    def __post_init__(self) -> None:
        asked.require_classes(self.class_names)
        require_grid(self.scale, self.norm)
        if not 1 <= self.radius <= LARGEST_RADIUS or not 0 <= self.count <= self.radius:
            raise InvalidInput(f"radius must be from 1 to {LARGEST_RADIUS}, and count from 0 to the radius")
        if self.centered and self.radius * (self.classes - 1) > LARGEST_RADIUS:
            raise InvalidInput(
                f"centered sums need a radius of at most {LARGEST_RADIUS} over the number of other classes"
            )

    @property
    def question(self) -> str:
        """A digest of what is asked, so that a retried request cannot stand for another question."""
        named = (self.components, self.scale, self.radius, self.norm, self.count, self.class_names, self.space)
        encoder = asked.representation_digest(self.representation)
        return hashlib.sha256(repr((*named, self.centered, encoder)).encode()).hexdigest()

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def table_shape(self) -> tuple[int, int]:
        """A row per class; a column per component, and one of counts."""
        return self.classes, self.components + 1

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """What the mechanism makes of the sums of that many records."""
        return asked.mechanism_form(self.mechanism, *self.table_shape, most_records * self.radius * self._times)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """How far the table moves when one privacy unit changes."""
        return sum_sensitivity(
            self.components,
            self.radius,
            self.count,
            self.norm,
            unit,
            adjacency,
            self.classes if self.centered else None,
        )

    @property
    def _times(self) -> int:
        """How often a record is added to the row of its class; all other rows together lose as much."""
        return self.classes - 1 if self.centered else 1

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int]:
        """What a cell, and what all cells can come to, up or down.

        >>> from tacit.representations.scaled import Identity
        >>> ask = SumAsk(Identity(2), 2, 1.0, 10, "l2", 5, ("a", "b"), "c0ffee", None, "sums", "r-1")
        >>> ask.most_votes(100)
        (1000, 1900)
        """
        each = longest_l1(self.radius, self.components, self.norm) + self.count
        return records * self.radius * self._times, records * each * (2 * self._times if self.centered else 1)

    def fields(self) -> dict[str, Any]:
        """All of it as values that can be encoded."""
        return {
            "representation": asked.representation_fields(self.representation),
            "components": self.components,
            "scale": self.scale,
            "radius": self.radius,
            "norm": self.norm,
            "count": self.count,
            "centered": self.centered,
            **asked.table_fields(self),
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> SumAsk:
        """The question that such values stand for, checked."""
        names = fields.texts("names", asked.MOST_CLASSES)
        components = fields.integer("components", 1, MOST_COMPONENTS)
        asked.require_small_table(fields, len(names), components + 1)
        radius = fields.integer("radius", 1, LARGEST_RADIUS)
        return cls(
            representation=asked.read_representation(fields.nested("representation")),
            components=components,
            scale=read_scale(fields),
            radius=radius,
            norm=read_norm(fields),
            count=fields.integer("count", 0, radius),
            centered=fields.flag("centered"),
            **asked.read_table_fields(fields, names),
        )
