"""Accountants for spends that are fixed in advance: optimal composition, and privacy-loss distributions (PLD).

Optimal composition is the exact cost of repeating one mechanism: n times (ε, δ), or n randomized responses over several
classes. Law: when an (ε₀, δ₀)-DP mechanism runs n times, the worst case is n independent binary randomized responses,
each revealed with probability δ₀. With p = e^ε₀/(1+e^ε₀) the loss is ε₀(2K − n), K ~ Bin(n, p), so

    δ(ε) = 1 − (1−δ₀)ⁿ + (1−δ₀)ⁿ · E[(1 − e^(ε − ε₀(2K−n)))₊]

and no accountant can prove less.

Source: Kairouz, Oh & Viswanath 2015, Theorem 3.3.

Privacy-loss distributions are the tightest numeric accountant for everything else. The privacy loss of a composition is
a sum of independent losses, so its distribution is a convolution. Losses are rounded to a lattice pessimistically: a
mass m at loss ℓ between lattice points a < b is split so that its total and its mean of e^(−ℓ) stay the same, which
raises δ(ε) between the points and preserves it at them. Convolution and Gaussian losses come from ``dp_accounting``,
which gets single mechanisms and counts, never its own nested events, whose counts it can lose.

    pure ε, (ε, δ)      two points ±ε (and infinity with probability δ)
    randomized resp.    three points ±ε and 0
    (0, δ)              infinity with probability δ
    discrete Gaussian   losses (2x+1)/(2σ²), x discrete Gaussian, once for each unit of squared shift; this needs unit
                        steps, without which only the Rényi bound is proven
    Gaussian, sampled   connect-the-dots discretization of ``dp_accounting``, both directions of add-remove
    … replace-one       δ(ε) of removing a record for ε ≥ 0, of adding one for ε < 0. Let P₀, P₁, P₁′ be the releases
                        without the record, with it and with the other, and q the rate. For ε ≥ 0 the δ(ε) of
                        (1−q)P₀ + qP₁ against (1−q)P₀ + qP₁′ is q·δ(ε′) of P₁ against a mixture of P₀ and P₁′,
                        e^ε′ = 1 + (e^ε − 1)/q, which by convexity is at most q times the larger of the two. If any two
                        of the three are one Gaussian shift apart, that is the δ(ε) of removing. For ε < 0 exchange
                        both sides.

Source: Koskela, Jälkö & Honkela 2020; Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022; Balle, Barthe & Gaboardi
2018, Theorem 2 (advanced joint convexity); Zhu, Dong & Wang 2022 (dominating pairs).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.parts import Part, SpendParts
from tacit.accounting.rdp import ORDERS, curve
from tacit.core import (
    Approximate,
    DiscreteGaussian,
    Gaussian,
    InvalidInput,
    Pure,
    RandomizedResponse,
    Reals,
    Stability,
    Subsampled,
    exact,
    positive,
    probability,
)

__all__ = ["pld_epsilon", "repeated_epsilon", "response_epsilon", "smallest_epsilon", "supports"]

# A sum of n logarithms in float64 loses about n·1e-16 of each probability; beyond this n it is too imprecise.
LARGEST_COUNT = 10**6
# Beyond this e^−ε underflows.
_LARGEST_EPSILON = 700
# The fraction of δ that is not used: a thousand times the rounding error.
_MARGIN = 1e-7


def _check(count: int, delta: Fraction) -> None:
    if not 0 < exact(delta) < 1:
        raise InvalidInput(f"delta must be in (0, 1), got {delta}")
    if count < 1:
        raise InvalidInput(f"count must be at least 1, got {count}")


def repeated_epsilon(epsilon: Fraction, own_delta: Fraction, count: int, delta: Fraction) -> float:
    """The smallest ε of ``count`` runs of an (``epsilon``, ``own_delta``)-DP mechanism at ``delta``.

    Infinite if their own δ exceed ``delta``, or if ``count`` is too large for a precise sum.

    >>> round(repeated_epsilon(Fraction(1), Fraction(0), 100, Fraction(1, 10**6)), 3)
    83.531
    """
    epsilon, own_delta = positive(epsilon, "epsilon"), probability(own_delta, "own_delta")
    _check(count, delta)
    # (1−δ₀)ⁿ ≥ 1 − nδ₀, so the δ that is left is at least (δ − nδ₀)/(1 − nδ₀).
    spent = count * own_delta
    if spent >= delta or count > LARGEST_COUNT:
        return math.inf
    left = float((delta - spent) / (1 - spent)) * (1 - _MARGIN)
    single = float(epsilon)
    failures = np.arange(count + 1)
    # log P(count − failures successes) from the largest loss down, by the ratio of neighboring terms.
    steps = np.log((count - failures[1:] + 1) / failures[1:]) - single
    log_mass = np.concatenate([[0.0], np.cumsum(steps)]) - count * math.log1p(math.exp(-single))
    losses = single * (count - 2 * failures).astype(np.float64)
    return smallest_epsilon(losses, log_mass, left)


def response_epsilon(epsilon: Fraction, classes: int, count: int, delta: Fraction) -> float:
    """The exact smallest ε of ``count`` randomized responses over ``classes`` values at ``delta``.

    The loss is ε₀ times a sum of ``count`` independent steps +1, 0, −1 with odds e^ε₀ : C − 2 : 1. Its generating
    function is the n-th power of a trinomial, whose neighboring coefficients have the quotient

        r(k) = (z(n − k) + d(2n − k + 1)/r(k − 1)) / (u(k + 1)),   u, z, d the odds of up, zero, down,

    counted from n steps up; by symmetry the lower half has the same quotients with u and d exchanged. All terms are
    positive, so nothing cancels, and the time is linear in n.

    >>> round(response_epsilon(Fraction(1), 10, 100, Fraction(1, 10**6)), 3)
    39.902
    """
    if classes == 2:
        return repeated_epsilon(epsilon, Fraction(0), count, delta)
    epsilon = positive(epsilon, "epsilon")
    _check(count, delta)
    if count > LARGEST_COUNT or epsilon > _LARGEST_EPSILON:
        return math.inf
    single = float(epsilon)
    zero, down = (classes - 2) * math.exp(-single), math.exp(-single)  # beside odds of 1 for a step up
    total = count * math.log(1 + zero + down)
    upper = _half(1.0, zero, down, count) - total  # sums n, n − 1, …, 0
    lower = _half(down, zero, 1.0, count) - total - count * single  # sums −n, −n + 1, …, 0
    log_mass = np.concatenate([upper, lower[-2::-1]])
    losses = single * np.arange(count, -count - 1, -1).astype(np.float64)
    return smallest_epsilon(losses, log_mass, float(delta) * (1 - _MARGIN))


def _half(first: float, middle: float, last: float, count: int) -> NDArray[np.float64]:
    """Logarithms of the first count + 1 coefficients of (first + middle·x + last·x²)^count, divided by the first."""
    quotients = np.empty(count)
    quotient = math.inf
    for k in range(count):
        quotient = (middle * (count - k) + last * (2 * count - k + 1) / quotient) / (first * (k + 1))
        quotients[k] = quotient
    return np.concatenate([[0.0], np.cumsum(np.log(quotients))])


def smallest_epsilon(losses: NDArray[np.float64], log_mass: NDArray[np.float64], delta: float) -> float:
    """The smallest ε at δ of a privacy loss with these values, the largest first, and these log-masses.

    >>> round(smallest_epsilon(np.array([1.0, -1.0]), -np.log1p(np.exp([-1.0, 1.0])), 0.1), 6)
    0.852905
    """
    above = np.cumsum(np.exp(log_mass))
    log_below = np.logaddexp.accumulate(log_mass - losses)
    # With the i largest losses above ε: δ(ε) = above_i − e^ε·below_i, valid down to the next smaller loss.
    with np.errstate(divide="ignore"):
        candidates = np.log(np.maximum(above - delta, 0)) - log_below
    reached = np.flatnonzero(candidates >= np.append(losses[1:], -np.inf))
    return max(0.0, float(candidates[reached[0]]))


# The error of convolution by FFT in float64 is far below CONVOLUTION_MARGIN, and δ must be far above it.
CONVOLUTION_MARGIN = 1e-13
_SMALLEST_DELTA = 1e-10
# Beyond this σ the discrete noise has more than ten million likely values.
LARGEST_SIGMA = 400_000
# Tails of the discrete noise beyond this many σ have a mass below 1e-30.
TAIL = 12
# Splitting losses adds a variance of at most interval²/4 per step; this is its largest share of the total variance.
SHARE = 1e-5
MOST_POINTS = 400_000
SMALL = ORDERS <= 2


def supports(parts: SpendParts, delta: float) -> bool:
    """Whether the privacy-loss distribution of these parts is known, and precise enough for δ.

    >>> supports({DiscreteGaussian(2, 2, unit_steps=False): 1}, 1e-5)
    False
    """
    return delta >= _SMALLEST_DELTA and all(
        part.unit_steps and part.sigma <= LARGEST_SIGMA for part in parts if isinstance(part, DiscreteGaussian)
    )


def pld_epsilon(parts: SpendParts, delta: float, interval: float | None = None) -> float:
    """The smallest ε that the privacy-loss distribution of all parts proves at δ, with the parts' own δ.

    ``interval`` is the lattice spacing; the default gives about four digits.

    >>> round(pld_epsilon({Gaussian(1): 1}, 1e-5), 3)
    4.377
    """
    return _epsilon(tuple(parts.items()), delta, _interval(parts) if interval is None else interval)


@lru_cache(maxsize=1024)
def _epsilon(parts: tuple[tuple[Part, int], ...], delta: float, interval: float) -> float:
    from dp_accounting.pld import privacy_loss_distribution  # slow to import, and pure budgets never need it

    composed = privacy_loss_distribution.identity(interval)
    for part, count in parts:
        single, repetitions = _single(part, interval)
        composed = composed.compose(single.self_compose(repetitions * count))
    return float(composed.get_epsilon_for_delta(delta - CONVOLUTION_MARGIN))


def _interval(parts: SpendParts) -> float:
    """A spacing at which splitting adds little to the variance of the loss."""
    # At small orders α a Rényi divergence is about α/2 times the variance of the loss.
    variance = float(np.min(2 * curve(parts)[SMALL] / ORDERS[SMALL]))
    steps = sum(
        count * (part.squared_shift if isinstance(part, DiscreteGaussian) else 1) for part, count in parts.items()
    )
    fine = 2 * math.sqrt(SHARE * variance / steps)
    # The composed loss ranges over about ±10 standard deviations around half its variance.
    spread = max(variance + 20 * math.sqrt(variance), *(2 * _reach(part) for part in parts))
    return max(fine, spread / MOST_POINTS) or 1.0


def _reach(part: Part) -> float:
    """About the largest loss of one step with a mass that matters."""
    match part:
        case Pure(epsilon) | RandomizedResponse(epsilon, _) | Approximate(epsilon, _):
            return float(epsilon)
        case Stability():
            return 0.0
        case Gaussian(noise) | Subsampled(_, Gaussian(noise), _) | DiscreteGaussian(noise, _, _):
            return (TAIL + 1 / (2 * float(noise))) / float(noise)
        case _:
            assert_never(part)


@lru_cache(maxsize=64)
def _single(part: Part, interval: float) -> tuple[Any, int]:
    """The loss distribution of one step, and the number of such steps in one part."""
    from dp_accounting.pld import privacy_loss_distribution

    match part:
        case Pure(epsilon):
            return _two_points(float(epsilon), 0.0, interval), 1
        case RandomizedResponse(epsilon, classes):
            return _three_points(float(epsilon), classes, interval), 1
        case Approximate(epsilon, delta):
            return _two_points(float(epsilon), float(delta), interval), 1
        case Stability(delta):
            return _two_points(0.0, float(delta), interval), 1
        case DiscreteGaussian(sigma, squared_shift, _):
            return _integer_gaussian(float(sigma), interval), squared_shift
        case Gaussian(noise_multiplier):
            return privacy_loss_distribution.from_gaussian_mechanism(
                float(noise_multiplier), value_discretization_interval=interval
            ), 1
        case Subsampled(rate, Gaussian(noise_multiplier), True) if rate < 1:
            return _replaced(float(noise_multiplier), float(rate), interval), 1
        case Subsampled(rate, Gaussian(noise_multiplier), _):
            return privacy_loss_distribution.from_gaussian_mechanism(
                float(noise_multiplier), value_discretization_interval=interval, sampling_prob=float(rate)
            ), 1
        case _:
            assert_never(part)


def _replaced(noise_multiplier: float, rate: float, interval: float) -> Any:  # noqa: ANN401
    """The loss of a sampled Gaussian under replace-one adjacency: that of removing above 0, of adding below."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    removed, added = (
        GaussianPrivacyLoss(noise_multiplier, sampling_prob=rate, adjacency_type=each)
        for each in (AdjacencyType.REMOVE, AdjacencyType.ADD)
    )
    # A loss ℓ of the Gaussian is log(1 − q + q·e^ℓ) after sampling; larger losses count as infinite.
    longest = _reach(Gaussian(noise_multiplier))
    reach = math.ceil(float(np.logaddexp(math.log1p(-rate), math.log(rate) + longest)) / interval)
    upper = np.arange(reach + 1)
    deltas = np.concatenate([
        added.get_delta_for_epsilon(-upper[:0:-1] * interval), removed.get_delta_for_epsilon(upper * interval)
    ])  # fmt: skip
    table = pld_pmf.create_pmf_pessimistic_connect_dots(interval, np.arange(-reach, reach + 1), deltas)
    return privacy_loss_distribution.PrivacyLossDistribution(table)


