"""Rényi (RDP) and zero-concentrated (zCDP) differential privacy: curves of spends and their conversion to (ε, δ).

A mechanism has the curve R if the Rényi divergence of order α between its outputs on neighboring data is at most R(α).
Curves add under composition. All curves are computed on one grid of orders, ``ORDERS``.

Curves
    pure ε             log(cosh((α − ½)ε) / cosh(ε/2)) / (α − 1), the curve of binary randomized response, which
                       dominates every ε-DP mechanism (equal to the quotient of sinh differences in the literature, but
                       without cancellation or overflow)
    randomized resp.   log((e^(αε) + e^((1−α)ε) + C − 2) / (e^ε + C − 1)) / (α − 1) over C classes
    Gaussian           α / (2z²), z the noise multiplier
    discrete Gaussian  α · squared_shift / (2σ²)
    Poisson ∘ Gaussian from ``dp_accounting`` at integer orders up to 1024; under replace-one adjacency
                       log(2e^((α−1)R) − 1)/(α − 1), see ``_subsampled_curve``
    (ε, δ) and (0, δ)  as pure ε and as 0; the caller subtracts their δ

Conversion at one order: R + log(1 − 1/α) − log(δα)/(α−1), which follows from
(1 − e^(ε−L))₊ ≤ c·e^((α−1)(L−ε)) for every loss L, with the best constant c.

Source: Mironov 2017; Canonne, Kamath & Steinke 2020, Proposition 12 (conversion); Mironov, Talwar & Zhang
2019 (subsampled).

A mechanism is ρ-zCDP if its Rényi divergence of every order α is at most αρ. Gaussian noise of standard deviation z
times the L2 sensitivity has ρ = 1/(2z²), discrete Gaussian noise too, and ρ adds under composition. Every ε-DP
mechanism has ρ = ε²/2.

Conversion at one order is αρ + g(α) with g(α) = log(1 − 1/α) − log(δα)/(α−1). Since g'(α) = log(δα)/(α−1)², the
best order solves ρ = −log(δα)/(α−1)², whose right side decreases from infinity to 0 on (1, 1/δ): one root, found by
bisection.

Source: Bun & Steinke 2016; Canonne, Kamath & Steinke 2020, Proposition 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import numpy as np

from tacit.accounting.parts import Part, SpendParts
from tacit.core import InvalidInput, Reals, bisect
from tacit.core.spend import Approximate, DiscreteGaussian, Gaussian, Pure, RandomizedResponse, Stability, Subsampled

__all__ = [
    "ORDERS",
    "best_rho",
    "checked_delta",
    "conversion",
    "curve",
    "filter_epsilon",
    "improved_epsilon",
    "order_for",
    "pure_curve",
    "response_curve",
    "rho_of",
]

# log(α − 1) of the smallest order, which is the best one for a ρ of 10^17.
_SMALLEST = -18.0


def checked_delta(delta: float) -> float:
    """δ, refused unless it is in (0, 1).

    >>> checked_delta(1e-5)
    1e-05
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must be in (0, 1) for Gaussian noise or a conversion, got {delta}")
    return delta


def conversion(order: float, delta: float) -> float:
    """g(α): what the conversion of a Rényi divergence of this order to ε adds.

    >>> round(conversion(30.0, 1e-5), 6)
    0.245813
    """
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def best_rho(order: float, delta: float) -> float:
    """The ρ for which this order converts best.

    >>> round(best_rho(17.809, 1e-5), 6)
    0.030555
    """
    return -(math.log(delta) + math.log(order)) / (order - 1) ** 2


def _order(holds: Callable[[float], bool], delta: float) -> float:
    """The largest order in (1, 1/δ) at which a condition holds that holds for all smaller orders."""
    # Searched on the scale of log(α − 1), since α − 1 ranges over twenty powers of ten.
    exponent = bisect(lambda x: holds(1 + math.exp(x)), _SMALLEST, math.log(1 / checked_delta(delta) - 1))
    return 1 + math.exp(exponent)


