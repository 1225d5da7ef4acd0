import itertools
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.amplify import (
    CLOSED,
    PROVEN,
    AmplificationBound,
    Clones,
    amplified_epsilon,
    largest_local_epsilon,
)
from tacit.core.errors import InvalidInput


def shuffled(inputs, keep, classes):
    """The distribution of the multiset of randomized responses to these inputs."""
    other = (1 - keep) / (classes - 1)
    seen = Counter()
    for answers in itertools.product(range(classes), repeat=len(inputs)):
        chance = math.prod(keep if given == answer else other for given, answer in zip(inputs, answers, strict=True))
        seen[tuple(sorted(answers))] += chance
    return seen


def generic(messages, local):
    growth = math.exp(local)
    return Clones(messages - 1, 2 / (growth + 1), growth / (growth + 1), 1 / (growth + 1))


@pytest.mark.parametrize(("classes", "messages"), [(2, 6), (3, 5), (4, 4)])
@pytest.mark.parametrize("local", [0.5, 2.0])
def test_bounds_hold_for_shuffled_randomized_response(classes, messages, local):
    growth = math.exp(local)
    keep = growth / (growth + classes - 1)
    older = Clones(messages - 1, 1 / growth, growth / (growth + 1), 1 / (growth + 1))
    largest = dict.fromkeys((0.05, 0.2, 0.5 * local, 0.9 * local), 0.0)
    for rest in itertools.combinations_with_replacement(range(classes), messages - 1):
        here, there = shuffled((0, *rest), keep, classes), shuffled((1, *rest), keep, classes)
        for epsilon in largest:
            truth = sum(max(0.0, here[seen] - math.exp(epsilon) * there[seen]) for seen in here)
            largest[epsilon] = max(largest[epsilon], truth)
    for epsilon, truth in largest.items():
        assert truth <= generic(messages, local).delta(epsilon) + 1e-12
        assert generic(messages, local).delta(epsilon) <= older.delta(epsilon) + 1e-12
    if classes == 2:
        # Two answers are the worst case, reached when all others agree with the victim.
        assert truth == pytest.approx(generic(messages, local).delta(0.9 * local), rel=1e-9)


def test_enumeration_refutes_the_variation_ratio():
    # Five messages of three-way randomized response, the others' inputs all like the victim's first one.
    local, epsilon = 2.0, 1.8
    growth = math.exp(local)
    keep, share = growth / (growth + 2), 1 / (growth + 2)
    published = Clones(4, 2 * share, share * growth, share).delta(epsilon)
    here, there = shuffled((0, 0, 0, 0, 0), keep, 3), shuffled((1, 0, 0, 0, 0), keep, 3)
    truth = sum(max(0.0, here[seen] - math.exp(epsilon) * there[seen]) for seen in here)
    # Five equal answers alone give keep⁵ − e^ε·keep⁴/(growth + 2).
    assert truth == pytest.approx(keep**4 * (keep - math.exp(epsilon) / (growth + 2)))
    assert truth > 4 * published
    assert truth <= generic(5, local).delta(epsilon)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 25), st.floats(0.01, 4), st.floats(0.05, 1), st.floats(0, 4))
def test_rows_meet_the_double_sum(others, local, ratio, epsilon):
    growth = math.exp(local)
    share = ratio * math.tanh(local / 2) / (growth - 1)
    pair = Clones(others, 2 * share, share * growth, share)
    tables = Counter(), Counter()
    silent = 1 - pair.left - pair.right
    for clones in range(others + 1):
        weight = math.comb(others, clones) * pair.clone**clones * (1 - pair.clone) ** (others - clones)
        for left in range(clones + 1):
            chance = weight * math.comb(clones, left) / 2**clones
            for table, first, second in ((tables[0], pair.left, pair.right), (tables[1], pair.right, pair.left)):
                table[left + 1, clones - left] += chance * first
                table[left, clones - left + 1] += chance * second
                table[left, clones - left] += chance * silent
    truth = sum(max(0.0, chance - math.exp(epsilon) * tables[1][seen]) for seen, chance in tables[0].items())
    assert pair.delta(epsilon) == pytest.approx(truth, rel=1e-9, abs=1e-14)


def test_a_wrong_number_of_clones_is_seen():
    growth = math.e
    right = Clones(49, 2 / (growth + 1), growth / (growth + 1), 1 / (growth + 1)).delta(0.3)
    for others, clone in ((50, 2 / (growth + 1)), (49, 1 / (growth + 1)), (49, 1 / growth)):
        assert Clones(others, clone, growth / (growth + 1), 1 / (growth + 1)).delta(0.3) != pytest.approx(
            right, rel=1e-3
        )


