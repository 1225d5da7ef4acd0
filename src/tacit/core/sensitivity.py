"""How far a table of counts changes when one privacy unit changes, and what a mechanism allows.

One type serves both sides. A statistic states finite numbers; a mechanism states the largest numbers its
noise was calibrated for and leaves infinite what its proof does not need. The gate compares them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from tacit.core.errors import InvalidInput

__all__ = ["ANYTHING", "Sensitivity", "vote_sensitivity"]


@dataclass(frozen=True)
class Sensitivity:
    """Distances between the tables of two neighboring data sets, each the largest that can occur.

    ``l1`` sum of absolute changes; ``l2_squared`` sum of squares; ``linf`` change of one cell;
    ``row_range`` sum over rows of (largest rise + largest fall in that row), which is what selecting one
    label in every row costs: adding a constant to a row changes no selection, so only the range matters.

    >>> Sensitivity(l1=2, l2_squared=2, linf=1, row_range=2).within(Sensitivity(l1=4))
    True
    >>> Sensitivity(l1=2).within(Sensitivity(linf=1))
    False
    """

    l1: float = math.inf
    l2_squared: float = math.inf
    linf: float = math.inf
    row_range: float = math.inf

    def within(self, tolerated: Sensitivity) -> bool:
        """Whether a statistic of this sensitivity is covered by a mechanism that allows ``tolerated``.

        A distance the mechanism leaves infinite is not needed by its proof; a mechanism that leaves all of
        them infinite (a local randomizer) allows any change of its input. A statistic that leaves a
        needed distance infinite is never covered: what is not known is not small.
        """
        return not self.excess(tolerated)

    def excess(self, tolerated: Sensitivity) -> list[str]:
        """The distances that are too long, in words, empty when everything is covered.

        >>> Sensitivity(l1=4, linf=1).excess(Sensitivity(l1=2))
        ['l1 changes by 4, and the mechanism allows 2']
        """
        return [
            f"{field.name} changes by {getattr(self, field.name):g}, and the mechanism allows {limit:g}"
            for field in fields(self)
            if getattr(self, field.name) > (limit := getattr(tolerated, field.name))
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

    Each record has at most r = ``labels`` labels and votes with all of them in its k queries. With ``voters`` the
    table has one more column, in which every record votes whatever its labels: how many voters a query has.

    Let two records have u and v labels, w = u + v ≤ 2r, and t queries in common; at least a = max(0, 2k − s) are.
    In each of the 2(k − t) queries of one record alone all its votes move, in the common ones the labels that only
    one of them has, at most min(w, 2Y − w); a voter of both does not move. Together, with one more vote each
    for voters (+2, else +0), (k − t)·(w + 2) + t·min(w, 2Y − w). It falls with t, so t = a; in w it rises up to Y
    and is a straight line from there, so it is largest at w = min(2r, Y) or at w = 2r. Every cell moves by at
    most one, so squares add up to the same.

    A record that cannot be encoded or compared casts an **empty vote**: it votes nowhere, not even as a voter. That
    is an input like any other, so a record may become empty: k·r votes move, and k more for voters, as they do when
    a record is added or removed. A person with m records moves at most m times as far, and may put all m into the
    same cell.

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
        # A person may own fewer records than another, so nothing is bound to coincide for persons.
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
