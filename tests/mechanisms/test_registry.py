"""A mechanism that travels is the same mechanism at the same price; what is none of ours does not travel."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.codec import StrictReader, decode, encode
from tacit.core.errors import InvalidInput
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.registry import mechanism_fields, read_mechanism, registered
from tests.wire_samples import CENTRAL, FLOOD, LOCAL, OTHERS

fractions = st.fractions(min_value=Fraction(1, 1000), max_value=1000)


@pytest.mark.parametrize("mechanism", [*LOCAL, *CENTRAL, *OTHERS], ids=lambda each: type(each).__name__)
def test_mechanisms_come_back_equal(mechanism):
    fields = mechanism_fields(mechanism)
    assert read_mechanism(StrictReader(decode(encode(fields)), "mechanism")) == mechanism
    assert read_mechanism(StrictReader(decode(encode(fields)), "mechanism")).spend == mechanism.spend


def test_every_kind_of_mechanism_is_tried():
    tried = {type(each) for each in [*LOCAL, *CENTRAL, *OTHERS]}
    assert set(registered().values()) == tried


@given(rate=fractions, row_range=st.integers(1, 10**6))
def test_parameters_are_exact(rate, row_range):
    mechanism = PermuteAndFlip(rate, row_range)
    assert read_mechanism(StrictReader(mechanism_fields(mechanism), "mechanism")) == mechanism


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "gate"},
        {"kind": "vote-shape"},
        {"kind": ["permute-and-flip"]},
        {"rate": 0.25},
        {"rate": "0.25"},
        {"rate": "2/8"},
        {"rate": "1e999999999"},
        {"rate": "1" * 10_000},
        {"rate": "-1/4"},
        {"rate": None},
        {"row_range": True},
        {"row_range": 2.0},
        {"row_range": 0},
        {"row_range": 10**40},
        {"spend": "0"},
    ],
    ids=str,
)
def test_another_mechanism_is_refused(change):
    with pytest.raises(InvalidInput):
        read_mechanism(StrictReader(mechanism_fields(PermuteAndFlip("1/4", 2)) | change, "mechanism"))


def test_a_question_cannot_make_a_holder_add_up_an_endless_law():
    hostile = mechanism_fields(FLOOD) | {"epsilon_noise": "1/10000"}
    hostile["flood"] = {"kind": "negative-binomial", "shape": "100000", "epsilon": "1/10000"}
    with pytest.raises(InvalidInput, match="mean of at most"):
        read_mechanism(StrictReader(hostile, "mechanism"))


class Own:
    """Claims to be free."""

    spend = None


@pytest.mark.parametrize("strange", [Own(), "permute-and-flip", VoteShape(4, 3), None])
def test_an_own_mechanism_does_not_travel(strange):
    with pytest.raises(InvalidInput, match="cannot be sent"):
        mechanism_fields(strange)
