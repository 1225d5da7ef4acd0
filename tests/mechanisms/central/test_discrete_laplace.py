import itertools
import math
from decimal import Context
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace
from opendp.metrics import l1_distance
from opendp.mod import enable_features

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Pure
from tacit.mechanisms.central.discrete_laplace import (
    DiscreteLaplaceNoise,
    _digits,
    geometric,
    laplace_integers,
    signs,
)
from tacit.mechanisms.exact import exp

enable_features("contrib")


def opendp_laplace(scale, count):
    domain = vector_domain(atom_domain(T="i64"))
    return np.array(make_laplace(domain, l1_distance(T="i64"), scale=scale)([0] * count))


@pytest.mark.parametrize("scale", ["1/3", 2, 17])
def test_the_law_sums_to_one_with_the_stated_variance(scale):
    mechanism = DiscreteLaplaceNoise(scale, 2)
    offsets = np.arange(-2000, 2001)
    law = mechanism.pmf(offsets)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert (law * offsets**2).sum() == pytest.approx(mechanism.variance, rel=1e-10)


def test_no_pair_of_neighbors_loses_more_than_the_spend_and_one_loses_it_all():
    """Two cells, every integer move with l1 ≤ 2, every output in a window."""
    mechanism = DiscreteLaplaceNoise("3/2", 2)
    epsilon = float(mechanism.spend.epsilon)
    outputs = np.arange(-30, 31)
    worst = 0.0
    for first, second in itertools.product(range(-2, 3), repeat=2):
        if abs(first) + abs(second) > 2:
            continue
        loss = np.add.outer(
            np.log(mechanism.pmf(outputs)) - np.log(mechanism.pmf(outputs - first)),
            np.log(mechanism.pmf(outputs)) - np.log(mechanism.pmf(outputs - second)),
        )
        assert np.abs(loss).max() <= epsilon + 1e-12
        worst = max(worst, np.abs(loss).max())
    assert worst == pytest.approx(epsilon, abs=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(50), Fraction(100), Fraction(40_000)])
def test_independent_digits_make_exactly_the_geometric_law(scale):
    """The tables' own weights, multiplied over the digits, against (1 − p)p^m to 25 digits, and the tail too."""
    digits = _digits(scale)
    tables = [(place, table._weights(60)) for place, table in digits.lower]
    leading = digits.leading._weights(60)
    ratio = Fraction(exp(-1 / scale, 60))

    def share(weights, index):
        finely = Context(prec=70)
        return Fraction(finely.divide(weights[index], reduce(finely.add, weights)))

    reach = digits.place * digits.length
    for value in {0, 1, 5, 511, 512, 513, 700, reach - 1} & set(range(reach)):
        rest, found = value, Fraction(1)
        for _, weights in tables:
            rest, digit = divmod(rest, 512)
            found *= share(weights, digit)
        found *= share(leading, rest)
        expected = (1 - ratio) * Fraction(exp(-value / scale, 60))
        assert abs(found / expected - 1) < Fraction(1, 10**25)
    # Beyond the leading digit lies e^(−reach/scale), and the digits below it stay as they were.
    assert abs(share(leading, digits.length) / Fraction(exp(-reach / scale, 60)) - 1) < Fraction(1, 10**25)


def test_the_tail_goes_on_where_the_table_ends(scripted):
    digits = _digits(Fraction(2))
    assert (digits.place, digits.length) == (1, 16)
    top = 2**64 - 1
    assert geometric(Fraction(2), 1, scripted([top, top, 0])).tolist() == [32]


def test_minus_zero_is_drawn_again(scripted):
    negative = int.from_bytes(b"\xff" * 8, "little")
    source = scripted([0, negative, 0, negative, 2**63, negative])
    assert laplace_integers(Fraction(2), 1, source).tolist() == [-1]
    assert source.used == 6


def test_signs_use_every_bit_of_a_word(scripted):
    assert signs(64, scripted([2**64 - 1])).all()
    assert signs(65, scripted([0, 1])).sum() == 0
    assert signs(72, scripted([0, 1])).sum() == 1
    assert signs(0, scripted([])).shape == (0,)


