"""Test vectors of local mechanisms: variances, best parameters and the comparison of the paper's Figure 6.

The numbers were obtained by exact enumeration or simulation, and correct the papers where those are wrong.
"""

from fractions import Fraction

import pytest

from tacit.mechanisms.choices import choose
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision, best_length, published_length
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.local.vote_shape import VoteShape

FIGURE_SIX = VoteShape(queries=200, classes=50, neighbors=2, labels=2)


def printed(number: float, vector: str) -> bool:
    """Whether the number rounds to the vector as it is printed."""
    digits = len(vector.split(".")[1])
    return abs(number - float(vector)) <= 0.5000001 * 10**-digits


def test_discrete_laplace_variance():
    assert printed(LocalLaplace(100, 1, 1).variance_zero, "7.835396178")


@pytest.mark.parametrize(
    ("ones", "epsilon", "length", "variance"),
    [
        (1, "1", 4, "3.691655"),
        (1, "0.4", 3, "25.203114"),
        (2, "1", 9, "8.552753"),
        (4, "1", 19, "18.138403"),
        (4, "4", 228, "0.308209"),
    ],
)
def test_collision_best_length_and_variance(ones, epsilon, length, variance):
    mechanism = Collision(1000, ones, epsilon)
    assert mechanism.length == length
    assert printed(mechanism.variance_zero, variance)


@pytest.mark.parametrize("ones", [1, 2, 3, 4, 6, 10])
@pytest.mark.parametrize("epsilon", ["0.01", "0.4", "1", "2", "3.5", "5"])
def test_no_other_length_is_better(ones, epsilon):
    epsilon = Fraction(epsilon)
    best = best_length(ones, epsilon)
    variances = {
        length: Collision(1000, ones, epsilon, length).variance_zero for length in range(ones + 1, 3 * best + 10)
    }
    assert variances[best] == min(variances.values())
    assert variances[best] <= variances[max(published_length(ones, epsilon), ones + 1)]


# Var₀ for d = 100 and c = 1; None where the mechanism has no parameter.
TABLE = {
    GeneralizedRandomizedResponse: {"1": ("34.112969", None), "2": ("2.581797", None), "4": ("0.053119", None)},
    Collision: {"1": ("3.691655", None), "2": ("0.724591", None), "4": ("0.076023", None)},
    UnaryEncoding: {"1": ("3.682694", None), "2": ("0.724062", None), "4": ("0.076022", None)},
    SubsetSelection: {"1": ("3.589650", 27), "2": ("0.689861", 12), "4": ("0.053119", 1)},
}


@pytest.mark.parametrize("epsilon", ["1", "2", "4"])
@pytest.mark.parametrize("mechanism", TABLE)
def test_variance_on_zeros_for_a_hundred_cells(mechanism, epsilon):
    variance, size = TABLE[mechanism][epsilon]
    made = mechanism(100, 1, epsilon)
    assert printed(made.variance_zero, variance)
    assert size is None or made.size == size


@pytest.mark.parametrize(("epsilon", "variance"), [("1", "3.917698"), ("2", "0.920674"), ("4", "0.181015")])
def test_symmetric_bits(epsilon, variance):
    assert printed(UnaryEncoding(100, 1, epsilon, symmetric=True).variance_zero, variance)


@pytest.mark.parametrize(("epsilon", "size"), [("0.4", 3), ("1", 4), ("2", 8)])
def test_linear_hashing_has_the_variance_of_local_hashing(epsilon, size):
    linear, hashed = LinearHashing(5000, 1, epsilon), Collision(5000, 1, epsilon)
    assert linear.size == hashed.length == size
    assert linear.variance_zero == hashed.variance_zero
    assert linear.variance_one == hashed.variance_one


