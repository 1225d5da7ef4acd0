"""What the tests of mechanisms share: a goodness-of-fit test and randomness that follows a script."""

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency


def p_value(draws, values, probabilities):
    """Pearson's chi-square of draws against the listed values' probabilities and one cell for all others.

    Cells that expect fewer than 50 draws are pooled, so that the chi-square law holds into its tail.
    """
    draws = np.asarray(draws)
    order = np.argsort(values)
    values, probabilities = np.asarray(values)[order], np.asarray(probabilities, dtype=float)[order]
    place = np.clip(np.searchsorted(values, draws), 0, len(values) - 1)
    listed = values[place] == draws
    observed = np.append(np.bincount(place[listed], minlength=len(values)), (~listed).sum())
    expected = np.append(probabilities, max(0.0, 1 - probabilities.sum())) * len(draws)
    if observed[expected < 1e-10].any():
        return 0.0  # something that cannot occur did
    small = expected < 50
    pooled = [observed[small].sum(), expected[small].sum()]
    observed, expected = observed[~small].astype(float), expected[~small]
    if pooled[1] >= 50:
        observed, expected = np.append(observed, pooled[0]), np.append(expected, pooled[1])
    else:
        smallest = expected.argmin()
        observed[smallest] += pooled[0]
        expected[smallest] += pooled[1]
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(chi2.sf(statistic, len(observed) - 1))


def same_law(first, second):
    """The p-value of two samples of integers coming from one law, with rare values pooled."""
    values, cells = np.unique(np.concatenate([first, second]), return_inverse=True)
    one, two = np.bincount(cells[: len(first)], minlength=len(values)), np.bincount(cells[len(first) :])
    two = np.append(two, np.zeros(len(values) - len(two), dtype=int))
    rare = one + two < 200
    table = np.array([np.append(each[~rare], each[rare].sum()) for each in (one, two)])
    return float(chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


class Scripted:
    """Gives the listed words first, then those of another source, and counts what was asked for."""

    origin = "seeded"

    def __init__(self, words, then=None):
        self.script = [int(word) for word in words]
        self.then = then
        self.used = 0

    def words(self, count):
        taken, self.script = self.script[:count], self.script[count:]
        self.used += count
        rest = count - len(taken)
        if rest and self.then is None:
            raise AssertionError("the script is over")
        more = self.then.words(rest) if rest else np.empty(0, dtype=np.uint64)
        return np.concatenate([np.array(taken, dtype=np.uint64), more])


@pytest.fixture
def fits():
    return p_value


@pytest.fixture
def agree():
    return same_law


@pytest.fixture
def scripted():
    return Scripted
