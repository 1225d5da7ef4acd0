"""Amplification by shuffling: the vectors of mathematics 6."""

import math

import pytest

from tacit.accounting.amplify import (
    AmplificationBound,
    Clones,
    amplified_epsilon,
    largest_local_epsilon,
)

TABLE = [
    (10**5, 4, 1e-6, 0.534633992, 0.407792587, 0.169769747, 0.118153067),
    (10**4, 2, 1e-6, 0.500920087, 0.398157060, 0.155045243, 0.114399615),
    (60_000, 4, 1e-5, 0.611162341, 0.469869379, 0.189459681, 0.130811248),
]
GENERIC = [
    AmplificationBound.CLOSED_2021,
    AmplificationBound.CLOSED_2022,
    AmplificationBound.NUMERIC_2021,
    AmplificationBound.NUMERIC_2022,
]


def generic(messages, local):
    growth = math.exp(local)
    return Clones(messages - 1, 2 / (growth + 1), growth / (growth + 1), 1 / (growth + 1))


def close(value, digits):
    return pytest.approx(value, rel=10**-digits)


@pytest.mark.parametrize("row", TABLE)
def test_table_of_bounds(row):
    messages, local, delta, *expected = row
    for bound, value in zip(GENERIC, expected, strict=True):
        assert amplified_epsilon(bound, messages, local, delta) == pytest.approx(value, abs=1.5e-9)
    # The numeric bound of 2022 is the tightest.
    assert min(expected) == expected[-1]


@pytest.mark.parametrize(
    ("messages", "epsilon", "delta", "expected"),
    [(10**4, 0.5, 1e-5, (2.103478, 2.546106, 4.599371)), (60_000, 1, 1e-5, (5.354800, 6.036369, 7.498307))],
)
def test_largest_local_epsilon(messages, epsilon, delta, expected):
    bounds = (AmplificationBound.CLOSED_2021, AmplificationBound.CLOSED_2022, AmplificationBound.NUMERIC_2022)
    for bound, value in zip(bounds, expected, strict=True):
        assert float(largest_local_epsilon(messages, epsilon, delta, bound)) == pytest.approx(value, abs=1e-6)


def test_published_variation_ratio_of_collision():
    # The figure is as published; it is not a proven bound (tests/accounting/test_amplify.py) and never charged.
    variation = math.expm1(4) / (math.exp(4) + 55)
    assert amplified_epsilon(AmplificationBound.VARIATION, 10**4, 4, 1e-6, variation) == close(0.280894111, 8)
    assert amplified_epsilon(AmplificationBound.NUMERIC_2022, 10**4, 4, 1e-6) == close(0.410812293, 8)


@pytest.mark.parametrize(
    ("messages", "local", "epsilon", "delta", "digits"),
    [(50, 1, 0.3, 0.00408908635795, 11), (1000, 1, 0.1, 8.201166e-5, 6), (10_000, 2, 0.1, 6.021293e-6, 6)],
)
def test_divergence_at_one_epsilon(messages, local, epsilon, delta, digits):
    pair = generic(messages, local)
    assert pair.delta(epsilon) == close(delta, digits)
    assert delta * (1 - 1e-6) < pair.delta(epsilon, tolerance=1e-15) == close(delta, digits)


def test_brute_force_of_the_small_case():
    others, local, epsilon = 49, 1.0, 0.3
    growth, chance = math.exp(local), 2 / (math.exp(local) + 1)
    keep = growth / (growth + 1)
    here, there = {}, {}
    for clones in range(others + 1):
        weight = math.comb(others, clones) * chance**clones * (1 - chance) ** (others - clones)
        for left in range(clones + 1):
            share = weight * math.comb(clones, left) / 2**clones
            for table, lefts in ((here, keep), (there, 1 - keep)):
                one, other = (left + 1, clones - left), (left, clones - left + 1)
                table[one] = table.get(one, 0) + share * lefts
                table[other] = table.get(other, 0) + share * (1 - lefts)
    delta = sum(max(0, here[seen] - math.exp(epsilon) * there[seen]) for seen in here)
    assert delta == close(0.00408908635795, 11)
    assert generic(50, 1).delta(epsilon) == close(delta, 12)


def test_variation_of_two_answers_is_the_generic_bound():
    for messages, local, delta, *_, expected in TABLE:
        variation = math.tanh(local / 2)
        assert amplified_epsilon(AmplificationBound.VARIATION, messages, local, delta, variation) == close(expected, 8)
