"""Values as bytes and back, strictly: numbers, text, lists, dictionaries and numeric arrays, nothing that runs code.

Whole numbers of a known range are packed in as many bits as they need, one behind the other.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["decode", "encode", "packed_bytes", "packed_numbers", "unpacked_numbers"]

MAGIC = b"TACIT1"
TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")


def encode(value: Any) -> bytes:  # noqa: ANN401
    """The value as bytes.

    >>> decode(encode({"labels": np.array([3, 1])}))
    {'labels': array([3, 1])}
    """
    arrays: list[bytes] = []

    def plain(item: Any) -> Any:  # noqa: ANN401
        match item:
            case np.ndarray():
                little = item.dtype.newbyteorder("<")
                if little.str not in TYPES:
                    raise InvalidInput(f"an array of type {item.dtype} cannot be encoded")
                arrays.append(np.ascontiguousarray(item, dtype=little).tobytes())
                return {"array": little.str, "shape": list(item.shape)}
            case dict():
                if not all(isinstance(key, str) for key in item):
                    raise InvalidInput("only text keys can be encoded")
                return {"items": {key: plain(each) for key, each in item.items()}}
            case list() | tuple():
                return [plain(each) for each in item]
            case None | bool() | int() | float() | str():
                return item
            case _:
                raise InvalidInput(f"a value of type {type(item).__name__} cannot be encoded")

    head = json.dumps(plain(value), separators=(",", ":")).encode()
    return b"".join([MAGIC, struct.pack("<Q", len(head)), head, *arrays])


def decode(payload: bytes) -> Any:  # noqa: ANN401
    """The value that was encoded; anything else is refused.

    >>> decode(encode([1, 2.5, "text", None]))
    [1, 2.5, 'text', None]
    """
    start = len(MAGIC) + 8
    if payload[: len(MAGIC)] != MAGIC or len(payload) < start:
        raise InvalidInput("not an encoded value: the first bytes are wrong")
    (size,) = struct.unpack("<Q", payload[len(MAGIC) : start])
    offset = start + size

    def whole(item: Any) -> Any:  # noqa: ANN401
        nonlocal offset
        match item:
            case {"array": str(kind), "shape": list(shape)}:
                if kind not in TYPES or not all(type(side) is int and side >= 0 for side in shape):
                    raise InvalidInput("not an encoded value: an array's type or shape is not allowed")
                dtype = np.dtype(kind)
                end = offset + math.prod(shape) * dtype.itemsize
                if end > len(payload):
                    raise InvalidInput("not an encoded value: an array is cut short")
                array = np.frombuffer(payload[offset:end], dtype=dtype).reshape(shape)
                offset = end
                return array
            case {"items": dict(items)}:
                return {key: whole(each) for key, each in items.items()}
            case list():
                return [whole(each) for each in item]
            case None | bool() | int() | float() | str():
                return item
            case _:
                raise InvalidInput("not an encoded value: the head has an unknown part")

    try:
        value = whole(json.loads(payload[start:offset]))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("not an encoded value: the head is not JSON, or names an impossible array") from None
    if offset != len(payload):
        raise InvalidInput("not an encoded value: bytes are left over")
    return value


# A multiple of eight, so that every part but the last ends with a whole byte.
PART = 2**16


def packed_bytes(count: int, bits: int) -> int:
    """How many bytes this many numbers of this many bits take.

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