def order_for(epsilon: float, delta: float) -> float:
    """The best conversion order of the ρ-zCDP that converts to exactly this ε.

    >>> round(order_for(1.0, 1e-5), 3)
    17.809
    """
    if epsilon <= 0:
        raise InvalidInput(f"epsilon must be above 0, got {epsilon}")
    # Along the best orders dε/dα = α·ρ'(α) < 0.
    return _order(lambda order: order * best_rho(order, delta) + conversion(order, delta) >= epsilon, delta)


def rho_of(epsilon: float, delta: float) -> float:
    """The largest ρ whose conversion at δ stays within ε.

    >>> f"{rho_of(1.0, 1e-5):.9f}"
    '0.030556595'
    """
    return best_rho(order_for(epsilon, delta), delta)


# Steps of 0.1 up to 11 and of 1 up to 64, where usual totals have their best order; then steps of 5 percent, because an
# ε of 0.001 at δ = 1e-5 needs an order above 20,000.
ORDERS: Reals = np.unique(
    np.concatenate(
        [
            1 + np.array([0.001, 0.003, 0.01, 0.03]),
            1 + np.arange(1, 100) / 10,
            np.arange(11.0, 65.0),
            np.round(64 * 1.05 ** np.arange(1, 57)),
            [1024.0],
            np.round(1024 * 1.05 ** np.arange(1, 285)),
        ]
    )
)
ORDERS.flags.writeable = False
# For each of them dp_accounting sums as many terms as its order.
WHOLE_ORDERS: Reals = np.array([*range(2, 65), 128, 256, 512, 1024], dtype=np.float64)


def _log_cosh(values: Reals) -> Reals:
    """log cosh of non-negative numbers, precise near zero and without overflow for large ones."""
    near = np.log1p(2 * np.sinh(np.minimum(values, 20.0) / 2) ** 2)
    far = values - math.log(2) + np.log1p(np.exp(-2 * values))
    return np.where(values < 20.0, near, far)


def pure_curve(epsilon: float, orders: Reals = ORDERS) -> Reals:
    """The Rényi curve of binary randomized response at ε, which dominates every ε-DP mechanism.

    >>> [round(float(each), 6) for each in pure_curve(1.0, np.array([2.0, 1e6]))]
    [0.735326, 1.0]
    """
    numerator = _log_cosh((orders - 0.5) * epsilon) - _log_cosh(np.array([epsilon / 2]))
    # The divergence of every order is at most ε; rounding may exceed it.
    return np.minimum(numerator / (orders - 1), epsilon)


def response_curve(epsilon: float, classes: int, orders: Reals = ORDERS) -> Reals:
    """The Rényi curve of randomized response at ε over ``classes`` values; with two it is that of pure ε.

    >>> [round(float(each), 6) for each in response_curve(1.0, 10, np.array([2.0, 1e6]))]
    [0.29613, 0.999999]
    """
    # The quotient minus 1 is (e^((α−1)ε) − 1)·share: no cancellation at small ε, no overflow at large ε.
    share = -np.expm1(-orders * epsilon) / (1 + (classes - 1) * math.exp(-epsilon))
    growth = (orders - 1) * epsilon
    near = np.log1p(np.expm1(np.minimum(growth, 30.0)) * share)
    far = growth + np.log(-np.expm1(-growth) * share + np.exp(-growth))
    return np.minimum(np.where(growth < 30.0, near, far) / (orders - 1), epsilon)


@lru_cache(maxsize=256)
def _subsampled_curve(rate: Fraction, noise_multiplier: Fraction, replace_one: bool) -> Reals:
    """The curve of a Gaussian on a Poisson sample; infinite beyond the largest order that is computed.

    ``dp_accounting`` computes integer orders only: for these it has a finite sum, while its series for other orders may
    not converge. In between, (α−1)R(α) is convex and 0 at order 1, so its chord is an upper bound.

    Under replace-one adjacency the privacy profile is that of removing a record for γ ≥ 1 and that of adding one below
    (see ``planned``). A moment is 1 + ∫ α(α−1)γ^(α−2)·(profile(γ) − (1 − γ)₊) dγ. Each of the two halves of the
    integral is at most the complete integral of its direction, which is e^((α−1)R) − 1; so the moment is at most
    2·e^((α−1)R) − 1.
    """
    if rate == 1:
        return ORDERS / (2 * float(noise_multiplier) ** 2)
    import dp_accounting  # slow to import, and pure budgets never need it

    accountant = dp_accounting.rdp.RdpAccountant(WHOLE_ORDERS)
    gaussian = dp_accounting.GaussianDpEvent(float(noise_multiplier))
    accountant.compose(dp_accounting.PoissonSampledDpEvent(float(rate), gaussian))
    moments = np.concatenate([[0.0], (WHOLE_ORDERS - 1) * accountant.rdp])
    if replace_one:
        moments += np.log(2 - np.exp(-moments))
    chords = np.interp(ORDERS, np.concatenate([[1.0], WHOLE_ORDERS]), moments, right=np.inf)
    return np.asarray(chords / (ORDERS - 1))


