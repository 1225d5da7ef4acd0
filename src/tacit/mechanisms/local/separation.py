"""Separation: one message about the buckets and one about the labels, with half of ε each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Estimates, Integers, MessageLaw
from tacit.core.randomness import Randomness
from tacit.core.rational import Number
from tacit.mechanisms.auditing import SINGLE, Check, message_checks
from tacit.mechanisms.description import EXACT, LENGTHS, Checks, Inner, Parameters
from tacit.mechanisms.exact import precision
from tacit.mechanisms.local.clients import LAW_DIGITS, client_rows, local_epsilon, one_client
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.keyed_hash import fresh_seeds, hit_matrix
from tacit.mechanisms.local.vote_shape import (
    AUDITED_SHAPE,
    DIAGONAL,
    PairMessages,
    PairMoments,
    VoteShape,
    joint_hits,
)
from tacit.mechanisms.messages import JointCode

__all__ = ["Separation"]


@dataclass(frozen=True)
class Separation(PairMessages):
    """Sends a Collision message about the k buckets and an independent one about the r labels.

    **Law.** Two independent ``Collision`` messages at ε/2, with seeds of their own; they make one row of six words.

    **Spend.** ``Pure(epsilon)``, between any two clients' sets.

    **Proof.** Two independent messages at ε/2 each compose to ε; reached when both reach their bounds.

    **Estimate.** The product of the unbiased estimates of "t is a bucket of the client" and "y is a label of it".
    They are independent, so the product is unbiased; on a cell with neither, its variance is V_a·V_b.

    **Source.** S. Wang et al., Fine-grained private knowledge distillation, appendix B. Splitting ε makes both parts so
    noisy that sending the pairs themselves (``Collision`` on all cells) is better at every ε that was tried.

    >>> shape = VoteShape(queries=200, classes=50, neighbors=2, labels=2)
    >>> round(Separation(shape, 1, lengths=(6, 6)).mean_squared_error, 2)
    1585.98
    """

    name = "separation"
    parameters: ClassVar[Parameters] = {"shape": Inner((VoteShape,)), "epsilon": EXACT, "lengths": LENGTHS}
    biased: ClassVar[bool] = False

    shape: VoteShape
    epsilon: Fraction
    buckets: Collision
    labels: Collision

    def __init__(self, shape: VoteShape, epsilon: Number, lengths: tuple[int, int] | None = None) -> None:
        number = local_epsilon(epsilon)
        first, second = lengths or (None, None)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "epsilon", number)
        object.__setattr__(self, "buckets", Collision(shape.queries, shape.neighbors, number / 2, first))
        object.__setattr__(self, "labels", Collision(shape.classes, shape.labels, number / 2, second))

    @property
    def lengths(self) -> tuple[int, int]:
        """How many hash buckets each of the two messages has."""
        return self.buckets.length, self.labels.length

    @property
    def message_bits(self) -> int:
        """Both messages."""
        return self.buckets.message_bits + self.labels.message_bits

    @property
    def moments(self) -> PairMoments:
        """Means and variances of the product, for the four kinds of cells."""
        first = (self.buckets.variance_zero, self.buckets.variance_one)
        second = (self.labels.variance_zero, self.labels.variance_one)

        def variance(x: int, y: int) -> float:
            # E[a²]·E[b²] − (E[a]·E[b])², where E[a²] = Var a + x.
            return (first[x] + x) * (second[y] + y) - x * y

        return PairMoments(
            means=((0, 0), (0, 1)),
            variances=((variance(0, 0), variance(0, 1)), (variance(1, 0), variance(1, 1))),
        )

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[np.uint64]:
        """Two fresh seeds and two buckets a client."""
        return self.respond(cells, fresh_seeds(2 * len(cells), randomness).reshape(len(cells), 4), randomness)

    def respond(self, held: NDArray[Any], seeds: NDArray[np.uint64], randomness: Randomness) -> NDArray[np.uint64]:
        """The messages of clients whose four seed words are already drawn; they must be fresh for every message."""
        buckets, labels = self.shape.split(held)
        first = self.buckets.respond(buckets, seeds[:, :2], randomness)
        second = self.labels.respond(labels, seeds[:, 2:], randomness)
        return np.concatenate([first, second], axis=1)

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """Unbiased counts from the products."""
        rows = client_rows(messages, np.uint64, (6,))
        parts = ((self.buckets, slice(0, 3)), (self.labels, slice(3, 6)))

        def hits(some: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
            first, second = (
                hit_matrix(*part.opened(some[:, columns]), part.length, part.cells) for part, columns in parts
            )
            return first, second

        joint = joint_hits(self.shape, rows, hits)
        first, second = self.buckets.rates, self.labels.rates
        centered = (
            joint.both
            - second.zero * joint.buckets[:, None]
            - first.zero * joint.labels[None, :]
            + joint.messages * first.zero * second.zero
        )
        counts = centered / (first.gap * second.gap)
        held = (
            first.estimates(joint.buckets, joint.messages).counts,
            second.estimates(joint.labels, joint.messages).counts,
            counts,
        )
        return self.moments.estimates(counts, held, joint.messages)

    def law(self, cells: Sequence[int], seed: tuple[int, int, int, int] = (0, 0, 0, 0)) -> MessageLaw:
        """The probability of every pair of buckets, given the two seeds."""
        held = one_client(cells, self.cells, self.ones)
        buckets, labels = self.shape.split(np.array([held]))
        first = self.buckets.law(buckets[0].tolist(), seed[:2])
        second = self.labels.law(labels[0].tolist(), seed[2:])
        context = precision(LAW_DIGITS)
        return MessageLaw(
            np.array([[*one, *other] for one in first.messages for other in second.messages], dtype=np.uint64),
            tuple(context.multiply(one, other) for one in first.probabilities for other in second.probabilities),
        )

    @property
    def code(self) -> JointCode:
        """The one message behind the other."""
        return JointCode(self.buckets.code, self.labels.code)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Which queries and which classes the two messages hit."""

        def sent(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls(AUDITED_SHAPE, epsilon)

            def read(rows: NDArray[Any]) -> Integers:
                first = mechanism.buckets.hit_code(rows[:, :3], SINGLE)
                return 16 * first + mechanism.labels.hit_code(rows[:, 3:], SINGLE)

            return message_checks(cls.name, mechanism, DIAGONAL, read, cost=2)

        return {cls.name: sent}
