import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.rdp import best_order, conversion, epsilon_of, order_for, rho_of
from tacit.core.errors import InvalidInput
from tests.accounting.published import classic_zcdp_epsilon

rhos = st.floats(1e-8, 1e4)
deltas = st.floats(1e-12, 0.4)


@given(rhos, deltas)
def test_no_order_of_a_fine_grid_converts_better(rho, delta):
    found = epsilon_of(rho, delta)
    for order in 1 + np.exp(np.linspace(-10, math.log(1 / delta - 1) - 1e-9, 300)):
        assert found <= max(0, order * rho + conversion(float(order), delta)) * (1 + 1e-9) + 1e-12
    assert found <= classic_zcdp_epsilon(rho, delta) * (1 + 1e-9)


@given(st.floats(1e-3, 100), st.floats(1e-10, 1e-2))
def test_there_and_back(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-7)
    assert best_order(rho, delta) == pytest.approx(order_for(epsilon, delta), rel=1e-5)


@given(rhos, rhos, deltas)
def test_grows_with_rho_and_falls_with_delta(one, other, delta):
    low, high = sorted((one, other))
    assert epsilon_of(low, delta) <= epsilon_of(high, delta) * (1 + 1e-9)
    assert epsilon_of(low, delta) <= epsilon_of(low, delta / 2) * (1 + 1e-9)


def test_nothing_costs_nothing():
    assert epsilon_of(0.0, 1e-5) == 0


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5])
def test_delta_out_of_range_is_named(delta):
    for call in (lambda: epsilon_of(1.0, delta), lambda: rho_of(1.0, delta)):
        with pytest.raises(InvalidInput, match=r"delta must be in \(0, 1\)"):
            call()


def test_other_ranges_are_named():
    with pytest.raises(InvalidInput, match="epsilon must be above 0"):
        rho_of(0.0, 1e-5)
    for call in (epsilon_of,):
        with pytest.raises(InvalidInput, match="rho must be at least 0"):
            call(-1.0, 1e-5)
