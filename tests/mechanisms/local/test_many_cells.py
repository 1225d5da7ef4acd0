"""Local mechanisms with more cells and clients than one word or one part holds."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding

RATE = 1e-9
CELLS = 700

MAKERS = {
    "laplace": lambda e: LocalLaplace(CELLS, 3, e),
    "symmetric": lambda e: UnaryEncoding(CELLS, 3, e, symmetric=True),
    "asymmetric": lambda e: UnaryEncoding(CELLS, 3, e),
    "generalized": lambda e: GeneralizedRandomizedResponse(CELLS, 3, e),
    "collision": lambda e: Collision(CELLS, 3, e),
    "linear": lambda e: LinearHashing(CELLS, 1, e),
    "subset": lambda e: SubsetSelection(CELLS, 3, e),
}


def believable(mechanism, encoder):
    """Whether errors are as large as the estimated variances say, each and on average.

    Seven standard deviations leave less than 1e-11 on either side. The mean of 700 squares has a standard deviation
    of about 0.055; with generalized response, whose estimated variances are cautious, it is near 0.75.
    """
    count = 2_000 if isinstance(mechanism, LocalLaplace) else 20_000
    # Neighboring cells that begin at one of four places; most cells are nobody's.
    held = np.resize([3, 70, 62, 690], (count, 1)) + np.arange(mechanism.ones)
    randomness = SystemRandomness() if encoder is mechanism else SeededRandomness(1)
    estimates = mechanism.decode(encoder.encode(held, randomness))
    counts = np.bincount(held.ravel(), minlength=CELLS)
    errors = (estimates.counts - counts) / np.sqrt(estimates.variances)
    return np.abs(errors).max() < 7 and 0.4 < (errors**2).mean() < 1.8


@pytest.mark.statistical(rate=RATE)
@pytest.mark.parametrize("name", MAKERS)
def test_errors_are_as_large_as_the_estimated_variances(name):
    mechanism = MAKERS[name](2)
    assert believable(mechanism, mechanism)


@pytest.mark.parametrize("name", MAKERS)
def test_half_the_noise_is_rejected(name):
    mechanism = MAKERS[name](2)
    # The same parameters but for ε, where they are chosen by ε.
    chosen = [getattr(mechanism, each) for each in ("length", "size") if hasattr(mechanism, each)]
    mutant = type(mechanism)(CELLS, mechanism.ones, 4, *chosen) if chosen else MAKERS[name](4)
    assert not believable(mechanism, mutant)


def test_every_subset_has_its_size_over_many_parts():
    mechanism = SubsetSelection(200, 2, 1)
    held = np.tile([60, 130], (70_000, 1))
    messages = mechanism.encode(held, SeededRandomness(1))
    assert (np.bitwise_count(messages).sum(axis=1) == mechanism.size).all()
    estimates = mechanism.decode(messages)
    truth = np.zeros(200)
    truth[[60, 130]] = 70_000
    assert (np.abs(estimates.counts - truth) < 7 * np.sqrt(estimates.variances)).all()


@pytest.mark.statistical(rate=RATE)
@pytest.mark.parametrize("wanted", [0, 1, 2, 7])
def test_adding_and_taking_away_cells_keeps_a_subset_uniform(wanted):
    mechanism = SubsetSelection(9, 1, 1, size=6)
    held = np.full((20_000, 1), 4)
    words = mechanism._others(held, np.full(20_000, wanted), SystemRandomness()).ravel()
    subsets = [
        sum(2**cell for cell in subset)
        for subset in itertools.combinations([cell for cell in range(9) if cell != 4], wanted)
    ]
    found, times = np.unique(words, return_counts=True)
    assert set(found.tolist()) == set(subsets)
    if len(subsets) > 1:
        expected = 20_000 / len(subsets)
        assert chi2.sf(((times - expected) ** 2 / expected).sum(), len(subsets) - 1) > RATE
