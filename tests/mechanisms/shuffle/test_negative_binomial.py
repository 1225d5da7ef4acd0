from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.exact import UnboundedTable, exp, precision
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial, _logarithmic, _logarithmic_tail, log_complement

RATE = 1e-9


def sums(law, clients, slots, randomness):
    """What all clients together add to each slot."""
    jumps = law.scatter(clients, slots, randomness)
    return np.bincount(jumps.slot, weights=jumps.size, minlength=slots).astype(int)


@pytest.mark.parametrize("epsilon", ["1/1000", "1/7", "1", "30"])
def test_logarithm_of_the_complement_inverts_to_the_exponential(epsilon):
    epsilon = Fraction(epsilon)
    with localcontext(precision(60)):
        assert abs((-log_complement(epsilon, 50)).exp() - (1 - exp(-epsilon, 60))) < Decimal("1e-45")


@pytest.mark.parametrize("epsilon", ["1/100", "1/3", "2"])
@pytest.mark.parametrize("k", [1, 2, 65, 300])
def test_tail_of_the_logarithmic_series_completes_the_logarithm(epsilon, k):
    # Σ_{j<k} p^j/j + (p^k/k)·tail(k) = −ln(1−p); 400 digits leave 100 for the smallest tail.
    epsilon = Fraction(epsilon)
    with localcontext(precision(400)):
        success = exp(-epsilon, 400)
        listed = sum((success**j / j for j in range(1, k)), Decimal(0))
        left = (log_complement(epsilon, 400) - listed) / (success**k / k)
        assert abs(_logarithmic_tail(epsilon, k, 30) / left - 1) < Decimal("1e-30")


