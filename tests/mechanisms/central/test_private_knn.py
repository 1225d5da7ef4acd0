import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from tacit.accounting.compose import total
from tacit.accounting.planned import pld_epsilon
from tacit.accounting.rdp import curve, improved_epsilon
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SystemRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Gaussian, Repeated, Subsampled
from tacit.mechanisms.central.private_knn import Sampling, SubsampledGNMax, SubsampledScreen
from tacit.mechanisms.central.rounded_gaussian import rounded_gaussian_pmf


class Ballots:
    """Every record votes for its own label on the questions that reach it; who was called is remembered."""

    def __init__(self, labels, classes=2, reach=None):
        self.labels, self.classes, self.called = np.asarray(labels), classes, []
        self.reach = reach

    @property
    def voters(self):
        return len(self.labels)

    def reached(self, query):
        return self.reach[query] if self.reach is not None else np.ones(self.voters, dtype=bool)

    def votes(self, query, members):
        self.called.append(members)
        return np.bincount(self.labels[members], minlength=self.classes)


def test_the_spend_is_known_in_advance_and_rounded_down():
    sampled = SubsampledGNMax("0.15", 50, 735).spend
    assert sampled == Repeated(Subsampled("0.15", Gaussian("35.355339059")), 735)
    assert sampled.spend.spend.noise_multiplier**2 * 2 <= 2500
    replaced = SubsampledGNMax("0.15", 50, 735, replace_one=True).spend
    assert replaced == Repeated(Subsampled("0.15", Gaussian("35.355339059"), replace_one=True), 735)
    assert SubsampledGNMax("0.15", 50, 735, participations=7).spend.count == 7
    screen = SubsampledScreen("0.15", 150, 200, 640, squared_shift=9)
    assert screen.spend == Repeated(Subsampled("0.15", Gaussian(50)), 640)
    assert screen.max_sensitivity == Sensitivity(linf=3)
    assert SubsampledGNMax("0.15", 50, 735).max_sensitivity == Sensitivity(l2_squared=2)


def test_the_totals_are_those_of_the_published_setting():
    """Rate .15, noise 50, 735 queries at a delta of 1e-5, by both accountants."""
    spend = SubsampledGNMax("0.15", 50, 735).spend
    parts = {spend.spend: spend.count}
    assert improved_epsilon(curve(parts), 1e-5) == pytest.approx(0.437447, abs=1e-6)
    assert pld_epsilon(parts, 1e-5) == pytest.approx(0.397505, abs=2e-4)
    assert float(total([spend], Fraction(1, 10**5), Rule.PLANNED).epsilon) == pytest.approx(0.397505, abs=2e-4)
    # Noise or rate that is a percent off shows in the total.
    assert pld_epsilon({SubsampledGNMax("0.15", "49.5", 735).spend.spend: 735}, 1e-5) > 0.4005
    assert pld_epsilon({SubsampledGNMax("0.1515", 50, 735).spend.spend: 735}, 1e-5) > 0.4005


@pytest.mark.statistical(rate=3e-9)
def test_the_sampler_is_the_poisson_sampler_that_is_accounted(fits):
    ballots = Ballots(np.zeros(400, dtype=int))
    mechanism = SubsampledGNMax("0.15", 3, queries=400)
    noisy = mechanism.sample(ballots, SystemRandomness())
    called = np.concatenate(ballots.called)
    # Each record is called independently on each question: the number called is binomial, not fixed.
    assert fits(np.bincount(called, minlength=400) > 60, [0, 1], binomial_above(400, 0.15, 60)) > 1e-9
    sizes = np.array([len(each) for each in ballots.called])
    assert fits(sizes > 60, [0, 1], binomial_above(400, 0.15, 60)) > 1e-9
    fixed_size = np.full(400, 60)
    assert fits(fixed_size > 60, [0, 1], binomial_above(400, 0.15, 60)) < 1e-9
    # Nobody votes for the second label, so its column is noise alone.
    support = np.arange(-60, 61)
    law = rounded_gaussian_pmf(Fraction(3), support)
    assert fits(noisy[:, 1], support, law) > 1e-9


