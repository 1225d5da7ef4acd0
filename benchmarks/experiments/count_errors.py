"""Bounds on the error of every released count, before spending: the published ones, corrected where they do not hold.

The central bound is exact beside the published one; the local ones use Bernstein's inequality instead of the printed
constants, which fail for some parameters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tacit.core import InvalidInput, Number, positive

__all__ = ["CountError", "collision_count_error", "laplace_count_error", "randomized_response_count_error"]


class CountError(NamedTuple):
    """A bound that no count's error exceeds except with probability β: as published (a union bound), and exact."""

    published: float
    exact: float


def laplace_count_error(
    classes: int, neighbors: int, labels: int, epsilon: Number, beta: float, queries: int = 1
) -> CountError:
    """A bound on Laplace noise of scale b = 2kr/ε in all counts of ``queries`` rows, except with probability β.

    All of d = queries·classes cells stay within η with probability (1 − e^(−η/b))^d, which gives
    η = −b ln(1 − (1 − β)^(1/d)); the published η = b ln(d/β) is a little larger.

    >>> published, exact = laplace_count_error(10, 1, 1, 0.1, 0.05)
    >>> round(published, 6), round(exact, 6)
    (105.966347, 105.506878)
    """
    _checked(beta, classes=classes, neighbors=neighbors, labels=labels, queries=queries)
    scale = 2 * neighbors * labels / float(positive(epsilon, "epsilon"))
    cells = classes * queries
    return CountError(scale * math.log(cells / beta), -scale * math.log(-math.expm1(math.log1p(-beta) / cells)))


def _bernstein(variance: float, classes: int, beta: float) -> float:
    """Bernstein's bound, exceeded with probability β by any of Y sums of independent terms in [−1, 1]."""
    logarithm = math.log(2 * classes / beta)
    return logarithm / 3 + math.sqrt(logarithm**2 / 9 + 2 * variance * logarithm)


def randomized_response_count_error(
    records: int, classes: int, epsilon: Number, beta: float, touched: int = 1
) -> float:
    """A bound on the error of every unbiased count from symmetric unary encoding (SUE), except with probability β.

    Every bit is flipped with probability f = 1/(e^(ε/2c) + 1), where c = ``touched`` is the number of cells that a
    record votes for; the sum of n bits has variance n f(1 − f), and removing the bias multiplies by coth(ε/4c).

    >>> round(randomized_response_count_error(1000, 10, 1, 0.05), 6)
    224.976849
    """
    _checked(beta, records=records, classes=classes, touched=touched)
    budget = float(positive(epsilon, "epsilon")) / touched
    flip = 1 / (math.exp(budget / 2) + 1)
    return _bernstein(records * flip * (1 - flip), classes, beta) / math.tanh(budget / 4)


def collision_count_error(
    records: int, classes: int, epsilon: Number, beta: float, length: int, touched: int = 1
) -> float:
    """A bound on the error of every unbiased count from the Collision mechanism, except with probability β.

    A message hits a true cell with probability p = E/Ω and any other with q = 1/l, where l = ``length`` is the
    size of the hash's range and Ω = cE + l − c; the larger of the two variances is used for every message.

    >>> round(collision_count_error(1000, 10, 1, 0.05, length=4), 6)
    251.591724
    """
    _checked(beta, records=records, classes=classes, touched=touched)
    if length <= touched:
        raise InvalidInput(f"length must be above touched ({touched}), got {length}")
    weight = math.exp(positive(epsilon, "epsilon"))
    hit, other = weight / (touched * weight + length - touched), 1 / length
    variance = records * max(hit * (1 - hit), other * (1 - other))
    return _bernstein(variance, classes, beta) / (hit - other)


def _checked(beta: float, **parameters: int) -> None:
    for name, value in parameters.items():
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")
    if not 0 < beta < 1:
        raise InvalidInput(f"beta must be in (0, 1), got {beta}")
