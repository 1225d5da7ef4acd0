import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.rdp import conversion, order_for, rho_of
from tacit.core.errors import InvalidInput
from tests.accounting.published import classic_zcdp_epsilon, zcdp_epsilon


@given(st.floats(1e-3, 100), st.floats(1e-10, 1e-2))
def test_the_largest_rho_converts_to_exactly_epsilon_at_its_order(epsilon, delta):
    rho, order = rho_of(epsilon, delta), order_for(epsilon, delta)
    assert order * rho + conversion(order, delta) == pytest.approx(epsilon, rel=1e-7)
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-7)
    assert epsilon <= classic_zcdp_epsilon(rho, delta) * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5])
def test_delta_out_of_range_is_named(delta):
    with pytest.raises(InvalidInput, match=r"delta must be in \(0, 1\)"):
        rho_of(1.0, delta)


def test_other_ranges_are_named():
    with pytest.raises(InvalidInput, match="epsilon must be above 0"):
        rho_of(0.0, 1e-5)
