import itertools
import math

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import DiscreteGaussian, Pure, Repeated
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax, winners


def votes_of(teachers, classes):
    return np.bincount(teachers, minlength=classes)


def neighbors(classes, teachers):
    """Every pair of histograms that differ in one teacher's vote."""
    for ballot in itertools.product(range(classes), repeat=teachers):
        for vote in range(classes):
            yield votes_of(ballot, classes), votes_of((vote, *ballot[1:]), classes)


def test_one_teacher_moves_the_votes_as_far_as_is_tolerated():
    sensitivity = [there - here for here, there in neighbors(3, 3)]
    laplace, gaussian = LNMax("1/20", 1).max_sensitivity, GNMax(40, 1).max_sensitivity
    assert max(np.abs(move).sum() for move in sensitivity) == laplace.l1 == 2
    assert max((move**2).sum() for move in sensitivity) == gaussian.l2_squared == 2
    assert max(np.abs(move).max() for move in sensitivity) == laplace.linf == gaussian.linf == 1
    assert max(abs(there.max() - here.max()) for here, there in neighbors(3, 3)) == 1


def test_laplace_votes_lose_at_most_their_spend_and_can_lose_it_all():
    mechanism = LNMax("1/2", 1)
    noise = DiscreteLaplaceNoise(2, 2)
    outputs = np.arange(-20, 21)
    worst = 0.0
    for here, there in neighbors(2, 3):
        cells = [
            np.log(noise.pmf(outputs - a)) - np.log(noise.pmf(outputs - b)) for a, b in zip(here, there, strict=True)
        ]
        worst = max(worst, np.abs(np.add.outer(*cells)).max())
    assert worst == pytest.approx(float(mechanism.spend.spend.epsilon * mechanism.spend.count), abs=1e-12)


def test_the_spends_are_known_in_advance():
    assert LNMax("1/20", 1000).spend == Repeated(Pure("1/20"), 2000)
    assert GNMax(40, 286).spend == DiscreteGaussian(40, 572, unit_steps=True)
    assert ConfidentScreen(150, 200, 640).spend == DiscreteGaussian(150, 640, unit_steps=True)
    assert ConfidentScreen(150, 200, 640).max_sensitivity == Sensitivity(linf=1)


def screen_law(mechanism, votes):
    """The probability that one row passes."""
    outputs = np.arange(-200, 201)
    law = DiscreteGaussianNoise(mechanism.sigma, 1, unit_steps=True).pmf(outputs)
    return law[votes.max() + outputs >= mechanism.threshold].sum()


def test_a_refusal_costs_as_much_as_a_pass_and_never_more_than_the_spend():
    """One row: the Rényi divergence of the two-outcome law, in both directions, against ρ·α."""
    mechanism = ConfidentScreen(2, 3, 1)
    for here, there in neighbors(3, 4):
        one, two = screen_law(mechanism, here), screen_law(mechanism, there)
        for order in (1.5, 2.0, 8.0):
            moment = one**order * two ** (1 - order) + (1 - one) ** order * (1 - two) ** (1 - order)
            assert math.log(moment) / (order - 1) <= float(mechanism.spend.rho) * order + 1e-12


@pytest.mark.statistical(rate=3e-9)
def test_the_samplers_follow_their_laws_and_mutants_do_not(fits):
    count, support = 60_000, np.arange(-300, 301)
    votes = np.tile([7, 3], (count, 1))
    laplace = LNMax("1/5", count).sample(votes, SystemRandomness())
    law = DiscreteLaplaceNoise(5, 1).pmf(support)
    assert fits(laplace[:, 0] - 7, support, law) > 1e-9
    assert fits((LNMax("2/5", count).sample(votes, SystemRandomness()))[:, 0] - 7, support, law) < 1e-9
    gaussian = GNMax(4, count).sample(votes, SystemRandomness())
    law = DiscreteGaussianNoise(4, 1, unit_steps=True).pmf(support)
    assert fits(gaussian[:, 1] - 3, support, law) > 1e-9
    assert fits(GNMax(2, count).sample(votes, SystemRandomness())[:, 1] - 3, support, law) < 1e-9
    screen = ConfidentScreen(3, 9, count)
    passes = screen_law(screen, votes[0])
    assert fits(screen.sample(votes, SystemRandomness()), [0, 1], [1 - passes, passes]) > 1e-9
    # Off by one: a strict comparison with the threshold.
    strict = ConfidentScreen(3, 10, count).sample(votes, SystemRandomness())
    assert fits(strict, [0, 1], [1 - passes, passes]) < 1e-9


def test_winners_break_ties_by_index():
    assert winners(np.array([[1, 5, 5], [-3, -3, -9]])).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LNMax(0, 1), r"gamma must be in \[1e-12, 1e6\]"),
        (lambda: LNMax(1, 0), "queries must be at least 1"),
        (lambda: GNMax(0, 1), r"sigma must be in \[1e-6, 1e12\]"),
        (lambda: ConfidentScreen("1e13", 1, 1), r"sigma must be in \[1e-6, 1e12\]"),
        (
            lambda: GNMax(40, 2).sample(np.zeros((3, 2), dtype=int), SeededRandomness(1)),
            "each of the 2 queries",
        ),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
