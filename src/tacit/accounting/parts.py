"""The parts of a cost: every nested spend as a count of indivisible ones, in the one place that counts.

Accountants that thread a count by hand through nested events drop it sooner or later (``dp_accounting`` 0.6
does, for repeated randomized response). Here nesting is resolved once, before any accountant looks, so
"n times" and "composed of n" cannot differ: both become the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import assert_never

from tacit.core.spend import (
    Approximate,
    Composed,
    DiscreteGaussian,
    Gaussian,
    Pure,
    RandomizedResponse,
    Repeated,
    Spend,
    Stability,
    Subsampled,
)

__all__ = ["Part", "Parts", "basic_epsilon", "largest_epsilon", "own_delta", "parts_of"]

Part = Pure | RandomizedResponse | Approximate | Gaussian | DiscreteGaussian | Subsampled | Stability
Parts = Mapping[Part, int]


def parts_of(spends: Iterable[Spend]) -> dict[Part, int]:
    """How often each indivisible spend occurs, in order of first occurrence.

    >>> parts_of([Repeated(Composed(Pure(1), Repeated(Pure(2), 3)), 10), Pure(1)])
    {Pure(epsilon=Fraction(1, 1)): 11, Pure(epsilon=Fraction(2, 1)): 30}
    """
    counts: dict[Part, int] = {}
    # An explicit stack, because a spend that was nested step by step may be deeper than Python recurses.
    waiting: list[tuple[Spend, int]] = [(spend, 1) for spend in spends][::-1]
    while waiting:
        spend, times = waiting.pop()
        match spend:
            case Repeated(inner, count):
                waiting.append((inner, times * count))
            case Composed(inside):
                waiting.extend((each, times) for each in inside[::-1])
            case (
                Pure()
                | RandomizedResponse()
                | Approximate()
                | Gaussian()
                | DiscreteGaussian()
                | Subsampled()
                | Stability()
            ):
                counts[spend] = counts.get(spend, 0) + times
            case _:
                assert_never(spend)
    return counts


def own_delta(parts: Parts) -> Fraction:
    """The sum of the δ that parts carry themselves: failure probabilities no accountant can convert away.

    >>> own_delta(parts_of([Approximate(1, "1e-6"), Stability("1/100"), Pure(3)]))
    Fraction(10001, 1000000)
    """
    return sum(
        (count * part.delta for part, count in parts.items() if isinstance(part, Approximate | Stability)),
        Fraction(0),
    )


def basic_epsilon(parts: Parts) -> Fraction | None:
    """The exact sum of ε, or nothing when some part has no ε of its own (a Gaussian has one only for a δ).

    >>> basic_epsilon(parts_of([Repeated(Pure("1/3"), 3), Approximate(1, "1e-6"), Stability("1/100")]))
    Fraction(2, 1)
    >>> basic_epsilon(parts_of([Pure(1), Gaussian(4)])) is None
    True
    """
    total = Fraction(0)
    for part, count in parts.items():
        match part:
            case Pure(epsilon) | RandomizedResponse(epsilon, _) | Approximate(epsilon, _):
                total += count * epsilon
            case Stability():
                continue
            case Gaussian() | DiscreteGaussian() | Subsampled():
                return None
            case _:
                assert_never(part)
    return total


def largest_epsilon(parts: Parts) -> Fraction:
    """The largest ε that a single part states.

    >>> largest_epsilon(parts_of([Repeated(Pure(1), 5), Approximate(2, "1e-6"), Gaussian(1)]))
    Fraction(2, 1)
    """
    return max(
        (part.epsilon for part in parts if isinstance(part, Pure | RandomizedResponse | Approximate)),
        default=Fraction(0),
    )
