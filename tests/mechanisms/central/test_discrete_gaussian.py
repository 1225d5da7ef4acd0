import math
from fractions import Fraction

import numpy as np
import pytest
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import enable_features

from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import DiscreteGaussian
from tacit.mechanisms import exact
from tacit.mechanisms.central import discrete_gaussian
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise, gaussian_integers, gaussian_mass
from tacit.mechanisms.central.discrete_laplace import laplace_integers

enable_features("contrib")


def opendp_gaussian(sigma, count):
    domain = vector_domain(atom_domain(T="i64"))
    return np.array(make_gaussian(domain, l2_distance(T="f64"), scale=sigma)([0] * count))


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.99, 1.0, 1.5, 7.0, 300.0])
def test_the_normalizing_sum_is_right_on_both_sides_of_its_formula(sigma):
    direct = math.fsum(math.exp(-((x / sigma) ** 2) / 2) for x in range(-20_000, 20_001))
    assert gaussian_mass(sigma) == pytest.approx(direct, rel=1e-14)


@pytest.mark.parametrize("sigma", ["1/2", 1, 3])
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_the_renyi_divergence_is_within_the_concentrated_spend(sigma, shift):
    mechanism = DiscreteGaussianNoise(sigma, shift**2, unit_steps=False)
    outputs = np.arange(-60, 61)
    here, there = mechanism.pmf(outputs), mechanism.pmf(outputs - shift)
    inside = (here > 0) & (there > 0)
    for order in (1.25, 2.0, 4.0):
        terms = order * np.log(there[inside]) + (1 - order) * np.log(here[inside])
        divergence = math.log(math.fsum(np.exp(terms))) / (order - 1)
        rho = float(mechanism.spend.rho)
        assert divergence <= rho * order + 1e-9
        if order * shift == int(order * shift):
            # The bound is reached where the order moves the center to an integer.
            assert divergence == pytest.approx(rho * order, rel=1e-9)
        # A mutant with half the noise passes the bound.
        assert divergence * 4 > rho * order


def hockey_stick(mechanism, cells, epsilon):
    """The smallest δ at ε when that many cells move by one, by enumeration of all outputs in a window."""
    outputs = np.arange(-14, 16)
    here, there = mechanism.pmf(outputs), mechanism.pmf(outputs - 1)
    law, other = np.array([1.0]), np.array([1.0])
    for _ in range(cells):
        law, other = np.outer(law, here).ravel(), np.outer(other, there).ravel()
    return np.maximum(law - math.exp(epsilon) * other, 0).sum()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_fewer_moved_cells_never_cost_more(epsilon):
    mechanism = DiscreteGaussianNoise("3/2", 3, unit_steps=True)
    costs = [hockey_stick(mechanism, cells, epsilon) for cells in (1, 2, 3)]
    assert costs == sorted(costs)
    assert costs[0] < costs[2]


@pytest.mark.statistical(rate=1e-9)
@pytest.mark.parametrize("sigma", ["1/2", "1", "5.275910", "120"])
def test_the_sampler_follows_the_law_and_mutants_do_not(fits, sigma):
    count = 100_000
    mechanism = DiscreteGaussianNoise(sigma, 2, unit_steps=True)
    support = np.arange(-1500, 1501)
    law = mechanism.pmf(support)
    draws = mechanism.sample(np.zeros(count, dtype=int), SystemRandomness())
    assert fits(draws, support, law) > 1e-9
    half_the_noise = gaussian_integers(Fraction(sigma) / 2, count, SystemRandomness())
    assert fits(half_the_noise, support, law) < 1e-9
    never_rejected = laplace_integers(Fraction(math.floor(Fraction(sigma)) + 1), count, SystemRandomness())
    assert fits(never_rejected, support, law) < 1e-9