@pytest.mark.parametrize("tenths", range(1, 41))
def test_linear_hashing_loses_about_one_percent_at_most_where_no_field_fits(tenths):
    epsilon = Fraction(tenths, 10)
    assert LinearHashing(5000, 1, epsilon).variance_zero <= 1.0102 * Collision(5000, 1, epsilon).variance_zero


@pytest.mark.parametrize(
    ("epsilon", "flat", "separation", "concatenation", "mean"),
    [
        ("1", "18.1808", "1585.98", "345.238", "-1.034"),
        ("3.5", "0.528159", "5.42313", "0.496427", "-0.062"),
    ],
)
def test_figure_six(epsilon, flat, separation, concatenation, mean):
    """n = 1, s = 200, Y = 50, k = r = 2, and the published number of buckets to the nearest integer in each part."""
    exact = Fraction(epsilon)
    half = published_length(2, exact / 2)
    assert half == {"1": 6, "3.5": 15}[epsilon]
    collision = Collision(FIGURE_SIX.cells, FIGURE_SIX.ones, exact, published_length(4, exact))
    assert printed(collision.mean_squared_error, flat)
    assert printed(Separation(FIGURE_SIX, exact, lengths=(half, half)).mean_squared_error, separation)
    published = Concatenation(FIGURE_SIX, exact, corrected=False)
    assert published.both.length == published_length(4, exact)
    assert printed(published.mean_squared_error, concatenation)
    assert printed(published.moments.means[1][1], mean)
    assert published.biased


def test_published_concatenation_has_the_wrong_mean_on_a_true_cell():
    shape = VoteShape(queries=10, classes=10, neighbors=1, labels=1)
    published = Concatenation(shape, 1, corrected=False, length=4)
    assert printed(published.moments.means[1][1], "-2.163953414")
    rates = published.both.rates
    assert published.moments.means[1][1] == pytest.approx(-rates.zero / rates.gap, rel=1e-12)
    for kind in ((0, 0), (0, 1), (1, 0)):
        assert published.moments.means[kind[0]][kind[1]] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "3.5", "5", "8", "12"])
def test_corrected_concatenation_is_unbiased_and_never_better_than_collision(epsilon):
    corrected = Concatenation(FIGURE_SIX, epsilon, corrected=True)
    rates, moments = corrected.both.rates, corrected.moments
    assert not corrected.biased
    assert moments.means[1][1] == pytest.approx(1, rel=1e-9)
    assert [moments.means[0][0], moments.means[0][1], moments.means[1][0]] == pytest.approx([0, 0, 0], abs=1e-7)
    assert corrected.variance_zero == pytest.approx((1 - rates.zero) ** 2 / rates.gap**2, rel=1e-9)
    flat = Collision(FIGURE_SIX.cells, FIGURE_SIX.ones, epsilon)
    assert flat.mean_squared_error < corrected.mean_squared_error
    for length in range(5, 60):
        assert corrected.variance_zero <= Concatenation(FIGURE_SIX, epsilon, True, length).variance_zero * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "3.5", "5", "8", "12"])
def test_separation_multiplies_variances_and_is_never_better_than_collision(epsilon):
    separation = Separation(FIGURE_SIX, epsilon)
    assert separation.variance_zero == separation.buckets.variance_zero * separation.labels.variance_zero
    flat = Collision(FIGURE_SIX.cells, FIGURE_SIX.ones, epsilon)
    assert flat.mean_squared_error < separation.mean_squared_error


@pytest.mark.parametrize("cells", [20, 100, 1000, 10_000, 100_000])
@pytest.mark.parametrize("ones", [1, 2, 4])
@pytest.mark.parametrize("epsilon", ["0.4", "1", "4"])
def test_subset_selection_beats_collision_on_a_grid(cells, ones, epsilon):
    subset = SubsetSelection(cells, ones, epsilon)
    assert subset.variance_zero < Collision(cells, ones, epsilon).variance_zero
    assert choose(cells, ones, epsilon).mechanism.mean_squared_error <= subset.mean_squared_error
