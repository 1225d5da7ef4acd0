"""Adaptive composition: the filter holds against an analyst who chooses by what was released.

The analyst runs one mechanism with two outcomes, then a second one chosen by the outcome. All mechanisms have two
outcomes, so the true δ of the whole is an exact finite sum.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import rdp
from tacit.accounting.compose import total
from tacit.accounting.rdp import ORDERS, curve, filter_epsilon, improved_epsilon
from tacit.core.account import Rule
from tacit.core.spend import Gaussian, Pure, Subsampled
from tests.accounting.published import zcdp_epsilon

CEILING, DELTA = 2.0, 1e-3


def two_outcomes(chance, loss):
    """The chances of the first outcome on two neighboring data sets, and the Rényi curve both ways."""
    here, there = chance, chance * math.exp(-loss)

    def divergence(p, q):
        first = ORDERS * math.log(p) + (1 - ORDERS) * math.log(q)
        second = ORDERS * math.log1p(-p) + (1 - ORDERS) * math.log1p(-q)
        return np.logaddexp(first, second) / (ORDERS - 1)

    return here, there, np.maximum(divergence(here, there), divergence(there, here))


def hockey_stick(here, there, first_here, first_there):
    growth = math.exp(CEILING)
    return max(0, first_here * here - growth * first_there * there) + max(
        0, first_here * (1 - here) - growth * first_there * (1 - there)
    )


FIRST = two_outcomes(0.03, 0.35)
OUTCOMES = [(FIRST[0], FIRST[1]), (1 - FIRST[0], 1 - FIRST[1])]
# What the analyst runs next after either outcome.
NEXT = [two_outcomes(0.623, 1.7), two_outcomes(0.00396, 2.25)]


def test_the_best_order_afterwards_is_not_a_filter():
    # Both courses look affordable at the order that suits each of them, yet together they break the promise.
    for second in NEXT:
        assert improved_epsilon(FIRST[2] + second[2], DELTA) <= CEILING
    true_delta = sum(
        hockey_stick(second[0], second[1], *outcome) for second, outcome in zip(NEXT, OUTCOMES, strict=True)
    )
    assert true_delta > 1.7 * DELTA


def test_the_filter_refuses_that_analyst():
    for second in NEXT:
        assert filter_epsilon(FIRST[2] + second[2], DELTA) > CEILING


def test_the_filter_holds_against_every_such_analyst_on_a_grid():
    worst = [0.0, 0.0]
    admitted = 0
    for chance in np.exp(np.linspace(math.log(1e-4), math.log(0.9), 30)):
        for loss in np.linspace(0.1, 5, 30):
            second = two_outcomes(float(chance), float(loss))
            if filter_epsilon(FIRST[2] + second[2], DELTA) > CEILING:
                continue
            admitted += 1
            for index, outcome in enumerate(OUTCOMES):
                worst[index] = max(worst[index], hockey_stick(second[0], second[1], *outcome))
    assert admitted > 100
    assert 0.3 * DELTA < sum(worst) <= DELTA


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.03, 0.5, 5.0])
def test_for_gaussian_noise_the_filter_is_the_best_conversion(rho):
    gaussian = Gaussian(Fraction(1 / math.sqrt(2 * rho)))
    found, best = filter_epsilon(curve({gaussian: 1}), 1e-5), zcdp_epsilon(rho, 1e-5)
    assert best <= found * (1 + 1e-9)
    assert found == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("spend", [Pure("1/100"), Gaussian(30), Subsampled("1/10", Gaussian(4))])
def test_the_filter_is_close_to_the_best_order(spend):
    together = curve({spend: 400})
    best, found = improved_epsilon(together, 1e-5), filter_epsilon(together, 1e-5)
    assert best <= found <= 1.01 * best


def test_a_filter_admits_under_every_larger_ceiling():
    # At the order that any larger ceiling fixes, the curve fits as well.
    together = curve({Pure("1/10"): 100, Gaussian(10): 3})
    found = filter_epsilon(together, 1e-5)
    for ceiling in np.linspace(found * 1.001, 20 * found, 50):
        order = rdp.order_for(float(ceiling), 1e-5)
        moment = np.interp(order, [1, *ORDERS], [0, *((ORDERS - 1) * together)])
        assert moment / (order - 1) + rdp.conversion(order, 1e-5) <= ceiling


def test_no_charge_has_no_cost_and_an_endless_one_no_bound():
    assert filter_epsilon(np.zeros(len(ORDERS)), 1e-5) == 0
    assert filter_epsilon(np.full(len(ORDERS), np.inf), 1e-5) == math.inf


def test_adaptive_totals_do_not_use_the_privacy_loss_distribution():
    spends = [Gaussian(5)] * 3
    exact, filtered = total(spends, Fraction(1, 10**5), Rule.PLANNED), total(spends, Fraction(1, 10**5))
    assert exact.epsilon < filtered.epsilon
    assert filtered.accountant == "Rényi (RDP)"