@pytest.mark.statistical(rate=1e-9)
@pytest.mark.parametrize("scale", ["1/3", 2, 20, 100])
def test_the_sampler_follows_the_law_and_mutants_do_not(fits, scale):
    count = 150_000
    mechanism = DiscreteLaplaceNoise(scale, 1)
    support = np.arange(-1500, 1501)
    law = mechanism.pmf(support)
    draws = mechanism.sample(np.zeros(count, dtype=int), SystemRandomness())
    assert fits(draws, support, law) > 1e-9
    half_the_noise = DiscreteLaplaceNoise(Fraction(scale) / 2, 1).sample(np.zeros(count, dtype=int), SystemRandomness())
    assert fits(half_the_noise, support, law) < 1e-9
    # Zero counted twice: a sign on a geometric magnitude without drawing minus zero again.
    magnitude = geometric(Fraction(scale), count, SystemRandomness())
    if scale != 100:
        assert fits(np.where(signs(count, SystemRandomness()), -magnitude, magnitude), support, law) < 1e-9
    off_by_one = np.where(draws > 0, draws + 1, draws)
    assert fits(off_by_one, support, law) < 1e-9


@pytest.mark.statistical(rate=1e-9)
def test_a_tail_cut_off_after_eight_scales_is_noticed(fits):
    draws = np.abs(laplace_integers(Fraction(20), 400_000, SystemRandomness()))
    tail = math.exp(-160 / 20) * 2 / (1 + math.exp(-1 / 20))
    assert fits(draws >= 160, [0, 1], [1 - tail, tail]) > 1e-9
    truncated = draws % 160
    assert fits(truncated >= 160, [0, 1], [1 - tail, tail]) < 1e-9


@pytest.mark.statistical(rate=2e-9)
@pytest.mark.parametrize("scale", [10**5, 10**7])
def test_large_scales_follow_the_law_in_every_digit(fits, scale):
    count = 100_000
    magnitude = geometric(Fraction(scale), count, SystemRandomness())
    # The digits in base 512 and the quantiles, each against what the geometric law says of it.
    assert fits(magnitude % 512, np.arange(512), np.full(512, 1 / 512)) > 1e-9
    cells = np.floor(-np.expm1(-magnitude / scale) * 50).astype(int)
    assert fits(cells, np.arange(50), np.full(50, 0.02)) > 1e-9
    half_the_noise = np.floor(-np.expm1(-(magnitude // 2) / scale) * 50).astype(int)
    assert fits(half_the_noise, np.arange(50), np.full(50, 0.02)) < 1e-9


@pytest.mark.statistical(rate=1e-9)
def test_it_agrees_with_opendp(agree):
    theirs = opendp_laplace(3.0, 15_000)
    ours = laplace_integers(Fraction(3), 15_000, SystemRandomness())
    assert agree(ours, theirs) > 1e-9
    assert agree(ours // 2, theirs) < 1e-9


def test_shape_type_and_replay():
    table = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    mechanism = DiscreteLaplaceNoise("1/1000", 1)
    noisy = mechanism.sample(table, SystemRandomness())
    assert noisy.shape == table.shape
    assert noisy.dtype == np.int64
    # At a thousandth of a count, noise other than zero has a probability of e^−1000.
    assert (noisy == table).all()
    one, two = (DiscreteLaplaceNoise(9, 1).sample(table, SeededRandomness(1)) for _ in range(2))
    assert (one == two).all()
    assert DiscreteLaplaceNoise(9, 1).sample(np.zeros((0, 3), dtype=int), SystemRandomness()).shape == (0, 3)


@pytest.mark.parametrize("scale", ["1e-6", "1e12"])
def test_the_ends_of_the_range_work(scale):
    noise = laplace_integers(Fraction(scale), 100, SeededRandomness(1))
    assert np.abs(noise).max() <= 60 * Fraction(scale)


def test_the_spend_and_the_tolerance_follow_from_the_one_parameter():
    mechanism = DiscreteLaplaceNoise.for_epsilon("1/10", 4)
    assert mechanism.spend == Pure("1/10")
    assert mechanism.max_sensitivity == Sensitivity(l1=4)
    assert mechanism.scale == 40


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiscreteLaplaceNoise(0, 1), "scale must be above 0"),
        (lambda: DiscreteLaplaceNoise("1e-7", 1), r"scale must be in \[1e-6, 1e12\]"),
        (lambda: DiscreteLaplaceNoise("1e13", 1), r"scale must be in \[1e-6, 1e12\]"),
        (lambda: DiscreteLaplaceNoise(1, 0), "l1 must be at least 1"),
        (lambda: DiscreteLaplaceNoise.for_epsilon(0, 1), "epsilon must be above 0"),
        (lambda: DiscreteLaplaceNoise(1, 1).sample(np.array([0.5]), SeededRandomness(1)), "table must hold integers"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
