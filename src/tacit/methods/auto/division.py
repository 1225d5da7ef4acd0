"""How the default method divides its budget among its questions, and what a run of it can cost.

No accountant is imported before it is needed, so that a run that cannot pay is refused at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tacit.core import Gaussian, InvalidInput, Pure, Rule, Spend, rounded_down

__all__ = ["FIRST_SHARE", "LATER", "SUMS_THEN_GRADIENT", "divided_prices", "gaussian_budgets"]

# The first question about images shows whether clusters are classes; the last student is also trained on its answer.
FIRST_SHARE, LATER = Fraction(1, 10), Fraction(9, 20)
# Sums and the gradient that follows them.
SUMS_THEN_GRADIENT = (Fraction(1, 3), Fraction(2, 3))
# Sums of images, where sums are all that may be released.
HALVES = (Fraction(1, 2), Fraction(1, 2))
_DIVISIONS = (SUMS_THEN_GRADIENT, (FIRST_SHARE, LATER, LATER), (FIRST_SHARE, 1 - FIRST_SHARE), HALVES)
_HALVINGS = 40


def divided_prices(epsilon: Fraction, delta: Fraction) -> list[list[Spend]]:
    """What several questions cost at least, for every way in which the default divides its budget.

    >>> [len(each) for each in divided_prices(Fraction(1), Fraction(0))]
    [2, 3, 2, 2]
    """
    if delta == 0:
        return [[Pure(epsilon * share) for share in shares] for shares in _DIVISIONS]
    from tacit.accounting.calibrate import least_gaussian

    found: list[list[Spend]] = []
    for shares in _DIVISIONS:
        try:
            budgets = gaussian_budgets(epsilon, delta, shares, Rule.ADAPTIVE)
        except InvalidInput:
            # Too small to be divided in this way.
            continue
        found.append([least_gaussian(each, delta) for each in budgets])
    return found


def gaussian_budgets(epsilon: Fraction, delta: Fraction, shares: Sequence[Fraction], rule: Rule) -> list[Fraction]:
    """The ε of each question with Gaussian noise at δ, which an account of (ε, δ) with this rule admits together.

    >>> [round(float(each), 2) for each in gaussian_budgets(Fraction(3), Fraction(1, 10**6), HALVES, Rule.ADAPTIVE)]
    [1.91, 1.91]
    """
    from tacit.accounting.calibrate import gaussian_multiplier
    from tacit.accounting.compose import total

    whole = 1 / float(gaussian_multiplier(epsilon, delta))

    def spent(stretch: float) -> Fraction | float:
        spends = [Gaussian(rounded_down(1 / (stretch * whole * math.sqrt(share)))) for share in shares]
        return total(spends, delta, rule).epsilon

    low, high = 0.5, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
    budgets = [_epsilon_of(low * whole * math.sqrt(share), delta, epsilon) for share in shares]
    if not all(budgets):
        raise InvalidInput(
            f"epsilon = {float(epsilon):g} is too small relative to delta = {float(delta):g} to be divided among "
            f"{len(shares)} questions: give a smaller delta"
        )
    return budgets


def _epsilon_of(shift: float, delta: Fraction, most: Fraction) -> Fraction:
    """The ε at which one Gaussian release with this shift is (ε, δ)-DP, rounded down."""
    from tacit.accounting.calibrate import gaussian_delta

    low, high = 0.0, float(most)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(middle, 1 / shift, 1.0) <= delta else (middle, high)
    return rounded_down(low, 12)
