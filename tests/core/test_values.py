from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.codec import decode, encode
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit, decimal
from tacit.core.randomness import SeededRandomness, SystemRandomness, integer_below, permutations, uniform_below
from tacit.core.rational import exact, positive, probability, rounded_down, rounded_up
from tacit.core.release import Receipt, Release, gather
from tacit.core.sensitivity import ANYTHING, Sensitivity
from tacit.core.spend import (
    Approximate,
    Composed,
    DiscreteGaussian,
    Gaussian,
    Pure,
    RandomizedResponse,
    Repeated,
    Stability,
    Subsampled,
    spend_from_json,
    spend_to_json,
)

fractions = st.fractions(min_value=Fraction(1, 10**6), max_value=100)
simple = st.one_of(
    fractions.map(Pure),
    st.builds(RandomizedResponse, fractions, st.integers(2, 100)),
    st.builds(Approximate, fractions, st.fractions(0, Fraction(99, 100))),
    fractions.map(Gaussian),
    st.builds(DiscreteGaussian, fractions, st.integers(1, 50), st.booleans()),
    st.builds(Subsampled, st.fractions(Fraction(1, 1000), 1), fractions.map(Gaussian)),
    st.fractions(Fraction(1, 1000), 1).map(Stability),
)
spends = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(Repeated, inner, st.integers(1, 100)), st.lists(inner, max_size=3).map(lambda each: Composed(*each))
    ),
    max_leaves=5,
)


@given(spends)
def test_a_spend_survives_json(spend):
    assert spend_from_json(spend_to_json(spend)) == spend


@pytest.mark.parametrize(
    "value",
    [{}, {"kind": "bogus"}, {"kind": "pure"}, {"kind": "pure", "epsilon": "-1"}, {"kind": "repeated", "spend": 3},
     {"kind": "subsampled", "rate": "1/2", "spend": {"kind": "pure", "epsilon": "1"}},
     {"kind": "pure", "epsilon": "x"}],
)  # fmt: skip
def test_what_is_not_a_spend_is_refused(value):
    with pytest.raises(InvalidInput):
        spend_from_json(value)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Pure(0), "epsilon must be above 0"),
        (lambda: Pure(float("nan")), "epsilon must be a finite number"),
        (lambda: Approximate(1, 1), "delta must be in"),
        (lambda: Approximate(-1, 0), "epsilon must be at least 0"),
        (lambda: Gaussian(0), "noise_multiplier must be above 0"),
        (lambda: DiscreteGaussian(0, 1, True), "sigma must be above 0"),
        (lambda: DiscreteGaussian(1, 0, True), "squared_shift must be at least 1"),
        (lambda: Subsampled(0, Gaussian(1)), "rate must be in"),
        (lambda: Repeated(Pure(1), 0), "count must be at least 1"),
        (lambda: Stability(0), "delta must be in"),
        (lambda: RandomizedResponse(0, 3), "epsilon must be above 0"),
        (lambda: RandomizedResponse(1, 1), "classes must be at least 2"),
        (lambda: positive("many", "epsilon"), "epsilon must be a number"),
        (lambda: probability(1.5, "delta"), "delta must be in"),
    ],
)
def test_bad_parameters_are_named(make, named):
    with pytest.raises(InvalidInput, match=named):
        make()


def test_a_float_is_the_decimal_that_was_written():
    assert exact(0.1) == Fraction(1, 10)
    assert exact(np.float64(0.3)) == Fraction(3, 10)
    assert sum([exact(0.1)] * 10) == 1


@pytest.mark.parametrize("value", [np.int64(18), np.int32(18), np.uint8(18), np.float32(18), np.float64(18)])
def test_numpy_numbers_are_made_plain_before_they_can_wrap_around(value):
    number = exact(value)
    assert type(number.numerator) is int
    assert number + Fraction(333333333333333333, 10**18) > 18
    assert type(Pure(value).epsilon.numerator) is int


@given(st.fractions(min_value=0, max_value=10**6))
def test_rounding_is_outward_and_close(value):
    assert rounded_down(value) <= value <= rounded_up(value)
    assert rounded_up(value) - rounded_down(value) <= Fraction(1, 10**6)


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**9))
def test_a_printed_claim_is_never_understated(value):
    assert Fraction(decimal(value)) >= value
    assert Fraction(decimal(value)) <= value * Fraction(100002, 100000)


def guarantee(**changes):
    values = {"epsilon": Fraction(1, 2), "delta": Fraction(0), "unit": Unit(), "adjacency": Adjacency.REPLACE_ONE}
    return Guarantee(**(values | {"trust": Trust.CENTRAL} | changes))


def test_a_guarantee_says_everything_it_depends_on():
    said = str(guarantee(delta=Fraction(1, 10**6), unit=Unit.person("patient", 2), accountant="PLD"))
    for part in ("epsilon = 0.5", "delta = 1e-06", "by PLD", 'column "patient", at most 2', "replaced", "central",
                 "Public data"):  # fmt: skip
        assert part in said
    assert "number of records is then private" in str(guarantee(adjacency=Adjacency.ADD_REMOVE))


