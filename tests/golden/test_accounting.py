"""Composed totals of published systems and calibrated noise: the vectors of mathematics 2, 8, 10 and 11."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import rdp
from tacit.accounting.calibrate import gaussian_sigma
from tacit.accounting.compose import total
from tacit.accounting.parts import parts_of
from tacit.accounting.pate import gaussian_divergence, gaussian_log_error, laplace_divergence, laplace_log_error
from tacit.accounting.planned import pld_epsilon
from tacit.core.account import Rule
from tacit.core.spend import Composed, Gaussian, Pure, RandomizedResponse, Repeated, Subsampled
from tests.accounting.published import classic_rdp_epsilon, classic_zcdp_epsilon, pure_rho, zcdp_epsilon

DELTA = Fraction(1, 10**5)
VOTES = [200, 30, 10, 5, 5, 0, 0, 0, 0, 0]


def close(value, digits=7):
    return pytest.approx(value, rel=10**-digits)


@pytest.mark.parametrize(("sensitivity", "sigma"), [(1, 3.730631635), (math.sqrt(2), 5.275909854)])
def test_gaussian_noise_for_one_and_1e_5(sensitivity, sigma):
    assert gaussian_sigma(1, DELTA, sensitivity) == close(sigma, 9)


def test_concentrated_privacy_of_one_and_1e_5():
    assert rdp.rho_of(1.0, 1e-5) == close(0.030556595, 8)
    assert zcdp_epsilon(0.030556595, 1e-5) == close(1.0, 8)


def test_laplace_noisy_max_of_a_thousand_queries():
    # The published figures take ρ = ε²/2 for each query at ε = 2γ, and the best real order.
    rho = 1000 * pure_rho(2 * 0.05)
    assert classic_zcdp_epsilon(rho, 1e-5) == close(20.174271)
    assert zcdp_epsilon(rho, 1e-5) == close(19.047260)
    # The curve of randomized response is tighter than ρ = ε²/2, and the exact composition tighter still.
    curve = rdp.curve(parts_of([Repeated(Pure("0.1"), 1000)]))
    assert rdp.improved_epsilon(curve, 1e-5) == close(18.965992)
    assert total([Repeated(Pure("0.1"), 1000)], DELTA).epsilon < rdp.improved_epsilon(curve, 1e-5)


def test_confident_gaussian_noisy_max():
    # The screening count moves by 1; an answered vote moves two counts, so L2 = √2.
    rho = 640 / (2 * 150**2) + 286 * 2 / (2 * 40**2)
    assert classic_zcdp_epsilon(rho, 1e-5) == close(3.174029)
    assert zcdp_epsilon(rho, 1e-5) == close(2.757885)
    screened = Composed(Repeated(Gaussian(150), 640), Repeated(Gaussian(40 / math.sqrt(2)), 286))
    curve = rdp.curve(parts_of([screened]))
    assert rdp.improved_epsilon(curve, 1e-5) == close(2.757887, 6)
    assert classic_rdp_epsilon(curve, 1e-5) == close(3.174043, 6)


def test_private_nearest_neighbors():
    # The grid has whole orders from 11 to 64; the figure is that of order 36.
    spend = Repeated(Subsampled(0.15, Gaussian(50 / math.sqrt(2))), 735)
    assert rdp.improved_epsilon(rdp.curve(parts_of([spend])), 1e-5) == close(0.437447, 6)
    assert pld_epsilon(parts_of([spend]), 1e-5, interval=1e-4) == close(0.397505, 6)
    found = total([spend], DELTA)
    # A finer lattice is a little tighter than the published 1e-4.
    assert 0.39747 < found.epsilon < 0.397505
    assert found.accountant == "privacy-loss distribution (PLD)"


def test_noisy_max_divergence_that_depends_on_the_votes():
    laplace, gaussian = laplace_log_error(VOTES, 0.05), gaussian_log_error(VOTES, 40)
    assert laplace == close(-6.335204326, 9)
    assert gaussian == close(-5.713103656, 9)
    for order, first, second in (
        (2, 3.728558630e-4, 8.382730871e-4),
        (8, 4.426359324e-4, 1.035895207e-3),
        (32, 1.369744537e-3, 4.411636674e-3),
    ):
        assert laplace_divergence(laplace, 0.05, order) == close(first, 9)
        assert gaussian_divergence(gaussian, 40, order) == close(second, 9)


def test_privatekt_composes_over_rounds_in_the_account_of_a_holder():
    # ε = 5 per round for K = 2 answers; a holder that is sampled in half of 500 rounds pays 250 of them.
    a_round = Repeated(RandomizedResponse(Fraction(5, 2), 10), 2)
    assert total([a_round], Fraction(0)).epsilon == 5
    assert total([a_round] * 250, Fraction(0)).epsilon == 1250
    assert total([a_round] * 500, Fraction(0)).epsilon == 2500
    # Exactly, by the multinomial; a ledger that must expect any next charge proves a little less.
    assert total([a_round] * 250, DELTA, Rule.PLANNED).epsilon == close(794.842804)
    assert total([a_round] * 250, DELTA, Rule.ADAPTIVE).epsilon == close(823.028309)


@pytest.mark.filterwarnings("ignore")
def test_repeated_randomized_response_is_counted():
    # dp_accounting 0.6 drops the count of this event; its distribution, composed by hand, gives the truth.
    import dp_accounting
    from dp_accounting.pld import PLDAccountant, privacy_loss_distribution

    replace_one = dp_accounting.NeighboringRelation.REPLACE_ONE
    noise = 10 / (math.e + 9)
    accountant = PLDAccountant(replace_one)
    accountant.compose(dp_accounting.RandomizedResponseDpEvent(noise, 10), 100)
    assert accountant.get_epsilon(1e-6) < 1
    single = privacy_loss_distribution.from_randomized_response(noise, 10, neighboring_relation=replace_one)
    truth = single.self_compose(100).get_epsilon_for_delta(1e-6)
    assert truth == pytest.approx(39.9, abs=0.01)
    exactly = total([RandomizedResponse(1, 10)] * 100, Fraction(1, 10**6), Rule.PLANNED).epsilon
    assert exactly == close(39.902015)
    assert exactly == pytest.approx(truth, rel=1e-4)
    # Of pure ε no more is known than ε = 1, and its worst mechanism is the binary one.
    for rule in Rule:
        for spends in ([Repeated(Pure(1), 100)], [Pure(1)] * 100):
            assert truth < total(spends, Fraction(1, 10**6), rule).epsilon <= 100
    assert total([Repeated(Pure(1), 100)], Fraction(1, 10**6)).epsilon == close(83.530702, 6)


def test_pure_curve_is_the_quotient_of_hyperbolic_sines():
    orders = np.array([1.5, 2.0, 8.0, 32.0])
    for epsilon in (0.1, 1.0, 4.0):
        quotient = (np.sinh(orders * epsilon) - np.sinh((orders - 1) * epsilon)) / np.sinh(epsilon)
        assert rdp.pure_curve(epsilon, orders) == pytest.approx(np.log(quotient) / (orders - 1), rel=1e-12)
