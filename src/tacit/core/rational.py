"""Exact rational numbers for privacy parameters.

A budget that is added up a thousand times must not drift, and a sampler that compares a probability with random
bits must know the probability exactly. So every privacy parameter is a fraction: the decimal the user wrote.
"""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction

from tacit.core.errors import InvalidInput

__all__ = ["Number", "exact", "positive", "probability", "rounded_down", "rounded_up"]

Number = int | float | str | Decimal | Fraction


def exact(value: Number, name: str = "value") -> Fraction:
    """The fraction a number was written as: 0.1 means one tenth, not the binary float beside it.

    >>> exact(0.1)
    Fraction(1, 10)
    >>> exact("1/3")
    Fraction(1, 3)
    """
    # Numbers of other libraries wrap around, lose digits and print in their own way, so they are made plain first.
    if isinstance(value, numbers.Integral):
        value = int(value)
    elif isinstance(value, numbers.Real) and not isinstance(value, Fraction):
        value = float(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{name} must be a finite number, got {value}")
        return Fraction(repr(value))
    try:
        return Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise InvalidInput(f"{name} must be a number, got {value!r}") from None


def positive(value: Number, name: str) -> Fraction:
    """An exact number above zero, or an error that names the parameter.

    >>> positive(0.5, "epsilon")
    Fraction(1, 2)
    """
    number = exact(value, name)
    if number <= 0:
        raise InvalidInput(f"{name} must be above 0, got {value}")
    return number


def probability(value: Number, name: str) -> Fraction:
    """An exact number in [0, 1), or an error that names the parameter.

    >>> probability("1e-5", "delta")
    Fraction(1, 100000)
    """
    number = exact(value, name)
    if not 0 <= number < 1:
        raise InvalidInput(f"{name} must be in [0, 1), got {value}")
    return number


def rounded_up(value: float | Fraction, digits: int = 6) -> Fraction:
    """The smallest fraction with that many decimal digits that is not below the value.

    Noise scales found by bisection are rounded up (more noise), so that rounding never weakens a guarantee.

    >>> rounded_up(3.7306316348)
    Fraction(466329, 125000)
    >>> float(_)
    3.730632
    """
    unit = 10**digits
    return Fraction(math.ceil(Fraction(value) * unit), unit)


def rounded_down(value: float | Fraction, digits: int = 6) -> Fraction:
    """The largest fraction with that many decimal digits that is not above the value.

    >>> float(rounded_down(0.0305565959))
    0.030556
    """
    unit = 10**digits
    return Fraction(math.floor(Fraction(value) * unit), unit)
