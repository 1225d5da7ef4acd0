"""The NFDP paper's printed privacy, beside what is true of the same mechanism."""

import math
from itertools import pairwise

import pytest

from experiments.fedmd_published import (
    PRINTED,
    curves_over_parties,
    curves_over_subsets,
    gaussian_needed,
    laplace_needed,
    table_two,
)
from tacit.methods.fedmd.wire import PredictionForm

# (n, k, ε in natural logarithm, ε as it is printed, δ): section 9 of the reference page.
GOLDEN = [
    (2880, 18, 0.006249, 0.002714, 0.006232),
    (2880, 60, 0.020830, 0.009046, 0.020621),
    (2880, 300, 0.104149, 0.045231, 0.098941),
    (2880, 2880, 0.999826, 0.434219, 0.632184),
    (300, 18, 0.059900, 0.026014, 0.058330),
    (300, 60, 0.199667, 0.086714, 0.181543),
    (300, 120, 0.399335, 0.173429, 0.330128),
    (300, 300, 0.998337, 0.433572, 0.632735),
]


def test_table_two():
    rows = table_two()
    assert len(rows) == len(GOLDEN) == len(PRINTED)
    for row, (records, size, natural, decimal, delta) in zip(rows, GOLDEN, strict=True):
        assert (row["records per party"], row["true k"]) == (records, size)
        assert row["epsilon (ln)"] == pytest.approx(natural, abs=6e-7)
        assert row["epsilon (log10)"] == pytest.approx(decimal, abs=6e-7)
        assert row["delta, for every epsilon"] == pytest.approx(delta, abs=6e-7)
        # The printed numbers are ours in decimal logarithm, some rounded to four digits and some cut off there.
        assert abs(row["epsilon (log10)"] - row["printed epsilon"]) < 1e-4
        assert abs(row["delta, for every epsilon"] - row["printed delta"]) < 1e-4
        # One expected record in the clear, and more: never below what publishing one random record costs.
        assert row["delta times records"] >= 1
    # With k = 16, as printed, the numbers would not come out.
    assert abs(16 * math.log1p(1 / 2880) / math.log(10) - 0.0027) > 1e-4


def test_privacy_curves():
    curve = curves_over_subsets(100)
    assert len(curve) == 100
    assert curve[9]["delta without replacement"] == pytest.approx(0.1)
    assert curve[9]["delta with replacement"] == pytest.approx(1 - 0.99**10)
    assert all(row["delta with replacement"] <= row["delta without replacement"] for row in curve)
    over = curves_over_parties(3000)
    assert [row["records per party"] for row in over] == [1500, 750, 500, 375, 300]
    assert all(a["delta"] < b["delta"] for a, b in pairwise(over))
    # The paper's point, 10⁴ to 10⁷: that much noise on a probability leaves nothing of it.
    assert all(10**4 < row["sigma of FedMD-LDP"] < 10**7 for row in over + curves_over_parties(28_800))


def test_noise_that_predictions_need():
    form = PredictionForm("softmax", 6)
    assert laplace_needed(form, 5000, 20, 1) == 2 * 5000 * 20
    assert gaussian_needed(form, 5000, 20, 1, 1e-5) == pytest.approx(math.sqrt(2e5) * 3.730631635, rel=1e-6)
    # Four times the queries need twice the Gaussian noise.
    assert gaussian_needed(form, 5000, 20, 1, 1e-5) == pytest.approx(2 * gaussian_needed(form, 1250, 20, 1, 1e-5))
