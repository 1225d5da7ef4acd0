"""Single-message shuffling: one local message per participant, amplified by a trusted shuffler; and encrypted messages.

After a shuffler has permuted the messages of n participants, each of them costs a far smaller ε; or the same ε allows
far more accurate messages. Before they are permuted they are less private. So they leave a holder encrypted, and reach
the reader only through the shuffler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.amplify import AmplificationBound, amplified_epsilon, largest_local_epsilon
from tacit.core import Approximate, Estimates, Integers, InvalidInput, LocalMechanism, Randomness, Sensitivity
from tacit.core.rational import Number, bisect, exact, positive, rounded_down, rounded_up
from tacit.mechanisms.auditing import Check, Target
from tacit.mechanisms.description import (
    EXACT,
    PARTICIPANTS,
    Checks,
    Described,
    Inner,
    Parameters,
    Reliance,
    require_quorum,
)
from tacit.mechanisms.forms import MessageCode, Messages
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = [
    "ProvenEpsilon",
    "Seal",
    "SealedMessages",
    "Shufflable",
    "Shuffled",
    "SingleMessage",
    "from_pieces",
    "planned_response",
    "sent_cells",
    "to_pieces",
]

BLANKET = "privacy blanket"
# The resolution of ε₀, the digits to which results are rounded in the conservative direction, and the largest ε₀.
_RESOLUTION, _DIGITS, LARGEST_LOCAL = 1e-7, 7, 50.0
Seal = Callable[[Sequence[bytes]], NDArray[np.uint8]]


class Shufflable(LocalMechanism, Protocol):
    """A local mechanism whose messages can be packed one by one, with its privacy blankets if any are proven."""

    @property
    def code(self) -> MessageCode:
        """How its messages are packed and checked."""
        ...

    def blankets(self) -> list[Blanket]:
        """A privacy blanket for each way in which two inputs can overlap."""
        ...

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """Whether its cells are pairs of queries and classes in these numbers."""
        ...


class ProvenEpsilon(NamedTuple):
    """The amplified ε of a message, and the bound that proves it."""

    epsilon: Fraction
    bound: str


@dataclass(frozen=True)
class SingleMessage(Described):
    """A local mechanism whose messages are seen only after a shuffler has permuted those of ``participants``.

    **Law.** That of ``mechanism``, one message per participant; the shuffler shows them sorted.

    **Spend.** ``Approximate(ε, δ)`` under replace-one, ε by the tightest bound proven for the mechanism; ``amplified``
    names it. Without the shuffler each message still costs no more than the mechanism's own ε₀.

    **Proof.** ``tacit.accounting.amplify`` for any mechanism, ``privacy_blanket.py`` for those that state a blanket.
    More than ``participants`` messages are at least as private: show the adversary what the additional participants
    sent, and the others are as many as planned. With fewer nothing is shown.

    **Source.** Feldman, McMillan and Talwar 2022 (SODA); Balle, Bell, Gascón and Nissim 2019 (CRYPTO).

    >>> from tacit.mechanisms.local.collision import Collision
    >>> mechanism = SingleMessage(Collision(cells=400, ones=1, epsilon=4), participants=10_000, delta="1e-6")
    >>> round(float(mechanism.spend.epsilon), 6), mechanism.amplified.bound
    (0.280703, 'privacy blanket')
    """

    name = "single-message"
    statistic = "messages"
    releases = "messages"
    parameters: ClassVar[Parameters] = {
        "mechanism": Inner(statistic="local"),
        "participants": PARTICIPANTS,
        "delta": EXACT,
    }

    mechanism: Shufflable
    participants: int
    delta: Fraction

    def __init__(self, mechanism: Shufflable, participants: int, delta: Number) -> None:
        if participants < 1:
            raise InvalidInput(f"participants must be at least 1, got {participants}")
        if not 0 < exact(delta, "delta") < 1:
            raise InvalidInput(f"delta must be in (0, 1), got {delta}")
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "participants", int(participants))
        object.__setattr__(self, "delta", exact(delta, "delta"))

    @classmethod
    def for_budget(
        cls, kind: Callable[[Fraction], Shufflable], participants: int, epsilon: Number, delta: Number
    ) -> SingleMessage:
        """The most accurate mechanism of a kind whose shuffled messages cost at most (ε, δ).

        ``kind`` makes the mechanism for a local ε₀, the largest that a proven bound allows.

        >>> from tacit.mechanisms.local.collision import Collision
        >>> plan = SingleMessage.for_budget(lambda local: Collision(400, 1, local), 10_000, "0.5", "1e-6")
        >>> float(plan.spend.epsilon) <= 0.5, round(float(plan.mechanism.epsilon), 3)
        (True, 5.052)
        """
        goal = positive(epsilon, "epsilon")
        general = largest_local_epsilon(participants, goal, delta, AmplificationBound.NUMERIC_2022)

        def allowed(local: float) -> bool:
            listed = kind(exact(local)).blankets()
            return bool(listed) and all(
                each.delta(participants, float(goal), float(exact(delta))) <= exact(delta) for each in listed
            )

        local = general
        if allowed(float(general)):
            local = max(general, rounded_down(bisect(allowed, float(general), LARGEST_LOCAL, _RESOLUTION), _DIGITS))
        plan = cls(kind(local), participants, delta)
        # The number of buckets may change with the last digit of ε₀, so the final mechanism is checked.
        while plan.spend.epsilon > goal:
            local = rounded_down(local * (1 - Fraction(1, 10**6)), _DIGITS)
            plan = cls(kind(local), participants, delta)
        return plan

    @cached_property
    def amplified(self) -> ProvenEpsilon:
        """The smallest proven ε at δ, and the bound that proves it."""
        limit = float(self.delta)
        proven = {
            str(AmplificationBound.NUMERIC_2022): amplified_epsilon(
                AmplificationBound.NUMERIC_2022, self.participants, self.mechanism.epsilon, limit
            )
        }
        if listed := self.mechanism.blankets():
            proven[BLANKET] = max(each.epsilon(self.participants, limit) for each in listed)
        best = min(proven, key=lambda bound: proven[bound])
        return ProvenEpsilon(min(self.mechanism.epsilon, rounded_up(proven[best], _DIGITS)), best)

    @property
    def spend(self) -> Approximate:
        """The cost of a message after shuffling."""
        return Approximate(self.amplified.epsilon, self.delta)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """That of the local mechanism: any change."""
        return self.mechanism.max_sensitivity

    @property
    def quorum(self) -> int:
        """How many participants the spend needs."""
        return self.participants

    @property
    def in_words(self) -> str:
        """The trust assumption, in words."""
        return (
            f"A shuffler is trusted to mix the messages of at least {self.quorum} participants "
            f"({self.amplified.bound}). Without it, each message alone is still differentially private with "
            f"epsilon = {float(self.mechanism.epsilon):.6g}."
        )

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """One message for each row of cells."""
        return self.mechanism.encode(cells, randomness)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """Messages of one participant's cells, or of one row of cells per participant."""
        return self.mechanism.sample(value, randomness)

    def shuffle(self, answers: Sequence[NDArray[Any]], participants: int) -> NDArray[Any]:
        """The shuffler's output: all messages in sorted order; refused below the quorum.

        Sorting is a shuffle that needs no randomness: the order reveals nothing but the multiset of messages.
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
            raise InvalidInput(f"messages must be one per participant, got {messages} from {participants}")

    @property
    def code(self) -> MessageCode:
        """As the local mechanism."""
        return self.mechanism.code

    @property
    def messages_each(self) -> int | None:
        """The most messages of one participant."""
        return 1

    def most_messages(self, participants: int) -> int:
        """The number of messages of ``participants``."""
        return participants

    def mixed_form(self, limit: int) -> Messages:
        """The form of the shuffler's output: at most one message per participant."""
        return Messages(self.code, limit)

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """As the local mechanism."""
        return self.mechanism.made_for(queries, classes, neighbors, labels)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One message per participant; the worst case is that the others have neither of the victim's two cells."""

        def mixed(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = planned_response(epsilon, delta)

            def draw(cell: int, count: int, randomness: Randomness) -> Integers:
                named = sent_cells(mechanism, cell, count, randomness)
                return np.stack([(named == each).sum(axis=1) for each in (0, 1)], axis=1)

            spend = mechanism.spend
            return [Target("shuffled-response", spend.epsilon, spend.delta, (0, 1), draw, cost=10)]

        return {"shuffled-response": mixed}


def planned_response(epsilon: Fraction, delta: Fraction) -> SingleMessage:
    """Randomized response of twenty participants over three cells that is (ε, δ)-DP after shuffling."""
    return SingleMessage.for_budget(lambda local: GeneralizedRandomizedResponse(3, 1, local), 20, epsilon, delta)


def sent_cells(mechanism: SingleMessage, cell: int, count: int, randomness: Randomness) -> Integers:
    """The cells named in ``count`` rounds, one row each: the first participant has ``cell``, all others cell 2."""
    cells = np.full((count, mechanism.participants), 2)
    cells[:, 0] = cell
    return mechanism.encode(cells.reshape(-1, 1), randomness).reshape(cells.shape)


@dataclass(frozen=True)
class Shuffled(Described):
    """The shuffled messages of all participants.

    **Law.** That of the inner mechanism's messages, in sorted order.

    **Spend.** The inner mechanism's, which is already that of the shuffled messages.

    **Proof.** Sorting reveals nothing but the multiset of messages; see the inner mechanism.

    **Source.** As the inner mechanism.

    >>> from tacit.core.randomness import SeededRandomness
    >>> from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
    >>> shuffled = Shuffled(plan_noise_messages(1, 1e-6, cells=4, participants=1000), participants=1000)
    >>> messages = shuffled.sample(np.full((1000, 1), 2), SeededRandomness(1))
    >>> bool(abs(shuffled.decode(messages).counts - [0, 0, 1000, 0]).max() < 30)
    True
    """

    name = "shuffled"
    statistic = "shuffle"
    releases = "messages"
    parameters: ClassVar[Parameters] = {
        "inner": Inner((MultiMessageNoise, SingleMessage)),
        "participants": PARTICIPANTS,
    }

    inner: MultiMessageNoise | SingleMessage
    participants: int

    @property
    def spend(self) -> Approximate:
        """The cost of all shuffled messages for one participant."""
        return self.inner.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """Any change of a participant's input."""
        return self.inner.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """The shuffled messages of participants with one row of cells each."""
        return self.inner.shuffle([self.inner.sample(value, randomness)], len(value))

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """The count of every cell, estimated from the shuffled messages."""
        return self.inner.decode(messages, self.participants)

    @property
    def quorum(self) -> int:
        """How many participants the spend needs."""
        return self.inner.quorum

    def reliance(self, participants: int) -> Reliance:
        """Shuffled messages need a quorum of honest participants, the node's own included."""
        quorum = self.inner.quorum
        return Reliance(max(0, quorum - participants), min(Fraction(1), Fraction(participants, quorum)))

    def answer_form(self, rows: int, columns: int, limit: int) -> Messages:
        """The messages of at most ``limit`` participants."""
        return self.inner.mixed_form(limit)

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """As the inner mechanism."""
        return self.inner.made_for(queries, classes, neighbors, labels)


@dataclass(frozen=True)
class SealedMessages(Described):
    """The encrypted messages that a holder with one participant or several sends to the shuffler.

    **Law.** The messages of ``inner``, each encrypted by ``seal``.

    **Spend.** That of ``inner``: of the shuffled messages of all holders.

    **Proof.** That of ``inner`` for the coordinator, who decrypts messages only after they were shuffled. The shuffler
    sees the number of encrypted messages, which ``seal`` makes depend on the number of participants alone.

    **Source.** As the inner mechanism.

    ``session`` identifies the run, the round and the encryption key, so that a request that was paid for one session is
    not answered in another. ``price`` is the spend of a holder that uses a simpler bound, as a device does.
    """

    name = "sealed-messages"
    statistic = "shuffle"
    releases = "sealed"

    inner: MultiMessageNoise | SingleMessage
    session: str
    seal: Seal = field(repr=False, compare=False)
    price: Approximate | None = None

    @property
    def spend(self) -> Approximate:
        """The cost of the shuffled messages of all holders for one participant."""
        return self.price or self.inner.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """Any change of a participant's input."""
        return self.inner.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[np.uint8]:
        """The encrypted messages of participants with one row of cells each, one per row."""
        return self.seal(to_pieces(self.inner, self.inner.sample(value, randomness)))

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """As the inner mechanism."""
        return self.inner.made_for(queries, classes, neighbors, labels)


def to_pieces(inner: MultiMessageNoise | SingleMessage, messages: NDArray[Any]) -> list[bytes]:
    """Every message as bytes, all of the same length."""
    return [row.tobytes() for row in inner.code.pack(messages)]


def from_pieces(inner: MultiMessageNoise | SingleMessage, pieces: Sequence[bytes]) -> NDArray[Any]:
    """The messages, one per row, not yet checked.

    >>> from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
    >>> plan = SingleMessage(GeneralizedRandomizedResponse(100, 1, 1), 50, "1e-6")
    >>> from_pieces(plan, to_pieces(plan, np.array([7, 99]))).tolist()
    [7, 99]
    """
    size = inner.code.size
    if any(len(piece) != size for piece in pieces):
        raise InvalidInput(f"a message must have {size} bytes")
    return inner.code.unpack(np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(-1, size))
