"""A crowd's messages on their way to the shuffler: each sealed for the coordinator before it leaves the holder.

Messages of the shuffle model protect nobody before they are mixed. So they leave a holder only in boxes that the
shuffler cannot open, and reach who can open them only through the shuffler, mixed with everybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.randomness import Randomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Approximate
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

__all__ = ["Seal", "SealedMessages", "from_pieces", "message_bytes", "to_pieces"]

Seal = Callable[[Sequence[bytes]], NDArray[np.uint8]]


@dataclass(frozen=True)
class SealedMessages:
    """What one holder, with one client or many, sends to the shuffler.

    **Law.** The messages of ``inner``, each put into a box by ``seal``; boxes say nothing to who has not the key.

    **Spend.** That of ``inner``: of the mixed messages of all holders.

    **Proof.** That of ``inner`` for the coordinator, who sees boxes only after they were mixed. The shuffler sees how
    many boxes there are, which depends on how many clients the holder has and on noise, not on what they hold.

    **Source.** As the inner mechanism.

    ``session`` names the run, the round and whose key seals, so that a request that was paid for one is not
    answered in another.
    """

    inner: FloodedMessages | SingleMessage
    session: str
    seal: Seal = field(repr=False, compare=False)

    @property
    def spend(self) -> Approximate:
        """What the mixed messages of all holders cost a client."""
        return self.inner.spend

    @property
    def tolerates(self) -> Sensitivity:
        """How far a client's answer may move: any distance."""
        return self.inner.tolerates

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[np.uint8]:
        """The boxes of clients with one row of cells each, one a row."""
        return self.seal(to_pieces(self.inner, self.inner.sample(value, randomness)))


def message_bytes(inner: FloodedMessages | SingleMessage) -> int:
    """How long one message is, as bytes.

    >>> message_bytes(SingleMessage(GeneralizedResponse(100, 1, 1), 50, "1e-6"))
    8
    """
    kind, shape = _layout(inner)
    return int(np.prod(shape, dtype=np.int64)) * kind.itemsize


def to_pieces(inner: FloodedMessages | SingleMessage, messages: NDArray[Any]) -> list[bytes]:
    """Every message as bytes, all of them equally long."""
    kind, shape = _layout(inner)
    if isinstance(inner, FloodedMessages):
        # One number says it all: twice the cell, and one more for a message that takes away.
        messages = 2 * messages[:, 0] + (messages[:, 1] < 0)
    rows = np.ascontiguousarray(messages.reshape(-1, *shape), dtype=kind)
    size = message_bytes(inner)
    content = rows.tobytes()
    return [content[at : at + size] for at in range(0, len(content), size)]


def from_pieces(inner: FloodedMessages | SingleMessage, pieces: Sequence[bytes]) -> NDArray[Any]:
    """The messages again, one a row; what they say is still to be checked.

    >>> plan = SingleMessage(GeneralizedResponse(100, 1, 1), 50, "1e-6")
    >>> from_pieces(plan, to_pieces(plan, np.array([7, 99]))).tolist()
    [7, 99]
    """
    kind, shape = _layout(inner)
    if any(len(piece) != message_bytes(inner) for piece in pieces):
        raise InvalidInput(f"a message must have {message_bytes(inner)} bytes")
    rows = np.frombuffer(b"".join(pieces), dtype=kind).reshape(-1, *shape)
    if isinstance(inner, FloodedMessages):
        slots = rows.astype(np.int64)
        return np.stack([slots // 2, 1 - 2 * (slots % 2)], axis=1)
    return rows.astype(kind.newbyteorder("="))


def _layout(inner: FloodedMessages | SingleMessage) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type and shape of one message."""
    if isinstance(inner, FloodedMessages):
        return np.dtype("<u4"), ()
    match inner.mechanism:
        case GeneralizedResponse() | LinearHashing():
            return np.dtype("<i8"), ()
        case LocalLaplace(cells=cells):
            return np.dtype("<i8"), (cells,)
        case BitResponse(cells=cells) | SubsetSelection(cells=cells):
            return np.dtype("|u1"), (-(-cells // 8),)
        case Collision() | Concatenation():
            return np.dtype("<u8"), (3,)
        case Separation():
            return np.dtype("<u8"), (6,)
        case _:
            raise InvalidInput(f"messages of {type(inner.mechanism).__name__} cannot be sealed one by one")
