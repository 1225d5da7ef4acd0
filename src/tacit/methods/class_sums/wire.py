"""The question of class sums: a public encoding is sent, and a noisy sum per class comes back.

The sensitivity of a sum depends on the norm of its vectors, so features become integers with a bounded norm: integers
decide, not floating point. Scaling and clipping are done in floating point and may be slightly off; rounding to the
nearest integer can increase a norm, by a fifth or more with many coordinates. So coordinates are rounded toward zero,
which increases no norm, and then the norm is computed in integers. A vector above the bound contributes nothing.
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
    "set_sensitivity",
    "set_shift",
    "sum_sensitivity",
]

Norm = Literal["l1", "l2"]
# The sum of squares of this many coordinates of this size is at most 2^62, and sums of 10^12 records fit in 64 bits.
LARGEST_RADIUS = 2**20
MOST_COMPONENTS = 2**22
NORMS: tuple[Norm, ...] = ("l1", "l2")
# Grid units per unit of a feature: beyond, squares of float32 values are no longer finite.
_SMALLEST_SCALE, LARGEST_SCALE = 1e-30, 1e18


def lengths(vectors: NDArray[Any], norm: Norm) -> NDArray[Any]:
    """The norm of each row.

    >>> lengths(np.array([[3.0, -4.0]]), "l2"), lengths(np.array([[3.0, -4.0]]), "l1")
    (array([5.]), array([7.]))
    """
    rows = np.ascontiguousarray(vectors)
    found: NDArray[Any] = np.abs(rows).sum(axis=1) if norm == "l1" else np.sqrt((rows * rows).sum(axis=1))
    return found


def require_grid(scale: float, norm: str) -> None:
    """Refuse a grid whose integers would overflow.

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
    """The largest L1 norm of an integer vector within the radius.

    In L2 it is at most √components · radius, by the Cauchy-Schwarz inequality, and an integer.

    >>> longest_l1(10, 2, "l2"), longest_l1(10, 2, "l1")
    (14, 10)
    """
    return radius if norm == "l1" else math.isqrt(components * radius * radius)


