"""Exact rational numbers for privacy parameters, and the bisection that solves for one.

Sums of many budgets must not drift, and a sampler that compares a probability with random bits must know the
probability exactly. So every privacy parameter is a fraction: the decimal that the user wrote.

Bisection is the one way in which Tacit inverts a privacy curve. Every such curve is monotone in the parameter that is
sought, so that bisection needs no assumption about convergence. It returns the side on which the condition was
*checked* to hold, so a calibrated parameter never misses its target by the last step.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tacit.core.errors import InvalidInput

__all__ = ["Number", "bisect", "exact", "positive", "probability", "rounded_down", "rounded_up", "whole"]

Number = int | float | str | Decimal | Fraction


def exact(value: Number, name: str = "value") -> Fraction:
    """The fraction that a number was written as: 0.1 means one tenth, not the nearest binary float.

    >>> exact(0.1)
    Fraction(1, 10)
    >>> exact("1/3")
    Fraction(1, 3)
    """
    # Numbers of other libraries may overflow, lose digits or print differently, so they are converted first.
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
    """The exact number, refused unless it is above zero.

    >>> positive(0.5, "epsilon")
    Fraction(1, 2)
    """
    number = exact(value, name)
    if number <= 0:
        raise InvalidInput(f"{name} must be above 0, got {value}")
    return number


def probability(value: Number, name: str) -> Fraction:
    """The exact number, refused unless it is in [0, 1).

    >>> probability("1e-5", "delta")
    Fraction(1, 100000)
    """
    number = exact(value, name)
    if not 0 <= number < 1:
        raise InvalidInput(f"{name} must be in [0, 1), got {value}")
    return number


def rounded_up(value: float | Fraction, digits: int = 6) -> Fraction:
    """The smallest fraction with ``digits`` decimal digits that is not below the value.

    Noise scales found by bisection are rounded up (more noise), so that rounding never weakens a guarantee.

    >>> rounded_up(3.7306316348)
    Fraction(466329, 125000)
    >>> float(_)
    3.730632
    """
    unit = 10**digits
    return Fraction(math.ceil(Fraction(value) * unit), unit)


def rounded_down(value: float | Fraction, digits: int = 6) -> Fraction:
    """The largest fraction with ``digits`` decimal digits that is not above the value.

    >>> float(rounded_down(0.0305565959))
    0.030556
    """
    unit = 10**digits
    return Fraction(math.floor(Fraction(value) * unit), unit)


def whole(value: Any, name: str, least: int = 1) -> int:  # noqa: ANN401
    """The integer (numpy's too), refused if it is below ``least``.

    >>> whole(3, "queries")
    3
    >>> whole(2.5, "queries")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: queries must be a whole number, got 2.5
    """
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidInput(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidInput(f"{name} must be at least {least}, got {value}")
    return int(value)


# In practice enough to reduce any interval to two adjacent floats, where the loop ends by itself.
_HALVINGS = 200


def bisect(holds: Callable[[float], bool], inside: float, outside: float, tolerance: float = 0.0) -> float:
    """The point nearest to ``outside`` at which a condition was checked to hold, to within ``tolerance``.

    The condition must hold at ``inside`` and up to some point toward ``outside``, which may be below or above, and not
    beyond. If it holds at ``outside`` too, the result is ``outside``.

    >>> round(bisect(lambda x: x * x <= 2, 0.0, 2.0), 9)
    1.414213562
    >>> bisect(lambda x: x * x >= 2, 2.0, 0.0) ** 2 >= 2
    True
    """
    if holds(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if abs(outside - inside) <= tolerance or middle in (inside, outside):
            break
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside
