"""Privacy amplification by shuffling: the (ε, δ) of n local ε₀-DP messages after a shuffler has permuted them.

Adjacency is replace-one, one message per record, and the shuffler is trusted. Four bounds are proven for every local
randomizer. E₀ stands for e^ε₀.

    closed form (2021)       log(1 + (E₀−1)/(E₀+1)·(8√(E₀ log(4/δ)/n) + 8E₀/n)),   ε₀ ≤ log(n/(16 log(2/δ)))
    closed form (2022)       log(1 + (E₀−1)(4√(2 log(4/δ)/((E₀+1)n)) + 4/n)),      ε₀ ≤ log(n/(8 log(2/δ)) − 1)
    numeric clones (2021)    clones with probability e^(−ε₀), for every n
    numeric clones (2022)    clones with probability 2/(E₀+1), for every n

The closed forms are for reports and checks by hand; the numeric bounds are tighter everywhere.

A fifth bound, the variation ratio, is published for randomizers whose outputs on two inputs differ by at most β in
total variation: α = β/(E₀−1), clones with probability 2α; the victim adds to the left with probability αE₀, to the
right with α, and otherwise to neither. It is here because published figures use it, and is never chosen: it ignores
that the victim's message can then be distinguished from the others, and the exact δ of five messages of three-way
randomized response exceeds it (see the tests). The privacy blanket, which the shuffled mechanisms use, is proven for a
given mechanism and nearly as small.

Source: Feldman, McMillan & Talwar 2021 (FOCS) and 2022 (SODA); Wang et al. 2024 (VLDB; variation ratio).

The numeric bounds come from one pair of distributions. Each other message is, with some probability, a clone: it equals
either of the two messages that the victim might have sent, with equal probability. So the shuffled messages contain
C ~ Bin(n−1, clone) clones, A ~ Bin(C, ½) of them on the left. The victim adds one to the left with probability
``left``, to the right with probability ``right``, and otherwise nothing; on the neighboring data the two are exchanged.
If the victim always adds one, the rest of the output is post-processing of the two counts, and the pair dominates every
ε₀-DP randomizer it is built for. If it may add nothing, this does not hold: the pair is only what the variation ratio
claims.

Law: let t be the total and u the left count, w₁ = P(C = t−1), w₀ = P(C = t), s = 1 − left − right. Then

    P(u, t) = w₁(left·b(u−1) + right·b(u)) + w₀·s·b'(u),    b = Bin(t−1, ½), b' = Bin(t, ½),

and Q exchanges left and right. P/Q increases with u, so P > e^ε·Q exactly above one threshold a_t in each row t, and

    δ(ε) = Σ_t [P(U > a_t, t) − e^ε·Q(U > a_t, t)]₊.

Because b'(U > a) is the mean of b(U > a) and b(U > a−1), two incomplete beta functions per row are enough: O(√n) of
them instead of a double sum over n² pairs. With N = n−1, P = clone and L = log(2/tolerance), rows farther from NP than
L/3 + √(L²/9 + 2NP(1−P)L) have a mass of at most ``tolerance`` by Bernstein's inequality, which is added to δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tacit.core import InvalidInput, Number, Reals, bisect, exact, positive, rounded_down

__all__ = [
    "CLOSED",
    "PROVEN",
    "AmplificationBound",
    "Clones",
    "amplified_epsilon",
    "largest_local_epsilon",
]


@dataclass(frozen=True)
class Clones:
    """The pair of distributions for one victim among ``others`` messages.

    >>> pair = Clones(others=49, clone=2 / (math.e + 1), left=math.e / (math.e + 1), right=1 / (math.e + 1))
    >>> f"{pair.delta(0.3):.9e}"
    '4.089086358e-03'
    """

    others: int
    clone: float
    left: float
    right: float

    def __post_init__(self) -> None:
        if self.others < 0:
            raise InvalidInput(f"others must be at least 0, got {self.others}")
        if not 0 <= self.clone < 1:
            raise InvalidInput(f"clone must be in [0, 1), got {self.clone}")
        # Rounding may push a sum that is 1 a little above it.
        if not (0 < self.right < self.left and self.left + self.right <= 1 + 1e-12):
            raise InvalidInput(f"left and right must be 0 < right < left with a sum of at most 1, got {self}")

    def delta(self, epsilon: float, tolerance: float = 0.0) -> float:
        """An upper bound of the hockey-stick divergence of order e^ε; rows of mass ``tolerance`` are bounded by it."""
        growth = math.exp(epsilon)
        silent = max(0.0, 1 - self.left - self.right)
        lowest, highest = self._range(tolerance)
        masses = _masses(lowest - 1, highest, self.others, self.clone)
        before, at = masses[:-1], masses[1:]
        totals = np.arange(lowest, highest + 1, dtype=np.float64)
        # w₀/w₁, without dividing probabilities that may have underflowed.
        odds = (self.others - totals + 1) / totals * (self.clone / (1 - self.clone))
        numerator = 2 * (growth * self.left - self.right) + odds * silent * (growth - 1)
        # The last left count at which P ≤ e^ε·Q; if it reaches the total, the row contributes nothing.
        last = np.floor(totals * numerator / (2 * (self.left - self.right) * (1 + growth)))
        inclusive, exclusive = _tail(last, totals - 1, 0.5), _tail(last + 1, totals - 1, 0.5)
        victim = (self.left - growth * self.right) * inclusive + (self.right - growth * self.left) * exclusive
        nobody = silent * (1 - growth) * (inclusive + exclusive) / 2
        return float(np.sum(np.maximum(before * victim + at * nobody, 0.0))) + tolerance

    def _range(self, tolerance: float) -> tuple[int, int]:
        """The first and last total t, outside of which the number of clones has a mass of at most ``tolerance``."""
        lowest, highest = 1, self.others + 1
        if tolerance > 0:
            mean, length = self.others * self.clone, math.log(2 / tolerance)
            reach = length / 3 + math.sqrt(length**2 / 9 + 2 * mean * (1 - self.clone) * length)
            lowest, highest = max(lowest, math.ceil(mean - reach)), min(highest, math.floor(mean + reach) + 1)
        return lowest, highest


def _tail(counts: Reals, trials: Reals, probability: float) -> Reals:
    """P(Bin(trials, probability) ≥ counts)."""
    from scipy.special import betainc  # slow to import, and only shuffling needs it

    result = np.where(counts <= 0, 1.0, 0.0)
    inner = (counts > 0) & (counts <= trials)
    result[inner] = betainc(counts[inner], trials[inner] - counts[inner] + 1, probability)
    return result


@lru_cache(maxsize=8)
def _masses(lowest: int, highest: int, trials: int, probability: float) -> Reals:
    """P(Bin = k) for lowest ≤ k ≤ highest, as differences of the smaller tail to avoid cancellation.

    Cached, because bisection on ε needs the same values many times.
    """
    edges = np.arange(lowest, highest + 2, dtype=np.float64)
    many = np.full(len(edges), float(trials))
    rising = -np.diff(_tail(edges, many, probability))
    falling = np.diff(_tail(trials - edges + 1, many, 1 - probability))
    masses = np.where(edges[:-1] > trials * probability, rising, falling)
    masses.flags.writeable = False
    return masses


# The fraction of δ for the rows that a numeric bound leaves out; it changes ε in the ninth digit.
_TOLERANCE = 1e-9
# Bisection stops at this resolution; results are rounded to _DIGITS in the conservative direction.
_RESOLUTION = 1e-11
_DIGITS = 9
# No local randomizer is used beyond this ε₀; it would take e^50 messages to amplify it.
LARGEST_LOCAL_EPSILON = 50.0


class AmplificationBound(StrEnum):
    """The bounds by their names in reports; all but the last are proven."""

    CLOSED_2021 = "closed form (2021)"
    CLOSED_2022 = "closed form (2022)"
    NUMERIC_2021 = "numeric clones (2021)"
    NUMERIC_2022 = "numeric clones (2022)"
    VARIATION = "variation ratio (published, refuted)"


CLOSED = (AmplificationBound.CLOSED_2021, AmplificationBound.CLOSED_2022)
PROVEN = (*CLOSED, AmplificationBound.NUMERIC_2021, AmplificationBound.NUMERIC_2022)


def amplified_epsilon(
    bound: AmplificationBound, messages: int, local_epsilon: Number, delta: Number, variation: float | None = None
) -> float:
    """ε at δ after shuffling ``messages`` local messages, by one bound.

    ``variation`` is the randomizer's β; the variation ratio needs it, the others ignore it.

    >>> round(amplified_epsilon(AmplificationBound.CLOSED_2022, 10**5, 4, 1e-6), 6)
    0.407793
    >>> round(amplified_epsilon(AmplificationBound.NUMERIC_2022, 10**5, 4, 1e-6), 6)
    0.118153
    """
    local, limit = float(positive(local_epsilon, "local_epsilon")), _checked(messages, delta)
    if bound in CLOSED:
        largest = _closed_range(bound, messages, limit)
        if local > largest:
            raise InvalidInput(
                f"local_epsilon must be in (0, {largest:.6g}] for the {bound} with {messages} messages and "
                f"delta {limit:g}, got {local:g}"
            )
        return _closed(bound, messages, local, limit)
    if local > LARGEST_LOCAL_EPSILON:
        raise InvalidInput(f"local_epsilon must be in (0, {LARGEST_LOCAL_EPSILON:g}], got {local:g}")
    pair = _pair(bound, messages, local, variation)
    # At ε₀ itself the divergence is 0, so the bisection has a solution.
    return bisect(lambda epsilon: pair.delta(epsilon, _TOLERANCE * limit) <= limit, local, 0.0, _RESOLUTION)


def largest_local_epsilon(
    messages: int, epsilon: Number, delta: Number, bound: AmplificationBound = AmplificationBound.NUMERIC_2022
) -> Fraction:
    """The largest ε₀ whose shuffled messages stay within (ε, δ) by one proven bound, rounded down.

    Bisects δ(ε₀) at the fixed ε; the result is at least ε, which needs no shuffling.

    >>> round(float(largest_local_epsilon(10**4, 0.5, 1e-5)), 6)
    4.599371
    """
    goal, limit = float(positive(epsilon, "epsilon")), _checked(messages, delta)
    if goal >= LARGEST_LOCAL_EPSILON:
        raise InvalidInput(f"epsilon must be in (0, {LARGEST_LOCAL_EPSILON:g}), got {goal:g}")
    if bound not in PROVEN:
        raise InvalidInput(f"bound must be one of the proven ones, {', '.join(PROVEN)}, got {bound}")

    def holds(local: float) -> bool:
        if bound in CLOSED:
            in_range = local <= _closed_range(bound, messages, limit)
            return in_range and _closed(bound, messages, local, limit) <= goal
        return _pair(bound, messages, local, None).delta(goal, _TOLERANCE * limit) <= limit

    unshuffled = exact(epsilon, "epsilon")
    found = bisect(holds, goal, LARGEST_LOCAL_EPSILON, _RESOLUTION)
    return max(unshuffled, rounded_down(found, _DIGITS))


def _checked(messages: int, delta: Number) -> float:
    if messages < 1:
        raise InvalidInput(f"messages must be at least 1, got {messages}")
    limit = exact(delta, "delta")
    if not 0 < limit < 1:
        raise InvalidInput(f"delta must be in (0, 1) for amplification by shuffling, got {delta}")
    return float(limit)


def _closed_range(bound: AmplificationBound, messages: int, delta: float) -> float:
    """The largest ε₀ for which a closed form is proven; negative if there are too few messages."""
    logarithm = math.log(2 / delta)
    if bound is AmplificationBound.CLOSED_2021:
        return math.log(messages / (16 * logarithm))
    room = messages / (8 * logarithm) - 1
    return math.log(room) if room > 0 else -math.inf


def _closed(bound: AmplificationBound, messages: int, local: float, delta: float) -> float:
    growth, logarithm = math.exp(local), math.log(4 / delta)
    if bound is AmplificationBound.CLOSED_2021:
        spread = 8 * math.sqrt(growth * logarithm / messages) + 8 * growth / messages
        return math.log1p(math.tanh(local / 2) * spread)
    spread = 4 * math.sqrt(2 * logarithm / ((growth + 1) * messages)) + 4 / messages
    return math.log1p((growth - 1) * spread)


def _pair(bound: AmplificationBound, messages: int, local: float, variation: float | None) -> Clones:
    growth = math.exp(local)
    if bound is AmplificationBound.NUMERIC_2021:
        return Clones(messages - 1, 1 / growth, growth / (growth + 1), 1 / (growth + 1))
    if bound is AmplificationBound.NUMERIC_2022:
        return Clones(messages - 1, 2 / (growth + 1), growth / (growth + 1), 1 / (growth + 1))
    if variation is None:
        raise InvalidInput("the variation ratio needs variation, the total-variation bound of the randomizer")
    largest = math.tanh(local / 2)
    if not 0 < variation <= largest * (1 + 1e-12):
        raise InvalidInput(f"variation must be in (0, {largest:.6g}] at local epsilon {local:g}, got {variation:g}")
    share = variation / (growth - 1)
    return Clones(messages - 1, 2 * share, share * growth, share)
