import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from tacit.accounting.parts import group
from tacit.core.errors import InvalidInput
from tacit.core.spend import Approximate, Composed, DiscreteGaussian, Gaussian, Pure, Repeated, Stability, Subsampled

SPENDS = [
    Pure("1/2"),
    Approximate("1/2", "1e-6"),
    Gaussian(3),
    DiscreteGaussian(4, 2, unit_steps=True),
    Subsampled("1/10", Gaussian(3)),
    Repeated(Pure(1), 3),
    Composed(Pure(1), Gaussian(2)),
    Stability("1e-3"),
]


@pytest.mark.parametrize("spend", SPENDS)
def test_a_group_of_one_is_the_record_itself(spend):
    assert group(spend, 1) is spend


def test_laws():
    assert group(Pure("1/2"), 3) == Pure("3/2")
    assert group(Gaussian(6), 3) == Gaussian(2)
    assert group(DiscreteGaussian(4, 2, unit_steps=True), 3) == DiscreteGaussian(4, 18, unit_steps=False)
    assert group(Stability("1e-3"), 4) == Stability("4e-3")
    assert group(Stability("1/3"), 4) == Stability(1)
    assert group(Approximate(0, "1e-3"), 4) == Approximate(0, "4e-3")
    assert group(Repeated(Composed(Pure(1), Gaussian(2)), 3), 2) == Repeated(Composed(Pure(2), Gaussian(1)), 3)


@given(st.fractions(Fraction(1, 100), 2), st.fractions(Fraction(1, 10**12), Fraction(1, 10**9)), st.integers(2, 8))
def test_walking_through_the_group_one_record_at_a_time(epsilon, delta, records):
    found = group(Approximate(epsilon, delta), records)
    walked = float(delta) * sum(math.exp(step * float(epsilon)) for step in range(records))
    assert found.epsilon == records * epsilon
    assert float(found.delta) == pytest.approx(walked, rel=1e-9)
    assert float(found.delta) >= walked * (1 - 1e-13)


def test_a_group_without_any_guarantee_is_refused():
    with pytest.raises(InvalidInput, match="records must be fewer"):
        group(Approximate(5, "1e-6"), 10)
    with pytest.raises(InvalidInput, match="records must be at least 1"):
        group(Pure(1), 0)


@pytest.mark.parametrize(("rate", "noise", "records"), [(0.1, 1.0, 2), (0.3, 2.0, 3), (0.02, 0.7, 4)])
def test_sampled_groups_are_dominated(rate, noise, records):
    # Between 0 and g of the records are in the sample; the bound puts all g there as soon as one is.
    values, step = np.linspace(-25 * noise, 25 * noise + records, 200_001, retstep=True)
    without = norm.pdf(values, 0, noise)
    chances = binom.pmf(np.arange(records + 1), records, rate)
    together = sum(chance * norm.pdf(values, count, noise) for count, chance in enumerate(chances))
    bound = group(Subsampled(rate, Gaussian(noise)), records)
    some = float(bound.rate)
    dominating = (1 - some) * without + some * norm.pdf(values, records, noise)
    assert float(bound.spend.noise_multiplier) == pytest.approx(noise / records)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
        growth = math.exp(epsilon)
        for one, other, larger, smaller in (
            (together, without, dominating, without),
            (without, together, without, dominating),
        ):
            true = np.maximum(one - growth * other, 0).sum() * step
            assert true <= np.maximum(larger - growth * smaller, 0).sum() * step + 1e-12
