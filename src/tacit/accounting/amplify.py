"""Amplification by shuffling: what n local ε₀-DP messages cost a record once a shuffler has mixed them.

Adjacency is replace-one, one message a record, and the shuffler is trusted. Four bounds are proven for every local
randomizer; ``tightest`` takes the smallest and names it. (E₀ = e^ε₀.)

    closed form (2021)       log(1 + (E₀−1)/(E₀+1)·(8√(E₀ log(4/δ)/n) + 8E₀/n)),   ε₀ ≤ log(n/(16 log(2/δ)))
    closed form (2022)       log(1 + (E₀−1)(4√(2 log(4/δ)/((E₀+1)n)) + 4/n)),      ε₀ ≤ log(n/(8 log(2/δ)) − 1)
    numeric clones (2021)    clones with probability e^(−ε₀), for every n
    numeric clones (2022)    clones with probability 2/(E₀+1), for every n

The closed forms are for reports and by-hand checks; the numeric ones are tighter everywhere.

A fifth, the variation ratio, is published for randomizers whose outputs on two inputs differ by at most β in total
variation: α = β/(E₀−1), clones with probability 2α, the victim left with αE₀, right with α, else silent. It is kept
because published figures use it, and never chosen: it forgets that a silent victim's message can be told from other
messages, and enumerating five messages of three-way randomized response exceeds it (see the tests). What is proven
for a given mechanism, and close to it, is the privacy blanket that the shuffled mechanisms use.

Source: Feldman, McMillan & Talwar 2021 (FOCS) and 2022 (SODA); Wang et al. 2024 (VLDB; variation ratio).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from tacit.accounting.clones import Clones
from tacit.accounting.monotone import bisect
from tacit.core.errors import InvalidInput
from tacit.core.rational import Number, exact, positive, rounded_down, rounded_up
from tacit.core.spend import Approximate

__all__ = [
    "CLOSED",
    "PROVEN",
    "Amplified",
    "Bound",
    "amplified_epsilon",
    "collision_variation",
    "largest_local_epsilon",
    "response_variation",
    "tightest",
]

# The share of δ that rows left out of a numeric bound may hold; it moves ε in the ninth digit.
TOLERANCE = 1e-9
# Bisection stops here; results are rounded to DIGITS on the safe side.
RESOLUTION = 1e-11
DIGITS = 9
# No local randomizer is used beyond this; e^50 messages would be needed to hide it.
LARGEST_LOCAL_EPSILON = 50.0


class Bound(StrEnum):
    """The bounds, as reports name them; all but the last are proven."""

    CLOSED_2021 = "closed form (2021)"
    CLOSED_2022 = "closed form (2022)"
    NUMERIC_2021 = "numeric clones (2021)"
    NUMERIC_2022 = "numeric clones (2022)"
    VARIATION = "variation ratio (published, refuted)"


CLOSED = (Bound.CLOSED_2021, Bound.CLOSED_2022)
PROVEN = (*CLOSED, Bound.NUMERIC_2021, Bound.NUMERIC_2022)


@dataclass(frozen=True)
class Amplified:
    """A shuffled guarantee and the bound that proves it.

    >>> Amplified(Fraction(1, 2), Fraction(1, 10**6), Bound.NUMERIC_2022).spend
    Approximate(epsilon=Fraction(1, 2), delta=Fraction(1, 1000000))
    """

    epsilon: Fraction
    delta: Fraction
    bound: Bound

    @property
    def spend(self) -> Approximate:
        """What one shuffled round costs a record."""
        return Approximate(self.epsilon, self.delta)


def response_variation(local_epsilon: float, classes: int) -> float:
    """β of randomized response over ``classes`` answers: (E₀ − 1)/(E₀ + m − 1).

    >>> round(response_variation(1.0, 2), 6)
    0.462117
    """
    if classes < 2:
        raise InvalidInput(f"classes must be at least 2, got {classes}")
    return math.expm1(local_epsilon) / (math.exp(local_epsilon) + classes - 1)


def collision_variation(local_epsilon: float, items: int, length: int) -> float:
    """β of Collision with ``items`` hashed values c and output ``length`` l: c(E₀ − 1)/(cE₀ + l − c).

    >>> round(collision_variation(4.0, 1, 56), 6)
    0.489042
    """
    if not 1 <= items < length:
        raise InvalidInput(f"items must be at least 1 and below the length {length}, got {items}")
    return items * math.expm1(local_epsilon) / (items * math.exp(local_epsilon) + length - items)


def amplified_epsilon(
    bound: Bound, messages: int, local_epsilon: Number, delta: Number, variation: float | None = None
) -> float:
    """ε at δ after shuffling ``messages`` local messages, by one bound.

    ``variation`` is the randomizer's β; the variation ratio needs it, the others ignore it.

    >>> round(amplified_epsilon(Bound.CLOSED_2022, 10**5, 4, 1e-6), 6)
    0.407793
    >>> round(amplified_epsilon(Bound.NUMERIC_2022, 10**5, 4, 1e-6), 6)
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
    # At ε₀ itself the divergence is 0, so an answer exists.
    return bisect(lambda epsilon: pair.delta(epsilon, TOLERANCE * limit) <= limit, local, 0.0, RESOLUTION)


