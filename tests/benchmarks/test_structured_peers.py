"""The local randomizers that decoding is timed beside: their transforms count what they should, without bias."""

import math

import numpy as np
import pytest

from peers.structured import HadamardResponse, ProjectiveResponse

CELLS, CLIENTS = 40, 60_000


def test_hits_of_all_hyperplanes_come_out_of_one_transform():
    made = ProjectiveResponse(CELLS, 1.0)
    points, random = made.points(), np.random.default_rng(1)
    assert len(points) == made.answers >= CELLS
    messages = random.integers(0, made.answers, 500)
    orthogonal = (points[:CELLS] @ points[messages].T) % made.order == 0
    hits = orthogonal.sum(axis=1)
    found = made.decode(messages, made.places())
    # Counts are a line in the hits; two cells with different hits determine it.
    assert np.corrcoef(hits, found)[0, 1] == pytest.approx(1)


def test_hits_of_all_halves_come_out_of_one_transform():
    made = HadamardResponse(CELLS, 2.0)
    messages = np.random.default_rng(1).integers(0, made.answers, 500)
    preferred = np.array([made._preferred(np.full(500, cell), messages).sum() for cell in range(CELLS)])
    blocks = np.bincount(messages // made.width, minlength=made.blocks)[np.arange(CELLS) % made.blocks]
    grown = math.exp(2.0)
    expected = 2 * (2 * made.blocks - 1 + grown) / (grown - 1) * (preferred - blocks / 2)
    np.testing.assert_allclose(made.decode(messages), expected)


@pytest.mark.statistical(rate=1e-8)
@pytest.mark.parametrize("kind", [HadamardResponse, ProjectiveResponse])
def test_counts_are_unbiased(kind):
    made, random = kind(CELLS, 1.5), np.random.default_rng(3)
    truth = random.integers(0, 10, CLIENTS)
    messages = made.encode(truth, random)
    found = made.decode(messages, made.places()) if kind is ProjectiveResponse else made.decode(messages)
    errors = found - np.bincount(truth, minlength=CELLS)
    # A count has a standard deviation below 3·√clients at this ε; seven of them are beyond any chance.
    assert np.abs(errors).max() < 21 * math.sqrt(CLIENTS)
    assert errors.std() > 0