def _part_curve(part: Part) -> Reals:
    match part:
        case Pure(epsilon) | Approximate(epsilon, _):
            return pure_curve(float(epsilon)) if epsilon else np.zeros(len(ORDERS))
        case RandomizedResponse(epsilon, classes):
            return response_curve(float(epsilon), classes)
        case Gaussian(noise_multiplier):
            return ORDERS / (2 * float(noise_multiplier) ** 2)
        case DiscreteGaussian():
            return ORDERS * float(part.rho)
        case Subsampled(rate, Gaussian(noise_multiplier), replace_one):
            return _subsampled_curve(rate, noise_multiplier, replace_one)
        case Stability():
            return np.zeros(len(ORDERS))
        case _:
            assert_never(part)


def curve(parts: SpendParts) -> Reals:
    """The Rényi curve of all parts together on ``ORDERS``, without their own δ.

    >>> from tacit.accounting.parts import parts_of
    >>> float(curve(parts_of([Gaussian(2)]))[ORDERS == 8][0])
    1.0
    """
    total = np.zeros(len(ORDERS))
    for part, count in parts.items():
        total += count * _part_curve(part)
    return total


def improved_epsilon(divergence: Reals, delta: float, orders: Reals = ORDERS) -> float:
    """The smallest ε over the orders by R + log(1 − 1/α) − log(δα)/(α−1).

    Valid if the spends were fixed in advance: then the best order may depend on them.

    >>> round(improved_epsilon(curve({Gaussian(4): 1}), 1e-5), 4)
    1.0126
    """
    added = np.log1p(-1 / orders) - (math.log(checked_delta(delta)) + np.log(orders)) / (orders - 1)
    return max(0.0, float(np.min(divergence + added)))


def filter_epsilon(divergence: Reals, delta: float) -> float:
    """The smallest ceiling under which a Rényi filter admits this curve, for spends chosen adaptively.

    A filter is proven for one order that is fixed in advance. Here the ceiling ε* and δ determine it: the order α at
    which zCDP converts best, ε* = αρ(α) + g(α) with ρ(α) = ``best_rho`` and g(α) = ``conversion``. The curve is
    admitted if R(α) ≤ αρ(α). R increases with α while αρ(α) and ε* decrease, so the smallest ceiling that admits
    belongs to the largest order that admits, and every larger ceiling admits too. For Gaussian noise the result is the
    best conversion of zCDP. To choose the best order afterwards would be wrong: an analyst who sees the outputs could
    steer each transcript to the order that suits it.

    Between two orders of the grid (α−1)R(α), which is convex and 0 at order 1, is bounded by its chord.

    >>> round(filter_epsilon(curve({Gaussian(4): 1}), 1e-5), 4)
    1.0127
    """
    orders = np.concatenate([[1.0], ORDERS])
    moments = np.concatenate([[0.0], (ORDERS - 1) * divergence])

    def admits(order: float) -> bool:
        bound = float(np.interp(order, orders, moments)) / (order - 1)
        return bound <= order * best_rho(order, delta)

    largest = min(1 / checked_delta(delta), float(ORDERS[-1]))
    smallest = math.log(ORDERS[0] - 1)
    if not admits(1 + math.exp(smallest)):
        return math.inf
    exponent = bisect(lambda x: admits(1 + math.exp(x)), smallest, math.log(largest - 1))
    order = 1 + math.exp(exponent)
    return max(0.0, order * best_rho(order, delta) + conversion(order, delta))
