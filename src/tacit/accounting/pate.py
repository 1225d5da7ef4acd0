"""PATE's data-dependent Rényi analysis of LNMax and GNMax: a diagnostic for the holder alone.

When teachers agree, a noisy-max answer reveals far less than its worst case. How much less depends on the votes, so the
number is itself private: publishing it, or stopping because of it, leaks. The ledger charges the data-independent cost
(pure 2γ for LNMax, Gaussian for GNMax); the result of this module may be shown only to who already has the votes.

Law: let q bound the probability that the noisy answer is not the plurality.
    LNMax, Laplace noise of scale 1/γ on each count:
        q = Σ (2 + γg)/(4e^(γg)) over the gaps g to the plurality; for q < 1/(1 + e^2γ) the divergence of order α is at
        most log((1−q)((1−q)/(1 − e^2γ·q))^(α−1) + q·e^(2γ(α−1)))/(α−1).
    GNMax, Gaussian noise σ on each count:
        q = Σ Φ(−g/(σ√2)); with μ₂ = σ√(log 1/q), μ₁ = μ₂ + 1 and εᵢ = μᵢ/σ² the divergence of order α ≤ μ₁ is at most
        log((1−q)A^(α−1) + q·B^(α−1))/(α−1), A = (1−q)/(1 − (q·e^ε₂)^((μ₂−1)/μ₂)), B = e^ε₁/q^(1/(μ₁−1)),
        for μ₂ > 1 and q ≤ e^((μ₂−1)ε₂)/(μ₁/(μ₁−1)·μ₂/(μ₂−1))^μ₂.
If a condition fails, or the data-independent curve is smaller, that curve is used.

Source: Papernot et al. 2017 (LNMax); Papernot et al. 2018, Theorem 6 (GNMax).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.rdp import ORDERS, improved_epsilon, pure_curve
from tacit.core import InvalidInput

__all__ = [
    "diagnosed_epsilon",
    "gaussian_divergence",
    "gaussian_log_error",
    "laplace_divergence",
    "laplace_log_error",
]


def _gaps(votes: Sequence[float]) -> list[float]:
    if len(votes) < 2:
        raise InvalidInput(f"votes must be for at least 2 classes, got {len(votes)}")
    ordered = sorted(votes, reverse=True)
    return [ordered[0] - other for other in ordered[1:]]


def laplace_log_error(votes: Sequence[float], gamma: float) -> float:
    """log q for LNMax with Laplace noise of scale 1/γ.

    >>> round(laplace_log_error([200, 30, 10, 5, 5, 0, 0, 0, 0, 0], 0.05), 6)
    -6.335204
    """
    if gamma <= 0:
        raise InvalidInput(f"gamma must be above 0, got {gamma}")
    terms = [math.log((2 + gamma * gap) / 4) - gamma * gap for gap in _gaps(votes)]
    return min(0.0, float(np.logaddexp.reduce(terms)))


def gaussian_log_error(votes: Sequence[float], sigma: float) -> float:
    """log q for GNMax with Gaussian noise σ.

    >>> round(gaussian_log_error([200, 30, 10, 5, 5, 0, 0, 0, 0, 0], 40), 6)
    -5.713104
    """
    from scipy.special import log_ndtr

    if sigma <= 0:
        raise InvalidInput(f"sigma must be above 0, got {sigma}")
    terms = [float(log_ndtr(-gap / (sigma * math.sqrt(2)))) for gap in _gaps(votes)]
    return min(0.0, float(np.logaddexp.reduce(terms)))


def _checked(log_error: float, order: float) -> None:
    if not log_error <= 0:
        raise InvalidInput(f"log_error must be at most 0, got {log_error}")
    if order <= 1:
        raise InvalidInput(f"order must be above 1, got {order}")


def laplace_divergence(log_error: float, gamma: float, order: float) -> float:
    """The Rényi divergence of one LNMax answer whose log q is ``log_error``; private to the holder.

    >>> f"{laplace_divergence(-6.335204326, 0.05, 8):.6e}"
    '4.426359e-04'
    """
    _checked(log_error, order)
    independent = float(pure_curve(2 * gamma, np.array([order]))[0])
    if log_error == 0 or log_error >= -math.log1p(math.exp(2 * gamma)):
        return independent
    stays = math.log1p(-math.exp(log_error))
    agree = stays + (order - 1) * (stays - math.log1p(-math.exp(2 * gamma + log_error)))
    differ = log_error + 2 * gamma * (order - 1)
    return min(independent, float(np.logaddexp(agree, differ)) / (order - 1))


def gaussian_divergence(log_error: float, sigma: float, order: float) -> float:
    """The Rényi divergence of one GNMax answer whose log q is ``log_error``; private to the holder.

    >>> f"{gaussian_divergence(-5.713103656, 40, 8):.6e}"
    '1.035895e-03'
    """
    _checked(log_error, order)
    independent = order / sigma**2
    second = sigma * math.sqrt(-log_error)
    first = second + 1
    if second <= 1 or order > first:
        return independent
    first_epsilon, second_epsilon = first / sigma**2, second / sigma**2
    limit = (second - 1) * second_epsilon - second * (math.log(first / (first - 1)) + math.log(second / (second - 1)))
    if log_error > limit:
        return independent
    stays = math.log1p(-math.exp(log_error))
    escape = (log_error + second_epsilon) * (second - 1) / second
    agree = stays + (order - 1) * (stays - math.log1p(-math.exp(escape)))
    differ = log_error + (order - 1) * (first_epsilon - log_error / (first - 1))
    return min(independent, float(np.logaddexp(agree, differ)) / (order - 1))


def diagnosed_epsilon(votes: NDArray[Any], noise: str, scale: float, delta: float) -> float:
    """The data-dependent ε of noisy votes on all these queries, (queries, classes): private to the holder.

    ``noise`` is ``laplace`` or ``gaussian``, of that scale. To act on the number or to show it is to release it.

    >>> agreed = np.tile([200, 30, 10], (100, 1))
    >>> [round(diagnosed_epsilon(agreed, *noise, 1e-5), 2) for noise in (("gaussian", 40), ("laplace", 20))]
    [0.47, 0.27]
    """
    # Larger orders do not convert better, and each needs a sum over all queries.
    orders = ORDERS[ORDERS <= 256]
    total = np.zeros(len(orders))
    for row, count in zip(*np.unique(np.sort(votes, axis=1), axis=0, return_counts=True), strict=True):
        if noise == "gaussian":
            error = gaussian_log_error(row.tolist(), scale)
            single = [gaussian_divergence(error, scale, order) for order in orders]
        else:
            error = laplace_log_error(row.tolist(), 1 / scale)
            single = [laplace_divergence(error, 1 / scale, order) for order in orders]
        total += count * np.array(single)
    return improved_epsilon(total, delta, orders)
