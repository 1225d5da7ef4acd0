"""Forms of answers, the noise on them, and what the coordinator makes of them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.spend import Pure, Repeated
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, Responses
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.methods.fedmd.coordinator import agreement, as_probabilities, average, evidence, read_answer, round_rows
from tacit.methods.fedmd.plan import (
    RESPONSES,
    prediction_noise,
    response_mechanism,
)
from tacit.methods.fedmd.wire import PREDICTION_KINDS, PredictionForm, softmax


def random_scores(kind, queries, classes, seed):
    words = SeededRandomness(seed).words(queries * classes).reshape(queries, classes)
    logits = (words % 4001).astype(np.float64) / 100 - 20
    return logits.argmax(axis=1) if kind == "argmax" else logits


@given(
    st.sampled_from(PREDICTION_KINDS), st.integers(1, 6), st.integers(2, 6), st.integers(1, 50), st.integers(0, 10**6)
)
def test_no_two_models_are_further_apart_than_is_stated(kind, queries, classes, grid, seed):
    form = PredictionForm(kind, classes, grid, bound=3)
    bound = form.sensitivity(queries)
    one, other = (form.table(random_scores(kind, queries, classes, seed + i)) for i in (0, 1))
    moved = np.abs(one - other)
    assert moved.sum() <= bound.l1
    assert (moved**2).sum() <= bound.l2_squared
    assert moved.max() <= bound.linf


@pytest.mark.parametrize("kind", ["argmax", "softmax"])
def test_the_stated_distance_is_reached(kind):
    form = PredictionForm(kind, 3, grid=10)
    one = np.array([0, 0]) if kind == "argmax" else np.array([[900.0, 0, 0]] * 2)
    other = np.array([2, 1]) if kind == "argmax" else np.array([[0.0, 0, 900], [0, 900, 0]])
    moved = form.table(one) - form.table(other)
    bound = form.sensitivity(2)
    assert (np.abs(moved).sum(), (moved**2).sum(), moved.max()) == (bound.l1, bound.l2_squared, bound.linf)


@given(st.integers(2, 8), st.integers(1, 1000), st.integers(0, 10**6))
def test_probabilities_are_shares_that_add_up(classes, grid, seed):
    table = PredictionForm("softmax", classes, grid).table(random_scores("softmax", 4, classes, seed))
    assert (table.sum(axis=1) == grid).all()
    assert table.min() >= 0


def test_logits_are_centered_and_clipped():
    form = PredictionForm("logits", 3, grid=100, bound=2)
    assert form.table(np.array([[11.0, 10.0, 9.0], [100.0, 0.0, 0.0]])).tolist() == [[100, 0, -100], [200, -200, -200]]
    assert form.values(np.array([[100, 0, -100]])).tolist() == [[1.0, 0.0, -1.0]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("votes", 3), "kind must be one of"),
        (("argmax", 1), "classes must be at least 2"),
        (("softmax", 3, 0), "grid"),
        (("logits", 3, 10, 0), "bound"),
    ],
)
def test_forms_that_make_no_sense(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        PredictionForm(*arguments)


@pytest.mark.parametrize("kind", PREDICTION_KINDS)
@pytest.mark.parametrize("delta", [0, Fraction(1, 10**5)])
def test_all_rounds_together_spend_the_stated_total(kind, delta):
    form, queries, rounds = PredictionForm(kind, 5, grid=10), 20, 7
    mechanism = prediction_noise(form, queries, rounds, 2, delta)
    assert form.sensitivity(queries).within(mechanism.max_sensitivity)
    spent = total([mechanism.spend] * rounds, Fraction(delta), Rule.PLANNED).epsilon
    assert 2 * (1 - 1e-3) < spent <= 2
    # A mutant that forgets one round spends too much.
    assert total([mechanism.spend] * (rounds + 1), Fraction(delta), Rule.PLANNED).epsilon > 2


def test_half_the_noise_is_refused():
    form = PredictionForm("softmax", 4, grid=10)
    honest = prediction_noise(form, 5, 3, 1)
    half = DiscreteLaplaceNoise(honest.scale / 2, honest.l1 // 2)
    # Half the noise for the same price is a mechanism for half the distance, which the gate compares.
    assert half.spend == honest.spend
    assert not form.sensitivity(5).within(half.max_sensitivity)


@pytest.mark.statistical(rate=1e-9)
def test_noise_has_the_calibrated_spread():
    form, queries = PredictionForm("argmax", 4), 2000
    mechanism = prediction_noise(form, queries, 1, 1000)
    table = form.table(np.zeros(queries, dtype=np.int64))
    noise = mechanism.sample(table, SeededRandomness(3)) - table

    def plausible(variance):
        # The mean of x² over 8,000 draws of a two-sided geometric; its fourth moment is below 7 times variance².
        return abs((noise**2).mean() - variance) < 6.5 * variance * math.sqrt(6 / noise.size)

    assert mechanism.scale == 4
    assert plausible(mechanism.variance)
    assert not plausible(DiscreteLaplaceNoise(mechanism.scale / 2, mechanism.l1).variance)


@pytest.mark.parametrize("name", RESPONSES)
@pytest.mark.parametrize("delta", [0, Fraction(1, 10**5)])
def test_responses_of_all_rounds_spend_the_stated_total(name, delta):
    mechanism = response_mechanism(10, queries=30, rounds=3, epsilon=5, delta=delta, name=name)
    spent = total([mechanism.spend] * 3, Fraction(delta), Rule.PLANNED).epsilon
    assert 5 * (1 - 1e-3) < spent <= 5
    assert mechanism.local.epsilon >= Fraction(5, 90)
    if delta:
        # Many small responses compose to far less than their sum.
        assert mechanism.local.epsilon > Fraction(2 * 5, 90)


def test_responses_pay_for_every_label():
    one = SubsetSelection(6, 1, Fraction(1, 2))
    assert Responses(one, 40).spend == Repeated(Pure(Fraction(1, 2)), 40)
    with pytest.raises(InvalidInput, match="40 labels are paid for"):
        Responses(one, 40).sample(np.zeros(41, dtype=np.int64), SeededRandomness(1))
    with pytest.raises(InvalidInput, match="40 messages"):
        Responses(one, 40).estimates(np.zeros((39, 1), dtype=np.uint8))
    with pytest.raises(InvalidInput, match="one cell"):
        Responses(SubsetSelection(6, 2, 1), 40)


@pytest.mark.statistical(rate=1e-9)
@pytest.mark.parametrize("kind", [GeneralizedRandomizedResponse, SubsetSelection])
def test_estimates_of_responses_are_unbiased(kind):
    mechanism = Responses(kind(9, 1, 1), 20_000)
    labels = np.full(20_000, 8)
    found = mechanism.estimates(mechanism.sample(labels, SeededRandomness(5)))
    deviation = np.sqrt(max(mechanism.local.variance_one, mechanism.local.variance_zero) / 20_000)

    def near(wanted):
        return (np.abs(found.mean(axis=0) - wanted) < 6.6 * deviation).all()

    assert near(np.eye(9)[8])
    # A mutant that forgets to remove the bias, or reads the bits of a subset from the wrong end.
    assert not near(np.eye(9)[8] * mechanism.local.rates.gap + mechanism.local.rates.zero)
    assert not near(np.eye(9)[0])


def test_averages_and_weights():
    a, b = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    assert average([a, b]).tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert average([a, b], (1, 3)).tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert agreement([a, a, b]).tolist() == [1.0, 1.0, 0.5]
    assert average([a, a, b], "agreement")[0].tolist() == pytest.approx([0.8, 0.2])
    for weights, words in [
        ((1,), "one per holder"),
        ((0, 0), "not all be 0"),
        ((-1, 2), "at least 0"),
        ((math.nan, 1), "at least 0"),
        ("accuracy", "weights must be "),
    ]:
        with pytest.raises(InvalidInput, match=words):
            average([a, b], weights)
    with pytest.raises(InvalidInput, match="no party answered"):
        average([])


def test_probabilities_after_noise():
    found = as_probabilities(np.array([[3.0, 1.0, -7.0], [-1.0, -2.0, -3.0]]))
    assert found[0].tolist() == [0.75, 0.25, 0.0]
    assert found[1] == pytest.approx([1 / 3] * 3)


def test_noisy_tables_are_read_in_their_units():
    noise = DiscreteLaplaceNoise(1, 2)
    assert read_answer(np.array([[500, -250]]), PredictionForm("softmax", 2), noise).tolist() == [[0.5, -0.25]]
    assert read_answer(np.array([[3, -1]]), PredictionForm("argmax", 2), noise).tolist() == [[3.0, -1.0]]


def test_rounds_ask_about_different_samples_that_are_the_same_for_everyone():
    assert round_rows(100, 10, seed=1, number=2).tolist() == round_rows(100, 10, seed=1, number=2).tolist()
    assert round_rows(100, 10, seed=1, number=2).tolist() != round_rows(100, 10, seed=1, number=3).tolist()
    for queries in (0, 101):
        with pytest.raises(InvalidInput, match="between 1 and the 100 public samples"):
            round_rows(100, queries, 0, 0)


def test_an_unknown_response_is_refused():
    with pytest.raises(InvalidInput, match="mechanism must be one of"):
        response_mechanism(3, 1, 1, 1, name="rappor")


@pytest.mark.parametrize("kind", ["softmax", "logits"])
@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 3e38, -3e38])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_a_diverged_model_says_is_in_the_range_that_noise_was_made_for(kind, wild, dtype):
    """Whole numbers made of NaN are the most negative there are, and no noise would have hidden them."""
    form = PredictionForm(kind, classes=3, grid=10)
    tables = [
        form.table(np.array(row, dtype=dtype)[None])
        for row in ([0, 0, 0], [wild, 0, 1], [wild, -wild, 0], [wild, wild, wild])
    ]
    allowed = form.sensitivity(queries=1)
    for one in tables:
        for other in tables:
            moved = abs(one - other)
            assert moved.sum() <= allowed.l1
            assert (moved**2).sum() <= allowed.l2_squared
            assert moved.max() <= allowed.linf


@pytest.mark.parametrize("kind", [GeneralizedRandomizedResponse, SubsetSelection])
def test_evidence_of_responses_is_their_likelihood(kind):
    local = kind(4, 1, "3/2")
    mechanism = Responses(local, 1)
    # Every message with its exact probability under every label.
    laws = [local.law((label,)) for label in range(4)]
    assert len(laws[0].messages) >= 4
    for row in range(len(laws[0].messages)):
        sent = laws[0].messages[row : row + 1]
        assert all((law.messages[row : row + 1] == sent).all() for law in laws)
        chances = np.array([float(law.probabilities[row]) for law in laws])
        assert softmax(mechanism.evidence(sent))[0] == pytest.approx(chances / chances.sum(), rel=1e-9)


def test_evidence_of_noisy_tables_is_their_likelihood():
    table = np.array([[3, 0, -2]])
    for noise, log_density in [
        (DiscreteLaplaceNoise(5, 2), lambda x: -abs(x) / 5),
        (DiscreteGaussianNoise(3, 2, True), lambda x: -x * x / 18),
    ]:
        logs = np.array([sum(log_density(x - one) for x, one in zip(table[0], row, strict=True)) for row in np.eye(3)])
        assert softmax(evidence(table, noise))[0] == pytest.approx(softmax(logs[None])[0], rel=1e-9)
    with pytest.raises(InvalidInput, match="does not describe how"):
        evidence(table, PermuteAndFlip(1, 2))
