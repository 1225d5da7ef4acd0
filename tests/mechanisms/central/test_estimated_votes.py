"""Answers with an estimate of their cost: sensitivities against all tables, the law of small ones, and refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.compose import total
from tacit.accounting.pate import gaussian_divergence
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.spend import Approximate, Composed, DiscreteGaussian
from tacit.mechanisms.central import estimated_votes
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.estimated_votes import PARTS, EstimatedGNMax, estimate_order

# So little noise that leads of a few votes decide what a row costs, and a δ so large that tails can be seen.
TEACHERS = 14
SMALL = EstimatedGNMax("3/2", queries=1, order=4, epsilon=5, delta="1/100")


def histograms(classes, teachers=TEACHERS):
    """Every way in which teachers, some of them silent, can vote on one question."""
    return [
        votes
        for votes in itertools.product(range(teachers + 1), repeat=classes)
        if teachers - 4 <= sum(votes) <= teachers
    ]


def neighbors(votes, known):
    """The histograms that one teacher can make of these: another label, or silence in place of one or for one."""
    found = set()
    for taken, given in itertools.product(range(-1, len(votes)), repeat=2):
        other = list(votes)
        if taken >= 0:
            other[taken] -= 1
        if given >= 0:
            other[given] += 1
        found.add(tuple(other))
    return [each for each in found if each in known]


@pytest.fixture(scope="module", params=[2, 3])
def every(request):
    listed = histograms(request.param)
    known = set(listed)
    return listed, {each: neighbors(each, known) for each in listed}


def reached(around, most):
    """The true local sensitivity of the cost of one row within every distance of every histogram: by trying all."""
    cost = {each: SMALL.cost(np.array([each])) for each in around}
    local = {each: max(abs(cost[each] - cost[other]) for other in near) for each, near in around.items()}
    found = [local]
    for _ in range(most):
        found.append({each: max(found[-1][other] for other in (each, *near)) for each, near in around.items()})
    return found


def test_the_sensitivity_at_every_distance_is_that_of_all_tables_nearby(every):
    listed, around = every
    bounds = {each: SMALL.sensitivities(np.array([each])) for each in listed}
    equal = 0
    for distance, true in enumerate(reached(around, 6)):
        for each in listed:
            assert bounds[each][distance] >= true[each]
            # With all teachers voting a lead can be pushed as far as the bound assumes, until there are no more votes.
            equal += bounds[each][distance] == true[each]
    assert equal > 0.6 * 7 * len(listed)


def test_a_bound_is_within_a_neighbors_bound_one_teacher_further_and_indices_differ_by_one(every):
    listed, around = every
    bounds = {each: SMALL.sensitivities(np.array([each])) for each in listed}
    index = {each: SMALL.index(np.array([each])) for each in listed}
    for each, near in around.items():
        for other in near:
            assert (bounds[each][:-1] <= bounds[other][1:]).all()
            assert abs(index[each] - index[other]) <= 1
    assert max(index.values()) - min(index.values()) >= 4


def test_neighbors_of_many_rows_keep_to_it():
    mechanism, random = EstimatedGNMax(3, 3, 8, 4, "1/1000"), np.random.default_rng(5)
    for _ in range(200):
        cast = [random.integers(0, 2, random.integers(1, 60)) * 2 for _ in range(3)]
        votes = np.stack([np.bincount(each, minlength=3) for each in cast])
        other = votes.copy()
        for row in other:
            taken, given = random.integers(-1, 3, 2)
            if taken >= 0 and row[taken] > 0:
                row[taken] -= 1
            if given >= 0:
                row[given] += 1
        assert abs(mechanism.cost(votes) - mechanism.cost(other)) <= mechanism.sensitivities(votes)[0]
        assert (mechanism.sensitivities(votes)[:-1] <= mechanism.sensitivities(other)[1:]).all()
        assert abs(mechanism.index(votes) - mechanism.index(other)) <= 1


def test_sizes_are_whole_numbers_that_grow_by_no_more_than_the_factor():
    for made in (SMALL, EstimatedGNMax(40, 1000, 16, "1/2", "1e-6"), EstimatedGNMax(5, 10**6, 2, "1/100", "1e-30")):
        sizes = [int(each) for each in made.sizes]
        assert all(low < high and Fraction(high, low) <= made.growth for low, high in itertools.pairwise(sizes))
        assert sizes[-1] >= made.queries * PARTS
        value = made.epsilon * 4 / 5
        # a + (r − 1)·ln(2/δ) is what the value costs.
        assert made.epsilon * 2 / 5 + float(made.growth - 1) * math.log(2 / float(made.delta)) <= value


@pytest.fixture
def coarse(monkeypatch):
    """Costs in few parts, so that every number that can come out can be listed."""
    monkeypatch.setattr(estimated_votes, "PARTS", 40)
    estimated_votes._row_costs.cache_clear()
    yield
    estimated_votes._row_costs.cache_clear()


def needed_delta(mechanism, pairs, laws):
    """The largest δ that the values of two neighbors need at 4ε/5."""
    price = math.exp(float(mechanism.epsilon) * 4 / 5)
    return max(np.maximum(laws[one] - price * laws[other], 0).sum() for one, other in pairs)


def test_every_pair_of_neighbors_is_within_the_claim_and_not_without_smoothness(coarse):
    made = EstimatedGNMax(1, queries=2, order=4, epsilon=5, delta="1/100")
    top = 24
    tables = {lead: np.array([[lead, 0]] * 2) for lead in range(top + 1)}
    pairs = [(a, b) for a in tables for b in tables if 0 < abs(a - b) <= 2]
    grid = np.arange(-4000, 4200)

    def laws(scale):
        return {
            lead: DiscreteLaplaceNoise(scale(votes), 1).pmf(grid - made.cost(votes)) for lead, votes in tables.items()
        }

    smooth = laws(lambda votes: made.scale(made.index(votes)))
    assert all(law.sum() > 1 - 1e-9 for law in smooth.values())
    assert needed_delta(made, pairs, smooth) <= float(made.delta)
    # Noise of the local sensitivity alone tells by its size where the votes are.
    local = laws(lambda votes: Fraction(max(1, int(made.sensitivities(votes)[0]))) / (made.epsilon * 2 / 5))
    assert needed_delta(made, pairs, local) > 3 * float(made.delta)
    indices = [made.index(votes) for votes in tables.values()]
    assert len(set(indices)) > 3


def test_the_cost_is_the_sum_that_the_formulas_give():
    made = EstimatedGNMax(3, 30, 8, 4, "1e-5")
    leads = np.array([40] * 26 + [30, 20, 2, 0])
    votes = np.column_stack([leads + 5, np.full((30, 3), 5)])
    plain = sum(gaussian_divergence(min(0.0, math.log(3) - lead**2 / 36), 3.0, 8) for lead in leads.tolist())
    found = made.cost(votes) * 8 / 9 / PARTS
    assert plain <= found <= plain + 30 * 3 * 8 / 9 / PARTS


def test_one_object_has_the_noise_and_its_price(monkeypatch):
    made = EstimatedGNMax(40, 286, 8, "1/2", "1e-6")
    assert made.spend == Composed(DiscreteGaussian(40, 572, True), Approximate("1/2", "1e-6"))
    assert made.max_sensitivity.l1 == 572
    assert made.releases == "labels"
    drawn = []
    plain = estimated_votes.laplace_integers
    monkeypatch.setattr(
        estimated_votes, "laplace_integers", lambda scale, *more: (drawn.append(scale), plain(scale, *more))[1]
    )
    votes = np.tile([[300, 100, 0]], (286, 1))
    answer = made.sample(votes, SystemRandomness())
    assert answer.shape == (288,)
    assert answer.dtype == np.int64
    # ε/5 for the index; the value's noise has the size of the true index, over 2ε/5.
    assert drawn == [10, int(made.sizes[made.index(votes)]) * 5]
    form = made.answer_form(286, 3, 400)
    assert form.unpack(form.pack(answer)).tolist() == answer.tolist()


def test_agreement_of_many_teachers_costs_little_and_little_noise_says_so():
    made = EstimatedGNMax(60, 300, estimate_order(60, 300, "5e-6"), "2/5", "5e-6")
    charged = total([made.spend.spends[0]], made.delta, Rule.PLANNED).epsilon
    agreed = np.tile([[1900, 100]], (300, 1))
    estimated, most = made.divergences(*made.sample(agreed, SystemRandomness())[-2:].tolist(), 1e-9)
    assert estimated <= most < 0.3 < charged
    # Of few teachers one moves much: the noise is far larger.
    few = np.tile([[95, 5]], (300, 1))
    assert made.scale(made.index(few)) > 30 * made.scale(made.index(agreed))


@pytest.mark.statistical(rate=1e-9)
def test_the_bound_is_above_the_cost_as_often_as_it_says():
    made = EstimatedGNMax(20, 100, 16, "1/2", "1e-6")
    votes = np.tile([[700, 560]], (100, 1))
    part = 16 / 400 / PARTS
    drawn = made._drawn(votes, 20_000, SystemRandomness())
    missed = sum(made.divergences(*row, 0.1)[1] < part * made.cost(votes) for row in drawn.tolist())
    # Half of the failure is for the index, whose bound is generous, so at most a tenth is missed: 2,000 and six
    # standard deviations of 43.
    assert missed < 2_260


def test_the_order_is_chosen_from_public_numbers():
    assert estimate_order(40, 300, "1e-5") < estimate_order(400, 300, "1e-5")


def test_wrong_parameters_are_refused():
    for arguments, words in (
        ((0, 4, 8, 1, "1e-6"), "sigma"),
        ((10**5, 4, 8, 1, "1e-6"), "sigma"),
        ((4, 0, 8, 1, "1e-6"), "queries"),
        ((4, 10**7, 8, 1, "1e-6"), "queries"),
        ((4, 4, 1, 1, "1e-6"), "order"),
        ((4, 4, 257, 1, "1e-6"), "order"),
        ((4, 4, 8, 0, "1e-6"), "epsilon"),
        ((4, 4, 8, "1/1000", "1e-6"), "epsilon"),
        ((4, 4, 8, 1, 0), "delta"),
        ((4, 4, 8, 1, "1/2"), "delta"),
    ):
        with pytest.raises(InvalidInput, match=words):
            EstimatedGNMax(*arguments)
    for shape in ((3, 2), (4, 1)):
        with pytest.raises(InvalidInput, match="a row for each"):
            EstimatedGNMax(4, 4, 8, 1, "1e-6").sample(np.zeros(shape, dtype=int), SeededRandomness(1))
