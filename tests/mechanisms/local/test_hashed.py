"""Hashed mechanisms, exactly: sums over all hash functions of a tiny domain, and what really sent messages give."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from tacit.core.randomness import SystemRandomness
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.keyed_hash import bucket_of, keystream_words
from tacit.mechanisms.local.vote_shape import VoteShape

RATE = 1e-9
SIGMAS = 7.0
CLIENTS = 40_000
SHAPE = VoteShape(queries=5, classes=4, neighbors=1, labels=1)
CELL = 6


def outcomes(domain, held, length, epsilon):
    """Every hash function and bucket with its probability, when all functions are equally likely."""
    weight = math.exp(epsilon)
    total = len(held) * weight + length - len(held)
    for function in itertools.product(range(length), repeat=domain):
        inside = {function[cell] for cell in held}
        left = (1 - len(inside) * weight / total) / (length - len(inside))
        for bucket in range(length):
            chance = weight / total if bucket in inside else left
            yield chance / length**domain, np.array(function) == bucket


def moments(draws):
    """Mean and variance of (probability, vector) pairs."""
    chances, vectors = (np.array(column) for column in zip(*draws, strict=True))
    assert chances.sum() == pytest.approx(1, rel=1e-12)
    mean = np.tensordot(chances, vectors, 1)
    return mean, np.tensordot(chances, (vectors - mean) ** 2, 1)


@pytest.mark.parametrize(("domain", "held", "length"), [(4, (0, 2), 3), (4, (1,), 4), (5, (0, 1, 2), 4)])
def test_collision_is_unbiased_over_all_hash_functions_with_the_stated_variances(domain, held, length):
    mechanism = Collision(domain, len(held), 1, length)
    rates = mechanism.rates
    mean, variance = moments(
        (chance, (hits - rates.zero) / rates.gap) for chance, hits in outcomes(domain, held, length, 1)
    )
    for cell in range(domain):
        assert mean[cell] == pytest.approx(float(cell in held), abs=1e-12)
        expected = mechanism.variance_one if cell in held else mechanism.variance_zero
        assert variance[cell] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(("shape", "length"), [(VoteShape(3, 2), 3), (VoteShape(3, 3, 2, 1), 4)])
def test_concatenation_has_the_stated_moments_over_all_hash_functions(shape, length, corrected):
    mechanism = Concatenation(shape, 1, corrected=corrected, length=length)
    rates = mechanism.both.rates
    buckets, labels = range(shape.neighbors), range(shape.labels)

    def estimate(hits):
        first, second = hits[: shape.queries, None].astype(float), hits[None, shape.queries :].astype(float)
        if corrected:
            return (first + second - length * first * second - 1 / length) / rates.gap
        return (first - rates.zero) * (second - rates.zero) / rates.gap**2

    held = [*buckets, *(shape.queries + label for label in labels)]
    mean, variance = moments(
        (chance, estimate(hits)) for chance, hits in outcomes(shape.queries + shape.classes, held, length, 1)
    )
    error = 0.0
    for t, y in itertools.product(range(shape.queries), range(shape.classes)):
        kind = (int(t in buckets), int(y in labels))
        assert mean[t, y] == pytest.approx(mechanism.moments.means[kind[0]][kind[1]], abs=1e-12)
        assert variance[t, y] == pytest.approx(mechanism.moments.variances[kind[0]][kind[1]], rel=1e-11)
        error += (variance[t, y] + (mean[t, y] - (kind == (1, 1))) ** 2) / shape.cells
        if corrected:
            assert mean[t, y] == pytest.approx(float(kind == (1, 1)), abs=1e-12)
    assert mechanism.mean_squared_error == pytest.approx(error, rel=1e-11)


def test_separation_has_the_stated_moments_over_all_hash_functions():
    shape = VoteShape(3, 2)
    mechanism = Separation(shape, 2, lengths=(3, 2))
    first, second = mechanism.buckets, mechanism.labels
    draws = (
        (
            one * other,
            np.multiply.outer(
                (hits - first.rates.zero) / first.rates.gap, (others - second.rates.zero) / second.rates.gap
            ),
        )
        for one, hits in outcomes(3, (0,), 3, 1)
        for other, others in outcomes(2, (0,), 2, 1)
    )
    mean, variance = moments(draws)
    np.testing.assert_allclose(mean, [[1, 0], [0, 0], [0, 0]], atol=1e-12)
    table = mechanism.moments.variances
    np.testing.assert_allclose(variance, [[table[1][1], table[1][0]], *[[table[0][1], table[0][0]]] * 2], rtol=1e-11)


@pytest.mark.statistical(rate=RATE)
@pytest.mark.parametrize("different", [1, 2, 3])
def test_cells_of_a_client_that_collide_count_once(different):
    mechanism = Collision(7, 3, 1, length=5)
    cells = np.array([[0, 3, 5]])
    seeds = np.array([[number, 9] for number in range(1000)], dtype=np.uint64)
    rows = bucket_of(keystream_words(seeds, np.tile(cells, (1000, 1))), 5)
    found = next(index for index, row in enumerate(rows) if len(set(row)) == different)
    buckets, seed = rows[found], seeds[found : found + 1]
    messages = mechanism.respond(np.tile(cells, (CLIENTS, 1)), np.tile(seed, (CLIENTS, 1)), SystemRandomness())
    observed = np.bincount(messages[:, 2].astype(int), minlength=5)
    law = np.array([float(chance) for chance in mechanism.law([0, 3, 5], tuple(seed[0])).probabilities])
    assert chisquare(observed, CLIENTS * law).pvalue > RATE
    if different < 3:
        # The mutant gives a bucket the weight of each cell that hashes to it.
        mutant = np.where(law == law.max(), math.e * np.bincount(buckets, minlength=5), 2 / (5 - different))
        assert chisquare(observed, CLIENTS * mutant / mutant.sum()).pvalue < RATE


def mean_on_the_true_cell(mechanism):
    messages = mechanism.encode(np.full((CLIENTS, 1), CELL), SystemRandomness())
    return mechanism.decode(messages).counts[CELL] / CLIENTS


@pytest.mark.statistical(rate=RATE)
def test_the_published_product_has_the_mean_that_theory_says_and_not_one():
    published = Concatenation(SHAPE, 1, corrected=False, length=4)
    error = np.sqrt(published.variance_one / CLIENTS)
    mean = mean_on_the_true_cell(published)
    assert abs(mean - -2.163953414) < SIGMAS * error
    # The product's supposed mean is the mutant here.
    assert abs(mean - 1) > 2 * SIGMAS * error


@pytest.mark.statistical(rate=RATE)
def test_the_corrected_estimate_has_mean_one_and_not_the_products():
    corrected = Concatenation(SHAPE, 1, corrected=True, length=4)
    error = np.sqrt(corrected.variance_one / CLIENTS)
    mean = mean_on_the_true_cell(corrected)
    assert abs(mean - 1) < SIGMAS * error
    assert abs(mean - -2.163953414) > 2 * SIGMAS * error
