"""Which of many messages are such as the mechanism makes: each is looked at by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.local_laplace import LocalLaplace
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.flooded_messages import FloodedMessages
from tacit.mechanisms.shuffle.single_message import SingleMessage

__all__ = ["valid_rows"]

# In scales of the noise: farther out a message lies with probability e^-64.
REACH = 64


def valid_rows(inner: FloodedMessages | SingleMessage, rows: NDArray[Any]) -> NDArray[np.bool_]:
    """For each message, whether its fields are in range.

    >>> valid_rows(SingleMessage(GeneralizedResponse(10, 1, 1), 50, "1e-6"), np.array([3, 10, -1])).tolist()
    [True, False, False]
    """
    if isinstance(inner, FloodedMessages):
        return _each(rows[:, 0] < inner.cells)
    mechanism = inner.mechanism
    match mechanism:
        case GeneralizedResponse():
            return _each((rows >= 0) & (rows < mechanism.cells))
        case LinearHashing():
            return _each((rows >= 0) & (rows < mechanism.size ** (mechanism.digits + 1)))
        case LocalLaplace():
            limit = 1 + REACH * float(mechanism.noise.scale)
            return _each(((rows >= -limit) & (rows <= limit)).all(axis=1))
        case BitResponse() | SubsetSelection():
            spare = mechanism.cells % 8
            clean = np.ones(len(rows), dtype=np.bool_) if not spare else (rows[:, -1] >> spare) == 0
            if isinstance(mechanism, SubsetSelection):
                clean = clean & (np.bitwise_count(rows).sum(axis=1, dtype=np.int64) == mechanism.size)
            return _each(clean)
        case Collision():
            return _each(rows[:, 2] < mechanism.length)
        case Concatenation():
            return _each(rows[:, 2] < mechanism.both.length)
        case Separation():
            return _each((rows[:, 2] < mechanism.buckets.length) & (rows[:, 5] < mechanism.labels.length))
        case _:
            raise InvalidInput(f"messages of {type(mechanism).__name__} cannot be checked one by one")


def _each(valid: Any) -> NDArray[np.bool_]:  # noqa: ANN401
    return np.asarray(valid, dtype=np.bool_)
