"""The exponential mechanism: the classic way to select a label, kept to be compared with permute-and-flip."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.lower_bounds import provable_epsilon
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness, uniform_below
from tacit.mechanisms.auditing import PURE, Check, rowwise
from tacit.mechanisms.central.counts import RowSelection, count_rows
from tacit.mechanisms.description import Checks
from tacit.mechanisms.exact import bernoulli_exp

__all__ = ["ExponentialMechanism"]


class ExponentialMechanism(RowSelection):
    """Selects one label in every row of a table of counts, each in proportion to e^(λ·count).

    **Law.** P(y) = e^(λq_y) / Σ_j e^(λq_j), where λ is ``rate``. Drawn by rejection: a uniform label is kept with
    probability e^(−λ(max − q_y)), so at most Y tries a row are expected.

    **Spend.** ``Pure(rate · row_range)``, the same as permute-and-flip, which errs less at every count.

    **Proof.** Let the counts of a row rise by at most a and fall by at most b. The numerator then changes by a
    factor in [e^(−λb), e^(λa)], and so does the denominator; the quotient changes by at most e^(λ(a+b)). Rows are
    independent, so their exponents add.

    **Covers the labels only**, as permute-and-flip does: no count and no score may be released beside them.

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
        """Two labels, one ahead: the further, the nearer to ε, and the rarer the event that shows it."""

        def selected(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls.for_epsilon(epsilon, row_range=2)
            leads = np.unique(np.geomspace(1, 2 + 10 / float(mechanism.rate), 100).astype(np.int64))
            behind, level = (mechanism.pmf(np.stack([leads - one, 0 * leads + one], axis=1))[:, 1] for one in (0, 1))
            ahead = int(leads[provable_epsilon(level, behind).argmax()])
            inputs = ((ahead, 0), (ahead - 1, 1))
            return [rowwise(cls.name, (mechanism.spend.epsilon, PURE), lambda rows: mechanism, inputs)]

        return {cls.name: selected}
