import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.amplify import AmplificationBound
from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import ANYTHING
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.shuffle.privacy_blanket import Blanket
from tacit.mechanisms.shuffle.single_message import SingleMessage

KINDS = [
    Collision,
    GeneralizedRandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
    lambda cells, ones, epsilon: UnaryEncoding(cells, ones, epsilon, symmetric=True),
]
NAMES = ["collision", "generalized randomized response", "subset selection", "bits", "symmetric bits"]


def laws(mechanism):
    """The exact law of every input, one row each."""
    inputs = itertools.combinations(range(mechanism.cells), mechanism.ones)
    return {held: np.array([float(each) for each in mechanism.law(held).probabilities]) for held in inputs}


def listed(kind, cells, ones, epsilon):
    """A mechanism's blankets by the number of cells that the two inputs share."""
    found = kind(cells, ones, epsilon).blankets()
    return dict(zip(range(max(0, 2 * ones - cells), ones), found, strict=True))


def agrees(blanket, first, second, floor, epsilon):
    """Whether two laws and the floor of all are as the blanket says."""
    likely, unlikely = first > second * (1 + 1e-9), second > first * (1 + 1e-9)
    np.testing.assert_allclose(first[likely], math.exp(epsilon) * second[likely], rtol=1e-12)
    np.testing.assert_allclose(second[unlikely], math.exp(epsilon) * first[unlikely], rtol=1e-12)
    np.testing.assert_allclose(floor[likely], second[likely], rtol=1e-12)
    np.testing.assert_allclose(floor[unlikely], first[unlikely], rtol=1e-12)
    assert blanket.likely == pytest.approx(second[likely].sum(), rel=1e-12)
    assert blanket.likely == pytest.approx(first[unlikely].sum(), rel=1e-12)
    assert blanket.total <= floor.sum() * (1 + 1e-12)


@pytest.mark.parametrize("kind", KINDS[1:], ids=NAMES[1:])
@pytest.mark.parametrize(("cells", "ones"), [(3, 1), (5, 1), (4, 2), (6, 2), (5, 3)])
@pytest.mark.parametrize("epsilon", ["1/3", "2"])
def test_blankets_are_those_of_the_exact_laws(kind, cells, ones, epsilon):
    if kind not in (GeneralizedRandomizedResponse, SubsetSelection) and ones > 1:
        assert kind(cells, ones, epsilon).blankets() == []
        return
    table, found = laws(kind(cells, ones, epsilon)), listed(kind, cells, ones, epsilon)
    floor = np.min(list(table.values()), axis=0)
    seen = set()
    for first, second in itertools.permutations(table, 2):
        shared = len(set(first) & set(second))
        agrees(found[shared], table[first], table[second], floor, Fraction(epsilon))
        seen.add(shared)
    assert seen == set(found)


def test_blanket_of_hashing_is_that_of_the_exact_laws():
    # Linear maps can be listed, all of them; a keyed hash has the same blanket as far as it is as good.
    mechanism = LinearHashing(5, 1, 1, size=3)
    (blanket,) = mechanism.blankets()
    table = laws(mechanism)
    floor = np.min(list(table.values()), axis=0)
    for first, second in itertools.permutations(table, 2):
        agrees(blanket, table[first], table[second], floor, 1)
    assert Collision(5, 1, 1, length=3).blankets() == [blanket]
    assert Collision(5, 2, 1).blankets() == []


@pytest.mark.parametrize(
    ("messages", "local", "epsilon", "delta"),
    [(50, 1, 0.3, 0.00408908635795), (1000, 1, 0.1, 8.201166e-5), (10_000, 2, 0.1, 6.021293e-6)],
)
def test_binary_response_has_the_golden_divergence(messages, local, epsilon, delta):
    # With two answers the blanket is all there is, and the bound is the exact divergence.
    growth = math.exp(local)
    blanket = Blanket(local, 1 / (growth + 1), 2 / (growth + 1))
    assert blanket.delta(messages, epsilon, delta) == pytest.approx(delta, rel=2e-6)


def test_bound_is_the_expectation_it_stands_for():
    # By brute force over all numbers of messages of the three kinds.
    blanket, messages, epsilon = Blanket(1.5, 0.08, 0.5), 12, 0.4
    factor, growth = math.exp(1.5), math.exp(0.4)
    total = 0.0
    for u, v, w in itertools.product(range(messages + 1), repeat=3):
        if u + v + w <= messages:
            ways = math.factorial(messages) / math.prod(map(math.factorial, (u, v, w, messages - u - v - w)))
            mass = ways * 0.08 ** (u + v) * 0.34**w * 0.5 ** (messages - u - v - w)
            total += mass * max(0.0, (factor - growth) * u - (growth * factor - 1) * v - (growth - 1) * w)
    assert blanket.delta(messages, epsilon, 1e-6) == pytest.approx(total / messages, rel=1e-7)


def test_a_mechanism_without_a_blanket_gets_the_general_bound():
    mechanism = SingleMessage(LocalLaplace(20, 1, 3), 10_000, "1e-6")
    assert mechanism.amplified.bound == AmplificationBound.NUMERIC_2022


def shuffled_law(mechanism, inputs):
    """The exact law of the multiset of all clients' messages."""
    total = Counter({(): 1.0})
    for cell in inputs:
        law = mechanism.law([cell])
        step = Counter()
        for seen, mass in total.items():
            for message, probability in zip(law.messages.tolist(), law.probabilities, strict=True):
                step[tuple(sorted((*seen, message)))] += mass * float(probability)
        total = step
    return total


