import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.parts import basic_epsilon, largest_epsilon, own_delta, parts_of
from tacit.core.spend import (
    FREE,
    Approximate,
    Composed,
    DiscreteGaussian,
    Gaussian,
    Pure,
    RandomizedResponse,
    Repeated,
    Stability,
)

LEAVES = [
    Pure("1/3"),
    Pure(2),
    RandomizedResponse(2, 3),
    Approximate("1/2", "1e-7"),
    Gaussian(3),
    DiscreteGaussian(4, 2, unit_steps=True),
    Stability("1e-7"),
]
spends = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(Repeated, inner, st.integers(1, 5)),
        st.lists(inner, max_size=3).map(lambda several: Composed(*several)),
    ),
    max_leaves=8,
)


def counted(spend):
    """The definition, by plain recursion: a list with every indivisible spend as often as it occurs."""
    match spend:
        case Repeated(inner, count):
            return counted(inner) * count
        case Composed(inside):
            return [part for each in inside for part in counted(each)]
        case _:
            return [spend]


@given(st.lists(spends, max_size=4))
def test_parts_are_what_recursion_counts(several):
    listed = [part for spend in several for part in counted(spend)]
    assert parts_of(several) == {part: listed.count(part) for part in listed}
    assert own_delta(parts_of(several)) == sum(getattr(part, "delta", 0) for part in listed)


@given(spends, st.integers(1, 7))
def test_repeated_is_composed_of_as_many(spend, count):
    assert parts_of([Repeated(spend, count)]) == parts_of([Composed(*[spend] * count)]) == parts_of([spend] * count)
    assert parts_of([Repeated(spend, count)]) != parts_of([spend] * (count + 1)) or not parts_of([spend])


def test_post_processing_has_no_parts():
    assert parts_of([FREE, Repeated(FREE, 9), Composed(FREE)]) == {}
    assert basic_epsilon({}) == largest_epsilon({}) == own_delta({}) == 0


def test_deep_nesting_does_not_recurse():
    spend = Pure("1/7")
    for _ in range(5000):
        spend = Composed(spend, Pure("1/7"))
    assert parts_of([spend]) == {Pure("1/7"): 5001}


@pytest.mark.parametrize("spend", [Gaussian(1), DiscreteGaussian(1, 1, unit_steps=True)])
def test_gaussian_noise_has_no_epsilon_of_its_own(spend):
    assert basic_epsilon(parts_of([Pure(1), spend])) is None