@pytest.mark.parametrize("tolerance", [1e-6, 1e-9, 1e-15])
def test_leaving_rows_out_only_raises_the_bound(tolerance):
    growth = math.exp(2)
    pair = Clones(9_999, 2 / (growth + 1), growth / (growth + 1), 1 / (growth + 1))
    full = pair.delta(0.1)
    assert full * (1 - 1e-9) <= pair.delta(0.1, tolerance) <= full * (1 + 1e-12) + tolerance


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 20_000), st.floats(0.05, 6), st.floats(1e-9, 1e-2))
def test_numeric_bounds_are_monotone_and_never_above_the_local_epsilon(messages, local, delta):
    for bound in (AmplificationBound.NUMERIC_2021, AmplificationBound.NUMERIC_2022):
        found = amplified_epsilon(bound, messages, local, delta)
        assert found <= local
        slack = 1e-8 + 1e-6 * found
        assert amplified_epsilon(bound, 2 * messages, local, delta) <= found + slack
        assert amplified_epsilon(bound, messages, local * 1.1, delta) >= found - slack
        assert amplified_epsilon(bound, messages, local, delta / 10) >= found - slack


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 100_000), st.floats(0.05, 6), st.floats(1e-9, 1e-2))
def test_the_numeric_bound_of_2022_is_the_smallest(messages, local, delta):
    numeric = amplified_epsilon(AmplificationBound.NUMERIC_2022, messages, local, delta)
    for bound in PROVEN:
        try:
            other = amplified_epsilon(bound, messages, local, delta)
        except InvalidInput:
            assert bound in CLOSED
        else:
            assert numeric <= other + 2e-9


@settings(max_examples=10, deadline=None)
@given(st.integers(100, 50_000), st.floats(0.05, 3), st.floats(1e-8, 1e-3), st.sampled_from(PROVEN))
def test_the_largest_local_epsilon_meets_its_target(messages, epsilon, delta, bound):
    local = largest_local_epsilon(messages, epsilon, delta, bound)
    assert float(local) >= epsilon
    if float(local) == epsilon:
        return
    assert amplified_epsilon(bound, messages, local, delta) <= epsilon + 1e-8
    if bound not in CLOSED:
        assert amplified_epsilon(bound, messages, float(local) * 1.001, delta) > epsilon


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: amplified_epsilon(AmplificationBound.CLOSED_2021, 1000, 3, 1e-6),
            r"local_epsilon must be in \(0, 1\.46",
        ),
        (
            lambda: amplified_epsilon(AmplificationBound.CLOSED_2022, 1000, 3, 1e-6),
            r"local_epsilon must be in \(0, 2\.0",
        ),
        (lambda: amplified_epsilon(AmplificationBound.CLOSED_2022, 10, 1, 1e-6), r"with 10 messages and delta 1e-06"),
        (lambda: amplified_epsilon(AmplificationBound.NUMERIC_2022, 1000, 0, 1e-6), "local_epsilon must be above 0"),
        (
            lambda: amplified_epsilon(AmplificationBound.NUMERIC_2022, 1000, 51, 1e-6),
            r"local_epsilon must be in \(0, 50\]",
        ),
        (lambda: amplified_epsilon(AmplificationBound.NUMERIC_2022, 0, 1, 1e-6), "messages must be at least 1"),
        (lambda: amplified_epsilon(AmplificationBound.NUMERIC_2022, 10, 1, 0), r"delta must be in \(0, 1\)"),
        (lambda: amplified_epsilon(AmplificationBound.NUMERIC_2022, 10, 1, 1), r"delta must be in \(0, 1\)"),
        (lambda: amplified_epsilon(AmplificationBound.VARIATION, 10, 1, 1e-6), "needs variation"),
        (lambda: amplified_epsilon(AmplificationBound.VARIATION, 10, 1, 1e-6, 0.9), r"variation must be in \(0, 0\.46"),
        (lambda: largest_local_epsilon(10, 0, 1e-6), "epsilon must be above 0"),
        (lambda: largest_local_epsilon(10, 60, 1e-6), r"epsilon must be in \(0, 50\)"),
        (
            lambda: largest_local_epsilon(10, 1, 1e-6, AmplificationBound.VARIATION),
            "bound must be one of the proven ones",
        ),
        (lambda: Clones(-1, 0.5, 0.6, 0.4), "others must be at least 0"),
        (lambda: Clones(5, 1.5, 0.6, 0.4), r"clone must be in \[0, 1\)"),
        (lambda: Clones(5, 0.5, 0.4, 0.6), "left and right must be"),
    ],
)
def test_ranges_are_named(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_one_message_is_not_hidden():
    assert amplified_epsilon(AmplificationBound.NUMERIC_2022, 1, 1, 1e-6) == pytest.approx(1, abs=1e-5)
