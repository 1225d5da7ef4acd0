"""Randomized messages in as few bytes as is simple: every message of a mechanism takes equally many.

A mechanism's messages are arrays that are quick to work with; on their way they are packed. Sets of few cells go as
an Elias-Fano code, within two bits a cell of what any code needs. What comes back is still to be checked: a row that
no message packs to comes back as one that no check lets pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.packing import packed_bytes
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.clients import chunks
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.local_laplace import LocalLaplace
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.flooded_messages import FloodedMessages

__all__ = ["compacted", "expanded", "reach", "size_of"]

SEED = 16
# In scales of the noise: farther out it lies with a probability below e^-64, and is cut off there.
REACH = 64

Rows = NDArray[np.uint8]


def size_of(mechanism: Any) -> int:  # noqa: ANN401
    """How many bytes one message takes.

    >>> size_of(GeneralizedResponse(100, 1, 1)), size_of(SubsetSelection(120, 1, 4)), size_of(Collision(120, 1, 1))
    (1, 2, 17)
    """
    match mechanism:
        case FloodedMessages():
            return _bytes_below(2 * mechanism.cells)
        case GeneralizedResponse():
            return _bytes_below(mechanism.cells)
        case LinearHashing():
            return packed_bytes(1, mechanism.message_bits)
        case LocalLaplace():
            return packed_bytes(mechanism.cells, _width(mechanism))
        case BitResponse():
            return packed_bytes(mechanism.cells, 1)
        case SubsetSelection():
            low = _low_bits(mechanism)
            return packed_bytes(mechanism.cells if low is None else _set_bits(mechanism, low), 1)
        case Collision():
            return SEED + _bytes_below(mechanism.length)
        case Concatenation():
            return size_of(mechanism.both)
        case Separation():
            return size_of(mechanism.buckets) + size_of(mechanism.labels)
        case _:
            raise InvalidInput(f"{type(mechanism).__name__} gives no messages that can be packed one by one")


def reach(mechanism: LocalLaplace) -> int:
    """The largest number that a noisy cell is sent as.

    >>> reach(LocalLaplace(10, 1, 1))
    129
    """
    return 1 + int(REACH * float(mechanism.noise.scale))


def compacted(mechanism: Any, messages: NDArray[Any]) -> Rows:  # noqa: ANN401
    """Messages as rows of bytes.

    >>> compacted(GeneralizedResponse(300, 1, 1), np.array([7, 299])).tolist()
    [[7, 0], [43, 1]]
    """
    match mechanism:
        case FloodedMessages():
            # One number says it all: twice the cell, and one more for a message that takes away.
            return _lowest_bytes(2 * messages[:, 0] + (messages[:, 1] < 0), size_of(mechanism))
        case GeneralizedResponse() | LinearHashing():
            return _lowest_bytes(messages, size_of(mechanism))
        case LocalLaplace():
            return _counts(mechanism, messages)
        case BitResponse():
            return messages
        case SubsetSelection():
            low = _low_bits(mechanism)
            return messages if low is None else _sets(mechanism, low, messages)
        case Collision():
            seeds = np.ascontiguousarray(messages[:, :2], dtype="<u8").view(np.uint8).reshape(-1, SEED)
            return np.hstack([seeds, _lowest_bytes(messages[:, 2], size_of(mechanism) - SEED)])
        case Concatenation():
            return compacted(mechanism.both, messages)
        case Separation():
            both = compacted(mechanism.buckets, messages[:, :3]), compacted(mechanism.labels, messages[:, 3:])
            return np.hstack(both)
        case _:
            raise InvalidInput(f"{type(mechanism).__name__} gives no messages that can be packed one by one")


def expanded(mechanism: Any, rows: Rows) -> NDArray[Any]:  # noqa: ANN401
    """The messages again, which are still to be checked.

    >>> expanded(GeneralizedResponse(300, 1, 1), np.array([[7, 0], [43, 1]], dtype=np.uint8)).tolist()
    [7, 299]
    """
    match mechanism:
        case FloodedMessages():
            slots = _from_lowest(rows)
            return np.stack([slots // 2, 1 - 2 * (slots % 2)], axis=1)
        case GeneralizedResponse() | LinearHashing():
            return _from_lowest(rows)
        case LocalLaplace():
            return _from_counts(mechanism, rows)
        case BitResponse():
            return rows.copy()
        case SubsetSelection():
            low = _low_bits(mechanism)
            return rows.copy() if low is None else _from_sets(mechanism, low, rows)
        case Collision():
            seeds = np.ascontiguousarray(rows[:, :SEED]).view("<u8").astype(np.uint64).reshape(-1, 2)
            return np.column_stack([seeds, _from_lowest(rows[:, SEED:]).astype(np.uint64)])
        case Concatenation():
            return expanded(mechanism.both, rows)
        case Separation():
            first = size_of(mechanism.buckets)
            return np.hstack(
                [expanded(mechanism.buckets, rows[:, :first]), expanded(mechanism.labels, rows[:, first:])]
            )
        case _:
            raise InvalidInput(f"{type(mechanism).__name__} gives no messages that can be packed one by one")


def _bytes_below(limit: int) -> int:
    return packed_bytes(1, max(1, (limit - 1).bit_length()))


def _lowest_bytes(numbers: NDArray[Any], size: int) -> Rows:
    words = np.ascontiguousarray(numbers, dtype="<i8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(words[:, :size])


def _from_lowest(rows: Rows) -> NDArray[np.int64]:
    words = np.zeros((len(rows), 8), dtype=np.uint8)
    words[:, : rows.shape[1]] = rows
    return words.view("<i8").ravel().astype(np.int64)


def _width(mechanism: LocalLaplace) -> int:
    return (2 * reach(mechanism)).bit_length()


def _counts(mechanism: LocalLaplace, messages: NDArray[np.int64]) -> Rows:
    limit, width = reach(mechanism), _width(mechanism)
    rows = np.empty((len(messages), size_of(mechanism)), dtype=np.uint8)
    for part in chunks(len(messages), mechanism.cells * width):
        above = (np.clip(messages[part], -limit, limit) + limit).astype(np.uint64)
        digits = (above[:, :, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
        rows[part] = np.packbits(digits.astype(np.uint8).reshape(len(above), -1), axis=1, bitorder="little")
    return rows


def _from_counts(mechanism: LocalLaplace, rows: Rows) -> NDArray[np.int64]:
    limit, width, cells = reach(mechanism), _width(mechanism), mechanism.cells
    found = np.empty((len(rows), cells), dtype=np.int64)
    for part in chunks(len(rows), cells * width):
        digits = np.unpackbits(rows[part], axis=1, bitorder="little")
        numbers = digits[:, : cells * width].reshape(len(digits), cells, width).astype(np.int64)
        found[part] = (numbers << np.arange(width)).sum(axis=2) - limit
        # What stands behind the last number, where nothing may, puts the row out of range.
        found[part][digits[:, cells * width :].any(axis=1)] = limit + 1
    return found


def _low_bits(mechanism: SubsetSelection) -> int | None:
    """How many low bits of a cell are written out; nothing where one bit a cell is as short."""
    low = max(0, (mechanism.cells // mechanism.size).bit_length() - 1)
    return low if _set_bits(mechanism, low) < mechanism.cells else None


def _set_bits(mechanism: SubsetSelection, low: int) -> int:
    return mechanism.size * (low + 1) + ((mechanism.cells - 1) >> low)


def _sets(mechanism: SubsetSelection, low: int, messages: Rows) -> Rows:
    """For each set the low bits of its cells in order, then their high parts: as many zeros as it rises, and a one."""
    size, total = mechanism.size, _set_bits(mechanism, low)
    rows = np.empty((len(messages), packed_bytes(total, 1)), dtype=np.uint8)
    for part in chunks(len(messages), max(mechanism.cells, total)):
        digits = np.unpackbits(messages[part], axis=1, count=mechanism.cells, bitorder="little")
        cells = np.nonzero(digits)[1].reshape(len(digits), size)
        code = np.zeros((len(cells), total), dtype=np.uint8)
        code[:, : size * low] = ((cells[:, :, None] >> np.arange(low)) & 1).reshape(len(cells), -1)
        np.put_along_axis(code, size * low + (cells >> low) + np.arange(size), 1, axis=1)
        rows[part] = np.packbits(code, axis=1, bitorder="little")
    return rows


def _from_sets(mechanism: SubsetSelection, low: int, rows: Rows) -> Rows:
    size, total = mechanism.size, _set_bits(mechanism, low)
    found = np.zeros((len(rows), packed_bytes(mechanism.cells, 1)), dtype=np.uint8)
    for part in chunks(len(rows), max(mechanism.cells, total)):
        code = np.unpackbits(rows[part], axis=1, bitorder="little")
        high = code[:, size * low : total]
        fine = (high.sum(axis=1, dtype=np.int64) == size) & ~code[:, total:].any(axis=1)
        places = np.nonzero(high[fine])[1].reshape(-1, size) - np.arange(size)
        digits = code[fine, : size * low].reshape(-1, size, low).astype(np.int64)
        cells = (places << low) + (digits << np.arange(low)).sum(axis=2)
        # One set has one code: its cells rise, and there are none beyond the last.
        sound = (np.diff(cells, axis=1) > 0).all(axis=1) & (cells[:, -1] < mechanism.cells)
        held = np.zeros((int(sound.sum()), mechanism.cells), dtype=np.uint8)
        np.put_along_axis(held, cells[sound], 1, axis=1)
        chosen = np.flatnonzero(fine)[sound]
        found[part][chosen] = np.packbits(held, axis=1, bitorder="little")
    return found