@pytest.mark.parametrize("delta", ["0.001", "0.03"])
@pytest.mark.parametrize("others", [(0, 0, 0, 0, 0, 0), (2, 2, 2, 2, 2, 2), (0, 1, 2, 0, 1, 2)])
def test_shuffled_messages_cost_at_most_the_spend(delta, others):
    mechanism = GeneralizedRandomizedResponse(3, 1, 2)
    shuffled = SingleMessage(mechanism, 1 + len(others), delta)
    first, second = shuffled_law(mechanism, (0, *others)), shuffled_law(mechanism, (1, *others))

    def lost(epsilon):
        return sum(max(0.0, mass - math.exp(epsilon) * second[seen]) for seen, mass in first.items())

    assert shuffled.spend.epsilon < mechanism.epsilon
    assert lost(float(shuffled.spend.epsilon)) <= float(delta)


def test_enumeration_refutes_the_claim_of_a_larger_crowd():
    # Mutant: amplification computed for ten times the clients there are.
    mechanism = GeneralizedRandomizedResponse(3, 1, 2)
    first, second = shuffled_law(mechanism, (0,) + (2,) * 6), shuffled_law(mechanism, (1,) + (2,) * 6)
    epsilon = float(SingleMessage(mechanism, 70, "0.03").spend.epsilon)
    assert sum(max(0.0, mass - math.exp(epsilon) * second[seen]) for seen, mass in first.items()) > 0.03


@pytest.mark.parametrize("epsilon", [0.5, 1.2, 1.85])
def test_the_blanket_covers_the_case_that_refutes_the_variation_ratio(epsilon):
    # When all seven messages are 0, which happens with probability 0.787^7, the two laws are e^2 apart.
    mechanism = GeneralizedRandomizedResponse(3, 1, 2)
    first, second = shuffled_law(mechanism, (0,) * 7), shuffled_law(mechanism, (1,) + (0,) * 6)
    exact = sum(max(0.0, mass - math.exp(epsilon) * second[seen]) for seen, mass in first.items())
    assert 0.02 < exact <= mechanism.blankets()[0].delta(7, epsilon, 1e-3)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_budget_is_used_up_and_not_passed(kind):
    plan = SingleMessage.for_budget(lambda local: kind(50, 2, local), 5000, "0.5", "1e-6")
    assert Fraction("0.499") < plan.spend.epsilon <= Fraction("0.5")
    assert plan.spend.delta == Fraction("1e-6")
    assert plan.mechanism.epsilon > 1
    # A mechanism's own blanket is never worse than the general bound.
    assert plan.amplified.bound == ("privacy blanket" if plan.mechanism.blankets() else AmplificationBound.NUMERIC_2022)


def test_a_crowd_too_small_to_hide_in_leaves_the_local_guarantee():
    plan = SingleMessage.for_budget(lambda local: GeneralizedRandomizedResponse(10, 1, local), 1, 1, "1e-9")
    assert 1 <= plan.mechanism.epsilon < Fraction("1.0001")
    assert plan.spend.epsilon <= 1


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_messages_pass_through_and_come_out_without_their_order(kind):
    mechanism = SingleMessage(kind(9, 2, 2), 20, "1e-3")
    votes = np.stack([np.arange(20) % 8, np.full(20, 8)], axis=1)
    messages = mechanism.encode(votes, SeededRandomness(3))
    assert messages.tolist() == mechanism.mechanism.encode(votes, SeededRandomness(3)).tolist()
    assert mechanism.sample(votes, SeededRandomness(3)).tolist() == messages.tolist()
    mixed = mechanism.shuffle([messages[:5], messages[5:]], 20)
    assert mixed.dtype == messages.dtype
    assert mixed.tolist() == mechanism.shuffle([messages[::-1]], 20).tolist()
    assert sorted(mixed.tolist()) == sorted(messages.tolist())
    first, second = mechanism.decode(mixed, 20), mechanism.mechanism.decode(messages)
    np.testing.assert_allclose(first.counts, second.counts, rtol=1e-9)
    np.testing.assert_allclose(first.variances, second.variances, rtol=1e-9)


def test_below_the_quorum_nothing_is_revealed():
    mechanism = SingleMessage(GeneralizedRandomizedResponse(9, 1, 2), 20, "1e-3")
    messages = mechanism.encode(np.zeros((19, 1), dtype=int), SeededRandomness(3))
    with pytest.raises(TooFewParticipants, match="19 participants answered, and at least 20 are needed"):
        mechanism.shuffle([messages], 19)
    with pytest.raises(TooFewParticipants):
        mechanism.decode(messages, 19)
    with pytest.raises(InvalidInput, match="one per participant"):
        mechanism.shuffle([messages], 20)


def test_trust_is_said_in_words():
    mechanism = SingleMessage(GeneralizedRandomizedResponse(9, 1, 2), 20, "1e-3")
    assert "at least 20 participants (privacy blanket)" in mechanism.in_words
    assert "epsilon = 2." in mechanism.in_words
    assert mechanism.max_sensitivity == ANYTHING


@pytest.mark.parametrize(
    ("participants", "delta", "named"), [(0, "1e-6", "participants"), (9, 0, "delta"), (9, 1, "delta")]
)
def test_bad_parameters_are_named(participants, delta, named):
    with pytest.raises(InvalidInput, match=named):
        SingleMessage(GeneralizedRandomizedResponse(9, 1, 2), participants, delta)


@pytest.mark.parametrize(
    ("epsilon", "delta", "named"), [(0, "1e-6", "epsilon"), (1, 0, "delta"), (60, "1e-6", "epsilon")]
)
def test_bad_budgets_are_named(epsilon, delta, named):
    with pytest.raises(InvalidInput, match=named):
        SingleMessage.for_budget(lambda local: GeneralizedRandomizedResponse(9, 1, local), 100, epsilon, delta)
