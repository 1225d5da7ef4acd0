"""Local votes for pairs of a bucket and a label: Separation and Concatenation.

Separation sends one message about the buckets and one about the labels, with half of ε each. Concatenation hashes
buckets and labels together into one message; as published it is biased.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Estimates, Integers, MessageLaw, Number, Randomness
from tacit.mechanisms.auditing import SINGLE, Check, message_checks
from tacit.mechanisms.description import CELLS, EXACT, FLAG, LENGTHS, Checks, Inner, Parameters
from tacit.mechanisms.exact import precision
from tacit.mechanisms.local.collision import LONGEST_RANGE, Collision, published_length
from tacit.mechanisms.local.keyed_hash import fresh_seeds, hit_matrix
from tacit.mechanisms.local.participants import LAW_DIGITS, checked_messages, local_epsilon, one_participant
from tacit.mechanisms.local.vote_shape import (
    AUDITED_SHAPE,
    DIAGONAL,
    PairMessages,
    PairMoments,
    VoteShape,
    joint_hits,
)
from tacit.mechanisms.messages import HashCode, JointCode

__all__ = ["Concatenation", "Separation"]


@dataclass(frozen=True)
class Separation(PairMessages):
    """Sends a Collision message about the k buckets and an independent one about the r labels.

    **Law.** Two independent ``Collision`` messages at ε/2, each with its own seed; together one row of six words.

    **Spend.** ``Pure(epsilon)``, between any two participants' sets.

    **Proof.** Two independent messages at ε/2 each compose to ε; reached when both reach their bounds.

    **Estimate.** The product of the unbiased estimates of "t is a bucket of the participant" and "y is a label of it".
    They are independent, so the product is unbiased; on a cell with neither, its variance is V_a·V_b.

    **Source.** S. Wang et al., Fine-grained private knowledge distillation, appendix B. With half of ε each, both parts
    are so noisy that sending the pairs themselves (``Collision`` on all cells) was better at every ε tried.

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
        """Two fresh seeds and two buckets per participant."""
        return self.respond(cells, fresh_seeds(2 * len(cells), randomness).reshape(len(cells), 4), randomness)

    def respond(self, held: NDArray[Any], seeds: NDArray[np.uint64], randomness: Randomness) -> NDArray[np.uint64]:
        """The messages for given seeds, four words each, which must be fresh for every message."""
        buckets, labels = self.shape.split(held)
        first = self.buckets.respond(buckets, seeds[:, :2], randomness)
        second = self.labels.respond(labels, seeds[:, 2:], randomness)
        return np.concatenate([first, second], axis=1)

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """Unbiased counts from the products."""
        rows = checked_messages(messages, np.uint64, (6,))
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
        held = one_participant(cells, self.cells, self.ones)
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
        """Both messages, concatenated."""
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


def _best_length(ones: int, epsilon: Fraction) -> int:
    """The number of buckets that makes the corrected estimate's variance on zeros smallest.

    Its root is ((l − 1)/(l − c))·(cE + l − c)/(E − 1), smallest at the real l = c + √(c(c − 1)E).
    """
    weight = math.exp(min(float(epsilon), 40.0))
    real = ones + math.sqrt(ones * (ones - 1) * weight)

    def root(length: int) -> float:
        return (length - 1) * (ones * weight + length - ones) / (length - ones)

    candidates = (min(max(each, ones + 1), LONGEST_RANGE) for each in (math.floor(real), math.ceil(real)))
    return min(candidates, key=root)