def on_grid(features: NDArray[Any], scale: float, radius: int, norm: Norm = "l2") -> tuple[Integers, NDArray[np.bool_]]:
    """Each row as integers with a norm of at most ``radius``, and whether it is valid.

    A row with a value that is not finite, or that is still too long, is zero and not valid. Every row is computed
    independently of the others.

    >>> on_grid(np.array([[0.29, 0.0], [30.0, 40.0], [np.nan, 0.0]]), scale=10, radius=100)
    (array([[ 2,  0],
           [60, 80],
           [ 0,  0]]), array([ True,  True, False]))
    """
    with np.errstate(all="ignore"):
        rows = np.ascontiguousarray(features, dtype=np.float64) * scale
        rows *= (radius / np.maximum(lengths(rows, norm), radius))[:, None]
        # NaN and infinite values are NaN now.
        there = np.isfinite(rows).all(axis=1)
        rows[~there] = 0.0
        # Clipped again, so that no rounding error of floating point can overflow the integers.
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
    """The sensitivity of the sums of all classes to one privacy unit.

    A record adds (z, c) to the row of its class: z is an integer vector of norm at most R = ``radius`` in ``norm``, and
    c = ``count`` ≤ R. A record that cannot be encoded, or has another class, adds nothing; that is also a valid input.

    **Replace-one.** With the same label the row changes by z − z′ and the count not at all: at most 2R in L2. With
    another label two rows change, by (z, c) and (z′, c): √(2(R² + c²)) ≤ 2R, because c ≤ R. From or to an empty record
    it is √(R² + c²), which is less. So Δ2 = 2R, and counts cost nothing. In L1 the worst case is another label,
    2(B + c), where B bounds the L1 norm of z: R itself if ``norm`` is L1, and ⌊√d · R⌋ for d ``components`` in L2.

    **Add-remove.** One (z, c) is added or removed: √(R² + c²) in L2, B + c in L1.

    **Persons.** Each of m records changes the sums at most that much, and all may add in one direction: m times as
    much. If one person has fewer records than another, some are compared with empty ones.

    A vector within R in L1 is within R in L2, so the L2 bounds hold for both norms.

    **Centered**, with K = ``centered`` classes: a record adds (K − 1)·(z, c) to the row of its class and −(z, c) to
    each other row, so that the rows sum to zero and none of the budget is spent on their sum. The multiples a of (z, c)
    have |a|² = K(K − 1), and ⟨a, b⟩ = −K for two classes. Replace-one, same label: 4R²·K(K − 1). Another label: K(K −
    1)(|z|² + |z′|²) + 2K⟨z, z′⟩, and 2K²c² for the counts, at most 2K²(R² + c²). From or to an empty record, and
    add-remove: K(K − 1)(R² + c²), which is less. Divided by K², the scale of the rows, that is (1 − 1/K) of the value
    without centering: half for two classes. In L1 a record adds 2(K − 1)(B + c), and another label changes the vectors
    by 4(K − 1)B and the counts by 2Kc.

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
        raise InvalidInput("class sums protect records, or persons with a bounded number of records; not whole holders")
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


def set_shift(classes: int, labels: int) -> int:
    """What centered sums of label sets subtract from ``classes`` times a label, if a set has at most ``labels``.

    It makes the largest contribution of a record smallest among all shifts that are whole numbers up to half the
    classes. One label per record has a shift of 1, as ``sum_sensitivity`` describes it.

    >>> set_shift(6, 2), set_shift(6, 5)
    (2, 3)
    """
    return min(labels, classes // 2)


def set_sensitivity(
    components: int,
    radius: int,
    count: int,
    classes: int,
    labels: int,
    norm: Norm = "l2",
    unit: Unit = Unit(),  # noqa: B008
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    centered: bool = False,
) -> Sensitivity:
    """The sensitivity of the sums of records with sets of at most L = ``labels`` of K = ``classes`` labels.

    A record adds a_k·(z, c) to each row k: a_k is 1 for the labels that it has and 0 for others, or K·[k has it] − s if
    ``centered``, with the shift s = ``set_shift`` ≤ K/2. z and c are those of ``sum_sensitivity``: |z| ≤ R, c ≤ R. The
    difference of two records is a⊗z − a′⊗z′ in the components and c(a − a′) in the counts. A record that cannot be
    encoded adds nothing: a = 0, z = 0.

    **The longest a.** A set of m labels has |a|² = m, or m(K − s)² + (K − m)s² = mK(K − 2s) + Ks², which grows with m:
    A = max |a|² is L, or LK(K − 2s) + Ks². In the same way max |a|₁ is L, or L(K − 2s) + Ks. Two sets differ in at most
    D = min(2L, K) labels, and there by 1, or by K: |a − a′|² ≤ D, or K²D.

    **Replace-one, L2.** Let p = ⟨a, a′⟩. The squared difference is |a|²|z|² + |a′|²|z′|² − 2p⟨z, z′⟩ + c²|a − a′|², and
    −p⟨z, z′⟩ ≤ |p|R². If p ≥ 0, that is at most R²|a + a′|² + c²|a − a′|² ≤ 2R²(|a|² + |a′|²) ≤ 4AR², because c ≤ R;
    two records with the same set and opposite z reach it. If p < 0, it is at most (R² + c²)|a − a′|² ≤ (R² + c²)K²D;
    without centering p is never negative. From or to nothing it is A(R² + c²) ≤ 2AR².

    **Replace-one, L1.** At most 2·max |a|₁·B in the components and c·D, or c·K·D, in the counts, where B bounds the L1
    norm of z. From or to nothing it is max |a|₁(B + c), which is less, because c ≤ R ≤ B.

    **Add-remove.** A(R² + c²) in L2, max |a|₁(B + c) in L1. **Persons** with m records: m times as much.

    >>> set_sensitivity(2, 10, 10, classes=6, labels=3).l2_squared
    1200
    >>> set_sensitivity(2, 10, 0, classes=6, labels=3, centered=True).l2_squared / 6**2
    600.0
    >>> set_sensitivity(2, 10, 5, classes=4, labels=1, centered=True) == sum_sensitivity(2, 10, 5, centered=4)
    True
    """
    if not 1 <= labels <= classes:
        raise InvalidInput(f"labels must be between 1 and the {classes} classes, got {labels}")
    # Units, counts and the radius are checked there.
    one = sum_sensitivity(components, radius, count, norm, unit, adjacency)
    absolute, times, differ = longest_l1(radius, components, norm), unit.records, min(2 * labels, classes)
    shift, factor = (set_shift(classes, labels), classes) if centered else (0, 1)
    longest = labels * factor * (factor - 2 * shift) + classes * shift**2
    most = labels * (factor - 2 * shift) + classes * shift
    if adjacency is Adjacency.REPLACE_ONE:
        l1 = 2 * most * absolute + count * factor * differ
        l2_squared = 4 * longest * radius**2
        if centered:
            l2_squared = max(l2_squared, (radius**2 + count**2) * factor**2 * differ)
    else:
        l1, l2_squared = most * (absolute + count), longest * (radius**2 + count**2)
    return Sensitivity(l1=times * l1, l2_squared=times**2 * l2_squared, linf=(factor - shift) * one.linf)


@dataclass(frozen=True)
class SumAsk:
    """The question for the sums of encoded records per class.

    A record is encoded by ``representation``, multiplied by ``scale``, clipped to ``radius`` in ``norm`` and rounded
    toward zero; ``count`` is one more column. ``class_names`` are in the order of the labels' indices. The answer is
    the output of ``mechanism`` for the table, a row per class. If ``centered``, each row is multiplied by the number of
    classes, and the sum of all rows subtracted. ``labels`` is the most labels of a record, if records have sets of
    labels; such a record is added to the row of each of its labels, and if ``centered`` a multiple of it is subtracted
    from every row (``set_sensitivity``).
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
    labels: int | None = None

    def __post_init__(self) -> None:
        asked.require_classes(self.class_names)
        if self.labels is not None and not 1 <= self.labels <= self.classes:
            raise InvalidInput(f"labels must be between 1 and the {self.classes} classes, got {self.labels}")
        require_grid(self.scale, self.norm)
        if not 1 <= self.radius <= LARGEST_RADIUS or not 0 <= self.count <= self.radius:
            raise InvalidInput(f"radius must be from 1 to {LARGEST_RADIUS}, and count from 0 to the radius")
        if self.centered and self.radius * self._times > LARGEST_RADIUS:
            raise InvalidInput(
                f"centered sums need a radius of at most {LARGEST_RADIUS} over the number of other classes"
            )

    @property
    def question(self) -> str:
        """A digest of the question, so that a retried request cannot be used for a different one."""
        named = (self.components, self.scale, self.radius, self.norm, self.count, self.class_names, self.space)
        encoder = asked.representation_digest(self.representation)
        # Questions about single labels have the digest that they had before there were sets.
        sets = () if self.labels is None else (self.labels,)
        return hashlib.sha256(repr((*named, self.centered, *sets, encoder)).encode()).hexdigest()

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def table_shape(self) -> tuple[int, int]:
        """A row per class; a column per component, and one of counts."""
        return self.classes, self.components + 1

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """The form of the mechanism's output for the sums of that many records."""
        return asked.mechanism_form(self.mechanism, *self.table_shape, most_records * self.radius * self._times)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """The sensitivity of the table to one privacy unit."""
        vector = self.components, self.radius, self.count
        if self.labels is not None:
            return set_sensitivity(*vector, self.classes, self.labels, self.norm, unit, adjacency, self.centered)
        return sum_sensitivity(*vector, self.norm, unit, adjacency, self.classes if self.centered else None)

    @property
    def shift(self) -> int:
        """What is subtracted from every row for each record."""
        return 0 if not self.centered else set_shift(self.classes, self.labels or 1)

    @property
    def _times(self) -> int:
        """The factor of a record in the row of its class."""
        return self.classes - self.shift if self.centered else 1

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int]:
        """The largest absolute value of a cell, and of the sum over all cells.

        >>> from tacit.representations.scaled import Identity
        >>> ask = SumAsk(Identity(2), 2, 1.0, 10, "l2", 5, ("a", "b"), "c0ffee", None, "sums", "r-1")
        >>> ask.most_votes(100)
        (1000, 1900)
        """
        each = longest_l1(self.radius, self.components, self.norm) + self.count
        labels = self.labels or 1
        rows = labels * self._times + (self.classes - labels) * self.shift
        return records * self.radius * self._times, records * each * rows

    def fields(self) -> dict[str, Any]:
        """The question as values that can be encoded."""
        return {
            "representation": asked.encoding_fields(self.representation),
            "components": self.components,
            "scale": self.scale,
            "radius": self.radius,
            "norm": self.norm,
            "count": self.count,
            "centered": self.centered,
            # Questions about single labels have the bytes that they had before there were sets.
            **({} if self.labels is None else {"labels": self.labels}),
            **asked.table_fields(self),
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> SumAsk:
        """The question that ``fields`` wrote, checked."""
        names = fields.texts("names", asked.MOST_CLASSES)
        components = fields.integer("components", 1, MOST_COMPONENTS)
        asked.require_small_table(fields, len(names), components + 1)
        radius = fields.integer("radius", 1, LARGEST_RADIUS)
        return cls(
            representation=asked.read_encoding(fields.nested("representation")),
            components=components,
            scale=read_scale(fields),
            radius=radius,
            norm=read_norm(fields),
            count=fields.integer("count", 0, radius),
            centered=fields.flag("centered"),
            labels=None if fields.left_out("labels") else fields.integer("labels", 1, asked.MOST_CLASSES),
            **asked.read_table_fields(fields, names),
        )
