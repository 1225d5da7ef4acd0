"""The parts of a cost: a nested spend as counts of elementary spends; and group privacy.

An accountant that passes counts by hand through nested events may lose one (``dp_accounting`` 0.6 does, for repeated
randomized response). Here nesting is resolved once, before any accountant, so that "n times" and "composed of n" give
the same table.

Group privacy: the cost of a per-record spend for a person with g records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import assert_never

from tacit.core import (
    Approximate,
    Composed,
    DiscreteGaussian,
    Gaussian,
    InvalidInput,
    Pure,
    RandomizedResponse,
    Repeated,
    Spend,
    Stability,
    Subsampled,
    rounded_up,
)

__all__ = ["Part", "SpendParts", "basic_epsilon", "group", "largest_epsilon", "own_delta", "parts_of"]

Part = Pure | RandomizedResponse | Approximate | Gaussian | DiscreteGaussian | Subsampled | Stability
SpendParts = Mapping[Part, int]


def parts_of(spends: Iterable[Spend]) -> dict[Part, int]:
    """How often each elementary spend occurs, in order of first occurrence.

    >>> parts_of([Repeated(Composed(Pure(1), Repeated(Pure(2), 3)), 10), Pure(1)])
    {Pure(epsilon=Fraction(1, 1)): 11, Pure(epsilon=Fraction(2, 1)): 30}
    """
    counts: dict[Part, int] = {}
    # An explicit stack, because spends may be nested deeper than Python's recursion limit.
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


def own_delta(parts: SpendParts) -> Fraction:
    """The sum of the δ that parts have themselves, which no accountant can convert.

    >>> own_delta(parts_of([Approximate(1, "1e-6"), Stability("1/100"), Pure(3)]))
    Fraction(10001, 1000000)
    """
    return sum(
        (count * part.delta for part, count in parts.items() if isinstance(part, Approximate | Stability)),
        Fraction(0),
    )


def basic_epsilon(parts: SpendParts) -> Fraction | None:
    """The exact sum of ε, or None if a part has no ε at δ = 0 (a Gaussian).

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


def largest_epsilon(parts: SpendParts) -> Fraction:
    """The largest ε of a single part.

    >>> largest_epsilon(parts_of([Repeated(Pure(1), 5), Approximate(2, "1e-6"), Gaussian(1)]))
    Fraction(2, 1)
    """
    return max(
        (part.epsilon for part in parts if isinstance(part, Pure | RandomizedResponse | Approximate)),
        default=Fraction(0),
    )


# The δ of a group is rounded up at this digit; beyond this exponent e^(gε) is no float, and no δ helps.
_DIGITS, _LARGEST_EXPONENT = 30, 700


def group(spend: Spend, records: int) -> Spend:
    """Group privacy: the cost for ``records`` records together of a spend stated for one record.

    Law, for g records:
        pure              gε; randomized response too, as nothing better is known for a group
        (ε, δ)            (gε, δ(e^(gε) − 1)/(e^ε − 1)), by a chain of g neighboring data sets; gδ if ε = 0
        Gaussian          the shift is g times as large: ρ becomes g²ρ, exactly
        discrete Gaussian likewise; a cell may then change by more than one
        sampled Gaussian  at least one of the g is sampled with probability 1 − (1−q)^g; then the shift is at most g
        nested            part by part

    >>> group(Pure("1/10"), 3)
    Pure(epsilon=Fraction(3, 10))
    >>> group(DiscreteGaussian(4, 2, unit_steps=True), 3).rho / DiscreteGaussian(4, 2, unit_steps=True).rho
    Fraction(9, 1)
    """
    if records < 1:
        raise InvalidInput(f"records must be at least 1, got {records}")
    if records == 1:
        return spend
    match spend:
        case Pure(epsilon) | RandomizedResponse(epsilon, _):
            return Pure(records * epsilon)
        case Approximate(epsilon, delta):
            return Approximate(records * epsilon, _group_delta(epsilon, delta, records))
        case Gaussian(noise_multiplier):
            return Gaussian(noise_multiplier / records)
        case DiscreteGaussian(sigma, squared_shift, _):
            return DiscreteGaussian(sigma, squared_shift * records**2, unit_steps=False)
        case Subsampled(rate, Gaussian(noise_multiplier), replace_one):
            return Subsampled(1 - (1 - rate) ** records, Gaussian(noise_multiplier / records), replace_one)
        case Repeated(inner, count):
            return Repeated(group(inner, records), count)
        case Composed(spends):
            return Composed(*(group(each, records) for each in spends))
        case Stability(delta):
            return Stability(min(Fraction(1), records * delta))
        case _:
            assert_never(spend)


def _group_delta(epsilon: Fraction, delta: Fraction, records: int) -> Fraction:
    """δ·(1 + e^ε + … + e^((g−1)ε)), rounded up."""
    if epsilon == 0 or delta == 0:
        reached = records * delta
    elif records * epsilon > _LARGEST_EXPONENT:
        reached = Fraction(1)
    else:
        factor = math.expm1(records * float(epsilon)) / math.expm1(float(epsilon))
        reached = rounded_up(delta * Fraction(factor * (1 + 1e-12)), _DIGITS)
    if reached >= 1:
        raise InvalidInput(
            f"records must be fewer: {records} records at epsilon {float(epsilon):g}, delta {float(delta):g} "
            f"reach delta {float(reached):g}, which guarantees nothing"
        )
    return reached
