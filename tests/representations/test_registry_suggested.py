"""Which representation is suggested: pixels keep their scale, tables of mixed units are standardized."""

import numpy as np
import pytest

from tacit.representations.registry import suggest_representation

RANDOM = np.random.default_rng(0)


def images(count=300, side=28, glow=0.02):
    """Strokes in the middle of a dark frame whose pixels are hardly ever lit, and then faintly."""
    result = np.zeros((count, side, side))
    middle = slice(side // 4, 3 * side // 4)
    width = len(range(side)[middle])
    result[:, middle, middle] = 255 * (RANDOM.random((count, width, width)) < 0.4)
    faint = (result == 0) & (RANDOM.random(result.shape) < glow)
    result[faint] = RANDOM.integers(1, 4, faint.sum())
    return result


def table(*columns, count=400):
    return np.column_stack([RANDOM.normal(mean, spread, count) for mean, spread in columns])


AGES, INCOMES = [(45, 15)], [(50_000, 20_000)]


@pytest.mark.parametrize("scale", [1, 1 / 255])
def test_faint_borders_do_not_make_a_table_of_an_image(scale):
    assert suggest_representation(images() * scale) == "spectral"
    assert suggest_representation(images().reshape(300, -1) * scale) == "spectral"
    assert suggest_representation(images(50).reshape(50, -1) * scale) == "pca"


def test_images_given_as_images_are_of_one_scale_even_where_most_of_them_is_noise():
    noisy = images() + RANDOM.integers(0, 3, (300, 28, 28))
    assert suggest_representation(noisy) == "spectral"


@pytest.mark.parametrize(
    "columns",
    [AGES + INCOMES, AGES * 10 + INCOMES * 10, AGES * 19 + INCOMES, AGES * 30 + INCOMES * 10, AGES * 4],
)
def test_tables_of_mixed_units_are_standardized(columns):
    assert suggest_representation(table(*columns)) == "standardized"


def test_numbers_beside_indicators_are_standardized():
    indicators = np.eye(40)[RANDOM.integers(0, 40, 400)]
    assert suggest_representation(np.hstack([table(*AGES, *INCOMES), indicators])) == "standardized"
    assert suggest_representation(np.hstack([table(*INCOMES), indicators])) == "standardized"


def test_features_of_one_scale_keep_it():
    assert suggest_representation(table(*AGES * 20)) == "spectral"
    assert suggest_representation(np.eye(40)[RANDOM.integers(0, 40, 400)]) == "spectral"
    assert suggest_representation(RANDOM.poisson(0.05, (400, 300)).astype(float)) == "spectral"