@pytest.mark.statistical(rate=1e-9)
def test_it_agrees_with_opendp(agree):
    theirs = opendp_gaussian(3.0, 15_000)
    ours = gaussian_integers(Fraction(3), 15_000, SystemRandomness())
    assert agree(ours, theirs) > 1e-9
    assert agree(ours // 2, theirs) < 1e-9


@pytest.mark.parametrize("sigma", ["1e-6", "0.37", "5.275910", "123456.789012", "1e12"])
def test_the_float_filter_is_within_its_margin(monkeypatch, sigma):
    """Every probability the float filter uses is as near to the exact one as the coin flip requires."""
    seen = []

    def recorded(approximate, refine, randomness):
        seen.append((approximate, [refine(index, 30) for index in range(min(200, len(approximate)))]))
        return exact.bernoulli(approximate, refine, randomness)

    monkeypatch.setattr(discrete_gaussian, "bernoulli", recorded)
    gaussian_integers(Fraction(sigma), 150, SeededRandomness(1))
    for approximate, refined in seen:
        for rough, fine in zip(approximate, refined, strict=False):
            assert abs(Fraction(float(rough)) - Fraction(fine)) < Fraction(1, 2**45)


@pytest.mark.statistical(rate=1e-9)
def test_a_huge_sigma_keeps_its_variance(fits):
    noise = gaussian_integers(Fraction(10**12), 50_000, SystemRandomness())
    below = noise < 674_489_750_196  # the third quartile of σ = 10^12
    assert fits(below, [0, 1], [0.25, 0.75]) > 1e-9
    assert fits(noise // 2 < 674_489_750_196, [0, 1], [0.25, 0.75]) < 1e-9


def test_a_budget_is_used_up_and_not_passed():
    budget = {"epsilon": 1, "delta": "1e-5", "squared_shift": 2, "unit_steps": True, "repetitions": 3}
    mechanism = DiscreteGaussianNoise.for_budget(**budget, rule=Rule.ADAPTIVE)
    less = DiscreteGaussianNoise(mechanism.sigma * Fraction(99, 100), 2, unit_steps=True)
    delta = Fraction(1, 10**5)
    assert total([mechanism.spend] * 3, delta, Rule.ADAPTIVE).epsilon <= 1
    assert total([less.spend] * 3, delta, Rule.ADAPTIVE).epsilon > 1


def test_shape_type_and_replay():
    table = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    noisy = DiscreteGaussianNoise("1/100", 1, unit_steps=True).sample(table, SystemRandomness())
    assert noisy.shape == table.shape
    assert noisy.dtype == np.int64
    assert (noisy == table).all()
    one, two = (DiscreteGaussianNoise(9, 1, unit_steps=True).sample(table, SeededRandomness(1)) for _ in range(2))
    assert (one == two).all()
    assert gaussian_integers(Fraction(3), 0, SystemRandomness()).shape == (0,)


def test_the_spend_and_the_tolerance_follow_from_the_one_parameter():
    mechanism = DiscreteGaussianNoise(2, 4, unit_steps=True)
    assert mechanism.spend == DiscreteGaussian(2, 4, unit_steps=True)
    assert mechanism.max_sensitivity == Sensitivity(l2_squared=4, linf=1)
    # Without unit steps one cell may take the whole move.
    assert DiscreteGaussianNoise(2, 4, unit_steps=False).max_sensitivity == Sensitivity(l2_squared=4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiscreteGaussianNoise(0, 1, True), "sigma must be above 0"),
        (lambda: DiscreteGaussianNoise("1e-7", 1, True), r"sigma must be in \[1e-6, 1e12\]"),
        (lambda: DiscreteGaussianNoise("1e13", 1, True), r"sigma must be in \[1e-6, 1e12\]"),
        (lambda: DiscreteGaussianNoise(1, 0, True), "squared_shift must be at least 1"),
        (lambda: DiscreteGaussianNoise(1, 1, True).sample(np.array([0.5]), SeededRandomness(1)), "integers"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
