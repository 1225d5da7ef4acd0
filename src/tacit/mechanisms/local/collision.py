"""The Collision mechanism: a participant's c cells are hashed to few buckets, and one is sent. For c = 1 it is OLH."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, MessageLaw, Number, Randomness, uniform_below
from tacit.mechanisms.auditing import AUDITED_CELLS, PAIR, Check, message_checks
from tacit.mechanisms.description import CELLS, Checks, Parameters
from tacit.mechanisms.exact import ExactTable, exp, precision
from tacit.mechanisms.local.keyed_hash import bucket_of, count_hits, fresh_seeds, keystream_words
from tacit.mechanisms.local.participants import (
    DOMAIN,
    LAW_DIGITS,
    HitEstimates,
    HitRates,
    checked_messages,
    chunks,
    domain,
    local_epsilon,
    one_participant,
    participant_cells,
)
from tacit.mechanisms.messages import HashCode
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = ["LONGEST_RANGE", "Collision", "best_length", "collision_rates", "hash_blankets", "published_length"]

# Buckets are found with 32-bit factors. A longer range would be best only for ε above 20.
LONGEST_RANGE = 2**31 - 1


def collision_rates(ones: int, epsilon: Fraction, length: int) -> HitRates:
    """How often a message hits a held cell, and any other cell, when l = ``length``.

    >>> round(collision_rates(1, Fraction(1), 4).variance_zero, 6)
    3.691655
    """
    # p = E/Ω and p − q = (l − c)(E − 1)/(lΩ), with E and Ω divided by e^ε so that nothing overflows.
    total = ones + (length - ones) * math.exp(-epsilon)
    gap = (length - ones) * -math.expm1(-epsilon) / (length * total)
    return HitRates(1 / total, 1 / length, gap)


def best_length(ones: int, epsilon: Fraction) -> int:
    """The number of buckets that makes the variance on zeros smallest.

    The variance as a function of a real l is smallest at [c(E+2) + √(c²E(E+8) − 8cE)]/2; the better of the two nearest
    integers is taken.

    >>> best_length(1, Fraction(1)), best_length(4, Fraction(1)), best_length(4, Fraction(4))
    (4, 19, 228)
    """
    weight = math.exp(min(float(epsilon), 40.0))
    real = (ones * (weight + 2) + math.sqrt(ones**2 * weight * (weight + 8) - 8 * ones * weight)) / 2
    candidates = {min(max(length, ones + 1), LONGEST_RANGE) for length in (math.floor(real), math.ceil(real))}
    return min(sorted(candidates), key=lambda length: collision_rates(ones, epsilon, length).variance_zero)


def published_length(ones: int, epsilon: Fraction) -> int:
    """The number of buckets in Fine-grained private knowledge distillation, 2c − 1 + cE, to the nearest integer.

    >>> published_length(4, Fraction(1)), published_length(4, Fraction(7, 2))
    (18, 139)
    """
    return min(round(2 * ones - 1 + ones * math.exp(min(float(epsilon), 40.0))), LONGEST_RANGE)


def hash_blankets(ones: int, epsilon: Fraction, length: int) -> list[Blanket]:
    """One cell hashed to l buckets: the floor is 1/Ω on each.

    Two cells have different buckets with probability 1 − 1/l, as far as the hashes of two cells are independent:
    exactly for linear maps, and for ``keyed_hash`` under its assumption on ChaCha8. So, unlike ε₀ itself, the amplified
    ε of a shuffled ``Collision`` message rests on that assumption.
    """
    if ones != 1:
        return []
    floor = 1 / (math.exp(float(epsilon)) + length - 1)
    return [Blanket(float(epsilon), (1 - 1 / length) * floor, length * floor)]


@lru_cache(maxsize=64)
def _slots(ones: int, epsilon: Fraction, length: int) -> ExactTable:
    """A slot of weight E for each of the participant's cells, and one of weight l − c for all other buckets."""

    def weights(digits: int) -> list[Decimal]:
        return [exp(epsilon, digits)] * ones + [Decimal(length - ones)]

    return ExactTable(weights)


