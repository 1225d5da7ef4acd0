"""Concentrated differential privacy: ρ, the one number that describes Gaussian noise, and (ε, δ).

A mechanism is ρ-zCDP when its Rényi divergence of every order α is at most αρ. Adding Gaussian noise of standard
deviation z times the L2 sensitivity costs ρ = 1/(2z²), integer Gaussian noise too, and ρ adds up. Every ε-DP
mechanism has ρ = ε²/2.

Conversion at one order is αρ + g(α) with g(α) = log(1 − 1/α) − log(δα)/(α−1). Since g'(α) = log(δα)/(α−1)², the
best order solves ρ = −log(δα)/(α−1)², whose right side falls from infinity to 0 on (1, 1/δ): one root, found by
bisection. The classic conversion ρ + 2√(ρ log(1/δ)) is kept for comparison with published figures.

Source: Bun & Steinke 2016; Canonne, Kamath & Steinke 2020, Proposition 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.accounting.monotone import bisect
from tacit.core.errors import InvalidInput

__all__ = [
    "best_order",
    "best_rho",
    "checked_delta",
    "classic_epsilon",
    "conversion",
    "epsilon_of",
    "order_for",
    "pure_rho",
    "rho_of",
]

# log(α − 1) of the smallest order: it converts a ρ of 10^17, beyond any use.
SMALLEST = -18.0


def checked_delta(delta: float) -> float:
    """δ, when a conversion exists for it.

    >>> checked_delta(1e-5)
    1e-05
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must be in (0, 1) for Gaussian noise or a conversion, got {delta}")
    return delta


def conversion(order: float, delta: float) -> float:
    """g(α): what converting a Rényi divergence of this order to an ε adds to it.

    >>> round(conversion(30.0, 1e-5), 6)
    0.245813
    """
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def best_rho(order: float, delta: float) -> float:
    """The ρ for which this order converts best.

    >>> round(best_rho(best_order(0.25, 1e-5), 1e-5), 9)
    0.25
    """
    return -(math.log(delta) + math.log(order)) / (order - 1) ** 2


def _order(holds: Callable[[float], bool], delta: float) -> float:
    """The largest order in (1, 1/δ) at which a condition holds that small orders meet, to relative precision."""
    # Orders are sought on the scale of log(α − 1): α − 1 ranges over twenty powers of ten.
    exponent = bisect(lambda x: holds(1 + math.exp(x)), SMALLEST, math.log(1 / checked_delta(delta) - 1))
    return 1 + math.exp(exponent)


def best_order(rho: float, delta: float) -> float:
    """The order at which ρ-zCDP converts to the smallest ε.

    >>> round(best_order(0.030556595, 1e-5), 3)
    17.809
    """
    return _order(lambda order: best_rho(order, delta) >= rho, delta)


def order_for(epsilon: float, delta: float) -> float:
    """The order at which concentrated privacy converts best when it converts to exactly this ε.

    >>> round(order_for(1.0, 1e-5), 3)
    17.809
    """
    if epsilon <= 0:
        raise InvalidInput(f"epsilon must be above 0, got {epsilon}")
    # Along the best orders dε/dα = α·ρ'(α) < 0.
    return _order(lambda order: order * best_rho(order, delta) + conversion(order, delta) >= epsilon, delta)


def epsilon_of(rho: float, delta: float) -> float:
    """The smallest ε that ρ-zCDP proves at δ by conversion at the best order.

    >>> round(epsilon_of(0.030556595, 1e-5), 6)
    1.0
    """
    if rho < 0:
        raise InvalidInput(f"rho must be at least 0, got {rho}")
    if rho == 0:
        return 0.0
    order = best_order(rho, delta)
    return max(0.0, order * rho + conversion(order, delta))


def classic_epsilon(rho: float, delta: float) -> float:
    """ρ + 2√(ρ log(1/δ)), the conversion older publications use.

    >>> round(classic_epsilon(0.030556595, 1e-5), 6)
    1.216804
    """
    if rho < 0:
        raise InvalidInput(f"rho must be at least 0, got {rho}")
    return rho + 2 * math.sqrt(rho * math.log(1 / checked_delta(delta)))


def rho_of(epsilon: float, delta: float) -> float:
    """The largest ρ whose conversion at δ stays within ε.

    >>> f"{rho_of(1.0, 1e-5):.9f}"
    '0.030556595'
    """
    return best_rho(order_for(epsilon, delta), delta)


def pure_rho(epsilon: float) -> float:
    """The ρ of every ε-DP mechanism.

    >>> pure_rho(0.5)
    0.125
    """
    return epsilon**2 / 2