def test_a_simulation_is_said_first_and_claims_nothing():
    said = str(guarantee(simulation=True))
    assert said.startswith("SIMULATION, NO PRIVACY GUARANTEE")
    assert "Differential privacy:" not in said


def test_a_guarantee_survives_json_with_its_caveats():
    value = guarantee(trust=Trust.SHUFFLE, simulation=True).with_caveat("classes were read")
    assert Guarantee.from_json(value.to_json()) == value
    assert "Caveat: classes were read." in str(value)


def test_every_trust_model_is_explained():
    for trust in Trust:
        assert f"Trust ({trust}): " in str(guarantee(trust=trust))


def test_what_is_unknown_is_not_small():
    assert not ANYTHING.within(Sensitivity(l1=10))
    assert ANYTHING.within(ANYTHING)
    # No slack, however far a table moves.
    assert not Sensitivity(l1=2**52 + 1).within(Sensitivity(l1=2**52))
    assert Sensitivity(l1=2**52).within(Sensitivity(l1=2**52))
    assert Sensitivity(1, 1, 1, 1).within(ANYTHING)
    assert Sensitivity(l1=3).excess(Sensitivity(l1=2, linf=1)) == [
        "l1 changes by 3, and the mechanism allows 2",
        "linf changes by inf, and the mechanism allows 1",
    ]


def receipt(number):
    return Receipt("clinic", f"r-{number}", "labels", Pure(1), "system", number, "00")


def test_receipts_follow_a_release_through_every_step():
    joined = gather([Release(1, (receipt(1),)), Release(2, (receipt(2), receipt(1)))])
    assert joined.map(sum) == Release(3, (receipt(1), receipt(2)))
    assert Receipt.from_json(receipt(1).to_json()) == receipt(1)
    assert not receipt(1).simulated


arrays = st.sampled_from(["i8", "i4", "u1", "f4", "f8", "?"]).flatmap(
    lambda kind: st.lists(st.integers(0, 1), max_size=6).map(lambda items: np.array(items, dtype=kind))
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), arrays),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=6,
)


def same(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(values)
def test_values_survive_the_codec(value):
    assert same(decode(encode(value)), value)


@given(st.binary(max_size=60))
def test_the_codec_refuses_noise(payload):
    with pytest.raises(InvalidInput):
        decode(payload)


def test_the_codec_refuses_damage_and_strange_types():
    payload = encode({"a": np.arange(4)})
    for damaged in (payload[:-1], payload + b"x", payload.replace(b"<i8", b"|O8"), payload.replace(b"[4]", b"[9]")):
        with pytest.raises(InvalidInput):
            decode(damaged)
    for strange in (object(), np.array([object()]), {1: 2}, np.array(["text"])):
        with pytest.raises(InvalidInput):
            encode(strange)


def test_randomness_names_its_origin():
    assert SystemRandomness().origin == "system"
    assert SeededRandomness(1).origin == "seeded"


def test_system_randomness_does_not_repeat():
    assert len(np.unique(np.concatenate([SystemRandomness().words(1000) for _ in range(3)]))) == 3000


@pytest.mark.statistical(rate=1e-9)
@pytest.mark.parametrize("bound", [3, 10, 2**40 + 1])
def test_uniform_integers_are_uniform_and_a_modulo_would_not_be(bound):
    from scipy.stats import chisquare

    bins = 3 if bound > 10 else bound

    def p_value(values):
        return chisquare(np.bincount(values * bins // bound if bound <= 10 else values // -(-bound // bins),
                                     minlength=bins)).pvalue  # fmt: skip

    assert p_value(uniform_below(bound, 60_000, SystemRandomness())) > 1e-9
    # The mutant reduces four-bit words instead of rejecting them.
    if bound <= 10:
        assert p_value((SystemRandomness().words(60_000) & np.uint64(15)).astype(np.int64) % bound) < 1e-9


@pytest.mark.statistical(rate=1e-9)
def test_every_permutation_is_equally_likely():
    from scipy.stats import chisquare

    orders = permutations(24_000, 4, SystemRandomness())
    counts = np.unique(orders @ [64, 16, 4, 1], return_counts=True)[1]
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 1e-9


def test_large_integers_stay_below_their_bound():
    assert all(integer_below(7, SystemRandomness()) < 7 for _ in range(200))
    assert {integer_below(1, SeededRandomness(3)) for _ in range(5)} == {0}
    assert max(integer_below(10**40, SystemRandomness()) for _ in range(50)) > 10**35
    with pytest.raises(InvalidInput, match="bound must be at least 1"):
        integer_below(0, SystemRandomness())
    with pytest.raises(InvalidInput, match="bound must be in"):
        uniform_below(0, 1, SystemRandomness())
