"""A strict codec: values to bytes and back, and a reader that checks a decoded message field by field.

Numbers, text, lists, dictionaries and numeric arrays can be encoded; nothing that runs code. Integers of a known range
are packed into as many bits as they need.

A message comes from a machine that may be broken or hostile. Each field has a stated type and range; unknown fields are
refused. Nothing is used before it is checked. An error names the field and what is allowed, never the value that was
sent, which could be long or misleading.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = [
    "StrictReader",
    "bytes_to_array",
    "decode",
    "decode_strict",
    "encode",
    "packed_bytes",
    "packed_numbers",
    "unpacked",
    "unpacked_numbers",
]

MAGIC = b"TACIT1"
_TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
# Numerator and denominator of an exact number; longer ones would make the arithmetic slow.
_EXACT = re.compile(r"-?[0-9]{1,200}(/[1-9][0-9]{0,199})?")
HEXADECIMAL = re.compile(r"[0-9a-f]{1,256}")
LONGEST_TEXT = 1000
LARGEST_INTEGER = 2**63 - 1
# The header of a message describes its content; arrays follow it and have their own limit.
LARGEST_HEAD = 2**21


def encode(value: Any) -> bytes:  # noqa: ANN401
    """Encode a value as bytes.

    >>> decode(encode({"labels": np.array([3, 1])}))
    {'labels': array([3, 1])}
    """
    arrays: list[bytes] = []
    head = json.dumps(_plain(value, arrays), separators=(",", ":")).encode()
    return b"".join([MAGIC, struct.pack("<Q", len(head)), head, *arrays])


# At module level, like its reverse: a nested function that calls itself is a reference cycle, which keeps the bytes of
# a message in memory until the garbage collector runs.
def _plain(item: Any, arrays: list[bytes]) -> Any:  # noqa: ANN401
    """What the header says of an item; the content of its arrays is appended to ``arrays``."""
    match item:
        case np.ndarray():
            little = item.dtype.newbyteorder("<")
            if little.str not in _TYPES:
                raise InvalidInput(f"an array of type {item.dtype} cannot be encoded")
            arrays.append(np.ascontiguousarray(item, dtype=little).tobytes())
            return {"array": little.str, "shape": list(item.shape)}
        case dict():
            if not all(isinstance(key, str) for key in item):
                raise InvalidInput("only text keys can be encoded")
            return {"items": {key: _plain(each, arrays) for key, each in item.items()}}
        case list() | tuple():
            return [_plain(each, arrays) for each in item]
        case None | bool() | int() | float() | str():
            return item
        case _:
            raise InvalidInput(f"a value of type {type(item).__name__} cannot be encoded")


def decode(payload: bytes) -> Any:  # noqa: ANN401
    """Decode bytes that ``encode`` wrote; anything else is refused.

    >>> decode(encode([1, 2.5, "text", None]))
    [1, 2.5, 'text', None]
    """
    start = len(MAGIC) + 8
    if payload[: len(MAGIC)] != MAGIC or len(payload) < start:
        raise InvalidInput("not an encoded value: the first bytes are wrong")
    content = io.BytesIO(payload)
    content.seek(len(MAGIC))
    try:
        value = _whole(json.loads(_taken(content, *struct.unpack("<Q", content.read(8)))), content)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("not an encoded value: the head is not JSON, or names an impossible array") from None
    if content.read(1):
        raise InvalidInput("not an encoded value: bytes are left over")
    return value


def _taken(content: io.BytesIO, size: int) -> bytes:
    """The next bytes."""
    found = content.read(min(size, LARGEST_INTEGER))
    if len(found) < size:
        raise InvalidInput("not an encoded value: it is cut short")
    return found


def _whole(item: Any, content: io.BytesIO) -> Any:  # noqa: ANN401
    """The item that the header describes; arrays are read from the content after the header."""
    match item:
        case {"array": str(kind), "shape": list(shape)}:
            if kind not in _TYPES or not all(type(side) is int and side >= 0 for side in shape):
                raise InvalidInput("not an encoded value: an array's type or shape is not allowed")
            dtype = np.dtype(kind)
            return np.frombuffer(_taken(content, math.prod(shape) * dtype.itemsize), dtype=dtype).reshape(shape)
        case {"items": dict(items)}:
            return {key: _whole(each, content) for key, each in items.items()}
        case list():
            return [_whole(each, content) for each in item]
        case None | bool() | int() | float() | str():
            return item
        case _:
            raise InvalidInput("not an encoded value: the head has an unknown part")


# A multiple of eight, so that every part but the last ends at a byte boundary.
PART = 2**16


def packed_bytes(count: int, bits: int) -> int:
    """The number of bytes that ``count`` numbers of ``bits`` bits take.

    >>> packed_bytes(3, 4)
    2
    """
    return -(-count * bits // 8)


def packed_numbers(numbers: NDArray[np.uint64], bits: int) -> bytes:
    """Pack numbers below 2^bits, lowest bits first; unused bits of the last byte are zero.

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
    """Unpack ``count`` numbers; refuse bytes that are not exactly what ``packed_numbers`` writes.

    >>> unpacked_numbers(bytes.fromhex("210f"), 4, 3).tolist()
    [1, 2, 15]
    >>> unpacked_numbers(bytes.fromhex("21ff"), 4, 3)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the bits after the last number must be zero
    """
    if len(payload) != packed_bytes(count, bits):
        raise InvalidInput(f"{count} numbers of {bits} bits take {packed_bytes(count, bits)} bytes, got {len(payload)}")
    spare = -count * bits % 8
    if spare and payload[-1] >> (8 - spare):
        raise InvalidInput("the bits after the last number must be zero")
    source, places = np.frombuffer(payload, dtype=np.uint8), np.arange(bits, dtype=np.uint64)
    numbers = np.empty(count, dtype=np.uint64)
    for start in range(0, count, PART):
        size = min(PART, count - start)
        own = source[start * bits // 8 : packed_bytes(start + size, bits)]
        digits = np.unpackbits(own, count=size * bits, bitorder="little").reshape(size, bits)
        numbers[start : start + size] = (digits.astype(np.uint64) << places).sum(axis=1, dtype=np.uint64)
    return numbers


def decode_strict(payload: bytes, most: int, what: str) -> StrictReader:
    """A reader for a message of at most ``most`` bytes, in the one form that ``encode`` writes.

    >>> decode_strict(encode({"answer": 7}), 1000, "note").integer("answer", 0, 9)
    7
    >>> decode_strict(b"hello", 1000, "note")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: not an encoded value: the first bytes are wrong
    """
    if not isinstance(payload, bytes):
        raise InvalidInput(f"the {what} must be bytes")
    if len(payload) > most:
        raise InvalidInput(f"the {what} must be at most {most} bytes, got {len(payload)}")
    # Bytes 6 to 14 are the size of the header, which expands to objects many times its size.
    if int.from_bytes(payload[6:14], "little") > min(LARGEST_HEAD, len(payload)):
        raise InvalidInput(f"the {what} has a header that is too large")
    value = decode(payload)
    # A canonical form: two messages with different bytes have different content.
    if encode(value) != payload:
        raise InvalidInput(f"the {what} is not in the form that the encoder writes")
    return StrictReader(value, what)


def bytes_to_array(content: bytes) -> NDArray[np.uint8]:
    """Bytes as an array, which ``encode`` accepts.

    >>> unpacked(bytes_to_array(b"ab"))
    b'ab'
    """
    return np.frombuffer(content, dtype=np.uint8)


def unpacked(array: NDArray[np.uint8]) -> bytes:
    """The bytes of an array that ``bytes_to_array`` made."""
    return array.tobytes()


class StrictReader:
    """Reads the fields of a message, each once and checked; ``done`` refuses a message with fields that were not read.

    >>> fields = StrictReader({"rate": "1/4", "surprise": 1}, "mechanism")
    >>> fields.fraction("rate")
    Fraction(1, 4)
    >>> fields.done()
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the mechanism has an unknown field
    """

    def __init__(self, value: Any, what: str) -> None:  # noqa: ANN401
        if not isinstance(value, dict):
            raise InvalidInput(f"the {what} must be a set of named fields")
        self._left = dict(value)
        self.what = what

    def done(self) -> None:
        """Refuse the message if a field was not read."""
        if self._left:
            raise InvalidInput(f"the {self.what} has an unknown field")

    def take(self, name: str) -> Any:  # noqa: ANN401
        """The field without a check of its value; refused if it is missing."""
        if name not in self._left:
            raise InvalidInput(f"the {self.what} needs a field {name!r}")
        return self._left.pop(name)

    def peek(self, name: str) -> Any:  # noqa: ANN401
        """The field's value, or None, without marking it as read."""
        return self._left.get(name)

    def missing(self, name: str) -> bool:
        """Whether the field is null; if so, it counts as read."""
        if self._left.get(name, self) is not None:
            return False
        del self._left[name]
        return True

    def left_out(self, name: str) -> bool:
        """Whether there is no such field, as in messages of before it was added."""
        return name not in self._left

    def version(self, newest: int = 1) -> int:
        """The version of the message's format, which the first version leaves out; a later one is refused.

        >>> StrictReader({}, "request").version(), StrictReader({"version": 2}, "request").version(newest=2)
        (1, 2)
        >>> StrictReader({"version": 3}, "request").version(newest=2)
        Traceback (most recent call last):
            ...
        tacit.core.errors.InvalidInput: the request has version 3 of its format; this Tacit reads up to 2: update it
        """
        if "version" not in self._left:
            return 1
        found = self.integer("version", 2)
        if found > newest:
            raise InvalidInput(
                f"the {self.what} has version {found} of its format; this Tacit reads up to {newest}: update it"
            )
        return found

    def integer(self, name: str, low: int, high: int = LARGEST_INTEGER) -> int:
        """An integer from ``low`` to ``high``."""
        value = self.take(name)
        if type(value) is not int or not low <= value <= high:
            raise self._wrong(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number from ``low`` to ``high``."""
        value = self.take(name)
        if type(value) is not float or not math.isfinite(value) or not low <= value <= high:
            raise self._wrong(name, "a finite number" + ("" if low == -math.inf else f" from {low:g} to {high:g}"))
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.take(name)
        if type(value) is not bool:
            raise self._wrong(name, "true or false")
        return value

    def text(self, name: str, longest: int = LONGEST_TEXT) -> str:
        """Printable text of at most ``longest`` characters."""
        return self._text(name, self.take(name), longest)

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """A list of at most ``most`` printable texts."""
        value = self._list(name, most)
        return tuple(self._text(name, each, LONGEST_TEXT) for each in value)

    def one_of(self, name: str, allowed: Iterable[str]) -> str:
        """One of the allowed words."""
        value = self.take(name)
        known = tuple(allowed)
        if not isinstance(value, str) or value not in known:
            raise self._wrong(name, f"one of {', '.join(known)}")
        return value

    def digest(self, name: str) -> str:
        """A digest in hexadecimal digits."""
        value = self.take(name)
        if not isinstance(value, str) or not HEXADECIMAL.fullmatch(value):
            raise self._wrong(name, "hexadecimal digits")
        return value

    def fraction(self, name: str) -> Fraction:
        """An exact number, written as a fraction."""
        value = self.take(name)
        if not isinstance(value, str) or not _EXACT.fullmatch(value) or str(Fraction(value)) != value:
            raise self._wrong(name, "an exact number such as 3 or 1/4, in lowest terms")
        return Fraction(value)

    def integers(self, name: str, most: int, low: int, high: int = LARGEST_INTEGER) -> tuple[int, ...]:
        """A list of at most ``most`` integers from ``low`` to ``high``."""
        value = self._list(name, most)
        if not all(type(each) is int and low <= each <= high for each in value):
            raise self._wrong(name, f"whole numbers from {low} to {high}")
        return tuple(value)

    def nested(self, name: str) -> StrictReader:
        """A reader for the fields inside a field."""
        return StrictReader(self.take(name), f"{self.what}'s {name}")

    def several(self, name: str, most: int) -> list[StrictReader]:
        """Readers for a list of at most ``most`` nested messages."""
        return [StrictReader(each, f"{self.what}'s {name}") for each in self._list(name, most)]

    def array(
        self,
        name: str,
        kinds: Iterable[str],
        shape: tuple[int | None, ...] | None = None,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> NDArray[Any]:
        """A copy of an array of one of these types (such as ``<f4``) and this shape (None: any length).

        Its values must be finite and from ``low`` to ``high``.
        """
        value = self.take(name)
        known = tuple(kinds)
        if not isinstance(value, np.ndarray) or value.dtype.str not in known:
            raise self._wrong(name, f"an array of type {' or '.join(known)}")
        if shape is not None and (
            value.ndim != len(shape)
            or any(side is not None and side != length for side, length in zip(shape, value.shape, strict=True))
        ):
            wanted = ", ".join("any" if side is None else str(side) for side in shape)
            raise self._wrong(name, f"an array of shape ({wanted})")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise self._wrong(name, "an array of finite numbers")
        if value.size and (low > -math.inf or high < math.inf) and not (value.min() >= low and value.max() <= high):
            raise self._wrong(name, f"an array of numbers from {low:g} to {high:g}")
        return value.copy()

    def content(self, name: str, most: int) -> bytes:
        """At most ``most`` bytes."""
        value = self.array(name, ("|u1",), (None,))
        if len(value) > most:
            raise self._wrong(name, f"at most {most} bytes")
        return unpacked(value)

    def _list(self, name: str, most: int) -> list[Any]:
        value = self.take(name)
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, f"a list of at most {most}")
        return value

    def _text(self, name: str, value: object, longest: int) -> str:
        if not isinstance(value, str) or len(value) > longest or not value.isprintable():
            raise self._wrong(name, f"printable text of at most {longest} characters")
        return value

    def _wrong(self, name: str, allowed: str) -> InvalidInput:
        return InvalidInput(f"the {self.what}'s {name} must be {allowed}")
