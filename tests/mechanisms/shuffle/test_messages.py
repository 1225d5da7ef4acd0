from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import ANYTHING
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise, plan_noise_messages
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial

RATE = 1e-9
FLOOD = NegativeBinomial(3, 1)
CELLS = 40_000


def counted(mechanism, messages):
    """How many +1 and −1 messages each cell got, as one number per cell."""
    plus = np.bincount(messages[messages[:, 1] > 0, 0], minlength=mechanism.cells)
    minus = np.bincount(messages[messages[:, 1] < 0, 0], minlength=mechanism.cells)
    return 1000 * plus + minus


def cell_law(votes, flood=FLOOD, size=60):
    """What ``counted`` can be and its probabilities, from the formula P(i, j) = (1−p)² p^|i−x−j| s(min(i−x, j))."""
    decay = np.exp(-1.0)
    sums = np.zeros(size)
    for u, probability in enumerate(flood.pmf(np.arange(size))):
        sums[u] = probability + decay**2 * (sums[u - 1] if u else 0)
    i, j = np.meshgrid(np.arange(votes, size), np.arange(size), indexing="ij")
    law = (1 - decay) ** 2 * decay ** abs(i - votes - j) * sums[np.minimum(i - votes, j)]
    return (1000 * i + j).ravel(), law.ravel()


@pytest.mark.statistical(rate=RATE)
def test_sampled_messages_have_the_stated_law(fits):
    mechanism = MultiMessageNoise(CELLS, 1, 4, 1, "1/2", FLOOD)
    nobody, randomness = np.full((4, 1), -1), SystemRandomness()

    def tally(answers):
        return counted(mechanism, np.concatenate(answers))

    assert fits(tally(mechanism.encode(nobody, randomness)), *cell_law(0)) > RATE
    # Mutant: shares of 2/n.
    doubled = MultiMessageNoise(CELLS, 1, 2, 1, "1/2", FLOOD)
    assert fits(tally(doubled.encode(nobody, randomness)), *cell_law(0)) < RATE
    # Mutants: no flood, and a flood that is not shared between +1 and −1.
    noise = mechanism.noise_share.scatter(4, 2 * CELLS, randomness)
    slots = np.bincount(noise.slot, weights=noise.size, minlength=2 * CELLS).astype(int)
    assert fits(1000 * slots[::2] + slots[1::2], *cell_law(0)) < RATE
    for sign in (0, 1):
        flood = mechanism.flood_share.scatter(4, CELLS, randomness)
        slots[sign::2] += np.bincount(flood.slot, weights=flood.size, minlength=CELLS).astype(int)
    assert fits(1000 * slots[::2] + slots[1::2], *cell_law(0)) < RATE


@pytest.mark.statistical(rate=RATE)
def test_a_vote_moves_the_law_by_one_message(fits):
    # So large a flood that one client may vote for every cell.
    flood = NegativeBinomial(150, 2)
    mechanism = MultiMessageNoise(5000, 5000, 2, 1, 3, flood)
    votes = np.stack([np.arange(5000), np.full(5000, -1)])
    drawn = counted(mechanism, np.concatenate(mechanism.encode(votes, SystemRandomness())))
    assert fits(drawn, *cell_law(1, flood)) > RATE
    # Mutant: the vote is forgotten.
    assert fits(drawn, *cell_law(0, flood)) < RATE


@pytest.mark.statistical(rate=2 * RATE)
def test_decoded_counts_have_discrete_laplace_noise_and_more_with_more_clients(fits):
    # Shares are planned for two thirds of six clients; with five of them the noise is NB(5/4) minus NB(5/4).
    mechanism = MultiMessageNoise(CELLS, 1, 6, "1/2", "1/2", FLOOD, share="2/3")
    support, randomness = np.arange(300), SystemRandomness()
    for present, shape in ((4, 1), (5, "5/4")):
        answers = mechanism.encode(np.full((present, 1), -1), randomness)
        estimates = mechanism.decode(mechanism.shuffle(answers, present), present)
        law = NegativeBinomial(shape, "1/2").pmf(support)
        offsets, difference = np.arange(-299, 300), np.convolve(law, law[::-1])
        assert fits(estimates.counts.astype(int), offsets, difference) > RATE
        assert estimates.variances[0] == pytest.approx(difference @ offsets**2, rel=1e-9)
    # Mutant: the same counts taken for those of a run in which nobody was missing.
    whole = NegativeBinomial("3/2", "1/2").pmf(support)
    assert fits(estimates.counts.astype(int), offsets, np.convolve(whole, whole[::-1])) < RATE


