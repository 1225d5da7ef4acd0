"""Groups and disjoint holders: from one record to several, and from several holders to one statement.

A person with g records is protected by the group guarantee of a per-record spend. Holders whose records are
disjoint do not add up: one record lives with one holder, so the statement over all of them is the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import assert_never

from tacit.accounting.compose import Total
from tacit.core.errors import InvalidInput
from tacit.core.rational import rounded_up
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

__all__ = ["group", "parallel"]

# A group's δ is rounded up at this digit.
DIGITS = 30


def group(spend: Spend, records: int) -> Spend:
    """What a spend stated for one record costs ``records`` of them together.

    Law, for g records:
        pure              gε, randomized response too: one step after another is all that is known of g of them
        (ε, δ)            (gε, δ(e^(gε) − 1)/(e^ε − 1)), by walking from one data set to the other in g steps;
                          gδ when ε = 0
        Gaussian          the shift is g times as long: ρ becomes g²ρ, exactly
        discrete Gaussian likewise; a cell may now move by more than one
        sampled Gaussian  some of the g are sampled with probability 1 − (1−q)^g, and then shift by at most g
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
            return Approximate(records * epsilon, _walked_delta(epsilon, delta, records))
        case Gaussian(noise_multiplier):
            return Gaussian(noise_multiplier / records)
        case DiscreteGaussian(sigma, squared_shift, _):
            return DiscreteGaussian(sigma, squared_shift * records**2, unit_steps=False)
        case Subsampled(rate, Gaussian(noise_multiplier)):
            return Subsampled(1 - (1 - rate) ** records, Gaussian(noise_multiplier / records))
        case Repeated(inner, count):
            return Repeated(group(inner, records), count)
        case Composed(spends):
            return Composed(*(group(each, records) for each in spends))
        case Stability(delta):
            return Stability(min(Fraction(1), records * delta))
        case _:
            assert_never(spend)


def _walked_delta(epsilon: Fraction, delta: Fraction, records: int) -> Fraction:
    """δ·(1 + e^ε + … + e^((g−1)ε)), rounded up."""
    if epsilon == 0 or delta == 0:
        walked = records * delta
    else:
        factor = math.expm1(records * float(epsilon)) / math.expm1(float(epsilon))
        walked = rounded_up(delta * Fraction(factor * (1 + 1e-12)), DIGITS)
    if walked >= 1:
        raise InvalidInput(
            f"records must be fewer: {records} records at epsilon {float(epsilon):g}, delta {float(delta):g} "
            f"reach delta {float(walked):g}, which guarantees nothing"
        )
    return walked


def parallel(totals: Sequence[Total]) -> Total:
    """The guarantee of a record that lives with one of several disjoint holders: the largest ε and δ of any.

    >>> parallel([Total(Fraction(1), Fraction(0), "pure composition"), Total(Fraction(2), Fraction(0), "x")]).epsilon
    Fraction(2, 1)
    """
    if not totals:
        raise InvalidInput("totals must name at least one holder, got none")
    worst = max(totals, key=lambda each: each.epsilon)
    return Total(worst.epsilon, max(each.delta for each in totals), worst.accountant)
