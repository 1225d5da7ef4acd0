"""A crowd's messages on both sides of a trusted shuffler: sealed on their way to it, and as it lets them through.

In one process the shuffler is one line of code; over a network it is a process of its own, and only its output reaches
the coordinator. Messages of the shuffle model protect nobody before they are mixed. So they leave a holder only in
boxes that the shuffler cannot open, and reach who can open them only through the shuffler, mixed with everybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Estimates
from tacit.core.randomness import Randomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Approximate
from tacit.mechanisms.description import CLIENTS, Described, Inner, Parameters, Reliance
from tacit.mechanisms.forms import Messages
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.single_message import SingleMessage

__all__ = ["Seal", "SealedMessages", "Shuffled", "from_pieces", "to_pieces"]

Seal = Callable[[Sequence[bytes]], NDArray[np.uint8]]


@dataclass(frozen=True)
class Shuffled(Described):
    """Every client's messages, mixed.

    **Law.** That of the inner mechanism's messages, in sorted order.

    **Spend.** The inner mechanism's, which is already that of the mixed messages.

    **Proof.** Sorting shows which messages there are and nothing else; see the inner mechanism.

    **Source.** As the inner mechanism.

    >>> from tacit.core.randomness import SeededRandomness
    >>> from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
    >>> crowd = Shuffled(plan_noise_messages(1, 1e-6, cells=4, participants=1000), participants=1000)
    >>> messages = crowd.sample(np.full((1000, 1), 2), SeededRandomness(1))
    >>> bool(abs(crowd.decode(messages).counts - [0, 0, 1000, 0]).max() < 30)
    True
    """

    name = "shuffled"
    statistic = "shuffle"
    releases = "messages"
    parameters: ClassVar[Parameters] = {"inner": Inner((MultiMessageNoise, SingleMessage)), "participants": CLIENTS}

    inner: MultiMessageNoise | SingleMessage
    participants: int

    @property
    def spend(self) -> Approximate:
        """What the mixed messages of all clients cost each of them."""
        return self.inner.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """How far a client's answer may move: any distance."""
        return self.inner.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """The mixed messages of clients with one row of cells each."""
        return self.inner.shuffle([self.inner.sample(value, randomness)], len(value))

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """The count of every cell, estimated from the mixed messages."""
        return self.inner.decode(messages, self.participants)

    @property
    def quorum(self) -> int:
        """How many clients must take part for the spend to be true."""
        return self.inner.quorum

    def reliance(self, clients: int) -> Reliance:
        """Mixed messages need a quorum of honest clients, of whom the node's own are some."""
        quorum = self.inner.quorum
        return Reliance(max(0, quorum - clients), min(Fraction(1), Fraction(clients, quorum)))

    def answer_form(self, rows: int, columns: int, limit: int) -> Messages:
        """The messages of at most that many clients."""
        return self.inner.mixed_form(limit)

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """As the inner mechanism."""
        return self.inner.made_for(queries, classes, neighbors, labels)


@dataclass(frozen=True)
class SealedMessages(Described):
    """What one holder, with one client or many, sends to the shuffler.

    **Law.** The messages of ``inner``, each put into a box by ``seal``; boxes say nothing to who has not the key.

    **Spend.** That of ``inner``: of the mixed messages of all holders.

    **Proof.** That of ``inner`` for the coordinator, who sees boxes only after they were mixed. The shuffler sees how
    many boxes there are, which depends on how many clients the holder has and on noise, not on what they hold.

    **Source.** As the inner mechanism.

    ``session`` names the run, the round and whose key seals, so that a request that was paid for one is not
    answered in another.
    """

    name = "sealed-messages"
    statistic = "shuffle"
    releases = "sealed"

    inner: MultiMessageNoise | SingleMessage
    session: str
    seal: Seal = field(repr=False, compare=False)

    @property
    def spend(self) -> Approximate:
        """What the mixed messages of all holders cost a client."""
        return self.inner.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """How far a client's answer may move: any distance."""
        return self.inner.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[np.uint8]:
        """The boxes of clients with one row of cells each, one per row."""
        return self.seal(to_pieces(self.inner, self.inner.sample(value, randomness)))

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """As the inner mechanism."""
        return self.inner.made_for(queries, classes, neighbors, labels)


def to_pieces(inner: MultiMessageNoise | SingleMessage, messages: NDArray[Any]) -> list[bytes]:
    """Every message as bytes, all of them equally long."""
    return [row.tobytes() for row in inner.code.pack(messages)]


def from_pieces(inner: MultiMessageNoise | SingleMessage, pieces: Sequence[bytes]) -> NDArray[Any]:
    """The messages again, one per row; what they say is still to be checked.

    >>> from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
    >>> plan = SingleMessage(GeneralizedRandomizedResponse(100, 1, 1), 50, "1e-6")
    >>> from_pieces(plan, to_pieces(plan, np.array([7, 99]))).tolist()
    [7, 99]
    """
    size = inner.code.size
    if any(len(piece) != size for piece in pieces):
        raise InvalidInput(f"a message must have {size} bytes")
    return inner.code.unpack(np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(-1, size))
