"""The forms that answers have: each says type, shape and range of a value, and how it goes into few bytes and back.

The coordinator knows the question, so nothing of an answer's form travels: not its type, not its shape, not its
range. Packing checks first, so what cannot be an answer is not sent; reading gives an answer or ``InvalidInput``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.packing import packed_numbers, unpacked_numbers
from tacit.mechanisms.compact import compacted, expanded, size_of

__all__ = ["Flags", "Form", "Messages", "Numbers"]


class Form(Protocol):
    """What an answer must look like."""

    def require(self, value: Any) -> None:  # noqa: ANN401
        """Refuse a value of another form."""
        ...

    def pack(self, value: Any) -> bytes:  # noqa: ANN401
        """A value of this form as bytes."""
        ...

    def unpack(self, payload: bytes) -> Any:  # noqa: ANN401
        """The value in these bytes, checked."""
        ...


@dataclass(frozen=True)
class Numbers:
    """Whole numbers from ``low`` to ``high`` in an array of a fixed shape; each takes as many bits as that needs.

    >>> form = Numbers((2, 2), -1, 6)
    >>> form.pack(np.array([[0, 6], [-1, 3]])).hex(), form.unpack(bytes.fromhex("3908")).tolist()
    ('3908', [[0, 6], [-1, 3]])
    """

    shape: tuple[int, ...]
    low: int
    high: int

    @property
    def bits(self) -> int:
        """What one number takes."""
        return (self.high - self.low).bit_length()

    def require(self, value: Any) -> None:  # noqa: ANN401
        """Refuse another type, shape or range."""
        if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != len(self.shape):
            raise InvalidInput(f"the answer must be an array of 64-bit whole numbers with {len(self.shape)} axes")
        if value.shape != self.shape:
            raise InvalidInput("the answer has another shape than what was asked for")
        if value.size and not (value.min() >= self.low and value.max() <= self.high):
            raise InvalidInput(f"the answer must be whole numbers from {self.low} to {self.high}")

    def pack(self, value: Any) -> bytes:  # noqa: ANN401
        """How far each number lies above the lowest."""
        self.require(value)
        return packed_numbers((value.ravel() - self.low).astype(np.uint64), self.bits)

    def unpack(self, payload: bytes) -> NDArray[np.int64]:
        """The numbers."""
        above = unpacked_numbers(payload, self.bits, prod(self.shape))
        if above.size and int(above.max()) > self.high - self.low:
            raise InvalidInput(f"the answer must be whole numbers from {self.low} to {self.high}")
        return (above.astype(np.int64) + self.low).reshape(self.shape)


@dataclass(frozen=True)
class Flags:
    """So many times true or false.

    >>> Flags(3).unpack(Flags(3).pack(np.array([True, False, True]))).tolist()
    [True, False, True]
    """

    count: int

    def require(self, value: Any) -> None:  # noqa: ANN401
        """Refuse anything else."""
        if not isinstance(value, np.ndarray) or value.dtype != np.bool_ or value.shape != (self.count,):
            raise InvalidInput(f"the answer must be {self.count} times true or false")

    def pack(self, value: Any) -> bytes:  # noqa: ANN401
        """A bit each."""
        self.require(value)
        return packed_numbers(value.astype(np.uint64), 1)

    def unpack(self, payload: bytes) -> NDArray[np.bool_]:
        """The bits."""
        return unpacked_numbers(payload, 1, self.count).astype(np.bool_)


@dataclass(frozen=True)
class Messages:
    """Messages of a crowd, as many as the bytes hold; ``check`` lets only those pass that the mechanism makes."""

    mechanism: Any
    check: Callable[[Any], None]

    def require(self, value: Any) -> None:  # noqa: ANN401
        """Refuse what is no such message."""
        self.check(value)

    def pack(self, value: Any) -> bytes:  # noqa: ANN401
        """One message behind the other."""
        self.check(value)
        return compacted(self.mechanism, value).tobytes()

    def unpack(self, payload: bytes) -> NDArray[Any]:
        """The messages."""
        size = size_of(self.mechanism)
        if len(payload) % size:
            raise InvalidInput(f"the answer must be messages of {size} bytes each")
        value = expanded(self.mechanism, np.frombuffer(payload, dtype=np.uint8).reshape(-1, size))
        self.check(value)
        return value