@given(
    st.lists(st.lists(st.integers(0, 11), min_size=0, max_size=3, unique=True), min_size=1, max_size=30),
    st.integers(0, 2**32),
)
@settings(deadline=None)
def test_messages_round_trip_when_only_the_flood_is_there(votes, seed):
    # At ε₁ = 100 a noise share is never drawn, and the flood cancels: what is left is the votes, exactly.
    mechanism = MultiMessageNoise(12, 3, len(votes), 100, "1/2", NegativeBinomial(20, "1/2"))
    table = np.array([row + [-1] * (3 - len(row)) for row in votes])
    answers = mechanism.encode(table, SeededRandomness(seed))
    assert len(answers) == len(votes)
    estimates = mechanism.decode(mechanism.shuffle(answers, len(votes)), len(votes))
    expected = np.bincount([cell for row in votes for cell in row], minlength=12)
    assert estimates.counts.tolist() == expected.tolist()


@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 2**32))
@settings(deadline=None)
def test_every_message_names_a_cell_and_a_sign_and_order_tells_nothing(clients, cells, seed):
    mechanism = MultiMessageNoise(cells, 1, clients, 1, "1/2", FLOOD)
    votes = np.arange(clients)[:, None] % cells
    answers = mechanism.encode(votes, SeededRandomness(seed))
    for answer, (cell,) in zip(answers, votes, strict=True):
        assert answer.dtype == np.int64
        assert answer[answer[:, 0] == cell, 1].max() == 1
        assert set(answer[:, 1].tolist()) <= {1, -1}
        assert answer[:, 0].tolist() == sorted(answer[:, 0].tolist())
    # The shuffler's output depends on the messages alone, not on who sent them.
    mixed = mechanism.shuffle(answers, clients)
    assert mixed.tolist() == mechanism.shuffle(answers[::-1], clients).tolist()
    assert sorted(mixed.tolist()) == sorted(row for answer in answers for row in answer.tolist())


def test_one_client_and_many_draw_from_the_same_words():
    mechanism = MultiMessageNoise(50, 2, 3, 1, "1/2", FLOOD)
    assert (
        mechanism.sample(np.array([4, 9]), SeededRandomness(5)).tolist()
        == mechanism.encode(np.array([[4, 9]]), SeededRandomness(5))[0].tolist()
    )
    several = mechanism.sample(np.array([[4, 9], [0, 1]]), SeededRandomness(5))
    separate = np.concatenate(mechanism.encode(np.array([[4, 9], [0, 1]]), SeededRandomness(5)))
    assert sorted(several.tolist()) == sorted(separate.tolist())


def test_below_the_quorum_nothing_is_revealed():
    mechanism = MultiMessageNoise(10, 1, 100, 1, "1/2", FLOOD, share="0.75")
    assert mechanism.quorum == 75
    answers = mechanism.encode(np.zeros((75, 1), dtype=int), SeededRandomness(1))
    assert len(mechanism.shuffle(answers, 75)) > 0
    with pytest.raises(TooFewParticipants, match="74 participants answered, and at least 75 are needed"):
        mechanism.shuffle(answers[:74], 74)
    with pytest.raises(TooFewParticipants):
        mechanism.decode(np.array([[0, 1]]), 74)
    # 7.5 clients are eight: seven would bring less than the promised share of the noise.
    assert MultiMessageNoise(10, 1, 10, 1, "1/2", FLOOD, share="0.75").quorum == 8


def test_the_mean_number_of_messages_is_as_stated():
    mechanism = MultiMessageNoise(30, 2, 500, "1/4", "1/2", NegativeBinomial(40, "1/2"), share="0.8")
    votes = np.tile([3, 7], (500, 1))
    sent = [sum(map(len, mechanism.encode(votes, SeededRandomness(seed)))) for seed in range(20)]
    assert np.mean(sent) / 500 == pytest.approx(mechanism.messages, rel=0.01)
    noise = 2 * 30 / (0.8 * 500) * (1 / np.expm1(0.25) + 40 / np.expm1(0.5))
    assert mechanism.messages == pytest.approx(2 + noise)


