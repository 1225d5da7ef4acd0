"""Calibration: the noise, or the ε per round, that meets a target (ε, δ).

Every parameter is searched on the same accountant that will later account for it, and the value returned was checked
with it, so that calibration and accounting cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from tacit.accounting.compose import total
from tacit.accounting.rdp import checked_delta, rho_of
from tacit.core import DiscreteGaussian, Gaussian, InvalidInput, Pure, Repeated, Rule, Spend, Subsampled
from tacit.core.rational import Number, bisect, exact, positive, probability, rounded_down, rounded_up

__all__ = [
    "discrete_gaussian_sigma",
    "gaussian_delta",
    "gaussian_multiplier",
    "gaussian_sigma",
    "largest_pure_epsilon",
    "least_gaussian",
    "least_prices",
    "sampled_sigma",
    "screened_sigma",
]


# The relative distance to the target at which a search ends; each step runs the accountants once.
_NEAR = 0.002
_MOST_STEPS = 60
# Mechanisms round their noise up, by less than this factor.
_ROUNDING = Fraction(101, 100)


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float) -> float:
    """The exact δ of continuous Gaussian noise at ε: Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ).

    Source: Balle & Wang 2018, Theorem 8.

    >>> f"{gaussian_delta(1.0, 3.730631635, 1.0):.6e}"
    '1.000000e-05'
    """
    from scipy.special import log_ndtr  # slow to import, and pure budgets never need it

    half, slope = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    upper, lower = float(log_ndtr(half - slope)), epsilon + float(log_ndtr(-half - slope))
    # The difference of two exponentials, relative to the larger one.
    return max(0.0, -math.exp(upper) * math.expm1(min(0.0, lower - upper)))


def gaussian_sigma(epsilon: Number, delta: Number, sensitivity: Number = 1) -> float:
    """The smallest standard deviation of continuous Gaussian noise that is (ε, δ)-DP at an L2 sensitivity.

    >>> f"{gaussian_sigma(1, 1e-5):.6f}, {gaussian_sigma(1, 1e-5, math.sqrt(2)):.6f}"
    '3.730632, 5.275910'
    """
    goal, distance = float(positive(epsilon, "epsilon")), float(positive(sensitivity, "sensitivity"))
    limit = checked_delta(float(exact(delta, "delta")))
    enough = distance
    while gaussian_delta(goal, enough, distance) > limit:
        enough *= 2
    too_little = enough
    while gaussian_delta(goal, too_little, distance) <= limit:
        too_little /= 2
    return bisect(lambda sigma: gaussian_delta(goal, sigma, distance) <= limit, enough, too_little)


@lru_cache(maxsize=256)
def gaussian_multiplier(epsilon: Number, delta: Number, repetitions: int = 1, rule: Rule = Rule.PLANNED) -> Fraction:
    """The noise multiplier, within about 1e-5 of the smallest, of ``repetitions`` Gaussian releases within (ε, δ).

    The search starts at the exact formula: planned releases are together one release with √repetitions times less
    noise; the adaptive rule needs a little more noise. The result was checked with ``total``, so an account with this
    ceiling and this rule admits the charges.

    >>> multiplier = gaussian_multiplier(1, 1e-5)
    >>> total([Gaussian(multiplier)], Fraction(1, 10**5)).epsilon <= 1, round(float(multiplier), 3)
    (True, 3.731)
    >>> [round(float(gaussian_multiplier(1, 1e-5, 4, rule)), 2) for rule in (Rule.PLANNED, Rule.ADAPTIVE)]
    [7.46, 8.09]
    """
    goal, limit = positive(epsilon, "epsilon"), probability(delta, "delta")
    if repetitions < 1:
        raise InvalidInput(f"repetitions must be at least 1, got {repetitions}")
    least = gaussian_sigma(goal, limit) * math.sqrt(repetitions)

    def holds(factor: float) -> bool:
        return total([Gaussian(rounded_up(least * factor, 9))] * repetitions, limit, rule).epsilon <= goal

    step = 1e-6
    while not holds(1 + step):
        step *= 2
    enough = 1 + step
    # If the formula is far off, as under the adaptive rule, doubling overshoots.
    if step > 1e-3:
        enough = bisect(holds, enough, 1 + step / 2, tolerance=1e-5)
    return rounded_up(least * enough, 9)


def least_gaussian(epsilon: Fraction, delta: Fraction) -> Gaussian:
    """The least that one release of continuous Gaussian noise within (ε, δ) can cost.

    >>> round(float(least_gaussian(Fraction(1), Fraction(1, 10**5)).noise_multiplier), 2)
    3.77
    """
    # By the exact formula, which imports no accountant; a multiplier that was checked with one is a little larger.
    return Gaussian(rounded_up(gaussian_sigma(epsilon, delta) * float(_ROUNDING)))


def least_prices(epsilon: Fraction, delta: Fraction) -> list[list[Spend]]:
    """The least that one release of labels or counts within (ε, δ) can cost, by each mechanism that may be chosen.

    An account that cannot pay one of these can pay no such release. Below a noise multiplier of 1 the discrete Gaussian
    differs from the continuous one, so that a price of 1 stands for all of them.

    >>> least_prices(Fraction(1), Fraction(0))
    [[Pure(epsilon=Fraction(1, 1))]]
    """
    pure: list[Spend] = [Pure(epsilon)]
    if delta == 0:
        return [pure]
    multiplier = max(Fraction(1), least_gaussian(epsilon, delta).noise_multiplier)
    sigma = max(Fraction(1), discrete_gaussian_sigma(epsilon, delta, 1, False) * _ROUNDING)
    return [[Gaussian(multiplier)], [DiscreteGaussian(sigma, 1, False)], pure]


@lru_cache(maxsize=256)
def discrete_gaussian_sigma(
    epsilon: Number,
    delta: Number,
    squared_shift: int,
    unit_steps: bool,
    repetitions: int = 1,
    rule: Rule = Rule.ADAPTIVE,
) -> Fraction:
    """The smallest σ with six decimals whose ``repetitions`` discrete Gaussian releases stay within (ε, δ).

    Found with ``total``, so an account with this ceiling and this rule admits exactly these charges.

    >>> sigma = discrete_gaussian_sigma(1, 1e-5, squared_shift=2, unit_steps=True)
    >>> float(total([DiscreteGaussian(sigma, 2, True)], Fraction(1, 10**5)).epsilon) <= 1
    True
    >>> round(float(sigma), 2)
    5.28
    """
    goal, limit = positive(epsilon, "epsilon"), probability(delta, "delta")
    checked_delta(float(limit))
    if repetitions < 1:
        raise InvalidInput(f"repetitions must be at least 1, got {repetitions}")

    def fits(sigma: float) -> bool:
        spend = DiscreteGaussian(rounded_up(sigma), squared_shift, unit_steps)
        return total([spend] * repetitions, limit, rule).epsilon <= goal

    # By zCDP this much noise is enough, up to the resolution of the Rényi curve.
    enough = 1.01 * math.sqrt(squared_shift * repetitions / (2 * rho_of(float(goal), float(limit))))
    while not fits(enough):
        enough *= 1.1
    too_little = enough / 2
    while fits(too_little):
        too_little /= 2
    # The accountants do not resolve more than seven significant digits.
    return rounded_up(bisect(fits, enough, too_little, tolerance=max(1e-7, 1e-7 * enough)))


def largest_pure_epsilon(
    total_epsilon: Number, total_delta: Number, rounds: int, rule: Rule = Rule.ADAPTIVE
) -> Fraction:
    """The largest ε per round with which ``rounds`` pure releases stay within (ε, δ) in total.

    An equal share ε/T is always possible; with δ above 0 and many rounds, composition allows more.

    >>> largest_pure_epsilon(1, 0, 4)
    Fraction(1, 4)
    >>> float(largest_pure_epsilon(1, 1e-5, 1000)) > 1 / 1000
    True
    """
    goal, limit = positive(total_epsilon, "total_epsilon"), probability(total_delta, "total_delta")
    if rounds < 1:
        raise InvalidInput(f"rounds must be at least 1, got {rounds}")
    share = goal / rounds

    def fits(epsilon: float) -> bool:
        candidate = max(share, rounded_down(epsilon, 9))
        return total([Pure(candidate)] * rounds, limit, rule).epsilon <= goal

    if limit == 0:
        return share
    return max(share, rounded_down(bisect(fits, float(share), float(goal), tolerance=1e-9 * float(share)), 9))


@lru_cache(maxsize=256)
def sampled_sigma(
    epsilon: Fraction,
    delta: Fraction,
    rate: Fraction,
    parts: tuple[tuple[float, int], ...],
    replace_one: bool = False,
) -> Fraction:
    """A σ, near the smallest, with which Gaussian releases on fresh Poisson samples of the records stay within (ε, δ).

    ``parts`` are kinds of releases, each as (scale, count): ``count`` releases with a noise multiplier of σ·scale. The
    result was checked with ``total``.

    >>> sigma = sampled_sigma(Fraction("0.397505"), Fraction(1, 10**5), Fraction("0.15"), ((2**-0.5, 735),))
    >>> 50 <= sigma <= 50.2
    True
    """

    def spent(sigma: float) -> float:
        spends = [
            Repeated(Subsampled(rate, Gaussian(rounded_down(float(rounded_up(sigma)) * scale, 9)), replace_one), count)
            for scale, count in parts
        ]
        return float(total(spends, delta, Rule.PLANNED).epsilon)

    squares = sum(count / scale**2 for scale, count in parts)
    # The noise without sampling, times the most that sampling can save.
    start = gaussian_sigma(epsilon, delta, math.sqrt(squares)) * max(float(rate), 1e-3)
    return _nearly_smallest(spent, epsilon, start)


@lru_cache(maxsize=256)
def screened_sigma(epsilon: Fraction, delta: Fraction, answers: int, screened: int, ratio: Fraction) -> Fraction:
    """A σ, near the smallest, for GNMax on ``answers`` queries after a confidence screen of ``screened`` ones.

    The screen has ``ratio`` times the noise. One teacher changes two votes per answered query and one largest count per
    screened query.

    >>> 37 < screened_sigma(Fraction("2.757885"), Fraction(1, 10**5), 286, 640, Fraction(15, 4)) < 38
    True
    """

    def spent(sigma: float) -> float:
        noise = rounded_up(sigma)
        spends = [DiscreteGaussian(ratio * noise, screened, True), DiscreteGaussian(noise, 2 * answers, True)]
        return float(total(spends, delta, Rule.PLANNED).epsilon)

    start = gaussian_sigma(epsilon, delta, math.sqrt(2 * answers + screened / float(ratio) ** 2))
    return _nearly_smallest(spent, epsilon, start)


def _nearly_smallest(spent: Callable[[float], float], epsilon: Fraction, sigma: float) -> Fraction:
    """A σ that was checked to stay within ε, at most a few thousandths larger than necessary."""
    # Noise multipliers are rounded at the ninth digit, here and when they are charged.
    goal = float(positive(epsilon, "epsilon")) * (1 - 1e-6)
    # log ε is nearly linear in log σ: aim just below the goal, and bisect when that is slow.
    low, high, fits = (-math.inf, 0.0), (math.inf, 0.0), math.inf
    aim = math.log(goal * (1 - _NEAR / 2))
    for step in range(_MOST_STEPS):
        found = spent(sigma)
        if goal * (1 - _NEAR) <= found <= goal:
            return rounded_up(sigma)
        point = math.log(sigma), math.log(max(found, 1e-12)) if math.isfinite(found) else aim + 1
        low, high, fits = (low, point, sigma) if found <= goal else (point, high, fits)
        if low[0] == -math.inf or high[0] == math.inf:
            # Not yet bracketed: assume that ε is proportional to 1/σ, and go a little farther.
            sigma *= math.exp(1.05 * (point[1] - aim))
        elif high[0] - low[0] < _NEAR / 10:
            break
        elif step % 3 == 2:
            sigma = math.exp((low[0] + high[0]) / 2)
        else:
            part = (low[1] - aim) / (low[1] - high[1])
            sigma = math.exp(low[0] + min(max(part, 0.02), 0.98) * (high[0] - low[0]))
    if fits == math.inf:
        raise InvalidInput(f"no noise was found that keeps epsilon = {float(epsilon):g}")
    return rounded_up(fits)