def _two_points(epsilon: float, delta: float, interval: float) -> Any:  # noqa: ANN401 - the library is untyped
    likely = 1 / (1 + math.exp(-epsilon))
    masses = (1 - delta) * np.array([likely, 1 - likely])
    return _on_lattice(np.array([epsilon, -epsilon]), masses, delta, interval)


def _three_points(epsilon: float, classes: int, interval: float) -> Any:  # noqa: ANN401 - the library is untyped
    odds = np.array([1.0, (classes - 2) * math.exp(-epsilon), math.exp(-epsilon)])
    return _on_lattice(np.array([epsilon, 0.0, -epsilon]), odds / odds.sum(), 0.0, interval)


def _integer_gaussian(sigma: float, interval: float) -> Any:  # noqa: ANN401 - the library is untyped
    reach = math.ceil(TAIL * sigma) + 1
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(values**2) / (2 * sigma**2))
    return _on_lattice((2 * values + 1) / (2 * sigma**2), weights / weights.sum(), 1e-30, interval)


def _on_lattice(losses: Reals, masses: Reals, at_infinity: float, interval: float) -> Any:  # noqa: ANN401
    """The loss distribution with every mass split between the two nearest lattice points."""
    from dp_accounting.pld import privacy_loss_distribution

    below = np.floor(losses / interval)
    # m·(1 − e^(a−ℓ))/(1 − e^(a−b)) goes up, the rest down: the mean of e^(−loss) stays the same.
    up = masses * np.clip(np.expm1(below * interval - losses) / math.expm1(-interval), 0, 1)
    indices = np.concatenate([below, below + 1]).astype(np.int64)
    lowest = int(indices.min())
    table = np.bincount(indices - lowest, weights=np.concatenate([masses - up, up]))
    present = np.flatnonzero(table)
    lattice = dict(zip((present + lowest).tolist(), table[present].tolist(), strict=True))
    return privacy_loss_distribution.PrivacyLossDistribution.create_from_rounded_probability(
        lattice, at_infinity, interval
    )