@dataclass(frozen=True)
class Concatenation(PairMessages):
    """Sends one Collision message about k buckets and r labels as k + r cells out of s + Y. BIASED AS PUBLISHED.

    **Law.** A ``Collision`` message at ε with the participant's k buckets and r labels as its k + r cells.

    **Spend.** ``Pure(epsilon)``, between any two participants' sets.

    **Proof.** That of ``Collision``.

    **Estimate.** Let A and B be 1 if the message hits bucket t and label y, otherwise 0; p, q and l as in
    ``Collision``. *As published* (``corrected=False``) the estimate is (A − q)(B − q)/(p − q)². But A and B come from
    one message: it can hit both only if they have the same hash, so E[AB] = pq on a cell the participant has, and the
    estimate has mean −q/(p − q) there instead of 1. It is **biased**, as ``biased`` says, and must not be used for
    counts. *Corrected*, (A + B − l·A·B − q)/(p − q) has mean 1 on the participant's cells and 0 on all others. Its
    variance on zeros, (1 − q)²/(p − q)², does not vanish as ε grows, so ``Collision`` on all cells is better at every
    ε. Neither is ever chosen by default.

    **Source.** S. Wang et al., Fine-grained private knowledge distillation, appendix B; the correction is Tacit's own.

    >>> shape = VoteShape(queries=200, classes=50, neighbors=2, labels=2)
    >>> published = Concatenation(shape, 1, corrected=False)
    >>> round(published.mean_squared_error, 3), round(published.moments.means[1][1], 3)
    (345.238, -1.034)
    >>> Concatenation(shape, 1, corrected=True).biased
    False
    """

    name = "concatenation"
    parameters: ClassVar[Parameters] = {
        "shape": Inner((VoteShape,)),
        "epsilon": EXACT,
        "corrected": FLAG,
        "length": CELLS,
    }

    shape: VoteShape
    epsilon: Fraction
    corrected: bool
    both: Collision

    def __init__(self, shape: VoteShape, epsilon: Number, corrected: bool, length: int | None = None) -> None:
        number = local_epsilon(epsilon)
        ones = shape.neighbors + shape.labels
        if length is None:
            length = _best_length(ones, number) if corrected else published_length(ones, number)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "epsilon", number)
        object.__setattr__(self, "corrected", bool(corrected))
        object.__setattr__(self, "both", Collision(shape.queries + shape.classes, ones, number, length))

    @property
    def biased(self) -> bool:
        """Whether this is the published estimate, which is biased."""
        return not self.corrected

    @property
    def length(self) -> int:
        """How many hash buckets there are."""
        return self.both.length

    @property
    def message_bits(self) -> int:
        """The seed and the bucket."""
        return self.both.message_bits

    @property
    def _weights(self) -> tuple[float, float, float]:
        """The estimate is w₂·A·B + w₁·(A + B) + w₀."""
        rates = self.both.rates
        if self.corrected:
            return -self.both.length / rates.gap, 1 / rates.gap, -rates.zero / rates.gap
        return 1 / rates.gap**2, -rates.zero / rates.gap**2, rates.zero**2 / rates.gap**2

    @property
    def moments(self) -> PairMoments:
        """Means and variances of the estimate, for the four kinds of cells."""
        rates = self.both.rates
        pair, single, constant = self._weights

        def moment(x: int, y: int) -> tuple[float, float]:
            first, second = (rates.one if x else rates.zero), (rates.one if y else rates.zero)
            # One of the two is hit with its own probability, and the other has the same hash with probability 1/l.
            together = (rates.one if x or y else rates.zero) * rates.zero
            apart = first + second - 2 * together
            outcomes = (
                (pair + 2 * single + constant, together),
                (single + constant, apart),
                (constant, 1 - together - apart),
            )
            mean = sum(value * chance for value, chance in outcomes)
            return mean, sum((value - mean) ** 2 * chance for value, chance in outcomes)

        (none, label), (bucket, held) = ((moment(x, 0), moment(x, 1)) for x in (0, 1))
        return PairMoments(
            means=((none[0], label[0]), (bucket[0], held[0])),
            variances=((none[1], label[1]), (bucket[1], held[1])),
        )

    def _parts(self, cells: NDArray[Any]) -> Integers:
        """Buckets, then labels, as cells of the joint domain."""
        buckets, labels = self.shape.split(cells)
        return np.concatenate([buckets, labels + self.shape.queries], axis=1)

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[np.uint64]:
        """A fresh seed and a bucket per participant."""
        return self.respond(cells, fresh_seeds(len(cells), randomness), randomness)

    def respond(self, held: NDArray[Any], seeds: NDArray[np.uint64], randomness: Randomness) -> NDArray[np.uint64]:
        """The messages for given seeds, which must be fresh for every message."""
        return self.both.respond(self._parts(held), seeds, randomness)

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """Counts by the published or the corrected estimate."""
        rows = checked_messages(messages, np.uint64, (3,))

        def hits(some: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
            matrix = hit_matrix(*self.both.opened(some), self.both.length, self.both.cells)
            return matrix[:, : self.shape.queries], matrix[:, self.shape.queries :]

        joint = joint_hits(self.shape, rows, hits)
        single = joint.buckets[:, None] + joint.labels[None, :]
        rates = self.both.rates
        unbiased = (single - self.both.length * joint.both - joint.messages * rates.zero) / rates.gap
        pair_weight, single_weight, constant = self._weights
        counts = pair_weight * joint.both + single_weight * single + constant * joint.messages
        held = (
            rates.estimates(joint.buckets, joint.messages).counts,
            rates.estimates(joint.labels, joint.messages).counts,
            unbiased,
        )
        return self.moments.estimates(counts, held, joint.messages)

    def law(self, cells: Sequence[int], seed: tuple[int, int] = (0, 0)) -> MessageLaw:
        """The probability of every bucket, given the seed."""
        held = one_participant(cells, self.cells, self.ones)
        return self.both.law(self._parts(np.array([held]))[0].tolist(), seed)

    @property
    def code(self) -> HashCode:
        """The code of the one message."""
        return self.both.code

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Which queries and classes the message hits; as published it claims no unbiased counts."""
        named = {"concatenation-published": False, "concatenation-corrected": True}
        # Classes follow the three queries in the domain that is hashed.
        parts = ((0, 3), (1, 4))

        def sent(name: str, epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls(AUDITED_SHAPE, epsilon, named[name])
            checks = message_checks(
                name, mechanism, DIAGONAL, lambda rows: mechanism.both.hit_code(rows, parts), cost=2
            )
            return checks if mechanism.corrected else checks[:1]

        return {name: partial(sent, name) for name in named}
