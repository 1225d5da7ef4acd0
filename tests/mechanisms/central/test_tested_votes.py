"""Propose, test, release: the whole law of small tables enumerated, the distance, and what is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.pate import gaussian_divergence
from tacit.accounting.rdp import improved_epsilon
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.spend import Approximate
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.tested_votes import _ORDERS, TestedGNMax, contested_sigma

TEACHERS = 40
# So little noise that the test decides, and a δ so large that its failures can be seen.
SMALL = TestedGNMax("3/2", queries=2, epsilon="3/2", delta="1/100", test=1)


def first_wins(sigma, leads):
    """The probability that the first of two labels wins, by its lead: ties go to it."""
    reach = math.ceil(12 * float(sigma)) + 1
    one = DiscreteGaussianNoise(sigma, 2, True).pmf(np.arange(-reach, reach + 1))
    both = np.convolve(one, one[::-1])  # of the second's noise minus the first's, from −2·reach
    upto = np.concatenate([[0.0], np.cumsum(both)])
    return upto[np.clip(leads + 2 * reach + 1, 0, len(both))]


def law_of(mechanism, tables):
    """P(labels of both rows) for every table of two rows and two labels, and which were within reach of σ."""
    leads = tables[:, :, 0] - tables[:, :, 1]
    distances = np.array([mechanism.distance(table) for table in tables])
    scale = DiscreteLaplaceNoise(1 / mechanism.test, 1)
    passing = {
        each: float(scale.pmf(np.arange(mechanism.margin - each, mechanism.margin - each + 400)).sum())
        for each in set(distances.tolist())
    }
    passes = np.array([passing[each] for each in distances.tolist()])
    parts = []
    for sigma in (mechanism.sigma, mechanism.safe.sigma):
        wins = first_wins(sigma, leads)
        parts.append(
            np.stack([
                (wins[:, 0] if a == 0 else 1 - wins[:, 0]) * (wins[:, 1] if b == 0 else 1 - wins[:, 1])
                for a, b in itertools.product((0, 1), repeat=2)
            ])
        )  # fmt: skip
    return (passes * parts[0] + (1 - passes) * parts[1]).T, parts[0].T, distances


@pytest.fixture(scope="module")
def enumerated():
    votes = np.array([[[a, TEACHERS - a], [b, TEACHERS - b]] for a in range(TEACHERS + 1) for b in range(TEACHERS + 1)])
    places = {(int(table[0, 0]), int(table[1, 0])): place for place, table in enumerate(votes)}
    pairs = [
        (place, places[a + da, b + db])
        for (a, b), place in places.items()
        for da, db in itertools.product((-1, 0, 1), repeat=2)
        if (da, db) != (0, 0) and (a + da, b + db) in places
    ]
    return votes, np.array(pairs)


def excess(first, second, epsilon):
    """The δ that two laws need at ε, each row a pair."""
    return np.maximum(first - math.exp(epsilon) * second, 0).sum(axis=1)


def test_every_pair_of_neighbors_is_within_the_claim(enumerated):
    votes, pairs = enumerated
    whole, little, distances = law_of(SMALL, votes)
    assert distances.min() == -1
    assert distances.max() >= SMALL.margin
    claimed = SMALL.spend
    needed = excess(whole[pairs[:, 0]], whole[pairs[:, 1]], float(claimed.epsilon))
    assert needed.max() <= float(claimed.delta)
    # Where the distance is not −1, σ alone is enough for (ε, δ); somewhere else it is not, so that the test is needed.
    costs = excess(little[pairs[:, 0]], little[pairs[:, 1]], float(SMALL.epsilon))
    near = distances[pairs[:, 0]] >= 0
    assert costs[near].max() <= float(SMALL.delta)
    assert costs[~near].max() > 2 * float(claimed.delta)


def test_a_test_without_noise_or_margin_breaks_the_claim(enumerated):
    votes, pairs = enumerated
    _, little, distances = law_of(SMALL, votes)
    safe = np.stack([first_wins(SMALL.safe.sigma, votes[:, row, 0] - votes[:, row, 1]) for row in (0, 1)], axis=1)
    chances = np.stack([np.where(a, 1 - safe[:, 0], safe[:, 0]) * np.where(b, 1 - safe[:, 1], safe[:, 1])
                        for a, b in itertools.product((0, 1), repeat=2)], axis=1)  # fmt: skip
    always = np.where(distances[:, None] > -2, little, chances)
    needed = excess(always[pairs[:, 0]], always[pairs[:, 1]], float(SMALL.spend.epsilon))
    assert needed.max() > float(SMALL.spend.delta)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_distance_moves_by_one_when_a_teacher_changes(classes):
    mechanism, random = TestedGNMax(2, 3, 2, "1/1000", "1/2"), np.random.default_rng(5)
    seen = set()
    for _ in range(400):
        top = random.integers(2, 130)
        votes = np.stack([
            np.bincount(np.append(np.zeros(top, int), random.integers(0, classes, random.integers(0, 40))),
                        minlength=classes)
            for _ in range(3)
        ])  # fmt: skip
        other = votes.copy()
        for row in other:
            # One teacher goes from one label to another, from silence to a label, or the other way round.
            taken, given = random.integers(-1, classes, 2)
            if taken >= 0 and row[taken] > 0:
                row[taken] -= 1
            if given >= 0:
                row[given] += 1
        distances = mechanism.distance(votes), mechanism.distance(other)
        assert abs(distances[0] - distances[1]) <= 1
        seen.add(distances[0])
    assert min(seen) == -1
    assert max(seen) > 20


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3), Fraction(17)])
def test_another_label_wins_no_more_often_than_is_reckoned_with(sigma):
    leads = np.arange(1, math.ceil(8 * sigma))
    wrong = 1 - first_wins(sigma, leads)
    assert (wrong <= np.exp(-((leads / (2 * float(sigma))) ** 2)) + 1e-12).all()


def test_the_distance_is_the_one_that_the_formulas_give():
    mechanism, classes = TestedGNMax(3, 30, 4, "1e-5", "1/2"), 4
    leads = np.array([60] * 26 + [45, 30, 2, 0])
    votes = np.column_stack([leads + 5, np.full((30, classes - 1), 5)])

    def cost(less):
        total = np.zeros(len(_ORDERS))
        for lead in np.maximum(leads - less, 0):
            error = min(0.0, math.log(classes - 1) - lead**2 / 36)
            total += [gaussian_divergence(error, 3.0, order) for order in _ORDERS]
        return improved_epsilon(total, 1e-5, np.array(_ORDERS))

    found = mechanism.distance(votes)
    assert 0 < found < 2 * mechanism.margin
    assert cost(2 * found) <= 4 < cost(2 * found + 2)


def test_one_object_has_the_noise_and_its_price():
    made = TestedGNMax(40, 286, 2, "1e-6", "1/4")
    assert made.spend == Approximate(Fraction(9, 4), Fraction(2, 10**6))
    # From −1 the noise must reach one more than the margin.
    scale = math.exp(-1 / 4)
    assert scale ** (made.margin + 1) / (1 + scale) <= 1e-6 < scale**made.margin / (1 + scale)
    assert made.max_sensitivity.l1 == 2 * 286
    assert made.safe == DiscreteGaussianNoise.for_budget(2, "1e-6", 572, True, 1, Rule.PLANNED)
    assert made.releases == "labels"


def test_agreed_votes_get_less_noise_and_contested_ones_the_safe_amount(monkeypatch):
    from tacit.mechanisms.central import tested_votes

    drawn, plain = [], tested_votes.gaussian_integers

    def noted(sigma, count, randomness):
        if count:
            drawn.append(sigma)
        return plain(sigma, count, randomness)

    monkeypatch.setattr(tested_votes, "gaussian_integers", noted)
    made = TestedGNMax(5, 4, 2, "1e-6", 1)
    agreed, contested = np.tile([[400, 0, 0]], (4, 1)), np.tile([[30, 29, 1]], (4, 1))
    assert made.sample(agreed, SystemRandomness()).tolist() == [0, 0, 0, 0]
    assert made.distance(contested) == -1
    made.sample(contested, SystemRandomness())
    assert drawn == [made.sigma, made.safe.sigma]


def test_the_noise_for_few_contested_queries_is_less_than_for_all():
    few, all_of_them = contested_sigma(2, "1e-6", 25), contested_sigma(2, "1e-6", 100)
    assert few * 2 == pytest.approx(all_of_them, rel=1e-5)
    made = TestedGNMax(few, 100, 2, "1e-6", 1)
    votes = np.tile([[500, 20]], (100, 1))
    votes[:25] = [260, 260]
    assert made.distance(votes) > made.margin
    votes[:30] = [260, 260]
    assert made.distance(votes) == -1


def test_wrong_parameters_are_refused():
    for arguments, words in (
        ((0, 4, 1, "1e-6", 1), "sigma"),
        ((4, 0, 1, "1e-6", 1), "queries"),
        ((4, 4, 0, "1e-6", 1), "epsilon"),
        ((4, 4, 1, 0, 1), "delta"),
        ((4, 4, 1, "1/2", 1), "delta"),
        ((4, 4, 1, "1e-6", 0), "test"),
        ((4, 4, 1, "1e-6", "1e-9"), "test"),
    ):
        with pytest.raises(InvalidInput, match=words):
            TestedGNMax(*arguments)
    with pytest.raises(InvalidInput, match="one row for each of the 4"):
        TestedGNMax(4, 4, 1, "1e-6", 1).sample(np.zeros((3, 2), dtype=int), SeededRandomness(1))
    with pytest.raises(InvalidInput, match="too small"):
        contested_sigma("1/100", "1e-6", 5)
