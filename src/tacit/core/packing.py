"""Whole numbers in as many bits as their range needs, one behind the other, and back again strictly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["packed_bytes", "packed_numbers", "unpacked_numbers"]

# A multiple of eight, so that every part but the last ends with a whole byte.
PART = 2**16


def packed_bytes(count: int, bits: int) -> int:
    """How many bytes so many numbers of so many bits take.

    >>> packed_bytes(3, 4)
    2
    """
    return -(-count * bits // 8)


def packed_numbers(numbers: NDArray[np.uint64], bits: int) -> bytes:
    """Numbers below 2^bits, lowest bits first; what is left of the last byte is zero.

    >>> packed_numbers(np.array([1, 2, 15], dtype=np.uint64), 4).hex()
    '210f'
    """
    places = np.arange(bits, dtype=np.uint64)
    parts = []
    for start in range(0, len(numbers), PART):
        digits = (numbers[start : start + PART, None] >> places) & np.uint64(1)
        parts.append(np.packbits(digits.astype(np.uint8).ravel(), bitorder="little").tobytes())
    return b"".join(parts)


def unpacked_numbers(payload: bytes, bits: int, count: int) -> NDArray[np.uint64]:
    """The numbers again; refused unless the bytes are exactly what ``packed_numbers`` writes.

    >>> unpacked_numbers(bytes.fromhex("210f"), 4, 3).tolist()
    [1, 2, 15]
    >>> unpacked_numbers(bytes.fromhex("21ff"), 4, 3)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the bits behind the last number must be zero
    """
    if len(payload) != packed_bytes(count, bits):
        raise InvalidInput(f"{count} numbers of {bits} bits take {packed_bytes(count, bits)} bytes, got {len(payload)}")
    spare = -count * bits % 8
    if spare and payload[-1] >> (8 - spare):
        raise InvalidInput("the bits behind the last number must be zero")
    source, places = np.frombuffer(payload, dtype=np.uint8), np.arange(bits, dtype=np.uint64)
    numbers = np.empty(count, dtype=np.uint64)
    for start in range(0, count, PART):
        size = min(PART, count - start)
        own = source[start * bits // 8 : packed_bytes(start + size, bits)]
        digits = np.unpackbits(own, count=size * bits, bitorder="little").reshape(size, bits)
        numbers[start : start + size] = (digits.astype(np.uint64) << places).sum(axis=1, dtype=np.uint64)
    return numbers