def binomial_above(count, rate, limit):
    from scipy.stats import binom

    return [binom.cdf(limit, count, rate), binom.sf(limit, count, rate)]


def test_every_question_has_a_sample_of_its_own():
    ballots = Ballots(np.zeros(200, dtype=int))
    SubsampledGNMax("1/2", 3, queries=6).sample(ballots, SystemRandomness())
    SubsampledScreen("1/2", 3, 1, queries=6).sample(ballots, SystemRandomness())
    for one, other in combinations(ballots.called, 2):
        assert not np.array_equal(one, other)


def test_all_or_a_share_of_the_records_are_called():
    assert Sampling(Fraction(1), 1, 1).heads(1000, SystemRandomness()).all()
    assert not Sampling(Fraction(1, 10**30), 1, 1).heads(1000, SystemRandomness()).any()


@pytest.mark.statistical(rate=2e-9)
def test_the_screen_follows_its_law_and_mutants_do_not(fits):
    class Constant(Ballots):
        def votes(self, query, members):
            return np.array([7, 3])

    count = 40_000
    passes = rounded_gaussian_pmf(Fraction(3), np.arange(2, 60)).sum()
    law = [1 - passes, passes]
    flags = SubsampledScreen("1/2", 3, 9, count).sample(Constant([]), SystemRandomness())
    assert fits(flags, [0, 1], law) > 1e-9
    # Off by one: a strict comparison with the threshold.
    strict = SubsampledScreen("1/2", 3, 10, count).sample(Constant([]), SystemRandomness())
    assert fits(strict, [0, 1], law) < 1e-9


def test_a_voter_takes_part_in_its_first_questions_only_called_or_not():
    """At a rate of one everybody who may is called; at a small one the participations run out all the same."""
    reach = np.array([[True, True], [True, False], [True, False], [True, True], [True, True]])
    ballots = Ballots([0, 1], reach=reach)
    SubsampledGNMax(1, 3, queries=5, participations=2).sample(ballots, SystemRandomness())
    assert [each.tolist() for each in ballots.called] == [[0, 1], [0], [], [1], []]
    rare = Ballots(np.zeros(50, dtype=int), reach=np.ones((5, 50), dtype=bool))
    SubsampledGNMax("1/1000", 3, queries=5, participations=1).sample(rare, SystemRandomness())
    assert not any(len(each) for each in rare.called[1:])


def test_who_takes_part_does_not_depend_on_who_else_is_there():
    reach = np.random.default_rng(0).random((12, 6)) < 0.5
    limited = Sampling(Fraction(1), 12, 3)
    everybody = limited.called(Ballots(np.zeros(6, dtype=int), reach=reach), SystemRandomness())
    for gone in range(6):
        rest = np.delete(np.arange(6), gone)
        others = limited.called(Ballots(np.zeros(5, dtype=int), reach=reach[:, rest]), SystemRandomness())
        for one, other in zip(everybody, others, strict=True):
            assert [each for each in one.tolist() if each != gone] == rest[other].tolist()
    counts = np.bincount(np.concatenate(everybody), minlength=6)
    assert counts.tolist() == np.minimum(reach.sum(axis=0), 3).tolist()


def hockey_stick(one, other, epsilon):
    return np.maximum(one - math.exp(epsilon) * other, 0).sum()


