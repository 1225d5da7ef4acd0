import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SystemRandomness
from tacit.mechanisms.accuracy import argmax_pmf, error_probability, gap_needed
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise

TWO_LABELS = {
    "laplace": lambda x: (2 + x) * math.exp(-x) / 4,
    "permute-and-flip": lambda x: math.exp(-x) / 2,
    "exponential": lambda x: 1 / (1 + math.exp(x)),
    "gaussian": lambda x: float(ndtr(-x / math.sqrt(2))),
}
ALL = list(TWO_LABELS)


@pytest.mark.parametrize("selection", ALL)
@pytest.mark.parametrize("gap", [0.0, 0.3, 1.0, 2.25, 7.0, 20.0])
def test_two_labels_have_their_closed_form(selection, gap):
    assert error_probability(selection, 2, gap) == pytest.approx(TWO_LABELS[selection](gap), rel=1e-11)


@pytest.mark.parametrize("selection", ALL)
@given(scores=st.lists(st.integers(-60, 60), min_size=1, max_size=7), unit=st.sampled_from(["1/2", 3, 20]))
def test_every_law_sums_to_one_and_orders_labels_by_score(selection, scores, unit):
    law = argmax_pmf(selection, np.array(scores), unit)
    assert law.sum() == pytest.approx(1, abs=1e-11)
    assert (np.diff(law[np.argsort(scores)]) >= -1e-12).all()


@pytest.mark.parametrize("selection", ALL)
@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("error", [0.3, 0.01, 1e-6, 1e-12])
def test_the_gap_needed_is_the_inverse_of_the_error(selection, classes, error):
    gap = gap_needed(selection, classes, error)
    assert error_probability(selection, classes, gap) == pytest.approx(error, rel=1e-8)


@pytest.mark.parametrize("classes", [2, 10, 200])
@pytest.mark.parametrize("gap", [0.5, 2.0, 5.0, 9.0])
def test_permute_and_flip_beats_the_others_of_the_same_price(classes, gap):
    """At the same ε the scale of Laplace noise is the unit of permute-and-flip."""
    permute = error_probability("permute-and-flip", classes, gap)
    for other in ("exponential", "laplace"):
        assert permute <= error_probability(other, classes, gap) + 1e-12
    if classes == 2:
        assert permute < error_probability("laplace", classes, gap) - 1e-5


@pytest.mark.statistical(rate=1e-9)
def test_integer_noise_of_a_few_counts_comes_close_to_the_continuous_law(fits):
    scores, count = np.array([100, 80, 90]), 40_000
    noisy = DiscreteLaplaceNoise(20, 2).sample(np.tile(scores, (count, 1)), SystemRandomness())
    law = argmax_pmf("laplace", scores, 20)
    shares = np.bincount(noisy.argmax(axis=1), minlength=3) / count
    assert np.abs(shares - law).max() < 0.03
    assert fits(noisy.argmax(axis=1), np.arange(3), argmax_pmf("laplace", scores, 10)) < 1e-9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: argmax_pmf("laplace", np.zeros((2, 2)), 1), "scores must be one vector"),
        (lambda: argmax_pmf("laplace", np.zeros(2), 0), "unit must be above 0"),
        (lambda: error_probability("laplace", 1, 1.0), "classes must be at least 2"),
        (lambda: error_probability("laplace", 2, -1.0), "gap must be at least 0"),
        (lambda: gap_needed("laplace", 2, 0.5), r"error must be in \[1e-15, 0.5\)"),
        (lambda: gap_needed("laplace", 2, 0.0), r"error must be in \[1e-15, 0.5\)"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
