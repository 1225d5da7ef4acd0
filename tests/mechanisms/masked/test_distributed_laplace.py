"""Shares of honest holders add up to exactly the noise that is paid for, and the masked table is uniform."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare

PLAN = DistributedLaplace(scale=2, l1=2, holders=5, threshold=4, honest=3, most=100)
RATE = 1e-9


def test_convolved_shares_of_the_honest_are_discrete_laplace():
    share = PLAN.share_law.pmf(np.arange(400))
    geometric = share
    for _ in range(PLAN.honest - 1):
        geometric = np.convolve(geometric, share)[:400]
    noise = np.convolve(geometric, geometric[::-1])
    middle = len(geometric) - 1
    offsets = np.arange(-50, 51)
    assert noise[middle + offsets] == pytest.approx(DiscreteLaplaceNoise(2, 2).pmf(offsets), abs=1e-12)


@pytest.mark.parametrize("more", [1, 2])
def test_the_loss_of_the_sum_is_what_is_paid_with_any_number_of_holders_from_the_honest_on(more):
    share = PLAN.share_law.pmf(np.arange(600))
    geometric = share
    for _ in range(PLAN.honest + more - 2):
        geometric = np.convolve(geometric, share)[:600]
    noise = np.convolve(geometric, geometric[::-1])
    middle, per_step = len(geometric) - 1, float(PLAN.spend.epsilon) / PLAN.l1
    inner = noise[middle - 100 : middle + 101]
    worst = np.abs(np.diff(np.log(inner))).max()
    assert worst <= per_step + 1e-9
    if more == 1:
        assert worst == pytest.approx(per_step, abs=1e-9)


def drawn(plan, count, randomness):
    return sum(plan.share(count, randomness) for _ in range(PLAN.honest))


def statistic(sample, pmf):
    edges = np.arange(-6, 8)
    cut = np.clip(sample, -7, 7)
    seen = np.bincount(cut + 7, minlength=15)
    law = np.array([pmf(np.arange(-2000, -6)).sum(), *pmf(edges[:-1]), pmf(np.arange(7, 2000)).sum()])
    expected = law * len(sample)
    return float(((seen - expected) ** 2 / expected).sum())


@pytest.mark.statistical(rate=RATE)
def test_sampled_shares_follow_the_law_and_halved_ones_do_not():
    pmf = DiscreteLaplaceNoise(2, 2).pmf
    limit = chi2.isf(RATE, 14)
    assert statistic(drawn(PLAN, 60_000, SystemRandomness()), pmf) < limit
    # Mutant: each holder believes that twice as many are honest, and adds half of its share.
    halved = DistributedLaplace(scale=2, l1=2, holders=7, threshold=6, honest=6, most=100)
    assert statistic(drawn(halved, 60_000, SystemRandomness()), pmf) > 10 * limit


@pytest.mark.statistical(rate=RATE)
def test_the_noise_in_one_place_has_the_variance_of_all_holders():
    sample = PLAN.sample(np.zeros((200, 300), dtype=np.int64), SystemRandomness()).ravel()
    variance = PLAN.variance(5)
    # Fourth moments of a sum of five thirds of discrete Laplace variables are below 12 times the squared variance.
    assert abs((sample.astype(float) ** 2).mean() - variance) < 6.5 * variance * np.sqrt(12 / len(sample))


@given(
    values=st.lists(st.lists(st.integers(-200, 200), min_size=3, max_size=3), min_size=2, max_size=6),
    seed=st.integers(0, 2**32),
)
def test_masks_that_cancel_leave_the_clipped_sum_and_the_noise(values, seed):
    plan = DistributedLaplace(2, 2, len(values), len(values), len(values), most=100)
    words = SeededRandomness(seed).words(3 * len(values)).reshape(len(values), 3)
    masks = words - np.roll(words, 1, axis=0)
    total, expected = np.zeros(3, dtype=np.uint64), np.zeros(3, dtype=np.int64)
    for number, (row, mask) in enumerate(zip(values, masks, strict=True)):
        masked = MaskedShare(plan, "s", mask).sample(np.array(row), SeededRandomness(number))
        assert masked.dtype == np.uint16
        total += masked.astype(np.uint64)
        expected += np.clip(row, -100, 100) + plan.share(3, SeededRandomness(number))
    assert plan.opened(total).tolist() == expected.tolist()


def test_clipping_moves_neighbors_no_further_apart():
    for one, other in itertools.product(range(-3, 6), repeat=2):
        assert abs(np.clip(one, 0, 2) - np.clip(other, 0, 2)) <= abs(one - other)


def test_a_mask_is_not_shown_and_does_not_tell_shares_apart():
    one, other = (MaskedShare(PLAN, "s", SeededRandomness(seed).words(4)) for seed in (1, 2))
    assert repr(one) == repr(other)
    assert "mask=" not in repr(one)
    assert one == other != MaskedShare(PLAN, "another session", one.mask)
    with pytest.raises(InvalidInput, match="mask is for 4 cells"):
        one.sample(np.zeros(5, dtype=np.int64), SystemRandomness())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"l1": 0}, "l1 must be"),
        ({"threshold": 1, "honest": 1}, "threshold must be between 2"),
        ({"threshold": 6}, "threshold must be between 2 and the 5"),
        ({"honest": 5}, "honest must be between 1"),
        ({"honest": 1}, "above the 5 holders"),
        ({"most": 0}, "most must be"),
        ({"most": 2**40, "bits": 32}, "bits must be one of 64"),
        ({"scale": 10**5}, "epsilon must be in"),
        ({"scale": 0}, "scale must be above 0"),
    ],
)
def test_wrong_plans_are_refused(wrong, said):
    right = {"scale": 2, "l1": 2, "holders": 5, "threshold": 4, "honest": 3, "most": 100}
    with pytest.raises(InvalidInput, match=said):
        DistributedLaplace(**right | wrong)


@pytest.mark.parametrize("holders", range(2, 40))
def test_two_thirds_of_two_thirds_is_enough_for_any_number_of_holders(holders):
    plan = DistributedLaplace.for_epsilon("1/2", 2, holders, most=10)
    assert 3 * plan.threshold >= 2 * holders
    assert 9 * plan.honest >= 4 * holders
    assert plan.spend.epsilon == Fraction(1, 2)
    assert plan.holders - plan.threshold <= holders // 3


def test_wrong_fractions_are_refused():
    with pytest.raises(InvalidInput, match="surviving must be a fraction"):
        DistributedLaplace.for_epsilon(1, 2, 5, 10, surviving=2)
    with pytest.raises(InvalidInput, match="holders must be at least 2"):
        DistributedLaplace.for_epsilon(1, 2, 1, 10)
    with pytest.raises(InvalidInput, match="above the 9 holders"):
        DistributedLaplace.for_epsilon(1, 2, 9, 10, honest="1/2")


def test_the_widths_of_sums():
    assert DistributedLaplace(2, 2, 5, 4, 3, 100).bits == 16
    assert DistributedLaplace(2, 2, 5, 4, 3, 10_000).bits == 32
    assert DistributedLaplace(2, 2, 5, 4, 3, 2**30).bits == 64
    assert "at least 3 must be honest" in PLAN.in_words
