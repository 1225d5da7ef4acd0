"""Randomized response over several classes: exact composition against enumeration, and who may use it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from tacit.accounting.compose import total
from tacit.accounting.parts import group, parts_of
from tacit.accounting.planned import pld_epsilon, repeated_epsilon, response_epsilon
from tacit.accounting.rdp import ORDERS, curve, improved_epsilon, pure_curve, response_curve
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.spend import Gaussian, Pure, RandomizedResponse, Repeated
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse

DELTA = Fraction(1, 10**5)


def table(epsilon, classes):
    """Probabilities of every answer when the truth is 0 and when it is 1."""
    weights = np.ones((2, classes))
    weights[0, 0] = weights[1, 1] = math.exp(epsilon)
    return weights / weights.sum(axis=1, keepdims=True)


def exact_delta(epsilon, classes, count, at):
    here, there = table(epsilon, classes)
    return sum(
        max(0.0, math.prod(here[list(each)]) - math.exp(at) * math.prod(there[list(each)]))
        for each in itertools.product(range(classes), repeat=count)
    )


@pytest.mark.parametrize(
    ("epsilon", "classes", "count", "delta"),
    [("1/2", 3, 6, "0.01"), (1, 4, 5, "0.001"), (3, 3, 4, "0.05"), ("1/10", 5, 5, "0.001"), (2, 2, 6, "0.01")],
)
def test_exact_composition_meets_the_enumeration(epsilon, classes, count, delta):
    found = response_epsilon(Fraction(epsilon), classes, count, Fraction(delta))
    true = exact_delta(float(Fraction(epsilon)), classes, count, found)
    assert true <= float(Fraction(delta))
    assert true == pytest.approx(float(Fraction(delta)), rel=1e-6)
    # The mutants that lose an answer, or take it for one over more classes, are seen.
    for mutant in (
        response_epsilon(Fraction(epsilon), classes, count - 1, Fraction(delta)),
        response_epsilon(Fraction(epsilon), classes + 1, count, Fraction(delta)),
    ):
        assert exact_delta(float(Fraction(epsilon)), classes, count, mutant) > float(Fraction(delta))


@settings(max_examples=30, deadline=None)
@given(st.fractions(Fraction(1, 50), 4), st.integers(2, 40), st.integers(2, 300))
def test_exact_composition_is_what_other_accountants_approach(epsilon, classes, count):
    found = response_epsilon(epsilon, classes, count, DELTA)
    assert found <= repeated_epsilon(epsilon, Fraction(0), count, DELTA) * (1 + 1e-9)
    assert found <= improved_epsilon(curve({RandomizedResponse(epsilon, classes): count}), float(DELTA)) + 1e-9
    assert response_epsilon(epsilon, classes + 1, count, DELTA) <= found * (1 + 1e-9)
    assert found <= response_epsilon(epsilon, classes, count + 1, DELTA) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "classes", "count"), [("1/10", 10, 1000), (1, 10, 100), ("5/2", 10, 500), (1, 3, 40)]
)
def test_the_loss_distribution_meets_the_exact_composition(epsilon, classes, count):
    exact = response_epsilon(Fraction(epsilon), classes, count, DELTA)
    found = pld_epsilon({RandomizedResponse(epsilon, classes): count}, float(DELTA))
    assert exact - 1e-6 <= found <= exact * (1 + 5e-4)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 5.0, 40.0])
def test_the_curve_is_the_divergence(epsilon):
    orders = np.array([1.1, 1.5, 2.0, 8.0, 32.0])
    for classes in (2, 3, 10):
        here, there = table(epsilon, classes)
        logs = logsumexp(orders[:, None] * np.log(here) + (1 - orders[:, None]) * np.log(there), axis=1)
        assert response_curve(epsilon, classes, orders) == pytest.approx(logs / (orders - 1), rel=1e-6, abs=1e-12)
    assert response_curve(epsilon, 2) == pytest.approx(pure_curve(epsilon), rel=1e-9)
    assert (np.diff(response_curve(epsilon, 10)) >= -1e-12).all()
    assert np.isfinite(response_curve(epsilon, 10)).all()
    assert len(response_curve(epsilon, 10)) == len(ORDERS)


def test_mixed_responses_meet_the_enumeration():
    parts = {RandomizedResponse(1, 3): 2, RandomizedResponse("1/2", 4): 2, Pure("1/3"): 1}
    outcomes = [table(1, 3)] * 2 + [table(0.5, 4)] * 2 + [table(1 / 3, 2)]
    found = pld_epsilon(parts, 0.01)
    true = 0.0
    for chosen in itertools.product(*(range(each.shape[1]) for each in outcomes)):
        here = math.prod(each[0, place] for each, place in zip(outcomes, chosen, strict=True))
        there = math.prod(each[1, place] for each, place in zip(outcomes, chosen, strict=True))
        true += max(0.0, here - math.exp(found) * there)
    assert 0.0098 < true <= 0.01


def test_an_analyst_who_adapts_is_answered_by_the_filter():
    """Exact composition is for planned answers; the ledger's rule falls back on what holds for any next charge."""
    answers = [RandomizedResponse(1, 10)] * 100
    planned, adaptive = (total(answers, DELTA, rule) for rule in (Rule.PLANNED, Rule.ADAPTIVE))
    assert planned.epsilon < adaptive.epsilon < total([Pure(1)] * 100, DELTA, Rule.ADAPTIVE).epsilon
    assert adaptive.accountant == "Rényi (RDP)"
    # One charge that fixed its repetitions in advance is planned, whatever the rule.
    assert total([Repeated(RandomizedResponse(1, 10), 100)], DELTA).epsilon == planned.epsilon
    assert total([*answers, Gaussian(5)], DELTA).epsilon > adaptive.epsilon


