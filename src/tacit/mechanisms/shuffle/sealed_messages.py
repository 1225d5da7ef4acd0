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
from tacit.mechanisms.compact import compacted, expanded, size_of
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

    >>> from tacit.mechanisms.local.generalized_response import GeneralizedResponse
    >>> message_bytes(SingleMessage(GeneralizedResponse(100, 1, 1), 50, "1e-6"))
    1
    """
    return size_of(_maker(inner))


def to_pieces(inner: FloodedMessages | SingleMessage, messages: NDArray[Any]) -> list[bytes]:
    """Every message as bytes, all of them equally long."""
    return [row.tobytes() for row in compacted(_maker(inner), messages)]


def from_pieces(inner: FloodedMessages | SingleMessage, pieces: Sequence[bytes]) -> NDArray[Any]:
    """The messages again, one a row; what they say is still to be checked.

    >>> from tacit.mechanisms.local.generalized_response import GeneralizedResponse
    >>> plan = SingleMessage(GeneralizedResponse(100, 1, 1), 50, "1e-6")
    >>> from_pieces(plan, to_pieces(plan, np.array([7, 99]))).tolist()
    [7, 99]
    """
    size = message_bytes(inner)
    if any(len(piece) != size for piece in pieces):
        raise InvalidInput(f"a message must have {size} bytes")
    return expanded(_maker(inner), np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(-1, size))


def _maker(inner: FloodedMessages | SingleMessage) -> Any:  # noqa: ANN401
    """Whose messages they are."""
    return inner.mechanism if isinstance(inner, SingleMessage) else inner
