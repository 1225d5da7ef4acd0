import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Pure
from tacit.mechanisms.central.selection import ExponentialMechanism


def test_the_law_is_the_softmax_and_the_spend_bounds_its_loss():
    mechanism = ExponentialMechanism.for_epsilon(1, row_range=2)
    weights = [math.exp(0.5 * each) for each in (5, 3, 4)]
    assert mechanism.pmf(np.array([5, 3, 4])) == pytest.approx([each / sum(weights) for each in weights], rel=1e-14)
    # The bound is approached, not passed, by a label far behind.
    behind, closer = mechanism.pmf(np.array([0, 40])), mechanism.pmf(np.array([1, 39]))
    assert 0.999999 < math.log(closer[0] / behind[0]) <= 1
    assert mechanism.spend == Pure(1)
    assert mechanism.max_sensitivity == Sensitivity(row_range=2)


@pytest.mark.statistical(rate=1e-9)
def test_the_sampler_follows_the_law_and_mutants_do_not(fits):
    row, count = np.array([5, 3, 4, 0]), 60_000
    table = np.tile(row, (count, 1))
    mechanism = ExponentialMechanism("0.5", 2)
    law = mechanism.pmf(row)
    assert fits(mechanism.sample(table, SystemRandomness()), np.arange(4), law) > 1e-9
    half_the_noise = ExponentialMechanism(1, 2).sample(table, SystemRandomness())
    assert fits(half_the_noise, np.arange(4), law) < 1e-9


def test_edges():
    assert ExponentialMechanism(1, 2).sample(np.zeros((0, 3), dtype=int), SeededRandomness(1)).shape == (0,)
    labels = ExponentialMechanism(Fraction(1, 10**30), 2).sample(np.array([[2**61, 0]] * 64), SeededRandomness(1))
    assert set(labels.tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExponentialMechanism(0, 2), "rate must be above 0"),
        (lambda: ExponentialMechanism(1, 0), "row_range must be at least 1"),
        (lambda: ExponentialMechanism.for_epsilon(1, 0), "row_range must be at least 1"),
        (lambda: ExponentialMechanism.for_epsilon(0, 2), "epsilon must be above 0"),
        (lambda: ExponentialMechanism(1, 2).sample(np.array([1.0]), SeededRandomness(1)), "table must hold integers"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