@pytest.mark.parametrize(("cells", "ones"), [(3, 1), (10, 1), (6, 2), (7, 3), (4, 3), (5, 4), (9, 4)])
def test_the_spend_of_naming_a_cell_dominates_every_pair_of_sets(cells, ones):
    for epsilon in (0.3, 1.0, 3.0):
        mechanism = GeneralizedRandomizedResponse(cells, ones, epsilon)
        assert parts_of([mechanism.spend]) == {RandomizedResponse(epsilon, max(2, cells // ones)): 1}
        here, there = table(epsilon, mechanism.spend.classes)
        first = np.array([float(each) for each in mechanism.law(range(ones)).probabilities])
        tight = False
        for held in itertools.combinations(range(cells), ones):
            second = np.array([float(each) for each in mechanism.law(held).probabilities])
            for at in np.linspace(-epsilon, epsilon, 9):
                true = np.maximum(first - math.exp(at) * second, 0).sum()
                claimed = np.maximum(here - math.exp(at) * there, 0).sum()
                assert true <= claimed + 1e-12
                tight |= abs(true - claimed) < 1e-12 and true > 1e-6
        assert tight or cells % ones


def test_of_a_group_no_more_than_the_sum_is_known():
    assert group(RandomizedResponse(1, 10), 3) == Pure(3)
    assert group(RandomizedResponse(1, 10), 1) == RandomizedResponse(1, 10)


@pytest.mark.parametrize(("count", "delta"), [(0, "0.1"), (1, "0"), (1, "1")])
def test_bad_parameters_are_named(count, delta):
    with pytest.raises(InvalidInput, match=r"(count|delta) must be"):
        response_epsilon(Fraction(1), 3, count, Fraction(delta))


def test_too_many_answers_fall_back_on_what_can_be_summed():
    assert response_epsilon(Fraction(1, 100), 3, 10**6 + 1, DELTA) == math.inf
    found = total([Repeated(RandomizedResponse("1/1000", 3), 10**6 + 1)], DELTA)
    assert found.epsilon < 10


def test_an_epsilon_beyond_floats_is_only_summed():
    found = total([RandomizedResponse(800, 10)] * 2, Fraction(1, 10**5), Rule.PLANNED)
    assert (found.epsilon, found.accountant) == (1600, "pure composition")
