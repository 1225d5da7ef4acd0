"""The privacy blanket: amplification by shuffling for one given local mechanism.

Let ω be a measure below the law of every input, of mass γ: with probability γ a participant's message comes from ω/γ
and is independent of its input. Let the victim's input be x or x'. There are three kinds of messages: on L the laws are
(Eω, ω), on R (ω, Eω), E = e^ε₀, and on all others they are equal and at least ω. With a = ω(L) = ω(R), the hockey-stick
divergence of order G = e^ε between the multisets of all n messages is

    δ(ε) ≤ (1/n) E[((E − G)U − (GE − 1)V − (G − 1)W)₊],   (U, V, W, rest) ~ Multinomial(n; a, a, γ − 2a, 1 − γ).

**Proof.** Show the adversary which of the others do not use the blanket, and their messages. What remains, of the
others and the victim, is determined by the numbers of messages of each kind. If u, v, w are on L, R and elsewhere, the
probability of these numbers under x is 1/n times the multinomial one times Eu + v + r, and under x' times u + Ev + r,
where r ≥ w is the sum of (law of x)/ω over the w messages. The hockey-stick divergence of order G is the expectation of
1/n times the positive part of their difference, in which r appears with the factor −(G − 1): w in its place makes it no
smaller.

Given T = U + V the rest is summed exactly: U is a fair binomial, and for every u the expectation over W, also a
binomial, is a difference of two tails. Ranges are truncated by Bernstein's inequality, and the mass outside is added.

The published variation-ratio bound is similar, but does not say among which messages a victim's message of the third
kind is hidden; ``tacit.accounting.amplify`` explains why it is not used.

**Source.** B. Balle, J. Bell, A. Gascón and K. Nissim, The privacy blanket of the shuffle model, CRYPTO 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Reals, bisect

__all__ = ["Blanket"]

# The fraction of δ for truncation, the relative rounding error of δ, and the resolution of ε.
BEYOND, _ROUNDING, _RESOLUTION = 1e-6, 1e-8, 1e-7
# Pairs (t, u) that are summed at a time.
ENTRIES = 2**20


def _reach(variance: NDArray[np.floating[Any]] | float, mass: float) -> Reals:
    """Bernstein's bound on a binomial variable's distance from its mean, exceeded with probability ``mass``."""
    length = math.log(2 / mass)
    return np.asarray(length / 3 + np.sqrt(length**2 / 9 + 2 * np.asarray(variance) * length))


@lru_cache(maxsize=4)
def _log_factorials(largest: int) -> Reals:
    from scipy.special import gammaln  # slow to import, and only planning needs it

    return np.asarray(gammaln(np.arange(largest + 1) + 1.0))


def _at_most(counts: Reals, trials: Integers, probability: float) -> Reals:
    """P(Bin(trials, probability) ≤ counts)."""
    result = np.where(counts >= trials, 1.0, 0.0)
    inner = (counts >= 0) & (counts < trials)
    from scipy.special import betainc

    result[inner] = betainc(trials[inner] - counts[inner], counts[inner] + 1, 1 - probability)
    return result


@dataclass(frozen=True)
class Blanket:
    """The privacy blanket of a local mechanism, for a given overlap of two inputs.

    ``likely`` is a, the blanket's mass on messages that are e^ε₀ times as likely under one of the inputs as under the
    other; ``total`` is γ, its total mass.

    >>> response = Blanket(local_epsilon=4.0, likely=1 / (math.exp(4) + 55), total=56 / (math.exp(4) + 55))
    >>> round(response.epsilon(10_000, 1e-6), 4)
    0.281
    """

    local_epsilon: float
    likely: float
    total: float

    def __post_init__(self) -> None:
        if not self.local_epsilon > 0:
            raise InvalidInput(f"local_epsilon must be above 0, got {self.local_epsilon}")
        # The law of an input has mass one, of which e^ε₀ times ``likely`` is a part.
        if not 0 < self.likely <= self.total / 2 * (1 + 1e-12):
            raise InvalidInput(f"likely must be above 0 and at most half of the total {self.total}, got {self.likely}")
        if not self.likely * (math.exp(self.local_epsilon) - 1) + self.total <= 1 + 1e-9:
            raise InvalidInput(f"likely and total belong to no mechanism: {self}")

    def epsilon(self, messages: int, delta: float) -> float:
        """The smallest ε at which this many shuffled messages are (ε, δ)-DP by this bound; never above ε₀."""
        return bisect(
            lambda epsilon: self.delta(messages, epsilon, delta) <= delta, self.local_epsilon, 0.0, _RESOLUTION
        )

    def delta(self, messages: int, epsilon: float, scale: float) -> float:
        """An upper bound of δ at ε; at most a millionth of ``scale`` is added for truncation."""
        if messages < 1:
            raise InvalidInput(f"messages must be at least 1, got {messages}")
        if epsilon >= self.local_epsilon:
            return 0.0
        factor, growth = math.exp(self.local_epsilon), math.exp(epsilon)
        step = (factor - 1) * (growth + 1)
        # The ranges of three variables are truncated at both ends; no term is above ``step`` times the messages.
        mass = min(0.1, BEYOND * scale / (4 * step))
        both = min(1.0, 2 * self.likely)
        reach = float(_reach(messages * both * (1 - both), mass))
        lowest, highest = max(0, math.ceil(messages * both - reach)), min(messages, math.floor(messages * both + reach))
        totals = np.arange(lowest, highest + 1)
        width = 2 * float(_reach(highest / 4, mass)) + 1
        parts = np.array_split(totals, math.ceil(len(totals) * width / ENTRIES))
        summed = sum(self._given_totals(messages, part, growth, mass) for part in parts)
        return summed * (1 + _ROUNDING) + 4 * step * mass

    def _given_totals(self, messages: int, totals: Integers, growth: float, mass: float) -> float:
        """The expectation over T in ``totals`` of 1/n times (step·U − rent·T − toll·W)₊."""
        factor, both = math.exp(self.local_epsilon), min(1.0, 2 * self.likely)
        step, rent, toll = (factor - 1) * (growth + 1), growth * factor - 1, growth - 1
        elsewhere = min(1.0, max(0.0, self.total - both) / (1 - both)) if both < 1 else 0.0
        trials = messages - totals
        mean, reach = trials * elsewhere, _reach(trials * elsewhere * (1 - elsewhere), mass)
        # Below the first u the positive part is 0 for every W; above the last there is no mass.
        first = np.maximum(0, np.floor((rent * totals + toll * np.maximum(0, mean - reach)) / step)).astype(np.int64)
        last = np.minimum(totals, np.floor(totals / 2 + _reach(totals / 4, mass))).astype(np.int64)
        lefts = first[:, None] + np.arange(max(1, int((last - first).max()) + 1))  # (totals, u)
        row, column = np.nonzero(lefts <= last[:, None])
        left, total, tries = lefts[row, column], totals[row], trials[row]
        log = _log_factorials(messages)
        # T is binomial with n trials, and U given T with T trials of a fair coin.
        log_totals = log[messages] - log[trials] + totals * math.log(both / 2)
        if both < 1:
            log_totals += trials * math.log1p(-both)
        weight = np.exp(log_totals[row] - log[left] - log[total - left])
        gain = step * left - rent * total
        # If W is certainly small enough, the positive part is the difference itself.
        value = gain - toll * mean[row]
        near = gain < toll * (mean + reach)[row]
        most = np.floor(gain[near] / toll) if toll > 0 else gain[near]
        value[near] = gain[near] * _at_most(most, tries[near], elsewhere) - toll * mean[row][near] * _at_most(
            most - 1, tries[near] - 1, elsewhere
        )
        return float(weight @ np.maximum(value, 0)) / messages
