"""A crowd and its trusted shuffler as one mechanism: what comes out is what the shuffler lets through.

In one process the shuffler is this line of code; over a network it is a process of its own, and only its output
reaches the coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tacit.core.protocols import Estimates
from tacit.core.randomness import Randomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Approximate
from tacit.mechanisms.shuffle.flooded_messages import FloodedMessages
from tacit.mechanisms.shuffle.single_message import SingleMessage

__all__ = ["Shuffled"]


@dataclass(frozen=True)
class Shuffled:
    """Every client's messages, mixed.

    **Law.** That of the inner mechanism's messages, in sorted order.

    **Spend.** The inner mechanism's, which is already that of the mixed messages.

    **Proof.** Sorting shows which messages there are and nothing else; see the inner mechanism.

    **Source.** As the inner mechanism.

    >>> import numpy as np
    >>> from tacit.core.randomness import SeededRandomness
    >>> from tacit.mechanisms.shuffle.flooding_plan import plan_flooding
    >>> crowd = Shuffled(plan_flooding(1, 1e-6, cells=4, participants=1000), participants=1000)
    >>> messages = crowd.sample(np.full((1000, 1), 2), SeededRandomness(1))
    >>> bool(abs(crowd.decode(messages).counts - [0, 0, 1000, 0]).max() < 30)
    True
    """

    inner: FloodedMessages | SingleMessage
    participants: int

    @property
    def spend(self) -> Approximate:
        """What the mixed messages of all clients cost each of them."""
        return self.inner.spend

    @property
    def tolerates(self) -> Sensitivity:
        """How far a client's answer may move: any distance."""
        return self.inner.tolerates

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """The mixed messages of clients with one row of cells each."""
        return self.inner.shuffle([self.inner.sample(value, randomness)], len(value))

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """The count of every cell, estimated from the mixed messages."""
        return self.inner.decode(messages, self.participants)
