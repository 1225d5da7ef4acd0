"""The root of all noise: every path, fast and slow, decides as exact arithmetic would."""

from decimal import ROUND_UP, Context, Decimal, Inexact, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.mechanisms.exact import ExactTable, bernoulli, bernoulli_exp, exp, precision

TOP = 2**64
THIRD = TOP // 3  # 2^64/3 lies a third above this word


def quotient(number, _index, digits):
    return precision(digits).divide(Decimal(number.numerator), Decimal(number.denominator))


def series(exponent):
    """e^exponent between two rationals, by its Taylor series: an oracle that shares no code with decimal."""
    halvings = max(0, abs(exponent).__ceil__().bit_length())
    small = abs(exponent) / 2**halvings
    term, total = Fraction(1), Fraction(0)
    for order in range(1, 60):
        total += term
        term = term * small / order
    low, high = total, total + 2 * term
    for _ in range(halvings):
        low, high = low * low, high * high
        # Numerators would grow without end; keep 100 digits, rounded outward.
        low, high = Fraction(int(low * 10**100), 10**100), Fraction(int(high * 10**100) + 1, 10**100)
    return (low, high) if exponent >= 0 else (1 / high, 1 / low)


@given(st.fractions(min_value=-60, max_value=5, max_denominator=10**9), st.integers(5, 40))
def test_exp_is_as_precise_as_it_says(exponent, digits):
    low, high = series(exponent)
    value = Fraction(exp(exponent, digits))
    slack = Fraction(1, 10**digits)
    assert low * (1 - slack) <= value <= high * (1 + slack)


def test_exp_of_a_huge_exponent_keeps_its_relative_precision():
    fine = Fraction(Context(prec=80).exp(Decimal(-(10**6))))
    assert abs(Fraction(exp(Fraction(-(10**6)), 30)) / fine - 1) < Fraction(1, 10**30)
    assert exp(Fraction(-(10**12)), 30) < Decimal("1e-999999")


@pytest.mark.parametrize(
    ("words", "heads", "used"),
    [
        ([0], True, 1),
        ([THIRD - 2**40], True, 1),
        ([THIRD - 1], True, 1),
        ([THIRD, 0], True, 2),
        ([THIRD, THIRD - 1], True, 2),
        ([THIRD, THIRD, THIRD - 1], True, 3),
        ([THIRD, THIRD, THIRD + 1], False, 3),
        ([THIRD, THIRD + 1], False, 2),
        ([THIRD, TOP - 1], False, 2),
        ([THIRD + 1], False, 1),
        ([THIRD + 2**40], False, 1),
        ([TOP - 1], False, 1),
    ],
)
def test_a_coin_near_its_probability_is_decided_by_more_bits(scripted, words, heads, used):
    source = scripted(words)
    assert bernoulli(np.array([1 / 3]), partial(quotient, Fraction(1, 3)), source).tolist() == [heads]
    assert source.used == used


@given(
    st.fractions(min_value=0, max_value=1, max_denominator=10**12),
    st.integers(-3, 3),
    st.floats(-1, 1),
    st.lists(st.integers(0, TOP - 1), min_size=4, max_size=4),
)
def test_the_approximation_never_decides(number, offset, error, more):
    """A word beside the probability gives the exact comparison, however the float was rounded within its bound."""
    word = min(max(int(number * TOP) + offset, 0), TOP - 1)
    bits = [word, *more]
    uniform = Fraction(int.from_bytes(b"".join(each.to_bytes(8, "big") for each in bits), "big"), 2 ** (64 * len(bits)))
    if 0 <= number - uniform < Fraction(1, 2 ** (64 * len(bits))):
        return
    source = SeededScript(bits)
    heads = bernoulli(np.array([float(number) + error * 2.0**-39]), partial(quotient, number), source)
    assert bool(heads[0]) == (uniform < number)


class SeededScript:
    origin = "seeded"

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize("side", [-1, 1])
def test_an_error_of_the_refinement_within_its_bound_never_decides(scripted, side):
    """A probability a hair from a word's edge, and a refinement as wrong as it may be, toward the other side."""
    edge = 2**63 + 12345
    number = Fraction(edge * 10**7 + side, 10**7 * TOP)

    def wrong(index, digits):
        return precision(digits).add(quotient(number, index, digits), Decimal(f"{-0.99 * side}e-{digits}"))

    # Just above and just below the probability, told apart by the second word only.
    words = [edge, 0] if side > 0 else [edge - 1, TOP - 1]
    assert bernoulli(np.array([0.5]), wrong, scripted(words)).tolist() == [side > 0]
    table = ExactTable(
        lambda digits: [
            precision(digits).multiply(quotient(share, 0, digits + 30), 1 + Decimal(f"{error}e-{digits}"))
            for share, error in ((number, -0.99 * side), (1 - number, 0.99 * side))
        ]
    )
    with localcontext(prec=200):
        assert table.sample(1, scripted(words)).tolist() == [0 if side > 0 else 1]