@dataclass(frozen=True)
class Collision(HitEstimates):
    """Hashes the participant's c cells to l buckets under a fresh random seed and sends the seed and one bucket.

    **Law.** The seed is uniform and independent of the data. Let h be the number of different buckets that the
    participant's cells hash to. Each of those is sent with probability e^ε/Ω, Ω = c·e^ε + l − c; the l − h others share
    the remaining probability equally.

    **Spend.** ``Pure(epsilon)``, between any two sets of c cells.

    **Proof.** Given the seed, a bucket outside has probability ((c − h)e^ε + l − c)/((l − h)Ω), a weighted mean of
    e^ε/Ω and 1/Ω since the weights c − h and l − c add up to l − h. So every bucket, whatever the set, has a
    probability between 1/Ω and e^ε/Ω: the ratio is at most e^ε for *every* hash function, collisions among the
    participant's own cells included, and it is reached when two sets hash to disjoint buckets without such collisions.

    **Estimate.** A message hits cell v if v hashes to the bucket sent: with probability exactly p = e^ε/Ω for a cell
    that the participant has, for every hash, and q = 1/l for any other as far as the hashes of c + 1 cells are
    independent (see ``keyed_hash``).

    **Source.** S. Wang, J. Li, Y. Qian, J. Du, W. Lin and W. Yang, Hiding numerical vectors in local private and
    shuffled messages, IJCAI 2021; for c = 1 optimized local hashing. The number of buckets is chosen better here.

    A message is a row of three 64-bit words: the two of the seed, and the bucket.

    >>> mechanism = Collision(cells=5000, ones=2, epsilon=1)
    >>> mechanism.length, round(mechanism.variance_zero, 6), mechanism.message_bits
    (9, 8.552753, 132)
    """

    name = "collision"
    parameters: ClassVar[Parameters] = {**DOMAIN, "length": CELLS}

    cells: int
    ones: int
    epsilon: Fraction
    length: int

    def __init__(self, cells: int, ones: int, epsilon: Number, length: int | None = None) -> None:
        cells, ones = domain(cells, ones)
        number = local_epsilon(epsilon)
        if length is None:
            length = best_length(ones, number)
        if not ones < length <= LONGEST_RANGE:
            raise InvalidInput(f"length must be in [{ones + 1}, 2^31 - 1] for {ones} ones, got {length}")
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "ones", ones)
        object.__setattr__(self, "epsilon", number)
        object.__setattr__(self, "length", int(length))

    @property
    def message_bits(self) -> int:
        """The seed and the bucket."""
        return 128 + (self.length - 1).bit_length()

    @property
    def rates(self) -> HitRates:
        """How often a message hits a held cell, and any other."""
        return collision_rates(self.ones, self.epsilon, self.length)

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[np.uint64]:
        """A fresh seed and a bucket per participant."""
        held = participant_cells(cells, self.cells, self.ones)
        return self.respond(held, fresh_seeds(len(held), randomness), randomness)

    def respond(self, held: Integers, seeds: NDArray[np.uint64], randomness: Randomness) -> NDArray[np.uint64]:
        """The messages for given seeds, which must be fresh for every message."""
        messages = np.empty((len(held), 3), dtype=np.uint64)
        messages[:, :2] = seeds
        for part in chunks(len(held), self.ones):
            buckets = bucket_of(keystream_words(seeds[part], held[part]), self.length)
            messages[part, 2] = self._bucket(buckets, randomness)
        return messages

    def _bucket(self, buckets: Integers, randomness: Randomness) -> Integers:
        """One bucket for each row of the buckets that a participant's cells hash to."""
        buckets = np.sort(buckets, axis=1)
        # A bucket that occurs twice counts once: its second slot joins "all other buckets", marked by l.
        buckets[:, 1:][buckets[:, 1:] == buckets[:, :-1]] = self.length
        slot = _slots(self.ones, self.epsilon, self.length).sample(len(buckets), randomness)
        slots = np.column_stack([buckets, np.full(len(buckets), self.length)])
        sent = slots[np.arange(len(slots)), slot]
        waiting = np.flatnonzero(sent == self.length)
        while len(waiting):
            drawn = uniform_below(self.length, len(waiting), randomness)
            outside = (drawn[:, None] != buckets[waiting]).all(axis=1)
            sent[waiting[outside]] = drawn[outside]
            waiting = waiting[~outside]
        return sent

    def opened(self, messages: NDArray[Any]) -> tuple[NDArray[np.uint64], Integers]:
        """The seeds and buckets of messages, checked."""
        rows = checked_messages(messages, np.uint64, (3,))
        if not self.code.valid(rows).all():
            raise InvalidInput(f"messages must name buckets in [0, {self.length - 1}], got {rows[:, 2].max()}")
        return rows[:, :2], rows[:, 2].astype(np.int64)

    def hit_counts(self, messages: NDArray[Any]) -> Integers:
        """Every message is compared with the hash of every cell, in bounded memory."""
        seeds, buckets = self.opened(messages)
        return count_hits(seeds, buckets, self.length, self.cells)

    def law(self, cells: Sequence[int], seed: tuple[int, int] = (0, 0)) -> MessageLaw:
        """The probability of every bucket, given the seed: 2^128 times that of the message with this seed."""
        held = one_participant(cells, self.cells, self.ones)
        context, weight = precision(LAW_DIGITS), exp(self.epsilon, LAW_DIGITS)
        seeds = np.array([seed], dtype=np.uint64)
        inside = {int(bucket) for bucket in bucket_of(keystream_words(seeds, np.array([held])), self.length)[0]}
        total = context.add(context.multiply(weight, Decimal(self.ones)), Decimal(self.length - self.ones))
        hit = context.divide(weight, total)
        left = context.subtract(Decimal(1), context.multiply(hit, Decimal(len(inside))))
        miss = context.divide(left, Decimal(self.length - len(inside)))
        messages = np.empty((self.length, 3), dtype=np.uint64)
        messages[:, :2], messages[:, 2] = seeds, np.arange(self.length)
        return MessageLaw(messages, tuple(hit if bucket in inside else miss for bucket in range(self.length)))

    @property
    def code(self) -> HashCode:
        """The seed and the bucket."""
        return HashCode(self.length)

    def blankets(self) -> list[Blanket]:
        """Those of a hash, for one cell."""
        return hash_blankets(self.ones, self.epsilon, self.length)

    def hit_code(self, messages: NDArray[Any], inputs: Sequence[Sequence[int]]) -> Integers:
        """A message's information as one number: which cells of the inputs it hits, and which inputs have collisions.

        The hash seed is public, so this is what a reader can compute by hashing every cell.

        >>> from tacit.core.randomness import SeededRandomness
        >>> mechanism = Collision(6, 2, 1)
        >>> mechanism.hit_code(mechanism.encode(np.array([[0, 1], [0, 1]]), SeededRandomness(1)), PAIR).tolist()
        [32, 32]
        """
        seeds, sent = self.opened(messages)
        code = np.zeros(len(sent), dtype=np.int64)
        for cells in inputs:
            buckets = bucket_of(keystream_words(seeds, np.tile(np.array(cells), (len(seeds), 1))), self.length)
            ordered = np.sort(buckets, axis=1)
            for flag in (*(buckets == sent[:, None]).T, (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
                code = 2 * code + flag
        return code

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Which cells the message hits."""

        def sent(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls(AUDITED_CELLS, 2, epsilon)
            return message_checks(cls.name, mechanism, PAIR, lambda rows: mechanism.hit_code(rows, PAIR), cost=2)

        return {cls.name: sent}
