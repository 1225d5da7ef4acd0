"""One locally private message a client, and what a shuffler makes of it.

A local mechanism protects a client from everybody. When a shuffler mixes the messages of n clients, whoever sees them
afterwards learns much less about each: the same messages are worth a far smaller ε, or the same ε allows far more
accurate messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.amplify import Bound, amplified_epsilon, largest_local_epsilon
from tacit.accounting.monotone import bisect
from tacit.core.errors import InvalidInput
from tacit.core.protocols import Estimates, LocalMechanism
from tacit.core.randomness import Randomness
from tacit.core.rational import Number, exact, positive, rounded_down, rounded_up
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Approximate
from tacit.mechanisms.shuffle.blankets import blankets
from tacit.mechanisms.shuffle.quorum import require_quorum

__all__ = ["ProvenEpsilon", "SingleMessage"]

BLANKET = "privacy blanket"
# How fine ε₀ is sought and to how many digits everything is rounded to the safe side; beyond the largest ε₀ no
# number of messages hides anything.
RESOLUTION, DIGITS, LARGEST_LOCAL = 1e-7, 7, 50.0


class ProvenEpsilon(NamedTuple):
    """What shuffling makes of a message's ε₀, and the bound that proves it."""

    epsilon: Fraction
    bound: str


@dataclass(frozen=True)
class SingleMessage:
    """A local mechanism whose messages are seen only after a shuffler has mixed those of ``participants`` clients.

    **Law.** That of ``mechanism``, one message a client; the shuffler shows them sorted.

    **Spend.** ``Approximate(ε, δ)`` under replace-one, ε by the tightest bound proven for the mechanism; ``amplified``
    names it. Without the shuffler each message still costs no more than the mechanism's own ε₀.

    **Proof.** ``tacit.accounting.amplify`` for any mechanism, ``privacy_blanket.py`` for those of
    ``blankets.py``. More than ``participants`` messages hide a client no worse: show the adversary what
    the additional clients sent, and the others are as many as planned. With fewer nothing is shown.

    **Source.** Feldman, McMillan and Talwar 2022 (SODA); Balle, Bell, Gascón and Nissim 2019 (CRYPTO).

    >>> from tacit.mechanisms.local.collision import Collision
    >>> mechanism = SingleMessage(Collision(cells=400, ones=1, epsilon=4), participants=10_000, delta="1e-6")
    >>> round(float(mechanism.spend.epsilon), 6), mechanism.amplified.bound
    (0.280703, 'privacy blanket')
    """

    mechanism: LocalMechanism
    participants: int
    delta: Fraction

    def __init__(self, mechanism: LocalMechanism, participants: int, delta: Number) -> None:
        if participants < 1:
            raise InvalidInput(f"participants must be at least 1, got {participants}")
        if not 0 < exact(delta, "delta") < 1:
            raise InvalidInput(f"delta must be in (0, 1), got {delta}")
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "participants", int(participants))
        object.__setattr__(self, "delta", exact(delta, "delta"))

    @classmethod
    def for_budget(
        cls, kind: Callable[[Fraction], LocalMechanism], participants: int, epsilon: Number, delta: Number
    ) -> SingleMessage:
        """The most accurate mechanism of a kind whose shuffled messages cost at most (ε, δ).

        ``kind`` makes the mechanism for a local ε₀, the largest that a proven bound allows.

        >>> from tacit.mechanisms.local.collision import Collision
        >>> plan = SingleMessage.for_budget(lambda local: Collision(400, 1, local), 10_000, "0.5", "1e-6")
        >>> float(plan.spend.epsilon) <= 0.5, round(float(plan.mechanism.epsilon), 3)
        (True, 5.052)
        """
        goal = positive(epsilon, "epsilon")
        general = largest_local_epsilon(participants, goal, delta, Bound.NUMERIC_2022)

        def allowed(local: float) -> bool:
            listed = blankets(kind(exact(local)))
            return bool(listed) and all(
                each.delta(participants, float(goal), float(exact(delta))) <= exact(delta) for each in listed
            )

        local = general
        if allowed(float(general)):
            local = max(general, rounded_down(bisect(allowed, float(general), LARGEST_LOCAL, RESOLUTION), DIGITS))
        plan = cls(kind(local), participants, delta)
        # A whole number of buckets may change with the last digit of ε₀; what is returned was checked as it is.
        while plan.spend.epsilon > goal:
            local = rounded_down(local * (1 - Fraction(1, 10**6)), DIGITS)
            plan = cls(kind(local), participants, delta)
        return plan

    @cached_property
    def amplified(self) -> ProvenEpsilon:
        """The smallest proven ε at δ, and the bound that proves it."""
        limit = float(self.delta)
        proven = {
            str(Bound.NUMERIC_2022): amplified_epsilon(
                Bound.NUMERIC_2022, self.participants, self.mechanism.epsilon, limit
            )
        }
        if listed := blankets(self.mechanism):
            proven[BLANKET] = max(each.epsilon(self.participants, limit) for each in listed)
        best = min(proven, key=lambda bound: proven[bound])
        return ProvenEpsilon(min(self.mechanism.epsilon, rounded_up(proven[best], DIGITS)), best)

    @property
    def spend(self) -> Approximate:
        """What a message costs its client once it is mixed with the others."""
        return Approximate(self.amplified.epsilon, self.delta)

    @property
    def tolerates(self) -> Sensitivity:
        """As the local mechanism: any input may become any other."""
        return self.mechanism.tolerates

    @property
    def quorum(self) -> int:
        """How many clients must take part for the spend to be true."""
        return self.participants

    @property
    def in_words(self) -> str:
        """Who is trusted with what."""
        return (
            f"A shuffler is trusted to mix the messages of at least {self.quorum} clients ({self.amplified.bound}). "
            f"Should it fail, each message alone is still differentially private with "
            f"epsilon = {float(self.mechanism.epsilon):.6g}."
        )

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """One message for each row of cells."""
        return self.mechanism.encode(cells, randomness)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """Messages of one client's cells, or of one row of cells a client."""
        return self.mechanism.sample(value, randomness)

    def shuffle(self, answers: Sequence[NDArray[Any]], participants: int) -> NDArray[Any]:
        """What a shuffler lets through: all messages in sorted order, or nothing below the quorum.

        Sorting is a shuffle that needs no randomness: the order says no more than which messages there are.
        """
        messages = np.ascontiguousarray(np.concatenate(answers))
        require_quorum(participants, self.quorum)
        self._one_each(len(messages), participants)
        rows = messages.reshape(len(messages), -1).view(np.uint8)
        order = np.argsort(rows.view(np.dtype((np.void, rows.shape[1])))[:, 0], kind="stable")
        return messages[order]

    def decode(self, messages: NDArray[Any], participants: int) -> Estimates:
        """The count of every cell, estimated from all messages."""
        require_quorum(participants, self.quorum)
        self._one_each(len(messages), participants)
        return self.mechanism.decode(messages)

    def _one_each(self, messages: int, participants: int) -> None:
        if messages != participants:
            raise InvalidInput(f"messages must be one a participant, got {messages} from {participants}")
