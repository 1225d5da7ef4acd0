"""Values as bytes and back, strictly: numbers, text, lists, dictionaries and numeric arrays, nothing that runs code.

The layout is a JSON head (with each array's place, type and shape) followed by the arrays' raw little-endian
bytes. The ledger keeps releases in this form, so a replayed release is the same to the last bit.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from tacit.core.errors import InvalidInput

__all__ = ["decode", "encode"]

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
