"""How far a table of counts moves when one privacy unit changes, and what a mechanism tolerates.

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
    """Distances between the tables of two neighbouring data sets, each the largest that can occur.

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
        """Whether a statistic that moves this far is covered by a mechanism that tolerates so much.

        A distance the mechanism leaves infinite is not needed by its proof; a mechanism that leaves all of
        them infinite (a local randomizer) tolerates any change of its input. A statistic that leaves a
        needed distance infinite is never covered: what is not known is not small.
        """
        return not self.beyond(tolerated)

    def beyond(self, tolerated: Sensitivity) -> list[str]:
        """The distances that are too long, in words, empty when everything is covered.

        >>> Sensitivity(l1=4, linf=1).beyond(Sensitivity(l1=2))
        ['l1 moves by 4, tolerated is 2']
        """
        return [
            f"{field.name} moves by {getattr(self, field.name):g}, tolerated is {limit:g}"
            for field in fields(self)
            if getattr(self, field.name) > (limit := getattr(tolerated, field.name))
        ]


ANYTHING = Sensitivity()


def vote_sensitivity(
    queries: int, classes: int, neighbors: int, labels: int = 1, records: int = 1, replace: bool = True
) -> Sensitivity:
    """How far reverse k-NN counts move when one privacy unit of at most ``records`` records changes.

    Each record has exactly ``labels`` labels. Replacing it removes at most k·r ones and adds at most k·r others;
    those that must coincide because 2k > s and 2r > Y do not move. Adding or removing it moves k·r. A person
    with m records moves at most m times as far, and may put all m into the same cell.

    >>> vote_sensitivity(queries=40, classes=10, neighbors=1)
    Sensitivity(l1=2, l2_squared=2, linf=1, row_range=2)
    >>> vote_sensitivity(queries=40, classes=10, neighbors=2, records=3).l2_squared
    36
    """
    for name, value in (
        ("queries", queries),
        ("neighbors", neighbors),
        ("labels", labels),
        ("records", records),
    ):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")
    if classes < 2:
        raise InvalidInput(f"classes must be at least 2, got {classes}")
    if neighbors > queries:
        raise InvalidInput(f"neighbors must be at most the {queries} queries, got {neighbors}")
    if labels > classes:
        raise InvalidInput(f"labels must be at most the {classes} classes, got {labels}")
    if replace:
        # A person may own fewer records than another, so nothing is bound to coincide for persons.
        forced = max(0, 2 * neighbors - queries) * max(0, 2 * labels - classes) if records == 1 else 0
        cells = 2 * (neighbors * labels - forced)
        rows = 2 * neighbors
    else:
        cells = neighbors * labels
        rows = neighbors
    return Sensitivity(l1=cells * records, l2_squared=cells * records**2, linf=records, row_range=rows * records)
