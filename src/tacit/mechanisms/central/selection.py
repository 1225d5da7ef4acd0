"""Private selection of one label per row, without counts: permute-and-flip and the exponential mechanism.

Permute-and-flip, which is report noisy max with exponential noise, has the smallest known error at its cost; the
exponential mechanism is here for comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, Randomness, permutations, uniform_below
from tacit.mechanisms.auditing import PURE, SELECTED, Check, provable_epsilon, rowwise
from tacit.mechanisms.central.counts import RowSelection, count_rows
from tacit.mechanisms.description import Checks
from tacit.mechanisms.exact import bernoulli_exp

__all__ = ["ExponentialMechanism", "PermuteAndFlip"]


class ExponentialMechanism(RowSelection):
    """Selects one label in every row of a table of counts, with probability proportional to e^(λ·count).

    **Law.** P(y) = e^(λq_y) / Σ_j e^(λq_j), where λ is ``rate``. Drawn by rejection: a uniform label is accepted with
    probability e^(−λ(max − q_y)), so at most Y tries per row are expected.

    **Spend.** ``Pure(rate · row_range)``, the same as permute-and-flip, which has a smaller error for all counts.

    **Proof.** Let the counts of a row rise by at most a and fall by at most b. The numerator then changes by a
    factor in [e^(−λb), e^(λa)], and so does the denominator; the quotient changes by at most e^(λ(a+b)). Rows are
    independent, so their exponents add.

    **Covers the labels only**, as permute-and-flip does: no count and no score may be released with them.

    **Source.** F. McSherry and K. Talwar, Mechanism design via differential privacy, FOCS 2007.

    >>> mechanism = ExponentialMechanism.for_epsilon(1, row_range=2)
    >>> mechanism.spend
    Pure(epsilon=Fraction(1, 1))
    >>> mechanism.pmf(np.array([5, 3, 4])).round(6).tolist()
    [0.50648, 0.186324, 0.307196]
    """

    name = "exponential-mechanism"

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """One label per row, for a table of integer counts with one row per query.

        >>> from tacit.core.randomness import SeededRandomness
        >>> ExponentialMechanism(1, 2).sample(np.array([[90, 0, 0], [0, 0, 90]]), SeededRandomness(1)).tolist()
        [0, 2]
        """
        table = count_rows(value)
        gaps = table.max(axis=1, keepdims=True) - table  # (s, Y)
        labels = np.empty(len(table), dtype=np.int64)
        waiting = np.arange(len(table))
        while len(waiting):
            picked = uniform_below(table.shape[1], len(waiting), randomness)
            kept = bernoulli_exp(gaps[waiting, picked], 1 / self.rate, randomness)
            labels[waiting[kept]] = picked[kept]
            waiting = waiting[~kept]
        return labels

    def pmf(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """The probability of every label, along the last axis."""
        scores = np.asarray(scores)
        gaps = (scores.max(axis=-1, keepdims=True) - scores).astype(np.float64)
        weights = np.exp(-gaps * float(self.rate))
        law: NDArray[np.float64] = weights / weights.sum(axis=-1, keepdims=True)
        return law

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Two labels, one ahead: the larger its lead, the nearer to ε, and the rarer the event that proves it."""

        def selected(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls.for_epsilon(epsilon, row_range=2)
            leads = np.unique(np.geomspace(1, 2 + 10 / float(mechanism.rate), 100).astype(np.int64))
            behind, level = (mechanism.pmf(np.stack([leads - one, 0 * leads + one], axis=1))[:, 1] for one in (0, 1))
            ahead = int(leads[provable_epsilon(level, behind).argmax()])
            inputs = ((ahead, 0), (ahead - 1, 1))
            return [rowwise(cls.name, (mechanism.spend.epsilon, PURE), lambda rows: mechanism, inputs)]

        return {cls.name: selected}


class PermuteAndFlip(RowSelection):
    """Selects one label in every row of a table of counts: report noisy max with exponential noise.

    **Law.** Take the labels of a row in a uniformly random order and stop at label y with probability
    p_y = e^(−λ(max − q_y)), where λ is ``rate``; a label with the largest count always stops, so one is always
    found. Then P(y) = p_y ∫₀¹ ∏_{j≠y} (1 − p_j u) du: give every label a uniform time u; y is selected if it stops and
    none with an earlier time does. It is also the law of the argmax of q_y + Exponential(λ): substitute
    u = e^(−λ(v − max)) for the winning value v.

    **Spend.** ``Pure(rate · row_range)``, where row_range is the sum over rows of (largest rise + largest fall) when
    one privacy unit changes. Replacing a record that votes in k rows gives 2k, whatever its number of labels.

    **Proof.** Let the counts of a row rise by at most a and fall by at most b. Adding b to every count of the new row
    changes no gap and so no probability; after it no count falls, and none rises by more than a + b. Take the argmax
    form and fix the noise of all labels but y: y wins if its noise exceeds t = max_{j≠y}(q_j + noise_j) − q_y, and t
    changes by at most a + b. The survival function of the exponential, min(1, e^(−λt)), then changes by a factor of at
    most e^(λ(a+b)). Rows are independent, so their exponents add. The bound is reached in the limit of a label far
    behind another: it is tight.

    **Covers the labels only.** Releasing a count, the winning score, or the fact that a row was empty voids the
    guarantee; so every row gets a label, empty ones too. The gap to the runner-up is not released: for counts it is not
    known to be private at this cost.

    **Source.** R. McKenna and D. Sheldon, Permute-and-Flip: a new mechanism for differentially private
    selection, NeurIPS 2020. The argmax form is due to Z. Ding et al., 2021.

    >>> mechanism = PermuteAndFlip.for_epsilon(1, row_range=2)
    >>> mechanism.spend, mechanism.max_sensitivity.row_range
    (Pure(epsilon=Fraction(1, 1)), 2)
    >>> mechanism.pmf(np.array([5, 3, 4])).round(6).tolist()
    [0.587172, 0.146751, 0.266077]
    """

    name = "permute-and-flip"
    option = "permute-and-flip"
    offers = "only labels are released, so permute-and-flip is the best pure mechanism"

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """One label per row, for a table of integer counts with one row per query.

        >>> from tacit.core.randomness import SeededRandomness
        >>> PermuteAndFlip(1, 2).sample(np.array([[90, 0, 0], [0, 0, 90]]), SeededRandomness(1)).tolist()
        [0, 2]
        """
        table = count_rows(value)
        gaps = table.max(axis=1, keepdims=True) - table  # (s, Y)
        stops = bernoulli_exp(gaps.ravel(), 1 / self.rate, randomness).reshape(gaps.shape)
        order = permutations(gaps.shape[0], gaps.shape[1], randomness)
        first = np.take_along_axis(stops, order, axis=1).argmax(axis=1)
        labels: Integers = np.take_along_axis(order, first[:, None], axis=1)[:, 0]
        return labels

    def pmf(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """The probability of every label, along the last axis, to about 14 digits.

        The integrand is a polynomial of degree Y − 1, which Gauss-Legendre quadrature with Y/2 nodes integrates
        exactly; its terms are positive, so nothing cancels.
        """
        scores = np.asarray(scores)
        gaps = (scores.max(axis=-1, keepdims=True) - scores).astype(np.float64)
        stop = np.exp(-gaps * float(self.rate))  # (..., Y)
        nodes, weights = np.polynomial.legendre.leggauss((scores.shape[-1] + 1) // 2)
        passes = 1 - stop[..., None] * (nodes + 1) / 2  # (..., Y, nodes)
        others = passes.prod(axis=-2, keepdims=True) / passes
        law: NDArray[np.float64] = stop * (others @ weights) / 2
        return law

    def lead(self, classes: int, error: float) -> float:
        """The lead in votes at which a row's label is wrong with probability ``error``, all others being equal."""
        from tacit.mechanisms.accuracy import gap_needed

        return gap_needed("permute-and-flip", classes, error) / float(self.rate)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Two labels with 2 votes to 0, or 1 to 1: the second is selected exactly e^ε times as often."""

        def selected(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls.for_epsilon(epsilon, row_range=2)
            return [rowwise(cls.name, (mechanism.spend.epsilon, PURE), lambda rows: mechanism, SELECTED)]

        return {cls.name: selected}
