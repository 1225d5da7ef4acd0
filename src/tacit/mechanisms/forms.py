"""The forms of answers: type, shape and range of a value, and how it is packed into bytes and unpacked.

The coordinator knows the question, so the form itself is not sent. Packing checks the value first; unpacking gives an
answer or ``InvalidInput``. The coordinator partly chooses the range, so a number outside is clipped and not refused: a
refusal would depend on the records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput
from tacit.core.codec import packed_numbers, unpacked_numbers

__all__ = [
    "GAUSSIAN_REACH",
    "REACH",
    "AnswerForm",
    "Flags",
    "MessageCode",
    "Messages",
    "Numbers",
    "PackedRows",
    "noisy_counts",
]

# In scales of Laplace noise and standard deviations of Gaussian noise: larger noise has a probability below e^-64.
REACH, GAUSSIAN_REACH = 64, 12

PackedRows = NDArray[np.uint8]


class AnswerForm(Protocol):
    """The form that an answer must have."""

    def most_bytes(self, participants: Callable[[], int]) -> int:
        """The most bytes that an answer of this many participants has, who are counted only if it depends on them."""
        ...

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
    """Integers from ``low`` to ``high`` in an array of a fixed shape, packed into as many bits as the range needs.

    >>> form = Numbers((2, 2), -1, 6)
    >>> form.pack(np.array([[0, 6], [-1, 3]])).hex(), form.unpack(bytes.fromhex("3908")).tolist()
    ('3908', [[0, 6], [-1, 3]])
    """

    shape: tuple[int, ...]
    low: int
    high: int

    @property
    def bits(self) -> int:
        """The number of bits of one number."""
        return (self.high - self.low).bit_length()

    def most_bytes(self, participants: Callable[[], int]) -> int:
        """The bytes of any answer."""
        return -(-prod(self.shape) * self.bits // 8)

    def require(self, value: Any) -> None:  # noqa: ANN401
        """Refuse another type, shape or range."""
        if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != len(self.shape):
            raise InvalidInput(f"the answer must be an array of 64-bit whole numbers with {len(self.shape)} axes")
        if value.shape != self.shape:
            raise InvalidInput("the answer has a different shape than the question asks for")
        if value.size and not (value.min() >= self.low and value.max() <= self.high):
            raise InvalidInput(f"the answer must be whole numbers from {self.low} to {self.high}")

    def pack(self, value: Any) -> bytes:  # noqa: ANN401
        """Each number minus the lowest, clipped to the range."""
        if isinstance(value, np.ndarray) and value.dtype == np.int64:
            value = np.clip(value, self.low, self.high)
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
    """A number of true or false values.

    >>> Flags(3).unpack(Flags(3).pack(np.array([True, False, True]))).tolist()
    [True, False, True]
    """

    count: int

    def most_bytes(self, participants: Callable[[], int]) -> int:
        """The bytes of any answer."""
        return -(-self.count // 8)

    def require(self, value: Any) -> None:  # noqa: ANN401
        """Refuse anything else."""
        if not isinstance(value, np.ndarray) or value.dtype != np.bool_ or value.shape != (self.count,):
            raise InvalidInput(f"the answer must be {self.count} true or false values")

    def pack(self, value: Any) -> bytes:  # noqa: ANN401
        """A bit each."""
        self.require(value)
        return packed_numbers(value.astype(np.uint64), 1)

    def unpack(self, payload: bytes) -> NDArray[np.bool_]:
        """The bits."""
        return unpacked_numbers(payload, 1, self.count).astype(np.bool_)


def noisy_counts(rows: int, columns: int, limit: float) -> Numbers:
    """The form of counts within ±``limit``, noise included, except with a probability below e^-64 each.

    >>> noisy_counts(4, 3, 9.5)
    Numbers(shape=(4, 3), low=-10, high=10)
    """
    return Numbers((rows, columns), -int(limit) - 1, int(limit) + 1)


class MessageCode(Protocol):
    """How messages of one kind are packed, all into the same number of bytes, and checked."""

    @property
    def dtype(self) -> type[np.generic]:
        """The type of messages."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one message."""
        ...

    @property
    def size(self) -> int:
        """The number of bytes of one message."""
        ...

    def pack(self, messages: NDArray[Any]) -> PackedRows:
        """Messages as rows of bytes."""
        ...

    def unpack(self, rows: PackedRows) -> NDArray[Any]:
        """Unpack messages, not yet checked: a row that no message packs to gives one that is not ``valid``."""
        ...

    def valid(self, messages: NDArray[Any]) -> NDArray[np.bool_]:
        """For each message of the right type and shape, whether the mechanism can produce it."""
        ...


@dataclass(frozen=True)
class Messages:
    """Messages of several participants: at most ``most``, exactly ``most``, or any number if it is None."""

    code: MessageCode
    most: int | None
    exactly: bool = False

    def most_bytes(self, participants: Callable[[], int]) -> int:
        """The bytes of one message per participant."""
        count = self.most if self.exactly and self.most is not None else participants()
        return count * self.code.size

    def require(self, value: Any) -> None:  # noqa: ANN401
        """Refuse another number or kind of messages."""
        if not isinstance(value, np.ndarray) or not value.ndim or (self.most is not None and len(value) > self.most):
            raise InvalidInput(f"the answer must be an array of at most {self.most} messages")
        if self.exactly and len(value) != self.most:
            raise InvalidInput(f"the answer must have {self.most} messages")
        code = self.code
        if value.dtype != code.dtype or value.shape[1:] != code.shape or not code.valid(value).all():
            raise InvalidInput("the answer must be messages of the mechanism")

    def pack(self, value: Any) -> bytes:  # noqa: ANN401
        """All messages, concatenated."""
        self.require(value)
        return self.code.pack(value).tobytes()

    def unpack(self, payload: bytes) -> NDArray[Any]:
        """The messages."""
        size = self.code.size
        if len(payload) % size:
            raise InvalidInput(f"the answer must be messages of {size} bytes each")
        value = self.code.unpack(np.frombuffer(payload, dtype=np.uint8).reshape(-1, size))
        self.require(value)
        return value