@pytest.mark.parametrize("shares", [2, 3, 7, 50])
def test_shares_add_up_to_the_whole(shares):
    support = np.arange(400)
    share = NegativeBinomial(Fraction(1, shares), "1/4").pmf(support)
    total = np.array([1.0])
    for _ in range(shares):
        total = np.convolve(total, share)[: len(support)]
    np.testing.assert_allclose(total, NegativeBinomial(1, "1/4").pmf(support), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shares", [2, 5])
def test_difference_of_two_totals_is_discrete_laplace(shares):
    support = np.arange(300)
    share = NegativeBinomial(Fraction(1, shares), "1/2").pmf(support)
    total = np.array([1.0])
    for _ in range(shares):
        total = np.convolve(total, share)
    difference = np.convolve(total, total[::-1])
    middle = len(total) - 1
    offsets = np.arange(-100, 101)
    expected = DiscreteLaplaceNoise(2, 1).pmf(offsets)
    np.testing.assert_allclose(difference[middle + offsets], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("shape", "epsilon"), [("1/60000", "1/4"), ("32.914", "0.4181"), ("3/7", "2")])
def test_jumps_have_the_stated_law(shape, epsilon):
    # Panjer's recursion gives the law of a Poisson number of logarithmic jumps without knowing the answer.
    law = NegativeBinomial(shape, epsilon)
    rate = float(law.shape) * float(log_complement(law.epsilon, 20))
    sizes = np.arange(1, 200)
    jump = np.exp(-float(law.epsilon) * sizes) / sizes / float(log_complement(law.epsilon, 20))
    total = [np.exp(-rate)]
    for k in range(1, 200):
        total.append(rate / k * sum(j * jump[j - 1] * total[k - j] for j in range(1, k + 1)))
    np.testing.assert_allclose(total, law.pmf(np.arange(200)), rtol=1e-10, atol=0)


def test_moments_are_those_of_the_probabilities():
    law = NegativeBinomial("3.5", "0.3")
    support = np.arange(2000)
    mean = law.pmf(support) @ support
    assert law.mean == pytest.approx(mean, rel=1e-12)
    assert law.variance == pytest.approx(law.pmf(support) @ (support - mean) ** 2, rel=1e-12)


@pytest.mark.statistical(rate=RATE)
def test_sampled_shares_add_up_to_the_stated_law(fits):
    support = np.arange(200)
    whole = NegativeBinomial(1, "1/2").pmf(support)
    share, randomness = NegativeBinomial("1/20", "1/2"), SystemRandomness()
    assert fits(sums(share, 20, 60_000, randomness), support, whole) > RATE
    # Mutants: shares of 2/n, and jumps of size one only.
    assert fits(sums(NegativeBinomial("2/20", "1/2"), 20, 60_000, randomness), support, whole) < RATE
    jumps = share.scatter(20, 60_000, randomness)
    assert fits(np.bincount(jumps.slot, minlength=60_000), support, whole) < RATE


@pytest.mark.statistical(rate=RATE)
def test_large_shapes_are_sampled_in_pieces_with_the_stated_law(fits):
    support = np.arange(500)
    drawn = sums(NegativeBinomial("12.5", "0.2"), 1, 40_000, SystemRandomness())
    assert fits(drawn, support, NegativeBinomial("12.5", "0.2").pmf(support)) > RATE
    # Mutant: a shape 4 % too large.
    assert fits(drawn, support, NegativeBinomial("13", "0.2").pmf(support)) < RATE


@pytest.mark.statistical(rate=RATE)
def test_jumps_beyond_the_first_blocks_have_the_stated_law(fits):
    # At ε = 1/200 sizes reach far past the ends of the first blocks, after 64, 192, 448 and 960 outcomes.
    draws = _logarithmic(Fraction(1, 200)).sample(300_000, SystemRandomness())
    sizes = np.arange(1, 6000)
    law = np.exp(-sizes / 200) / sizes / float(log_complement(Fraction(1, 200), 20))
    assert fits(draws, sizes, law) > RATE
    # Mutant: an off-by-one where a block hands over to the next.
    assert fits(np.where(draws > 64, draws + 1, draws), sizes, law) < RATE


@pytest.mark.statistical(rate=2 * RATE)
def test_slots_and_clients_are_hit_evenly(fits):
    jumps = NegativeBinomial("1/10", 1).scatter(50, 4000, SystemRandomness())
    even = np.full(50, 1 / 50)
    # Numbers of jumps are independent Poisson variables, which given their total are multinomial.
    assert fits(jumps.participant, np.arange(50), even) > RATE
    assert fits(jumps.slot % 50, np.arange(50), even) > RATE
    # Mutant: every other slot is never hit.
    assert fits(jumps.slot // 2 * 2 % 50, np.arange(50), even) < RATE


def test_a_table_goes_on_forever(scripted):
    # The largest word means "beyond"; zero then takes the first outcome of the block it has come to.
    slow = UnboundedTable(lambda digits: lambda k: Decimal("0.999999"), lambda k, digits: Decimal(10) ** 6)
    assert slow.sample(1, scripted([2**64 - 1] * 4 + [0])).tolist() == [64 + 128 + 256 + 512]


@given(st.integers(1, 30), st.integers(1, 50), st.fractions("1/1000", 3), st.fractions("1/50", 5))
@settings(deadline=None)
def test_jumps_are_within_range(clients, slots, shape, epsilon):
    jumps = NegativeBinomial(shape, epsilon).scatter(clients, slots, SeededRandomness(1))
    assert len(jumps.participant) == len(jumps.slot) == len(jumps.size)
    assert ((jumps.participant >= 0) & (jumps.participant < clients)).all()
    assert ((jumps.slot >= 0) & (jumps.slot < slots)).all()
    assert (jumps.size >= 1).all()


@pytest.mark.parametrize(
    ("shape", "epsilon", "named"),
    [(0, 1, "shape"), (-1, 1, "shape"), (1, 0, "epsilon"), (1, "1e-5", "epsilon"), (1, 101, "epsilon")],
)
def test_bad_parameters_are_named(shape, epsilon, named):
    with pytest.raises(InvalidInput, match=named):
        NegativeBinomial(shape, epsilon)