@pytest.mark.parametrize(("rate", "sigma"), [(0.15, 3.0), (0.5, 1.5), (0.9, 1.0)])
def test_one_replaced_question_loses_no_more_than_is_charged_and_nearly_that(rate, sigma):
    """Three places a shift of √2 apart: without the record, with it, with the other one; all directions enumerated."""
    axis = np.linspace(-12, 14, 400)
    plane = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    corners = np.array([[0.0, 0.0], [math.sqrt(2), 0.0], [math.sqrt(2) / 2, math.sqrt(1.5)]])
    cells = (axis[1] - axis[0]) ** 2 / (2 * math.pi * sigma**2)
    laws = [cells * np.exp(-np.square(plane - corner).sum(axis=1) / (2 * sigma**2)) for corner in corners]
    one, other = ((1 - rate) * laws[0] + rate * law for law in laws[1:])
    spend = SubsampledGNMax(exact_rate(rate), sigma, 1, replace_one=True).spend.spend
    removed = SubsampledGNMax(exact_rate(rate), sigma, 1).spend.spend
    for delta in (1e-2, 1e-4):
        epsilon = pld_epsilon({spend: 1}, delta)
        for first, second in ((one, other), (other, one)):
            assert hockey_stick(first, second, epsilon) <= delta * 1.005
        # What holds for one that is replaced holds for one that is removed or added as well.
        assert epsilon >= pld_epsilon({removed: 1}, delta) * 0.999
        for first, second in ((one, laws[0]), (laws[0], one)):
            assert hockey_stick(first, second, epsilon) <= delta * 1.005


def exact_rate(rate):
    return Fraction(str(rate))


@pytest.mark.parametrize("rate", ["0.15", "0.5", "0.9"])
def test_the_renyi_curve_of_a_replaced_record_is_above_the_enumerated_one(rate):
    """Two questions, by the divergence of the dominating pair as a sum over a fine grid."""
    sigma, chance = 2.0, float(Fraction(rate))
    axis = np.linspace(-30, 32, 1200)
    plane = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    corners = np.array([[0.0, 0.0], [math.sqrt(2), 0.0], [math.sqrt(2) / 2, math.sqrt(1.5)]])
    cells = (axis[1] - axis[0]) ** 2 / (2 * math.pi * sigma**2)
    laws = [cells * np.exp(-np.square(plane - corner).sum(axis=1) / (2 * sigma**2)) for corner in corners]
    one, other = ((1 - chance) * laws[0] + chance * law for law in laws[1:])
    from tacit.accounting.rdp import ORDERS

    found = curve({SubsampledGNMax(rate, sigma, 1, replace_one=True).spend.spend: 1})
    for order in (2, 4, 8):
        moment = (one * (one / other) ** (order - 1))[other > 0].sum()
        assert math.log(moment) / (order - 1) <= found[order == ORDERS][0] * 1.0001


def test_a_replaced_record_costs_hardly_more_than_an_added_one_and_all_of_it_without_a_sample():
    sampled, replaced = (SubsampledGNMax("0.15", 50, 735, replace_one=each).spend.spend for each in (False, True))
    assert 1 < pld_epsilon({replaced: 735}, 1e-5) / pld_epsilon({sampled: 735}, 1e-5) < 1.02
    whole = SubsampledGNMax(1, 50, 735, replace_one=True).spend.spend
    assert pld_epsilon({whole: 735}, 1e-5) == pytest.approx(
        pld_epsilon({Gaussian(whole.spend.noise_multiplier): 735}, 1e-5)
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SubsampledGNMax(0, 50, 1), r"rate must be in \(0, 1\]"),
        (lambda: SubsampledGNMax(2, 50, 1), r"rate must be in \(0, 1\]"),
        (lambda: SubsampledScreen(2, 50, 1, 1), r"rate must be in \(0, 1\]"),
        (lambda: SubsampledGNMax(1, "0.001", 1), r"sigma must be in \[0.01, 1e12\]"),
        (lambda: SubsampledScreen(1, "0.001", 1, 1), r"sigma must be in \[0.01, 1e12\]"),
        (lambda: SubsampledGNMax(1, 50, 1, squared_shift=0), "squared_shift must be at least 1"),
        (lambda: SubsampledGNMax(1, 50, 3, participations=4), "participations must be from 1 to the 3 queries"),
        (lambda: SubsampledGNMax(1, 50, 3, participations=0), "participations must be from 1 to the 3 queries"),
        (
            lambda: SubsampledGNMax(1, 50, 3, replace_one=True, participations=2),
            "limited under add-remove adjacency only",
        ),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
