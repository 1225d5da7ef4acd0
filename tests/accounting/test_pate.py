import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.pate import gaussian_divergence, gaussian_log_error, laplace_divergence, laplace_log_error
from tacit.accounting.rdp import pure_curve
from tacit.core.errors import InvalidInput

votes = st.lists(st.integers(0, 300), min_size=2, max_size=10)
log_errors = st.floats(-200, 0)
orders = st.floats(1.01, 200)


@given(log_errors, st.floats(0.001, 1), orders)
def test_laplace_never_costs_more_than_without_looking(log_error, gamma, order):
    found = laplace_divergence(log_error, gamma, order)
    assert -1e-12 <= found <= pure_curve(2 * gamma, np.array([order]))[0]


@given(log_errors, st.floats(1, 200), orders)
def test_gaussian_never_costs_more_than_without_looking(log_error, sigma, order):
    assert -1e-12 <= gaussian_divergence(log_error, sigma, order) <= order / sigma**2


@given(votes)
def test_the_order_of_classes_does_not_matter(several):
    assert laplace_log_error(several, 0.05) == laplace_log_error(several[::-1], 0.05)
    assert gaussian_log_error(several, 40) == gaussian_log_error(sorted(several), 40)


def test_agreement_is_cheaper():
    clear, close = [200, 0, 0], [100, 95, 5]
    assert laplace_log_error(clear, 0.1) < laplace_log_error(close, 0.1)
    assert laplace_divergence(laplace_log_error(clear, 0.1), 0.1, 8) < 1e-3 * laplace_divergence(-0.1, 0.1, 8)
    assert gaussian_divergence(gaussian_log_error(clear, 20), 20, 8) < 1e-2 * gaussian_divergence(-0.1, 20, 8)


def test_two_classes_meet_the_exact_error():
    # One gap of g: the difference of two Laplace variables, of two Gaussians.
    gap, gamma, sigma = 30, 0.1, 25
    assert math.exp(laplace_log_error([50, 20], gamma)) == pytest.approx((2 + gamma * gap) / 4 * math.exp(-gamma * gap))
    assert math.exp(gaussian_log_error([50, 20], sigma)) == pytest.approx(math.erfc(gap / (2 * sigma)) / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: laplace_log_error([1], 0.1), "votes must be for at least 2 classes"),
        (lambda: laplace_log_error([1, 2], 0), "gamma must be above 0"),
        (lambda: gaussian_log_error([1, 2], -1), "sigma must be above 0"),
        (lambda: laplace_divergence(0.5, 0.1, 2), "log_error must be at most 0"),
        (lambda: gaussian_divergence(-1, 10, 1), "order must be above 1"),
    ],
)
def test_ranges_are_named(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
