import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import ANYTHING
from tacit.core.spend import Stability
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample


def law(records, size, replacement):
    """The exact probability of every ordered output."""
    draws = itertools.product(records, repeat=size) if replacement else itertools.permutations(records, size)
    counts = Counter(draws)
    return {output: Fraction(count, sum(counts.values())) for output, count in counts.items()}


def hockey_stick(one, two, growth):
    return sum(max(Fraction(0), chance - growth * two.get(output, 0)) for output, chance in one.items())


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("size", "population"), [(1, 3), (2, 4), (3, 4), (4, 4)])
def test_delta_is_exact_and_the_same_for_every_epsilon(size, population, replacement):
    mechanism = SubsetSample(size, population, replacement)
    here = law(range(population), size, replacement)
    there = law([*range(1, population), "other"], size, replacement)
    for growth in (1, Fraction(3, 2), 10, 10**6):
        for one, two in ((here, there), (there, here)):
            assert 0 <= mechanism.delta - hockey_stick(one, two, growth) < Fraction(1, 10**15)


def test_the_published_theorem_is_a_worse_statement_of_the_same_thing():
    """Under the published ε the divergence has not fallen at all below that at ε = 0."""
    mechanism = SubsetSample(2, 4, replacement=True)
    growth = Fraction(math.exp(mechanism.published_epsilon))
    here, there = law(range(4), 2, True), law([1, 2, 3, "other"], 2, True)
    assert hockey_stick(here, there, growth) == hockey_stick(here, there, 1) == Fraction(7, 16)


@given(st.integers(1, 400), st.integers(1, 400))
def test_with_replacement_delta_is_the_exact_fraction_rounded_up(size, population):
    mechanism = SubsetSample(size, population, replacement=True)
    exact = 1 - Fraction(population - 1, population) ** size
    assert 0 <= mechanism.delta - exact < Fraction(1, 10**15)
    assert mechanism.delta >= Fraction(1, population)
    assert mechanism.spend == Stability(mechanism.delta)


def test_a_large_population_is_no_trouble():
    mechanism = SubsetSample(10**6, 10**6, replacement=True)
    assert float(mechanism.delta) == pytest.approx(1 - math.exp(-1), rel=1e-6)


@pytest.mark.statistical(rate=1e-9)
@pytest.mark.parametrize("replacement", [False, True])
def test_the_draws_follow_the_law_and_mutants_do_not(fits, replacement):
    mechanism = SubsetSample(2, 4, replacement)
    source = SystemRandomness()
    draws = np.array([mechanism.indices(source) for _ in range(20_000)])
    expected = law(range(4), 2, replacement)
    values = np.array([4 * first + second for first, second in expected])
    assert fits(draws @ [4, 1], values, [float(each) for each in expected.values()]) > 1e-9
    other = np.array([SubsetSample(2, 4, not replacement).indices(source) for _ in range(20_000)])
    assert fits(other @ [4, 1], values, [float(each) for each in expected.values()]) < 1e-9


def test_columns_stay_aligned():
    samples, labels = np.arange(20).reshape(10, 2), np.arange(10)
    chosen, names = SubsetSample(4, 10, replacement=False).sample((samples, labels), SeededRandomness(1))
    assert len(set(names.tolist())) == 4
    assert (chosen == samples[names]).all()
    assert SubsetSample(4, 10, replacement=False).max_sensitivity == ANYTHING


def test_a_class_is_as_exposed_as_the_one_drawn_from_most():
    mechanism = StratifiedSample((SubsetSample(1, 5, False), SubsetSample(3, 4, True)))
    exact = 1 - Fraction(3, 4) ** 3
    assert 0 <= mechanism.spend.delta - exact < Fraction(1, 10**15)
    assert mechanism.max_sensitivity == ANYTHING
    labels = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0])
    names, drawn = mechanism.sample((np.arange(9), labels), SeededRandomness(1))
    assert drawn.tolist() == [0, 1, 1, 1]
    assert (labels[names] == drawn).all()
    assert "class sizes are assumed to be public" in mechanism.caveat


def test_a_record_that_changes_its_class_would_cost_more_than_the_largest_class():
    """Why the class sizes must be public: the two changed classes add up."""
    here = {
        (one, two): Fraction(1, 4)
        for (one,), (two,) in itertools.product(law(["a", "x"], 1, False), law("bc", 1, False))
    }
    there = {
        (one, two): Fraction(1, 3) for (one,), (two,) in itertools.product(law(["a"], 1, False), law("bcx", 1, False))
    }
    largest = StratifiedSample((SubsetSample(1, 2, False), SubsetSample(1, 2, False))).spend.delta
    assert hockey_stick(here, there, 1) == Fraction(1, 2)
    assert hockey_stick(there, here, 1) == Fraction(2, 3) - Fraction(1, 6)
    assert 1 - Fraction(1, 2) * Fraction(2, 3) > largest


def test_the_caveat_says_what_is_true():
    text = SubsetSample(18, 2880, replacement=False).caveat
    assert "in the clear with probability 0.00625" in text
    assert "not an ordinary" in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SubsetSample(0, 4, True), "size must be at least 1"),
        (lambda: SubsetSample(1, 0, True), "population must be at least 1"),
        (lambda: SubsetSample(5, 4, False), "size must be at most the population of 4"),
        (lambda: SubsetSample(2, 4, False).sample([np.arange(3)], SeededRandomness(1)), "population is 4, got"),
        (lambda: StratifiedSample(()), "at least 1 class"),
        (
            lambda: StratifiedSample((SubsetSample(1, 2, False),)).sample([np.zeros(3)], SeededRandomness(1)),
            "population of class 0 is 2, got 3",
        ),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
