"""The law of all shuffled messages, enumerated from the clients' shares up, against what is claimed for it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import convolve2d

from tacit.core.errors import InvalidInput
from tacit.mechanisms.shuffle.multi_message_noise import OVERFLOW, MultiMessageNoise
from tacit.mechanisms.shuffle.negative_binomial import (
    NegativeBinomial,
    cell_delta,
    largest_sum,
    least_noise_messages,
    significant_up,
)


def client_law(mechanism, vote, size, flooded=True, noise=1.0):
    """P[i, j] that one client sends i messages +1 and j messages −1 about a cell, for i, j < size."""
    support = np.arange(size)
    share = mechanism.noise_share
    sign = NegativeBinomial(noise * share.shape, share.epsilon).pmf(support)
    flood = mechanism.flood_share.pmf(support) if flooded else np.eye(1, size)[0]
    law = np.zeros((size, size))
    for hidden in range(size - vote):
        # The vote and the flood move the +1 count, the flood alone the −1 count.
        law[hidden + vote :, hidden:] += flood[hidden] * np.outer(sign[: size - hidden - vote], sign[: size - hidden])
    return law


def cell_law(mechanism, votes, size, **mutation):
    """The law of the message counts of one cell after shuffling; counts below ``size`` are exact."""
    law = np.eye(1, size * size)[0].reshape(size, size)
    for client in range(mechanism.participants):
        law = convolve2d(law, client_law(mechanism, int(client < votes), size, **mutation))[:size, :size]
    return law


def divergence(first, second, epsilon):
    """The hockey-stick divergence at ε, and how much mass the enumeration left out."""
    return np.maximum(first - math.exp(epsilon) * second, 0).sum(), 1 - first.sum()


@pytest.mark.parametrize("epsilon", ["1/1000", 1, 36, 80])
def test_a_largest_sum_is_above_the_mean_for_every_epsilon(epsilon):
    # Where e^-ε is lost beside 1, so is the mean.
    law = NegativeBinomial(Fraction(10**6) * max(1, int(math.exp(min(36, float(Fraction(epsilon)))))), epsilon)
    assert largest_sum([(1, law)], 5) >= law.mean


@pytest.mark.parametrize(("noises", "floods"), [("1/100", "2"), (3, "3/1000"), (40, 90)])
@pytest.mark.parametrize("exponent", [5, 25])
def test_a_sum_exceeds_its_largest_as_rarely_as_is_said(noises, floods, exponent):
    noise, flood = NegativeBinomial(noises, "1/2"), NegativeBinomial(floods, "2/3")
    found, support = largest_sum([(1, noise), (2, flood)], exponent), np.arange(2000)
    pairs = np.zeros(4000)
    pairs[::2] = flood.pmf(support)
    law = np.convolve(noise.pmf(support), pairs)
    assert law[found + 1 :].sum() <= math.exp(-exponent)
    # Nor is it far too large: half of its distance from the mean would be exceeded more often.
    mean = noise.mean + 2 * flood.mean
    assert law[math.ceil(mean + (found - mean) / 2) :].sum() > math.exp(-exponent)


def test_messages_that_are_dropped_are_part_of_delta():
    """The whole quorum drops some with probability β, and δ grows by (1 + e^ε)β."""
    spend = SMALL.spend
    assert spend.delta == cell_delta(1, "1/2", 3, 1) + OVERFLOW
    noise = NegativeBinomial(4 * SMALL.noise_share.shape, SMALL.epsilon_noise)
    flood = NegativeBinomial(2 * SMALL.flood_share.shape, SMALL.flood.epsilon)
    cost = math.log(SMALL.quorum * (1 + math.exp(spend.epsilon)) / OVERFLOW)
    assert SMALL.most_messages(1) >= 1 + largest_sum([(1, noise), (2, flood)], cost)


SMALL = MultiMessageNoise(2, 1, 3, "1", "1/2", NegativeBinomial(3, 1))


@pytest.mark.parametrize("votes", [0, 1, 2])
def test_one_cell_costs_exactly_what_is_claimed(votes):
    without, more = cell_law(SMALL, votes, 48), cell_law(SMALL, votes + 1, 48)
    lost, left_out = divergence(more, without, 1)
    assert left_out < 1e-12
    assert lost < 1e-12
    delta = cell_delta(1, "1/2", 3, 1)
    lost, left_out = divergence(without, more, 1.5)
    assert left_out < 1e-12
    assert lost == pytest.approx(float(delta), abs=1e-10)


def test_replacing_a_vote_costs_at_most_the_spend():
    mechanism = MultiMessageNoise(2, 1, 2, "1", "1/2", NegativeBinomial(3, 1))
    one, none = cell_law(mechanism, 1, 40).ravel(), cell_law(mechanism, 0, 40).ravel()
    # One of two clients votes for nothing; the other moves its vote from the first cell to the second.
    first, second = np.outer(one, none), np.outer(none, one)
    lost, left_out = divergence(first, second, float(mechanism.spend.epsilon))
    assert left_out < 1e-12
    assert 0 < lost <= float(mechanism.spend.delta)
    # A budget that forgets one of the two cells would be wrong.
    assert divergence(first, second, 1.5)[0] > float(mechanism.spend.delta)


@pytest.mark.parametrize(
    "mutation", [{"flooded": False}, {"noise": 0.5}], ids=["without a flood", "half of the noise shares"]
)
def test_enumeration_refutes_mutants(mutation):
    without, more = cell_law(SMALL, 0, 48, **mutation), cell_law(SMALL, 1, 48, **mutation)
    upward, downward = divergence(without, more, 1.5)[0], divergence(more, without, 1)[0]
    assert max(upward - float(cell_delta(1, "1/2", 3, 1)), downward) > 1e-3


@given(
    st.fractions("1/20", 2, max_denominator=100),
    st.fractions("1/20", 2, max_denominator=100),
    st.fractions(1, 40, max_denominator=10),
    st.fractions("1/10", 2, max_denominator=100),
)
@settings(max_examples=60, deadline=None)
def test_delta_of_a_cell_is_the_sum_of_all_positive_parts(noise, margin, shape, flood):
    # The sum in floating point over the whole support, with no stop at the first term that is not positive.
    law = NegativeBinomial(shape, flood)
    support = np.arange(3000)
    sums = np.zeros(len(support))
    previous = 0.0
    for u, probability in enumerate(law.pmf(support)):
        previous = sums[u] = probability + math.exp(-2 * noise) * previous
    terms = np.maximum(sums - math.exp(margin) * np.append(0, sums[:-1]), 0)
    assert float(cell_delta(noise, margin, shape, flood)) == pytest.approx(
        -math.expm1(-noise) * terms.sum(), rel=1e-9, abs=1e-25
    )


@given(
    st.fractions("1/10", 2, max_denominator=100),
    st.fractions(1, 30, max_denominator=10),
    st.fractions("1/10", 2, max_denominator=100),
)
@settings(max_examples=30, deadline=None)
def test_more_flood_and_more_margin_never_cost_more(noise, shape, flood):
    # Up to the last of twelve digits, to which every δ is rounded up.
    delta = cell_delta(noise, "1/3", shape, flood)
    assert cell_delta(noise, "1/3", shape + 1, flood) <= delta
    assert cell_delta(noise, "1/2", shape, flood) <= delta
    assert delta <= cell_delta(noise, "1/3", 0, flood)


@pytest.mark.parametrize(
    ("noise", "margin", "delta"),
    [(".25", ".5", "1e-6"), (".45", ".1", "1e-9"), ("2", "4", "1e-6"), (".25", ".5", ".05"), (".02", ".9", "1e-7")],
)
def test_least_flood_is_enough_and_no_near_one_with_less_is(noise, margin, delta):
    flood = least_noise_messages(noise, margin, delta)
    assert cell_delta(noise, margin, flood.shape, flood.epsilon) <= Fraction(delta)
    for factor in (Fraction(1), Fraction(99, 100), Fraction(101, 100), Fraction(3, 4), Fraction(5, 4)):
        other = NegativeBinomial(1, flood.epsilon * factor)
        shape = Fraction(flood.mean * 0.995 / other.mean).limit_denominator(10**9)
        # One hundred-and-fiftieth fewer messages at any of these ratios is not enough (or its shape is refused).
        assert shape < 1 or cell_delta(noise, margin, shape * Fraction(999, 1000), other.epsilon) > Fraction(delta)


@pytest.mark.parametrize("share", ["1/4", "2/3", "1"])
def test_sums_with_noise_shares_missing_cost_at_most_the_stated_loss(share):
    law = NegativeBinomial(share, "1/2").pmf(np.arange(120))
    difference = np.convolve(law, law[::-1])[60:-60]
    ratio = np.log(np.maximum(difference[1:] / difference[:-1], difference[:-1] / difference[1:])).max()
    assert ratio <= 0.5 + math.log(1 / Fraction(share)) + 1e-9
    # ε₁ alone is right only when nothing is missing.
    assert (ratio <= 0.5 + 1e-9) == (share == "1")


@given(st.fractions("1/1000000", 1000), st.integers(1, 12))
@settings(deadline=None)
def test_significant_digits_round_up(value, digits):
    rounded = significant_up(value, digits)
    assert value <= rounded <= value * (1 + Fraction(10) ** (1 - digits))


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ((0, 1, 2, 1), "epsilon_noise"),
        ((1, 0, 2, 1), "epsilon_margin"),
        ((1, 1, "1/2", 1), "shape"),
        ((1, 1, -1, 1), "shape"),
        ((1, 1, 2, 0), "epsilon_flood"),
    ],
)
def test_bad_parameters_of_a_cell_are_named(parameters, named):
    with pytest.raises(InvalidInput, match=named):
        cell_delta(*parameters)


def test_bad_parameters_of_the_search_are_named():
    with pytest.raises(InvalidInput, match="delta"):
        least_noise_messages(1, 1, 0)
    with pytest.raises(InvalidInput, match="delta"):
        least_noise_messages(1, 1, 1)
    with pytest.raises(InvalidInput, match="epsilon_margin"):
        least_noise_messages(1, "1e-5", "1e-6")
