"""Claims of the papers that are false, each shown false. docs/errata.md lists them all with their tests."""

import math
from itertools import product

import numpy as np
from scipy.stats import binom


def test_theorem_1_of_reverse_knn_fails_more_often_than_it_says():
    """Randomized response on bits, n = 100, ε/2kr = 4, Y = 10, β = 1e-6: the printed bound fails 2.8 times as often."""
    records, exponent, classes, beta = 100, 4.0, 10, 1e-6
    flip = 1 / (math.exp(exponent) + 1)
    printed = math.sqrt(3 * records * math.log(classes / beta) / (math.exp(exponent) + 1))
    mean = records * flip
    above, below = math.floor(mean + printed), math.ceil(mean - printed) - 1
    one_cell = binom.sf(above, records, flip) + binom.cdf(below, records, flip)
    assert 1 - (1 - one_cell) ** classes > 2.7 * beta


def balanced(similarity):
    """Appendix C with k = 1: the connections that maximize the smallest score of a query, by trying all of them."""
    records, queries = similarity.shape
    best = max(
        product(range(queries), repeat=records),
        key=lambda chosen: min(
            sum(similarity[record, query] for record, query in enumerate(chosen) if query == each)
            for each in range(queries)
        ),
    )
    return np.array(best)


def test_balanced_connections_move_other_records_votes():
    """One record is replaced and the histogram moves by more than the 2 that is claimed for k = r = 1."""
    generator = np.random.default_rng(3)
    labels = np.arange(6) % 2
    moved = 0
    for _ in range(40):
        similarity = generator.random((6, 3))
        changed = similarity.copy()
        changed[0] = generator.random(3)
        tables = []
        for each in (similarity, changed):
            table = np.zeros((3, 2), dtype=int)
            np.add.at(table, (balanced(each), labels), 1)
            tables.append(table)
        moved = max(moved, abs(tables[0] - tables[1]).sum())
    assert moved >= 6


def test_nearest_connections_do_not():
    """The same replacements under the reverse k-NN rule, where a record's vote depends on that record alone."""
    generator = np.random.default_rng(3)
    for _ in range(40):
        similarity = generator.random((6, 3))
        changed = similarity.copy()
        changed[0] = generator.random(3)
        assert (similarity.argmax(axis=1) != changed.argmax(axis=1)).sum() <= 1
