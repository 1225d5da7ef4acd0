"""Two local randomizers that are decoded by one fast transform, written from their papers for comparison.

Hadamard response: J. Acharya, Z. Sun, H. Zhang, AISTATS 2019 (the variant in blocks). Projective geometry response:
V. Feldman, J. Nelson, H. Nguyen, K. Talwar, ICML 2022. They are for timing and for errors only: randomness is numpy's,
and probabilities are floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["HadamardResponse", "ProjectiveResponse"]


def _walsh(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The Walsh-Hadamard transform along the last axis, whose length is a power of two."""
    size, rows = values.shape[-1], values.copy()
    step = 1
    while step < size:
        pairs = rows.reshape(*rows.shape[:-1], size // (2 * step), 2, step)
        rows = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2)
        rows = rows.reshape(values.shape)
        step *= 2
    return rows


@dataclass(frozen=True)
class HadamardResponse:
    """Cell x of block i prefers the half of block i where row x of a Hadamard matrix is 1, by a factor of e^ε.

    >>> made = HadamardResponse(100, 1.0)
    >>> made.blocks, made.width
    (2, 64)
    """

    cells: int
    epsilon: float

    @property
    def blocks(self) -> int:
        """The paper's choice: a power of two near e^ε/2."""
        return int(2 ** (math.ceil(math.log2(min(math.exp(self.epsilon), 2 * self.cells))) - 1))

    @property
    def width(self) -> int:
        """Answers of one block, more than the cells in it."""
        return int(2 ** math.ceil(math.log2(self.cells / self.blocks + 1)))

    @property
    def answers(self) -> int:
        """How many different messages there are."""
        return self.blocks * self.width

    def _preferred(self, cell: NDArray[np.int64], answer: NDArray[np.int64]) -> NDArray[np.bool_]:
        row, column = cell // self.blocks + 1, answer % self.width
        even = np.bitwise_count(row & column) % 2 == 0
        same: NDArray[np.bool_] = (answer // self.width == cell % self.blocks) & even
        return same

    def encode(self, cells: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """One message per client, drawn by rejection: an answer that is not preferred is kept once in e^ε times."""
        found = np.empty(len(cells), dtype=np.int64)
        waiting = np.arange(len(cells))
        while len(waiting):
            tried = random.integers(0, self.answers, len(waiting))
            preferred = self._preferred(cells[waiting], tried)
            kept = preferred | (random.random(len(waiting)) < math.exp(-self.epsilon))
            found[waiting[kept]] = tried[kept]
            waiting = waiting[~kept]
        return found

    def decode(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Unbiased counts of all cells: one histogram and one transform."""
        table = np.bincount(messages, minlength=self.answers).reshape(self.blocks, self.width)
        # Half of the transform is the hits of a cell's preferred half minus half of its block.
        moved = _walsh(table)[:, 1:].T.ravel()[: self.cells] / 2
        grown = math.exp(self.epsilon)
        counts: NDArray[np.float64] = moved * 2 * (2 * self.blocks - 1 + grown) / (grown - 1)
        return counts


@dataclass(frozen=True)
class ProjectiveResponse:
    """Cells and answers are the points of a projective space over F_q; a point prefers its hyperplane by e^ε.

    The hits of all hyperplanes come out of one Fourier transform over F_q^t: with g the histogram, constant on each
    line through the origin, ĝ(v) = q·hits(v) − n. The paper's dynamic program gives the same integers.

    >>> made = ProjectiveResponse(5000, 1.0)
    >>> made.order, made.dimension, made.answers
    (3, 9, 9841)
    """

    cells: int
    epsilon: float

    @property
    def order(self) -> int:
        """The prime nearest to e^ε + 1."""
        target = math.exp(self.epsilon) + 1
        primes = [n for n in range(2, int(2 * target) + 3) if all(n % d for d in range(2, math.isqrt(n) + 1))]
        return min(primes, key=lambda prime: abs(prime - target))

    @property
    def dimension(self) -> int:
        """The smallest in which there are enough points."""
        t = 2
        while (self.order**t - 1) // (self.order - 1) < self.cells:
            t += 1
        return t

    @property
    def answers(self) -> int:
        """How many points there are."""
        return (self.order**self.dimension - 1) // (self.order - 1)

    def points(self) -> NDArray[np.int64]:
        """The points as vectors whose first digit that is not 0 is 1, (answers, dimension)."""
        q, t = self.order, self.dimension
        every = np.indices((q,) * t).reshape(t, -1).T
        first = np.argmax(every != 0, axis=1)
        return every[every[np.arange(len(every)), first] == 1]

    def encode(self, cells: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """One message per client, drawn by rejection."""
        points = self.points()
        found = np.empty(len(cells), dtype=np.int64)
        waiting = np.arange(len(cells))
        while len(waiting):
            tried = random.integers(0, self.answers, len(waiting))
            products = (points[cells[waiting]] * points[tried]).sum(axis=1) % self.order
            kept = (products == 0) | (random.random(len(waiting)) < math.exp(-self.epsilon))
            found[waiting[kept]] = tried[kept]
            waiting = waiting[~kept]
        return found

    def places(self) -> NDArray[np.int64]:
        """Where the multiples of every point are in a table over F_q^t, (order − 1, answers): made once, public."""
        q, t = self.order, self.dimension
        weights = q ** np.arange(t - 1, -1, -1)
        return np.array([(self.points() * scale % q) @ weights for scale in range(1, q)])

    def decode(self, messages: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Unbiased counts of all cells: one histogram and one transform."""
        q, t = self.order, self.dimension
        histogram = np.bincount(messages, minlength=self.answers)
        table = np.zeros(q**t)
        table[places] = histogram
        # The table is even, so its transform is real.
        transformed = np.fft.fftn(table.reshape((q,) * t)).real.ravel()
        hits = (transformed[places[0, : self.cells]] + len(messages)) / q
        sets, both = ((q ** (t - less) - 1) // (q - 1) for less in (1, 2))
        grown = math.exp(self.epsilon)
        total = grown * sets + self.answers - sets
        own, other = grown * sets / total, (grown * both + sets - both) / total
        counts: NDArray[np.float64] = (hits - other * len(messages)) / (own - other)
        return counts
