"""GNMax whose answers come with a private estimate of what they cost on these votes: smooth sensitivity.

Where teachers agree, winners say far less than their worst case. How much less depends on the votes, so the number may
be released with noise only, and that noise must not tell the votes by its size either. It is here.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core import Approximate, Composed, Integers, InvalidInput, Randomness, Sensitivity
from tacit.core.rational import Number, positive, probability, rounded_up
from tacit.mechanisms.auditing import Check, Target
from tacit.mechanisms.central.counts import count_rows
from tacit.mechanisms.central.discrete_gaussian import gaussian_integers
from tacit.mechanisms.central.discrete_laplace import laplace_integers
from tacit.mechanisms.central.pate import GNMax, asked_queries, audited_sigma, in_range
from tacit.mechanisms.central.tested_votes import log_errors
from tacit.mechanisms.description import COUNT, EXACT, Checks, Described, Parameters
from tacit.mechanisms.forms import Numbers

__all__ = ["EstimatedGNMax", "estimate_order"]

# What a row costs at most, α/σ², in whole numbers; the cost of a row is rounded up to these.
PARTS = 2**20
# Room for float errors of costs, and beyond which lead in nats nothing is left of them.
_ROOM, _NATS = 1e-9, 60.0
# Of the estimate's ε: for the size of its noise, for the noise, and for sizes that differ between neighbors.
_SIZE, _VALUE, _DIFFERENT = Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)
_LARGEST_ORDER, _MOST_QUERIES, _REACH = 256, 10**6, 2**61
_ORDERS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256)
_AUDITED_ROWS = 100
# The fraction of rows that an order is chosen for, as if the others cost nothing.
_CONTESTED = 0.25


@dataclass(frozen=True)
class EstimatedGNMax(Described):
    """The winners of teachers' votes on ``queries`` questions, and two numbers that say what these winners cost.

    **Law.** Discrete Gaussian noise σ is added to every vote, and the label with the most votes of each row is
    released. F(g) is a whole number that a row costs at most whose first label leads by g: the Rényi divergence of
    order α in parts of α/(2²⁰σ²). f sums F over rows. Released are j plus discrete Laplace noise of scale 5/ε, and f
    plus discrete Laplace noise of scale c(j)/a, where a = 2ε/5, the public whole numbers c(0) < c(1) < … grow by at
    most the factor r = 1 + (2ε/5)/ln(2/δ), and j is the smallest index such that c(j + d) is at least A(d) for all
    d ≥ 0. A(d) sums over rows the largest |F(h) − F(h ± 2)| over all leads h within 2d of the row's.

    **Spend.** That of ``GNMax`` and ``Approximate(ε, δ)``, whatever the votes are.

    **Proof.** *Cost of the winners.* As in ``TestedGNMax``: F(g) bounds the divergence of a row's winner from a
    neighbor's, rounded up, and is made monotone; rows have independent noise.
    *Sensitivity.* One teacher changes every lead by at most two, so |f − f′| ≤ A(0) of either table. All leads within
    2d of one table's are within 2(d + 1) of a neighbor's: A(d) ≤ A′(d + 1), which makes A an upper bound of the local
    sensitivity at distance d.
    *Index.* Let L(x) be the smallest i with c(i) ≥ x. Then j = max over d of L(A(d)) − d, at least 0, and
    L(A(d)) − d ≤ L(A′(d + 1)) − (d + 1) + 1 ≤ j′ + 1. So neighbors' j differ by at most one: this smoothness is exact,
    because it is one of whole numbers. Noise of scale 5/ε makes j (ε/5, 0)-private.
    *Value.* Let t = c(j)/a and t′ = c(j′)/a; then |f − f′| ≤ c(j′) = a·t′, and t and t′ differ by a factor of at most
    r. The discrete Laplace law is tanh(1/2t)·e^(−|y−f|/t). If t ≤ t′, the ratio of the laws at any y is at most
    (t′/t)·e^(|f−f′|/t′) ≤ r·e^a ≤ e^(4ε/5), because tanh(x)/x falls and ln(2/δ) > 1. If t > t′, it is at most
    e^(a + |y−f|(r−1)/t), which exceeds e^(4ε/5) only if |y−f| > t·ln(2/δ): with a probability of at most δ. So the
    value is (4ε/5, δ)-private. All three noises are independent.

    The two numbers are about the winners only, so no votes are released. They describe one set of votes: no promise,
    and never charged.

    **Source.** K. Nissim, S. Raskhodnikova and A. Smith, Smooth sensitivity and sampling, STOC 2007; N. Papernot et
    al., Scalable private learning with PATE, ICLR 2018 (the bound, Theorem 6, and its smooth sensitivity for Gaussian
    noise). The public grid of sizes, whole numbers throughout, and the release of the size are Tacit's own.

    >>> mechanism = EstimatedGNMax(40, queries=300, order=8, epsilon="1/2", delta="1e-6")
    >>> mechanism.spend.spends[1]
    Approximate(epsilon=Fraction(1, 2), delta=Fraction(1, 1000000))
    >>> agreed, contested = (np.tile([[top, 500, 0]], (300, 1)) for top in (2500, 501))
    >>> mechanism.cost(agreed), mechanism.cost(contested) == 300 * PARTS
    (600, True)
    """

    name = "estimated-votes"
    statistic = "table"
    releases = "labels"
    parameters: ClassVar[Parameters] = {
        "sigma": EXACT, "queries": COUNT, "order": COUNT, "epsilon": EXACT, "delta": EXACT,
    }  # fmt: skip

    sigma: Fraction
    queries: int
    order: int
    epsilon: Fraction
    delta: Fraction

    def __init__(self, sigma: Number, queries: int, order: int, epsilon: Number, delta: Number) -> None:
        # Beyond these limits an answer would take its holder longer than any honest one.
        object.__setattr__(self, "sigma", in_range(sigma, "sigma", "1e-2", "1e4"))
        object.__setattr__(self, "queries", asked_queries(queries))
        if queries > _MOST_QUERIES:
            raise InvalidInput(f"queries must be at most {_MOST_QUERIES}, got {queries}")
        if not 2 <= order <= _LARGEST_ORDER:
            raise InvalidInput(f"order must be from 2 to {_LARGEST_ORDER}, got {order}")
        object.__setattr__(self, "order", int(order))
        object.__setattr__(self, "epsilon", in_range(positive(epsilon, "epsilon"), "epsilon", "1/100", "100"))
        chance = probability(delta, "delta")
        if not Fraction(1, 10**30) <= chance <= Fraction(1, 100):
            raise InvalidInput(f"delta must be in [1e-30, 0.01], got {float(chance):g}")
        object.__setattr__(self, "delta", chance)

    @property
    def _votes(self) -> GNMax:
        return GNMax(self.sigma, self.queries)

    @property
    def spend(self) -> Composed:
        """What the winners and the two numbers cost."""
        return Composed(self._votes.spend, Approximate(self.epsilon, self.delta))

    @property
    def max_sensitivity(self) -> Sensitivity:
        """How far the votes may move: by one each, and so leads by two."""
        return Sensitivity(l1=2 * self.queries, l2_squared=2 * self.queries, linf=1)

    @property
    def growth(self) -> Fraction:
        """By which factor the sizes of two neighbors' noise may differ."""
        return 1 + _DIFFERENT * self.epsilon / rounded_up(math.log(2 / float(self.delta)) + _ROOM)

    @cached_property
    def sizes(self) -> Integers:
        """The public sizes c: from the first that may grow by so little to one that no table exceeds."""
        numerator, denominator = self.growth.as_integer_ratio()
        found = [-(-denominator // (numerator - denominator))]
        while found[-1] < self.queries * PARTS:
            found.append(found[-1] * numerator // denominator)
        return np.array(found, dtype=np.int64)

    def scale(self, index: int) -> Fraction:
        """The scale of the value's noise at an index."""
        return int(self.sizes[index]) / (_VALUE * self.epsilon)

    def cost(self, votes: NDArray[Any]) -> int:
        """What the winners of these votes cost, in parts: private."""
        leads, costs = _leads(votes), self._costs(votes)
        return int(costs[np.minimum(leads, len(costs) - 1)].sum())

    def sensitivities(self, votes: NDArray[Any]) -> Integers:
        """How far that may be from a neighbor's, for every distance in teachers up to the number of sizes: private."""
        costs = np.pad(self._costs(votes), (2, 4), mode="edge")
        step = np.maximum(costs[:-4] - costs[2:-2], costs[2:-2] - costs[4:])
        last = len(step) - 1  # there and beyond, no lead within two costs anything else
        reach = 2 * np.arange(len(self.sizes))
        total = np.zeros(len(reach), dtype=np.int64)
        for lead, count in zip(*np.unique(_leads(votes), return_counts=True), strict=True):
            top = min(int(lead), last)
            below = np.maximum.accumulate(step[top::-1])
            down = reach - (int(lead) - top)
            most = np.where(down < 0, 0, below[np.clip(down, 0, len(below) - 1)])
            if top == lead:
                above = np.maximum.accumulate(step[top:])
                most = np.maximum(most, above[np.minimum(reach, len(above) - 1)])
            total += count * most
        return total

    def index(self, votes: NDArray[Any]) -> int:
        """Which size the noise has: private, and one teacher moves it by at most one."""
        found = np.searchsorted(self.sizes, self.sensitivities(votes), side="left")
        return int(np.max(found - np.arange(len(found)), initial=0))

    def _costs(self, votes: NDArray[Any]) -> Integers:
        return _row_costs(self.sigma, self.order, np.shape(votes)[1])

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The label of every row, then the noisy index and the noisy cost.

        >>> from tacit.core.randomness import SeededRandomness
        >>> votes = np.tile([[5000, 0, 0], [0, 0, 5000]], (2, 1))
        >>> EstimatedGNMax(10, 4, 8, 1, "1e-6").sample(votes, SeededRandomness(1)).tolist()
        [0, 2, 0, 2, 8, 15]
        """
        votes = count_rows(value)
        if len(votes) != self.queries or votes.shape[1] < 2:
            raise InvalidInput(f"table must have a row for each of the {self.queries} queries and two labels or more")
        labels = np.argmax(votes + gaussian_integers(self.sigma, votes.size, randomness).reshape(votes.shape), axis=1)
        return np.concatenate([labels, self._drawn(votes, 1, randomness)[0]])

    def _drawn(self, votes: Integers, count: int, randomness: Randomness) -> Integers:
        """The noisy index and cost of that many independent runs, (count, 2)."""
        index = self.index(votes)
        sizes = index + laplace_integers(1 / (_SIZE * self.epsilon), count, randomness)
        values = self.cost(votes) + laplace_integers(self.scale(index), count, randomness)
        return np.stack([sizes, values], axis=1)

    def divergences(self, index: int, value: int, failure: float) -> tuple[float, float]:
        """The Rényi divergence that the released numbers estimate, and what it is at most but for ``failure``.

        Each noise is larger with probability ``failure``/2 at most; nothing but released and public numbers is used.

        >>> mechanism = EstimatedGNMax(40, queries=300, order=8, epsilon="1/2", delta="1e-6")
        >>> [round(each, 4) for each in mechanism.divergences(0, 10**7, 0.01)]
        [0.0477, 0.0477]
        """
        nats = math.log(2 / failure)
        highest = index + math.ceil(nats / float(_SIZE * self.epsilon))
        scale = float(self.scale(min(max(highest, 0), len(self.sizes) - 1)))
        whole = self.queries * PARTS
        part = self.order / float(self.sigma) ** 2 / PARTS
        estimated, most = (min(max(each, 0), whole) for each in (value, value + math.ceil(scale * nats)))
        return part * estimated, part * most

    def answer_form(self, rows: int, columns: int, limit: int) -> Numbers:
        """A label per row and two numbers."""
        return Numbers((rows + 2,), -_REACH, _REACH)

    @classmethod
    def audited(cls, epsilon: Fraction, delta: Fraction) -> Self:
        """The mechanism that audits try."""
        return cls(audited_sigma(4, "1e-6"), _AUDITED_ROWS, 8, epsilon, delta)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One teacher changes its vote in all rows, where that changes the estimate most in units of its noise."""

        def estimated(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls.audited(epsilon, delta)
            costs = _row_costs(mechanism.sigma, mechanism.order, 2)
            steepest = int(np.argmax(costs[:-2] - costs[2:]))

            def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
                return mechanism._drawn(np.tile([row], (mechanism.queries, 1)), count, randomness)[:, 1:]

            inputs = ((steepest + 1, 1), (steepest + 2, 0))
            return [Target("pate-estimated", mechanism.epsilon, mechanism.delta, inputs, draw, 10)]

        return {"pate-estimated": estimated}


def _leads(votes: NDArray[Any]) -> Integers:
    rows = np.partition(count_rows(votes), -2, axis=1)
    leads: Integers = rows[:, -1] - rows[:, -2]
    return leads


@lru_cache(maxsize=8)
def _row_costs(sigma: Fraction, order: int, classes: int) -> Integers:
    """F: what a row costs by its lead, until it costs next to nothing; from public numbers alone."""
    from tacit.accounting.pate import gaussian_divergence

    noise = float(sigma)
    longest = math.ceil(2 * noise * math.sqrt(math.log(classes) + _NATS) + 4 * order)
    errors = log_errors(noise, classes, longest)
    found = np.array([gaussian_divergence(error, noise, order) for error in errors]) * noise**2 / order
    parts = np.minimum(np.ceil(found * PARTS * (1 + _ROOM)) + 1, PARTS)
    costs = np.minimum.accumulate(parts).astype(np.int64)
    costs = costs[: bisect_left(-costs, -costs[-1]) + 1]
    costs.flags.writeable = False
    return costs


def estimate_order(sigma: Number, queries: int, delta: Number) -> int:
    """The order at which a quarter of the rows without any agreement, and nothing else, costs least at this δ.

    It must be fixed without looking at votes.

    >>> estimate_order(40, 300, "1e-5"), estimate_order(400, 300, "1e-5")
    (16, 128)
    """
    chance, squared = float(probability(delta, "delta")), float(positive(sigma, "sigma")) ** 2

    def price(order: int) -> float:
        converted = math.log1p(-1 / order) - (math.log(chance) + math.log(order)) / (order - 1)
        return _CONTESTED * queries * order / squared + converted

    return min(_ORDERS, key=price)
