import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput
from tacit.mechanisms.accuracy import (
    expected_label_accuracy,
)
from tacit.mechanisms.central.selection import PermuteAndFlip


@given(
    st.integers(2, 6),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.floats(0.2, 1),
    st.sampled_from(["1/10", 1, 3]),
)
def test_one_rival_with_all_other_votes_is_the_worst_case(classes, shares, purity, epsilon):
    plan = expected_label_accuracy(120, 10, classes, epsilon, neighbors=1, purity=purity)
    rivals = np.array(shares[: classes - 1]) + 1e-9
    scores = np.append(plan.votes * purity, plan.votes * (1 - purity) * rivals / rivals.sum())
    assert PermuteAndFlip.for_epsilon(epsilon, 2).pmf(scores)[0] >= plan.queries_right - 1e-12
    assert plan.samples_right == pytest.approx(plan.queries_right * purity)


def test_more_records_more_epsilon_and_fewer_queries_help():
    def right(records=6000, queries=40, epsilon=0.05):
        return expected_label_accuracy(records, queries, 10, epsilon, neighbors=1, purity=0.8).queries_right

    assert right() < right(records=12_000)
    assert right() < right(queries=20)
    assert right() < right(epsilon=0.1)


def test_the_assumptions_are_said():
    text = expected_label_accuracy(60_000, 40, 10, 0.1, neighbors=1, purity=0.9).in_words
    for words in ("epsilon = 0.1", "same 1500 of the 60000", "at least 90%", "single rival", "replace-one"):
        assert words in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: expected_label_accuracy(10, 2, 1, 1, 1, 0.9), "classes must be at least 2"),
        (lambda: expected_label_accuracy(10, 2, 2, 1, 3, 0.9), "neighbors must be at most the 2 queries"),
        (lambda: expected_label_accuracy(10, 2, 2, 1, 1, 0.0), r"purity must be in \(0, 1\]"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
