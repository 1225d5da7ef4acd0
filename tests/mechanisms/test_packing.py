"""Packed messages come back as they were, one message has one form, and everything else is told from it."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.codec import packed_bytes, packed_numbers, unpacked_numbers
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial
from tacit.mechanisms.shuffle.single_message import SingleMessage

SHAPE = VoteShape(queries=30, classes=10)
MECHANISMS = [
    UnaryEncoding(300, 1, 4),
    Collision(300, 1, 4),
    Collision(300, 1, 8),
    Concatenation(SHAPE, 4, corrected=True),
    GeneralizedRandomizedResponse(300, 1, 4),
    LinearHashing(300, 1, 4),
    LocalLaplace(300, 1, 4),
    Separation(SHAPE, 4),
    SubsetSelection(300, 1, "1/2"),
    SubsetSelection(300, 1, 2),
    SubsetSelection(300, 1, 4),
    SubsetSelection(300, 1, 9),
    MultiMessageNoise(300, 1, 1000, "1/4", "1/2", NegativeBinomial("32.92", "0.4181")),
]
SIZES = [38, 17, 18, 17, 2, 3, 300 * 7 // 8 + 1, 34, 38, 23, 5, 2, 2]


@pytest.mark.parametrize(("mechanism", "size"), list(zip(MECHANISMS, SIZES, strict=True)), ids=str)
def test_messages_come_back_from_few_bytes(mechanism, size):
    messages = mechanism.sample(np.arange(300)[:, None], SeededRandomness(3))
    rows = mechanism.code.pack(messages)
    assert (rows.dtype, rows.shape) == (np.uint8, (len(messages), mechanism.code.size))
    assert mechanism.code.size == size
    again = mechanism.code.unpack(rows)
    assert again.dtype == messages.dtype
    np.testing.assert_array_equal(again, messages)


def test_no_messages_are_no_bytes():
    for mechanism in MECHANISMS:
        none = mechanism.sample(np.zeros((1, 1), dtype=np.int64), SeededRandomness(1))[:0]
        assert mechanism.code.unpack(mechanism.code.pack(none)).shape == none.shape


@pytest.mark.parametrize("size", range(1, 6))
def test_every_set_has_one_code_and_every_other_code_is_no_set(size):
    mechanism = SubsetSelection(10, 1, 1, size)
    sets = np.zeros((math.comb(10, size), 10), dtype=np.uint8)
    for row, cells in enumerate(combinations(range(10), size)):
        sets[row, list(cells)] = 1
    messages = np.packbits(sets, axis=1, bitorder="little")
    codes = mechanism.code.pack(messages)
    np.testing.assert_array_equal(mechanism.code.unpack(codes), messages)
    width = codes.shape[1]
    every = np.arange(2 ** (8 * width), dtype="<u4").view(np.uint8).reshape(-1, 4)[:, :width]
    held = np.bitwise_count(mechanism.code.unpack(every)).sum(axis=1)
    spilled = (mechanism.code.unpack(every)[:, -1] >> 2).astype(bool)
    valid = every[(held == size) & ~spilled]
    assert {bytes(code) for code in valid} == {bytes(code) for code in codes}


@given(data=st.data())
def test_a_set_takes_less_than_two_bits_a_cell_more_than_it_must(data):
    cells = data.draw(st.integers(2, 5000))
    mechanism = SubsetSelection(cells, 1, 1, data.draw(st.integers(1, cells - 1)))
    least = math.log2(math.comb(cells, mechanism.size))
    assert 8 * mechanism.code.size < min(cells, least + 2 * mechanism.size) + 9


def test_noise_beyond_its_reach_is_cut_off():
    mechanism = LocalLaplace(3, 1, 1)
    far = np.array([[10**6, -(10**6), 5]])
    assert mechanism.code.unpack(mechanism.code.pack(far)).tolist() == [
        [mechanism.code.reach, -mechanism.code.reach, 5]
    ]
    # A byte behind the last number is no message.
    rows = mechanism.code.pack(far)
    rows[0, -1] |= 0x80
    assert (mechanism.code.unpack(rows) > mechanism.code.reach).all()


def test_what_a_curator_releases_is_no_message():
    for mechanism in (PermuteAndFlip(1, 2), DistributedLaplace(2, 2, 3, 2, 2, 100)):
        assert not hasattr(mechanism, "code")
    # Noise in shares leaves under masks, and messages of the shuffle model sealed; neither is an answer by itself.
    for mechanism in (DistributedLaplace(2, 2, 3, 2, 2, 100), MECHANISMS[-1], SingleMessage(MECHANISMS[0], 50, "1e-6")):
        with pytest.raises(InvalidInput, match=type(mechanism).__name__):
            mechanism.answer_form(4, 3, 100)


@given(data=st.data(), bits=st.integers(0, 64))
def test_numbers_come_back_from_their_bits(data, bits):
    numbers = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=40))
    payload = packed_numbers(np.array(numbers, dtype=np.uint64), bits)
    assert len(payload) == packed_bytes(len(numbers), bits)
    assert unpacked_numbers(payload, bits, len(numbers)).tolist() == numbers
    with pytest.raises(InvalidInput):
        unpacked_numbers(payload + b"\0", bits, len(numbers))


@given(payload=st.binary(max_size=30), bits=st.integers(1, 64), count=st.integers(0, 40))
def test_any_bytes_are_numbers_in_one_way_or_refused(payload, bits, count):
    try:
        numbers = unpacked_numbers(payload, bits, count)
    except InvalidInput:
        return
    assert packed_numbers(numbers, bits) == payload


def test_many_numbers_go_part_by_part():
    numbers = np.arange(2**17 + 3, dtype=np.uint64)
    assert unpacked_numbers(packed_numbers(numbers, 18), 18, len(numbers)).tolist() == numbers.tolist()
