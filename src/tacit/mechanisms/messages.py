"""Codes of randomized messages: packed into bytes one by one, all of the same length, and checked.

A row of bytes that no message packs to is unpacked as a message that is not ``valid``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers
from tacit.core.codec import packed_bytes
from tacit.mechanisms.forms import PackedRows
from tacit.mechanisms.local.participants import chunks

__all__ = ["BitsCode", "HashCode", "IndexCode", "JointCode", "NumbersCode", "SetCode", "SignedCode"]

# Bytes of a hash seed.
SEED = 16
Valid = NDArray[np.bool_]


def _bytes_below(limit: int) -> int:
    return packed_bytes(1, max(1, (limit - 1).bit_length()))


def _lowest_bytes(numbers: NDArray[Any], size: int) -> PackedRows:
    words = np.ascontiguousarray(numbers, dtype="<i8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(words[:, :size])


def _from_lowest_bytes(rows: PackedRows) -> Integers:
    words = np.zeros((len(rows), 8), dtype=np.uint8)
    words[:, : rows.shape[1]] = rows
    return words.view("<i8").ravel().astype(np.int64)


@dataclass(frozen=True)
class IndexCode:
    """One number from 0 to below ``limit``, packed into whole bytes.

    >>> IndexCode(300).pack(np.array([7, 299])).tolist()
    [[7, 0], [43, 1]]
    >>> IndexCode(300).unpack(np.array([[7, 0], [43, 1]], dtype=np.uint8)).tolist()
    [7, 299]
    """

    dtype: ClassVar[type[np.generic]] = np.int64
    shape: ClassVar[tuple[int, ...]] = ()
    limit: int

    @property
    def size(self) -> int:
        """Bytes of one message."""
        return _bytes_below(self.limit)

    def pack(self, messages: NDArray[Any]) -> PackedRows:
        """The lowest bytes."""
        return _lowest_bytes(messages, self.size)

    def unpack(self, rows: PackedRows) -> Integers:
        """The numbers."""
        return _from_lowest_bytes(rows)

    def valid(self, messages: NDArray[Any]) -> Valid:
        """Whether each is in range."""
        within: Valid = (messages >= 0) & (messages < self.limit)
        return within


@dataclass(frozen=True)
class SignedCode:
    """A cell and a sign of 1 or −1, as one number: twice the cell, plus one for a negative sign.

    >>> SignedCode(10).unpack(SignedCode(10).pack(np.array([[3, 1], [9, -1]]))).tolist()
    [[3, 1], [9, -1]]
    """

    dtype: ClassVar[type[np.generic]] = np.int64
    shape: ClassVar[tuple[int, ...]] = (2,)
    cells: int

    @property
    def size(self) -> int:
        """Bytes of one message."""
        return _bytes_below(2 * self.cells)

    def pack(self, messages: NDArray[Any]) -> PackedRows:
        """One number for both."""
        return _lowest_bytes(2 * messages[:, 0] + (messages[:, 1] < 0), self.size)

    def unpack(self, rows: PackedRows) -> Integers:
        """The cells and signs."""
        slots = _from_lowest_bytes(rows)
        return np.stack([slots // 2, 1 - 2 * (slots % 2)], axis=1)

    def valid(self, messages: NDArray[Any]) -> Valid:
        """Whether each has a valid cell and sign."""
        cell, sign = messages[:, 0], messages[:, 1]
        sound: Valid = (cell >= 0) & (cell < self.cells) & (abs(sign) == 1)
        return sound


@dataclass(frozen=True)
class HashCode:
    """Two words of a seed, and a hash bucket below ``length``.

    >>> HashCode(4).size
    17
    """

    dtype: ClassVar[type[np.generic]] = np.uint64
    shape: ClassVar[tuple[int, ...]] = (3,)
    length: int

    @property
    def size(self) -> int:
        """Bytes of one message."""
        return SEED + _bytes_below(self.length)

    def pack(self, messages: NDArray[Any]) -> PackedRows:
        """The seed, then the bucket."""
        seeds = np.ascontiguousarray(messages[:, :2], dtype="<u8").view(np.uint8).reshape(-1, SEED)
        return np.hstack([seeds, _lowest_bytes(messages[:, 2], self.size - SEED)])

    def unpack(self, rows: PackedRows) -> NDArray[np.uint64]:
        """The words again."""
        seeds = np.ascontiguousarray(rows[:, :SEED]).view("<u8").astype(np.uint64).reshape(-1, 2)
        return np.column_stack([seeds, _from_lowest_bytes(rows[:, SEED:]).astype(np.uint64)])

    def valid(self, messages: NDArray[Any]) -> Valid:
        """Whether each has a valid bucket."""
        within: Valid = messages[:, 2] < self.length
        return within


@dataclass(frozen=True)
class JointCode:
    """Two messages of three words each, concatenated."""

    dtype: ClassVar[type[np.generic]] = np.uint64
    shape: ClassVar[tuple[int, ...]] = (6,)
    first: HashCode
    second: HashCode

    @property
    def size(self) -> int:
        """Bytes of both."""
        return self.first.size + self.second.size

    def pack(self, messages: NDArray[Any]) -> PackedRows:
        """Both, concatenated."""
        return np.hstack([self.first.pack(messages[:, :3]), self.second.pack(messages[:, 3:])])

    def unpack(self, rows: PackedRows) -> NDArray[np.uint64]:
        """The words again."""
        end = self.first.size
        return np.hstack([self.first.unpack(rows[:, :end]), self.second.unpack(rows[:, end:])])

    def valid(self, messages: NDArray[Any]) -> Valid:
        """Whether both are valid."""
        return self.first.valid(messages[:, :3]) & self.second.valid(messages[:, 3:])


@dataclass(frozen=True)
class NumbersCode:
    """A row of ``cells`` numbers, clipped to ±``reach``."""

    dtype: ClassVar[type[np.generic]] = np.int64
    cells: int
    reach: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one message."""
        return (self.cells,)

    @property
    def _width(self) -> int:
        """Bits of one number."""
        return (2 * self.reach).bit_length()

    @property
    def size(self) -> int:
        """Bytes of one message: every number in as many bits as its range needs."""
        return packed_bytes(self.cells, self._width)

    def pack(self, messages: NDArray[Any]) -> PackedRows:
        """Each number minus the lowest."""
        width = self._width
        rows = np.empty((len(messages), self.size), dtype=np.uint8)
        for part in chunks(len(messages), self.cells * width):
            above = (np.clip(messages[part], -self.reach, self.reach) + self.reach).astype(np.uint64)
            digits = (above[:, :, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
            rows[part] = np.packbits(digits.astype(np.uint8).reshape(len(above), -1), axis=1, bitorder="little")
        return rows

    def unpack(self, rows: PackedRows) -> Integers:
        """The numbers again."""
        width, cells = self._width, self.cells
        found = np.empty((len(rows), cells), dtype=np.int64)
        for part in chunks(len(rows), cells * width):
            digits = np.unpackbits(rows[part], axis=1, bitorder="little")
            numbers = digits[:, : cells * width].reshape(len(digits), cells, width).astype(np.int64)
            found[part] = (numbers << np.arange(width)).sum(axis=2) - self.reach
            # Set bits after the last number make the row invalid.
            found[part][digits[:, cells * width :].any(axis=1)] = self.reach + 1
        return found

    def valid(self, messages: NDArray[Any]) -> Valid:
        """Whether all numbers are within ±``reach``."""
        within = (messages >= -self.reach) & (messages <= self.reach)
        return np.asarray(within.all(axis=1), dtype=np.bool_)


@dataclass(frozen=True)
class BitsCode:
    """A row of packed bits, one per cell, unchanged.

    >>> BitsCode(10).valid(np.array([[255, 3], [0, 4]], dtype=np.uint8)).tolist()
    [True, False]
    """

    dtype: ClassVar[type[np.generic]] = np.uint8
    cells: int

    @property
    def size(self) -> int:
        """Bytes of one message."""
        return packed_bytes(self.cells, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one message."""
        return (self.size,)

    def pack(self, messages: NDArray[Any]) -> PackedRows:
        """The bits as they are."""
        return messages

    def unpack(self, rows: PackedRows) -> PackedRows:
        """The bits as they are."""
        return rows.copy()

    def valid(self, messages: NDArray[Any]) -> Valid:
        """Whether no bit is set after the last cell."""
        spare = self.cells % 8
        clean: Valid = np.ones(len(messages), np.bool_) if not spare else (messages[:, -1] >> spare) == 0
        return clean


@dataclass(frozen=True)
class SetCode:
    """Sets of ``members`` cells as rows of packed bits, compressed by an Elias-Fano code if that is shorter.

    The code has the low bits of a set's cells in order, then their high parts in unary. That is within two bits per
    cell of the shortest possible code.

    >>> SetCode(120, 2).size, SetCode(120, 60).size
    (2, 15)
    """

    dtype: ClassVar[type[np.generic]] = np.uint8
    cells: int
    members: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one message."""
        return (packed_bytes(self.cells, 1),)

    @property
    def size(self) -> int:
        """Bytes of one message."""
        low = self._low_bits
        return packed_bytes(self.cells if low is None else self._code_bits(low), 1)

    @property
    def _low_bits(self) -> int | None:
        """The number of low bits per cell; None if one bit per cell is at least as short."""
        low = max(0, (self.cells // self.members).bit_length() - 1)
        return low if self._code_bits(low) < self.cells else None

    def _code_bits(self, low: int) -> int:
        return self.members * (low + 1) + ((self.cells - 1) >> low)

    def pack(self, messages: NDArray[Any]) -> PackedRows:
        """Each set's code, or its bits."""
        low = self._low_bits
        if low is None:
            return messages
        size, total = self.members, self._code_bits(low)
        rows = np.empty((len(messages), packed_bytes(total, 1)), dtype=np.uint8)
        for part in chunks(len(messages), max(self.cells, total)):
            digits = np.unpackbits(messages[part], axis=1, count=self.cells, bitorder="little")
            cells = np.nonzero(digits)[1].reshape(len(digits), size)
            code = np.zeros((len(cells), total), dtype=np.uint8)
            code[:, : size * low] = ((cells[:, :, None] >> np.arange(low)) & 1).reshape(len(cells), -1)
            np.put_along_axis(code, size * low + (cells >> low) + np.arange(size), 1, axis=1)
            rows[part] = np.packbits(code, axis=1, bitorder="little")
        return rows

    def unpack(self, rows: PackedRows) -> PackedRows:
        """The sets; an invalid code gives an empty set."""
        low = self._low_bits
        if low is None:
            return rows.copy()
        size, total = self.members, self._code_bits(low)
        found = np.zeros((len(rows), packed_bytes(self.cells, 1)), dtype=np.uint8)
        for part in chunks(len(rows), max(self.cells, total)):
            code = np.unpackbits(rows[part], axis=1, bitorder="little")
            high = code[:, size * low : total]
            fine = (high.sum(axis=1, dtype=np.int64) == size) & ~code[:, total:].any(axis=1)
            places = np.nonzero(high[fine])[1].reshape(-1, size) - np.arange(size)
            digits = code[fine, : size * low].reshape(-1, size, low).astype(np.int64)
            cells = (places << low) + (digits << np.arange(low)).sum(axis=2)
            # A set has one code: its cells are increasing and below the number of cells.
            sound = (np.diff(cells, axis=1) > 0).all(axis=1) & (cells[:, -1] < self.cells)
            held = np.zeros((int(sound.sum()), self.cells), dtype=np.uint8)
            np.put_along_axis(held, cells[sound], 1, axis=1)
            found[part][np.flatnonzero(fine)[sound]] = np.packbits(held, axis=1, bitorder="little")
        return found

    def valid(self, messages: NDArray[Any]) -> Valid:
        """Whether each is a set of ``members`` cells."""
        full: Valid = np.bitwise_count(messages).sum(axis=1, dtype=np.int64) == self.members
        return full & BitsCode(self.cells).valid(messages)
