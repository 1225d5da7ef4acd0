"""Looking for the event that tells two inputs apart best.

Outcomes are put into cells of a grid over their features, fine in the tails, where truncated noise shows. By the
Neyman-Pearson lemma the best event is made of the cells with the largest ratio of probabilities; how many of them to
take is decided by the bound they would prove. All of this looks at samples that are not used to prove anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.audit.bounds import Counts, Reals
from tacit.core.protocols import Integers

__all__ = ["Event", "Grid", "Prove", "best_event"]

# Cells of the whole grid, coarse to fine: few cells know their probabilities well, many tell more apart.
SIZES = (16, 64, 256)
# The outermost cells are to hold about so many samples.
FEWEST = 10
# Ratios are taken this many standard errors lower than they look, so that chance does not put a cell in front.
DOUBT = 2.0

# Hits on the input where the event should be frequent, hits on the other, trials of each: the bounds they prove.
Prove = Callable[[Counts, Counts, int], Reals]


def _edges(column: Integers, limit: int) -> Integers:
    """Where the cells of one feature begin: at every value, or at ``limit`` quantiles that are dense in the tails.

    The smallest and the largest value always have cells of their own: noise that ends shows there.
    """
    values = np.unique(column)
    if len(values) <= limit + 2:
        return values
    # Evenly spaced in log-odds: each tail is cut where its mass falls by a constant factor.
    furthest = np.log(len(column) / FEWEST)
    shares = 1 / (1 + np.exp(np.linspace(furthest, -furthest, limit + 2)[1:-1]))
    return np.unique([values[1], *np.quantile(column, shares, method="higher"), values[-1]]).astype(np.int64)


@dataclass(frozen=True)
class Grid:
    """Cells of the space of features, made from samples.

    >>> Grid.of(np.array([[3], [5], [5]]), size=16).cells(np.array([[3], [4], [5], [9]])).tolist()
    [1, 1, 2, 2]
    """

    edges: tuple[Integers, ...]

    @classmethod
    def of(cls, features: Integers, size: int) -> Grid:
        """A grid of about so many cells that suits these samples, one row each."""
        limit = max(1, round(size ** (1 / features.shape[1])) - 1)
        return cls(tuple(_edges(column, limit) for column in features.T))

    @property
    def size(self) -> int:
        """How many cells there are."""
        return int(np.prod([len(edges) + 1 for edges in self.edges]))

    def cells(self, features: Integers) -> Integers:
        """The cell of each sample."""
        cells = np.zeros(len(features), dtype=np.int64)
        for edges, column in zip(self.edges, features.T, strict=True):
            cells = cells * (len(edges) + 1) + np.searchsorted(edges, column, side="right")
        return cells


@dataclass(frozen=True)
class Event:
    """A set of cells, and whether it is on the second input that it should be frequent."""

    grid: Grid
    members: NDArray[np.bool_]
    reverse: bool

    def hits(self, first: Integers, second: Integers) -> tuple[int, int]:
        """How often it happened where it should be frequent, and on the other input."""
        counts = [int(self.members[self.grid.cells(features)].sum()) for features in (first, second)]
        return (counts[1], counts[0]) if self.reverse else (counts[0], counts[1])


def best_event(first: Integers, second: Integers, prove: Prove) -> Event:
    """The event, in the better of both directions, that can be expected to prove the most in as many samples.

    One half of the samples puts cells in order, the other says how far to go and with which grid: the cell that looks
    best to the first half is the one that was luckiest there.
    """
    trials, half = len(first), len(first) // 2
    scale = trials / (trials - half)
    found: list[tuple[float, Event]] = []
    for size in SIZES:
        grid = Grid.of(np.concatenate([first, second]), size)
        cells = [grid.cells(features) for features in (first, second)]
        ordering = [np.bincount(each[:half], minlength=grid.size) for each in cells]
        choosing = [np.bincount(each[half:], minlength=grid.size) for each in cells]
        for reverse in (False, True):
            here, there = (1, 0) if reverse else (0, 1)
            order = _order(ordering[here], ordering[there])
            # What was never seen is expected once, or the rarest events would look best.
            others = np.minimum(choosing[there][order].cumsum() + 1, trials - half)
            bounds = prove(choosing[here][order].cumsum() * scale, others * scale, trials)
            members = np.zeros(grid.size, dtype=np.bool_)
            members[order[: int(bounds.argmax()) + 1]] = True
            found.append((float(bounds.max()), Event(grid, members, reverse)))
    return max(found, key=lambda each: each[0])[1]


def _order(here: Integers, there: Integers) -> Integers:
    """Cells by falling ratio of probabilities; half a hit is added so that none is infinite."""
    ratio = np.log((here + 0.5) / (there + 0.5)) - DOUBT * np.sqrt(1 / (here + 0.5) + 1 / (there + 0.5))
    return np.argsort(-ratio, kind="stable")