def tightest(messages: int, local_epsilon: Number, delta: Number) -> Amplified:
    """The smallest ε proven for every local randomizer, rounded up, and the bound that proves it.

    >>> found = tightest(10**5, 4, 1e-6)
    >>> round(float(found.epsilon), 6), str(found.bound)
    (0.118153, 'numeric clones (2022)')
    """
    local, limit = positive(local_epsilon, "local_epsilon"), _checked(messages, delta)
    candidates = {
        bound: amplified_epsilon(bound, messages, local, delta)
        for bound in PROVEN
        if bound not in CLOSED or local <= _closed_range(bound, messages, limit)
    }
    best = min(candidates, key=lambda bound: candidates[bound])
    return Amplified(rounded_up(candidates[best], DIGITS), exact(delta, "delta"), best)


def largest_local_epsilon(messages: int, epsilon: Number, delta: Number, bound: Bound = Bound.NUMERIC_2022) -> Fraction:
    """The largest ε₀ whose shuffled messages stay within (ε, δ) by one proven bound, rounded down.

    Bisects δ(ε₀) at the fixed ε, one loop; never below ε itself, which needs no shuffling.

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
        return _pair(bound, messages, local, None).delta(goal, TOLERANCE * limit) <= limit

    unshuffled = exact(epsilon, "epsilon")
    found = bisect(holds, goal, LARGEST_LOCAL_EPSILON, RESOLUTION)
    return max(unshuffled, rounded_down(found, DIGITS))


def _checked(messages: int, delta: Number) -> float:
    if messages < 1:
        raise InvalidInput(f"messages must be at least 1, got {messages}")
    limit = exact(delta, "delta")
    if not 0 < limit < 1:
        raise InvalidInput(f"delta must be in (0, 1) for amplification by shuffling, got {delta}")
    return float(limit)


def _closed_range(bound: Bound, messages: int, delta: float) -> float:
    """The largest ε₀ for which a closed form is proven; below 0 when there are too few messages for any."""
    logarithm = math.log(2 / delta)
    if bound is Bound.CLOSED_2021:
        return math.log(messages / (16 * logarithm))
    room = messages / (8 * logarithm) - 1
    return math.log(room) if room > 0 else -math.inf


def _closed(bound: Bound, messages: int, local: float, delta: float) -> float:
    growth, logarithm = math.exp(local), math.log(4 / delta)
    if bound is Bound.CLOSED_2021:
        spread = 8 * math.sqrt(growth * logarithm / messages) + 8 * growth / messages
        return math.log1p(math.tanh(local / 2) * spread)
    spread = 4 * math.sqrt(2 * logarithm / ((growth + 1) * messages)) + 4 / messages
    return math.log1p((growth - 1) * spread)


def _pair(bound: Bound, messages: int, local: float, variation: float | None) -> Clones:
    growth = math.exp(local)
    if bound is Bound.NUMERIC_2021:
        return Clones(messages - 1, 1 / growth, growth / (growth + 1), 1 / (growth + 1))
    if bound is Bound.NUMERIC_2022:
        return Clones(messages - 1, 2 / (growth + 1), growth / (growth + 1), 1 / (growth + 1))
    if variation is None:
        raise InvalidInput("variation must be given for the variation ratio: it is a property of the randomizer")
    largest = math.tanh(local / 2)
    if not 0 < variation <= largest * (1 + 1e-12):
        raise InvalidInput(f"variation must be in (0, {largest:.6g}] at local epsilon {local:g}, got {variation:g}")
    share = variation / (growth - 1)
    return Clones(messages - 1, 2 * share, share * growth, share)
