"""Encoded values: what is damaged is refused in words, and nothing of a message stays in memory after it."""

import gc
import struct
import tracemalloc

import numpy as np
import pytest

from tacit.core import InvalidInput
from tacit.core.codec import MAGIC, decode, decode_strict, encode

CONTENT = {"rows": np.arange(12, dtype=np.uint8).reshape(3, 4), "nested": [{"more": np.ones(2)}, None, "text"]}


def with_head(head, rest=b"", size=None):
    return MAGIC + struct.pack("<Q", len(head) if size is None else size) + head + rest


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"", "first bytes are wrong"),
        (MAGIC + b"\0\0\0", "first bytes are wrong"),
        (encode(CONTENT)[:-1], "cut short"),
        (encode(CONTENT) + b"\0", "bytes are left over"),
        (with_head(b"7", size=2), "cut short"),
        (with_head(b"7", size=2**64 - 1), "cut short"),
        (with_head(b'{"array":"|u1","shape":[3]}', b"ab"), "cut short"),
        (with_head(b'{"array":"<f8","shape":[%d,%d]}' % (2**62, 2**62)), "cut short"),
        (with_head(b'{"array":"|u1","shape":[-1]}', b"ab"), "type or shape is not allowed"),
        (with_head(b'{"array":"|O8","shape":[1]}', b"abcdefgh"), "type or shape is not allowed"),
        (with_head(b'{"code":1}'), "unknown part"),
        (with_head(b"{"), "not JSON"),
        (with_head(b"[" * 100_000), "not JSON"),
    ],
)
def test_damaged_bytes_are_refused_in_words(payload, words):
    with pytest.raises(InvalidInput, match=words):
        decode(payload)


def test_arrays_of_nested_values_come_back_in_their_places():
    found = decode(encode(CONTENT))
    assert np.array_equal(found["rows"], CONTENT["rows"])
    assert np.array_equal(found["nested"][0]["more"], np.ones(2))
    assert found["nested"][1:] == [None, "text"]


def test_a_message_is_freed_as_soon_as_nobody_has_it():
    # Without the garbage collector: it runs by chance, and until then a reference cycle would keep many messages.
    payload = encode({"rows": np.zeros(2**20, dtype=np.uint8)})
    gc.disable()
    try:
        tracemalloc.start()
        for _ in range(10):
            decode_strict(payload, 2**21, "message").array("rows", ("|u1",), (None,))
            encode({"rows": np.zeros(2**20, dtype=np.uint8)})
        assert tracemalloc.get_traced_memory()[0] < 2**19
    finally:
        tracemalloc.stop()
        gc.enable()
