"""Sensitivity: how far a table of counts changes when one privacy unit changes, and what a mechanism allows.

One type serves both sides. A statistic states finite numbers. A mechanism states the largest ones its noise was
calibrated for, and leaves those infinite that its proof does not need. The gate compares them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from tacit.core.errors import InvalidInput

__all__ = ["ANYTHING", "Sensitivity", "vote_sensitivity"]


@dataclass(frozen=True)
class Sensitivity:
    """The largest possible distances between the tables of two neighboring data sets.

    ``l1`` is the sum of absolute changes; ``l2_squared`` the sum of squares; ``linf`` the change of one cell;
    ``row_range`` the sum over rows of (largest rise + largest fall in that row). The last is what selecting one label
    per row costs: adding a constant to a row changes no selection, so only the range counts.

    >>> Sensitivity(l1=2, l2_squared=2, linf=1, row_range=2).within(Sensitivity(l1=4))
    True
    >>> Sensitivity(l1=2).within(Sensitivity(linf=1))
    False
    """

    l1: float = math.inf
    l2_squared: float = math.inf
    linf: float = math.inf
    row_range: float = math.inf

    @property
    def in_words(self) -> str:
        """The finite distances, for a statement.

        >>> Sensitivity(l1=2, l2_squared=2).in_words
        'at most 2 in L1 norm, 1.41 in L2 norm'
        """
        named = (("in L1 norm", self.l1), ("in L2 norm", self.l2_squared**0.5), ("in one cell", self.linf),
                 ("in the range of all rows", self.row_range))  # fmt: skip
        told = [f"{size:.6g} {where}" if size >= 100 else f"{size:.3g} {where}" for where, size in named
                if math.isfinite(size)]  # fmt: skip
        return f"at most {', '.join(told)}" if told else ""

    def within(self, allowed: Sensitivity) -> bool:
        """Whether a statistic of this sensitivity is covered by a mechanism whose maximum is ``allowed``.

        A distance that the mechanism leaves infinite is not needed by its proof; a local randomizer leaves all of them
        infinite, so any change of its input is allowed. A statistic with an infinite distance that the proof needs is
        never covered.
        """
        return not self.excess(allowed)

    def excess(self, allowed: Sensitivity) -> list[str]:
        """The distances that exceed ``allowed``, in words; empty when all are covered.

        >>> Sensitivity(l1=4, linf=1).excess(Sensitivity(l1=2))
        ['l1 changes by 4, and the mechanism allows 2']
        """
        return [
            f"{field.name} changes by {getattr(self, field.name):g}, and the mechanism allows {limit:g}"
            for field in fields(self)
            if getattr(self, field.name) > (limit := getattr(allowed, field.name))
        ]


ANYTHING = Sensitivity()


def vote_sensitivity(
    queries: int,
    classes: int,
    neighbors: int,
    labels: int = 1,
    records: int = 1,
    replace: bool = True,
    voters: bool = False,
) -> Sensitivity:
    """How far reverse k-NN counts change when one privacy unit of at most ``records`` records changes.

    Each of the Y classes is a column and each of the s queries a row. A record has at most r = ``labels`` labels and
    votes for all of them in each of its k = ``neighbors`` queries. With ``voters`` the table has one more column, in
    which every record votes: the number of voters per query.

    Replace a record by another. Let them have u and v labels, w = u + v ≤ 2r, and t queries in common, where
    t ≥ a = max(0, 2k − s). In the 2(k − t) queries of only one of them all its votes change; in each common query only
    the labels that one of them has and the other has not, at most min(w, 2Y − w), and not the voters' column. So
    (k − t)·(w + 2) + t·min(w, 2Y − w) cells change with ``voters``, and (k − t)·w + t·min(w, 2Y − w) without. This
    decreases in t, so t = a is the worst case. In w it increases up to Y and is linear from there, so the maximum is at
    w = min(2r, Y) or at w = 2r. Every cell changes by at most one, so the sum of squares is the same number.

    A record that cannot be encoded or compared casts an **empty vote**: no vote in any column. A record may be replaced
    by such a one, which changes k·r cells, and k more with ``voters``, as adding or removing a record does. A person
    with m records changes the table at most m times as much, possibly m times in the same cell.

    >>> vote_sensitivity(queries=40, classes=10, neighbors=1)
    Sensitivity(l1=2, l2_squared=2, linf=1, row_range=2)
    >>> vote_sensitivity(queries=40, classes=10, neighbors=2, records=3).l2_squared
    36
    >>> vote_sensitivity(queries=40, classes=10, neighbors=2, labels=3, voters=True).l1
    16
    """
    for name, value in (
        ("queries", queries),
        ("neighbors", neighbors),
        ("labels", labels),
        ("records", records),
    ):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")
    if classes < (fewest := 1 if voters else 2):
        raise InvalidInput(f"classes must be at least {fewest}, got {classes}")
    if neighbors > queries:
        raise InvalidInput(f"neighbors must be at most the {queries} queries, got {neighbors}")
    if labels > classes:
        raise InvalidInput(f"labels must be at most the {classes} classes, got {labels}")
    votes = labels + voters
    if replace:
        # Two persons may have different numbers of records, so their queries need not overlap.
        common = max(0, 2 * neighbors - queries) if records == 1 else 0
        cells = max(
            (neighbors - common) * (both + 2 * voters) + common * min(both, 2 * classes - both)
            for both in (2 * labels, min(2 * labels, classes))
        )
        cells = max(cells, neighbors * votes)
        rows = 2 * neighbors
    else:
        cells = neighbors * votes
        rows = neighbors
    return Sensitivity(l1=cells * records, l2_squared=cells * records**2, linf=records, row_range=rows * records)