def test_coins_with_exponential_probability_use_the_true_threshold(scripted):
    threshold = int(Context(prec=60).exp(Decimal(-1)) * TOP)
    for word, heads in ((threshold - 1, True), (threshold + 1, False)):
        for numerator, denominator in ((1, 1), (7, 7), (3, Fraction(3)), (2**40, 2**40)):
            assert bernoulli_exp(np.array([numerator]), denominator, scripted([word])).tolist() == [heads]


def test_a_certain_coin_never_fails_and_an_impossible_one_never_succeeds(scripted):
    assert bernoulli_exp(np.array([0]), 5, scripted([TOP - 1], SeededRandomness(1))).tolist() == [True]
    assert bernoulli_exp(np.array([2**62]), Fraction(1, 10**9), scripted([0], SeededRandomness(1))).tolist() == [False]


def test_no_product_has_to_fit_in_64_bits():
    heads = bernoulli_exp(np.full(1000, 2**62), Fraction(2**62 * 10**9, 10**9), SeededRandomness(1))
    assert 250 < heads.sum() < 490


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any),
    st.integers(0, 7),
    st.integers(-2, 2),
    st.lists(st.integers(0, TOP - 1), min_size=4, max_size=4),
)
def test_a_table_decides_as_exact_arithmetic_does(weights, near, offset, more):
    cumulative = [Fraction(sum(weights[: each + 1]), sum(weights)) for each in range(len(weights))]
    word = min(max(int(cumulative[near % len(weights)] * TOP) + offset, 0), TOP - 1)
    bits = [word, *more]
    uniform = Fraction(int.from_bytes(b"".join(each.to_bytes(8, "big") for each in bits), "big"), 2 ** (64 * len(bits)))
    if any(abs(each - uniform) <= Fraction(2, 2 ** (64 * len(bits))) for each in cumulative):
        return
    table = ExactTable(lambda digits: [Decimal(each) for each in weights])
    outcome = table.sample(1, SeededScript(bits))[0]
    assert outcome == sum(each <= uniform for each in cumulative)
    assert weights[outcome] > 0


def test_a_table_with_irrational_weights_is_refined_beyond_64_bits(scripted):
    def weights(digits):
        return [Decimal(1), exp(Fraction(-1), digits)]

    finely = Context(prec=80)
    fine = int(finely.divide(Decimal(2**128), finely.add(Decimal(1), finely.exp(Decimal(-1)))))
    word, second = divmod(fine, TOP)
    table = ExactTable(weights)
    assert table.sample(1, scripted([word - 1])).tolist() == [0]
    assert table.sample(1, scripted([word, second - 1])).tolist() == [0]
    assert table.sample(1, scripted([word, second + 1])).tolist() == [1]
    assert table.sample(1, scripted([word + 1])).tolist() == [1]


def test_every_leading_pattern_that_is_remembered_is_right():
    """Each remembered answer must hold at both ends of its interval, where the slow search is asked."""
    table = ExactTable(lambda digits: [exp(Fraction(-each, 50), digits) for each in range(300)])
    first = np.arange(2**14, dtype=np.uint64) << np.uint64(50)
    for ends in (first, first + np.uint64(2**50 - 1)):
        known = table._leading >= 0
        assert known.mean() > 0.95
        found = np.searchsorted(table._upper, ends[known], side="right")
        assert (found == table._leading[known]).all()
        assert (np.searchsorted(table._lower, ends[known], side="right") == found).all()


def test_the_decimal_context_of_the_caller_does_not_matter(scripted):
    with localcontext(prec=2, rounding=ROUND_UP, Emin=-3, Emax=3) as context:
        context.traps[Inexact] = True
        source = scripted([THIRD, THIRD - 1])
        assert bernoulli(np.array([1 / 3]), partial(quotient, Fraction(1, 3)), source).tolist() == [True]
        table = ExactTable(lambda digits: [exp(Fraction(-each, 3), digits) for each in range(4)])
        assert table.sample(1, scripted([TOP - 1])).tolist() == [3]


@pytest.mark.statistical(rate=2e-9)
def test_draws_follow_the_table_and_another_table_is_told_apart(fits):
    table = ExactTable(lambda digits: [Decimal(each) for each in (1, 2, 0, 3, 4)])
    draws = table.sample(100_000, SystemRandomness())
    law = np.array([1, 2, 0, 3, 4]) / 10
    assert fits(draws, np.arange(5), law) > 1e-9
    off_by_one = np.where(draws == 4, 3, draws)
    assert fits(off_by_one, np.arange(5), law) < 1e-9
    coins = bernoulli_exp(np.full(100_000, 3), 4, SystemRandomness())
    success = np.exp(-0.75)
    assert fits(coins, [0, 1], [1 - success, success]) > 1e-9
    assert fits(coins, [0, 1], [1 - np.exp(-0.7), np.exp(-0.7)]) < 1e-9