def test_it_is_a_mechanism_that_tolerates_any_votes():
    mechanism = MultiMessageNoise(10, 2, 100, 1, "1/2", FLOOD)
    assert mechanism.max_sensitivity == ANYTHING
    assert mechanism.spend.epsilon == 2 * (2 * 1 + Fraction(1, 2))


@pytest.mark.parametrize(
    ("prefer", "fraction"), [("1/2", Fraction(1, 2)), (0.25, Fraction(1, 4)), ("least_noise", Fraction(1, 10))]
)
@pytest.mark.parametrize("ones", [1, 4])
def test_a_plan_spends_the_whole_epsilon_and_at_most_delta(prefer, fraction, ones):
    plan = plan_noise_messages("0.8", "1e-7", cells=100, participants=1000, ones=ones, prefer=prefer)
    assert plan.spend.epsilon == Fraction(4, 5)
    assert Fraction("9.99e-8") < plan.spend.delta <= Fraction("1e-7")
    assert 1 / plan.epsilon_noise == 2 * ones / ((1 - fraction) * Fraction(4, 5))


def test_the_plan_with_the_fewest_messages_has_the_fewest():
    best = plan_noise_messages(1, "1e-6", cells=400, participants=60_000, prefer="fewest_messages")
    for fraction in ("0.1", "0.5", "0.7", "0.9", "0.95"):
        assert plan_noise_messages(1, "1e-6", cells=400, participants=60_000, prefer=fraction).messages >= best.messages


def test_a_plan_for_dropout_keeps_its_spend_and_sends_more():
    firm = plan_noise_messages(1, "1e-6", cells=400, participants=60_000, prefer="1/2")
    loose = plan_noise_messages(1, "1e-6", cells=400, participants=60_000, prefer="1/2", share="1/2")
    assert loose.spend == firm.spend
    assert loose.messages - 1 == pytest.approx(2 * (firm.messages - 1))
    assert loose.quorum == 30_000


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"cells": 0}, "cells"),
        ({"ones": 0}, "ones"),
        ({"ones": 11}, "ones"),
        ({"participants": 0}, "participants"),
        ({"epsilon_noise": 0}, "epsilon_noise"),
        ({"epsilon_noise": "1e-6"}, "epsilon"),
        ({"epsilon_margin": -1}, "epsilon_margin"),
        ({"flood": NegativeBinomial("0.9", 1)}, "a shape of at least 1, got 0.9"),
        ({"share": 0}, "share"),
        ({"share": 2}, "share"),
        # Ten votes with hardly a flood: δ would pass one.
        ({"ones": 10, "epsilon_noise": 2, "epsilon_margin": "0.01", "flood": NegativeBinomial(1, 3)}, "delta"),
    ],
)
def test_bad_parameters_are_named(changed, named):
    good = {"cells": 10, "ones": 1, "participants": 5, "epsilon_noise": 1, "epsilon_margin": 1, "flood": FLOOD}
    with pytest.raises(InvalidInput, match=named):
        MultiMessageNoise(**{**good, **changed})


@pytest.mark.parametrize(
    "votes", [[[0, 1, 2]], [[0, 0]], [[10]], [[-2]], [[0.5]], [0], np.zeros((0, 1), dtype=int), np.zeros((1, 0), int)]
)
def test_bad_votes_are_refused(votes):
    mechanism = MultiMessageNoise(10, 2, 5, 1, "1/2", FLOOD)
    with pytest.raises(InvalidInput):
        mechanism.encode(np.array(votes), SeededRandomness(1))


@pytest.mark.parametrize("messages", [[[10, 1]], [[-1, 1]], [[0, 0]], [[0, 2]], [0, 1], [[0, 1, 1]], [[0.0, 1.0]]])
def test_bad_messages_are_refused(messages):
    mechanism = MultiMessageNoise(10, 2, 5, 1, "1/2", FLOOD)
    with pytest.raises(InvalidInput):
        mechanism.decode(np.array(messages), 5)
    with pytest.raises(InvalidInput):
        mechanism.shuffle([np.array(messages), np.array([[0, 1]])], 5)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"ones": 0}, "ones"),
        ({"prefer": 0}, "prefer"),
        ({"prefer": 1}, "prefer"),
        ({"prefer": "cheapest"}, "prefer"),
        ({"share": "5/4"}, "share"),
    ],
)
def test_bad_plans_are_named(changed, named):
    with pytest.raises(InvalidInput, match=named):
        plan_noise_messages(**{"epsilon": 1, "delta": "1e-6", "cells": 10, "participants": 100, **changed})
