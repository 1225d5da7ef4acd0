"""GNMax with the noise that votes deserve: propose, test, release.

Where teachers agree, the winner of a noisy vote says far less than its worst case. How much less depends on the votes,
so it may decide how much noise is drawn only if that decision is itself private. It is here.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Approximate, Integers, InvalidInput, Randomness, Rule, Sensitivity
from tacit.core.rational import Number, positive, probability, rounded_up
from tacit.mechanisms.auditing import Check, Target
from tacit.mechanisms.central.counts import count_rows
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise, gaussian_integers
from tacit.mechanisms.central.discrete_laplace import laplace_integers
from tacit.mechanisms.central.pate import asked_queries, in_range
from tacit.mechanisms.description import COUNT, EXACT, Checks, Described, Parameters
from tacit.mechanisms.forms import Numbers

__all__ = ["TestedGNMax", "contested_sigma", "log_errors"]

# Orders at which the divergence of all answers is bounded; the best one counts.
_ORDERS = (1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 40.0, 48.0, 64.0, 96.0, 128.0)
# Divergences are compared in whole numbers of this part of ε, rounded against the test, with room for float errors.
_PARTS, _ROOM = 2**30, 1e-9
# Of ε, what is left to queries on which teachers agree.
_AGREED = 0.05
# Rows of the audit, and a lead in units of σ at which a test surely passes.
_AUDITED_ROWS, _FAR = 100, 40


@dataclass(frozen=True)
class TestedGNMax(Described):
    """The winners of teachers' votes on ``queries`` questions, with little noise where a private test allows it.

    **Law.** Let d be how many teachers would have to change their mind before answers with discrete Gaussian noise σ
    might cost more than (ε, δ), and −1 where they do already. Discrete Laplace noise of scale 1/``test`` is added to
    d. Where the sum reaches ``margin``, noise σ is added to every vote, and the noise of ``safe`` where it does not;
    the label with the most votes of each row is released, and nothing else.

    **Spend.** ``Approximate(ε + test, 2δ)``, whatever the votes are.

    **Proof.** *Cost of one answer.* Let the first label of a row lead by g. Discrete Gaussian noise is subgaussian, so
    another of the Y labels wins with probability at most q = (Y−1)e^(−g²/4σ²). One teacher moves two votes of a row by
    one, so a row has a Rényi divergence of at most α/σ², and where q is small of at most Theorem 6 of the source, which
    holds for any mechanism with that curve and any bound q. The smaller of both, made monotone by taking the
    smallest value at g or any smaller lead (whose q is a bound as well), is F(g). Rows have independent noise: the sum
    over rows bounds the divergence from this table's answers to any neighbor's, and an order whose sum converts
    to ε at δ shows P(S) ≤ e^ε P′(S) + δ for every neighbor.
    *Sensitivity of d.* d is the largest t ≥ 0, up to a limit, for which that holds when every lead is 2t smaller, or
    −1. A teacher changes each count by at most one, so each lead by at most two; F is monotone, and sums are of whole
    numbers: a neighbor's d is at least d − 1. So the test alone is ``test``-private.
    *Together.* Where d ≥ 0, this table's answers with σ satisfy (ε, δ) against every neighbor's, and those of ``safe``
    always do: with the test, (ε + test, δ). Where d = −1, σ is used with probability at most δ, because the noise must
    reach margin + 1; otherwise ``safe`` is: (ε + test, 2δ). The inequality is needed for the first of two tables
    only, and each takes a turn at being the first.

    **Covers the labels only**: released votes would tell more than q says. It is for votes of which one unit moves two
    per row, so teachers' votes only.

    **Source.** C. Dwork and J. Lei, Differential privacy and robust statistics, STOC 2009 (propose, test, release);
    N. Papernot et al., Scalable private learning with PATE, ICLR 2018 (Theorem 6); R. Redberg, Y. Zhu and Y.-X. Wang,
    Generalized PTR, AISTATS 2023 (data-dependent costs tested). Two noises instead of a refusal, the distance in
    teachers and the integer noise are Tacit's own.

    >>> mechanism = TestedGNMax(2, queries=4, epsilon=2, delta="1e-6", test="1/2")
    >>> mechanism.spend, mechanism.margin
    (Approximate(epsilon=Fraction(5, 2), delta=Fraction(1, 500000)), 26)
    >>> agreed, contested = (np.tile([[top, 0, 0]], (4, 1)) for top in (500, 3))
    >>> mechanism.distance(agreed) > mechanism.margin, mechanism.distance(contested)
    (True, -1)
    """

    __test__ = False  # its name is not that of a class of tests

    name = "tested-votes"
    statistic = "table"
    releases = "labels"
    parameters: ClassVar[Parameters] = {
        "sigma": EXACT, "queries": COUNT, "epsilon": EXACT, "delta": EXACT, "test": EXACT,
    }  # fmt: skip

    sigma: Fraction
    queries: int
    epsilon: Fraction
    delta: Fraction
    test: Fraction

    def __init__(self, sigma: Number, queries: int, epsilon: Number, delta: Number, test: Number) -> None:
        object.__setattr__(self, "sigma", in_range(sigma, "sigma", "1e-6", "1e12"))
        object.__setattr__(self, "queries", asked_queries(queries))
        for name, value in (("epsilon", epsilon), ("test", test)):
            # Beyond, an answer would take its holder longer than any honest one.
            object.__setattr__(self, name, in_range(positive(value, name), name, "1e-4", "1e4"))
        chance = probability(delta, "delta")
        if not Fraction(1, 10**30) <= chance <= Fraction(1, 100):
            raise InvalidInput(f"delta must be in [1e-30, 0.01], got {float(chance):g}")
        object.__setattr__(self, "delta", chance)

    @property
    def spend(self) -> Approximate:
        """What the labels and the test cost."""
        return Approximate(self.epsilon + self.test, 2 * self.delta)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """How far the votes may move."""
        return Sensitivity(l1=2 * self.queries, linf=1)

    @property
    def margin(self) -> int:
        """What the noisy distance must reach: from −1 it does so with a probability of at most δ."""
        # P(noise > m) = e^(−(m+1)·test)/(1 + e^−test), with room for float errors.
        test = float(self.test)
        return math.ceil((-math.log(float(self.delta)) - math.log1p(math.exp(-test))) / test + _ROOM) - 1

    @cached_property
    def safe(self) -> DiscreteGaussianNoise:
        """The noise that keeps all rows within (ε, δ), whatever the votes are."""
        return DiscreteGaussianNoise.for_budget(self.epsilon, self.delta, 2 * self.queries, True, 1, Rule.PLANNED)

    def distance(self, votes: NDArray[Any]) -> int:
        """How many teachers may change before answers with σ might cost more than (ε, δ); −1 if none: private.

        It is no more than twice the margin, beyond which it makes no difference.
        """
        rows = np.partition(count_rows(votes), -2, axis=1)
        leads: Integers = rows[:, -1] - rows[:, -2]
        costs, budgets = self._costs(int(leads.max(initial=0)), np.shape(votes)[1])
        low, high = -1, 2 * self.margin
        while low < high:
            middle = (low + high + 1) // 2
            total = costs[:, np.maximum(leads - 2 * middle, 0)].sum(axis=1)
            low, high = (middle, high) if (total <= budgets).any() else (low, middle - 1)
        return low

    def _costs(self, longest: int, classes: int) -> tuple[Integers, Integers]:
        """What a row costs at each order by its lead, and what all rows may: whole numbers, rounded against the test.

        Above a budget it does not matter how far, so that sums stay small; a lead with next to no doubt left is like
        any longer one.
        """
        from tacit.accounting.pate import gaussian_divergence

        sigma, epsilon, delta = float(self.sigma), float(self.epsilon), float(self.delta)
        certain = math.ceil(2 * sigma * math.sqrt(math.log(classes) - math.log(delta) + 60))
        known = min(longest, certain)
        errors = log_errors(sigma, classes, known)
        costs, budgets = [], []
        for order in _ORDERS:
            added = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
            budget = math.floor(min(1.0, (epsilon - added) / epsilon) * _PARTS * (1 - _ROOM)) - 1
            if budget <= 0:
                continue
            found = np.array([gaussian_divergence(error, sigma, order) for error in errors])
            parts = np.minimum(np.ceil(found / epsilon * _PARTS * (1 + _ROOM)) + 1, budget + 1)
            row = np.minimum.accumulate(parts).astype(np.int64)
            costs.append(np.append(row, np.full(longest - known, row[-1])))
            budgets.append(budget)
        if not costs:  # no order converts to so small an ε at this δ: nothing is within it
            return np.ones((1, longest + 1), dtype=np.int64), np.zeros(1, dtype=np.int64)
        return np.array(costs), np.array(budgets)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The label of every row.

        >>> from tacit.core.randomness import SeededRandomness
        >>> votes = np.tile([[500, 0, 0], [0, 0, 500]], (2, 1))
        >>> TestedGNMax(10, 4, 2, "1e-6", "1/2").sample(votes, SeededRandomness(1)).tolist()
        [0, 2, 0, 2]
        """
        votes = count_rows(value)
        if len(votes) != self.queries:
            raise InvalidInput(f"table must have one row for each of the {self.queries} queries, got {len(votes)}")
        labels: Integers = self._drawn(votes, 1, randomness)[0]
        return labels

    def _drawn(self, votes: Integers, count: int, randomness: Randomness) -> Integers:
        """The labels of that many independent runs, (count, queries)."""
        noisy = self.distance(votes) + laplace_integers(1 / self.test, count, randomness)
        labels = np.empty((count, len(votes)), dtype=np.int64)
        for chosen, sigma in ((noisy >= self.margin, self.sigma), (noisy < self.margin, self.safe.sigma)):
            runs = int(chosen.sum())
            noise = gaussian_integers(sigma, runs * votes.size, randomness).reshape(runs, *votes.shape)
            labels[chosen] = np.argmax(votes + noise, axis=2)
        return labels

    def answer_form(self, rows: int, columns: int, limit: int) -> Numbers:
        """One label per row."""
        return Numbers((rows,), 0, columns - 1)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One teacher changes its vote in all rows, where the test just passes: how many rows have another label."""

        def tested(epsilon: Fraction, delta: Fraction) -> list[Check]:
            half = (_AUDITED_ROWS, epsilon / 2, delta / 2, epsilon / 2)
            mechanism = cls(cls(1, *half).safe.sigma / 2, *half)

            def passes(lead: int) -> bool:
                return mechanism.distance(np.tile([[lead, 0]], (_AUDITED_ROWS, 1))) > mechanism.margin

            # With the noise of ``safe`` such a lead is lost in a row or two, with the other noise in none.
            lead = bisect_left(range(round(_FAR * mechanism.sigma)), True, key=passes)

            def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
                labels: Integers = mechanism._drawn(np.tile([row], (_AUDITED_ROWS, 1)), count, randomness).sum(axis=1)
                return labels

            spent = mechanism.spend
            return [Target("pate-tested", spent.epsilon, spent.delta, ((lead, 0), (lead - 1, 1)), draw, 10)]

        return {"pate-tested": tested}


def log_errors(sigma: float, classes: int, longest: int) -> list[float]:
    """The log of what bounds the chance that another label wins, for every lead in votes up to the longest.

    Discrete Gaussian noise is subgaussian: one other label wins with probability at most e^(−lead²/4σ²).

    >>> [round(each, 2) for each in log_errors(2.0, 3, 6)]
    [0.0, 0.0, 0.0, 0.0, -0.31, -0.87, -1.56]
    """
    return [min(0.0, math.log(classes - 1) - (lead / (2 * sigma)) ** 2) for lead in range(longest + 1)]


def contested_sigma(epsilon: Number, delta: Number, contested: int) -> Fraction:
    """The noise at which that many rows without any agreement, and little more, stay within (ε, δ).

    A row costs at most α/σ² at order α; a twentieth of ε is left to rows on which teachers agree.

    >>> round(float(contested_sigma(2, "1e-6", 25)), 2), round(float(contested_sigma(2, "1e-6", 100)), 2)
    (17.71, 35.41)
    """
    room, chance = (1 - _AGREED) * float(positive(epsilon, "epsilon")), float(probability(delta, "delta"))
    found = []
    for order in _ORDERS:
        left = room - math.log1p(-1 / order) + (math.log(chance) + math.log(order)) / (order - 1)
        if left > 0:
            found.append(math.sqrt(asked_queries(contested) * order / left))
    if not found:
        raise InvalidInput(f"epsilon {float(room):.3g} is too small for a test of votes: leave out contested")
    return rounded_up(min(found))
