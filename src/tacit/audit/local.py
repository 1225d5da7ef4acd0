"""Checks of the mechanisms that each client runs itself: the privacy of one message, and the bias of the counts.

Two clients with disjoint cells are the worst pair for all of them. A hash seed in a message is public, so what is
compared is what a reader sees after hashing every cell: which cells the message hits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.checks import Check, Estimator, Target
from tacit.core.protocols import Integers, LocalMechanism
from tacit.core.randomness import Randomness
from tacit.mechanisms.local.answer_sheet import AnswerSheet
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.keyed_hash import bucket_of, keystream_words
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.local_laplace import LocalLaplace
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.vote_shape import VoteShape

__all__ = [
    "CELLS",
    "DIAGONAL",
    "PAIR",
    "SHAPE",
    "answers",
    "bits",
    "bits_message",
    "collision",
    "concatenation",
    "generalized_response",
    "laplace",
    "linear_hashing",
    "message",
    "private_answers",
    "separation",
    "subset_selection",
    "unbiased",
]

# Two clients without a cell in common, and two cells that neither has.
CELLS, PAIR = 6, ((0, 1), (2, 3))
SINGLE = ((0,), (1,))
# Three queries and three classes: the two clients differ in both.
SHAPE, DIAGONAL = VoteShape(queries=3, classes=3), ((0,), (4,))

Read = Callable[[NDArray[Any]], Integers]


def message(
    name: str, mechanism: LocalMechanism, inputs: tuple[Sequence[int], Sequence[int]], read: Read, cost: int = 1
) -> Target:
    """One message of a client that has one or the other set of cells; ``read`` makes features of messages."""

    def draw(cells: Sequence[int], count: int, randomness: Randomness) -> Integers:
        return read(mechanism.encode(np.tile(np.array(cells), (count, 1)), randomness))

    return Target(name, mechanism.epsilon, Fraction(0), inputs, draw, cost)


Encode = Callable[[NDArray[Any], Randomness], NDArray[Any]]


def unbiased(
    name: str,
    mechanism: LocalMechanism,
    inputs: tuple[Sequence[int], Sequence[int]],
    encode: Encode | None = None,
    cost: int = 1,
) -> Estimator:
    """Counts from clients of which two in three have the first set of cells, and the others the second."""
    send = encode or mechanism.encode

    def deviations(clients: int, randomness: Randomness) -> NDArray[np.float64]:
        held = np.array(inputs)[np.arange(clients) % 3 // 2]
        estimates = mechanism.decode(send(held, randomness))
        true = np.bincount(held.ravel(), minlength=mechanism.cells)
        return (estimates.counts - true) / np.sqrt(estimates.variances)

    return Estimator(name, deviations, cost)


def _first_byte(messages: NDArray[Any]) -> Integers:
    return messages[:, 0].astype(np.int64)


def bits_message(epsilon: Fraction, symmetric: bool) -> Target:
    """One message of randomized bits."""
    name = "bits-symmetric" if symmetric else "bits-asymmetric"
    return message(name, BitResponse(CELLS, 2, epsilon, symmetric), PAIR, _first_byte)


def bits(epsilon: Fraction, symmetric: bool) -> list[Check]:
    """Randomized response on bits."""
    target = bits_message(epsilon, symmetric)
    return [target, unbiased(target.name, BitResponse(CELLS, 2, epsilon, symmetric), PAIR)]


def generalized_response(epsilon: Fraction) -> list[Check]:
    """Naming one cell."""
    mechanism = GeneralizedResponse(CELLS, 2, epsilon)
    name = "generalized-response"
    return [message(name, mechanism, PAIR, np.asarray), unbiased(name, mechanism, PAIR)]


def subset_selection(epsilon: Fraction) -> list[Check]:
    """A subset of the cells."""
    mechanism = SubsetSelection(CELLS, 2, epsilon)
    name = "subset-selection"
    return [message(name, mechanism, PAIR, _first_byte), unbiased(name, mechanism, PAIR)]


def linear_hashing(epsilon: Fraction) -> list[Check]:
    """A linear map and an element: over four elements there are few enough messages to count each."""
    mechanism = LinearHashing(CELLS, 1, epsilon, size=4)
    name = "linear-hashing"
    return [message(name, mechanism, SINGLE, np.asarray), unbiased(name, mechanism, SINGLE)]


def laplace(epsilon: Fraction) -> list[Check]:
    """Integer noise on every bit; the two bits that differ are compared."""
    mechanism = LocalLaplace(CELLS, 1, epsilon)
    name = "local-laplace"
    return [message(name, mechanism, SINGLE, lambda rows: rows[:, :2]), unbiased(name, mechanism, SINGLE)]


def hits_of(part: Collision, messages: NDArray[Any], inputs: Sequence[Sequence[int]]) -> Integers:
    """One number for what a Collision message says: the cells it hits, and which inputs collide in themselves.

    >>> from tacit.core.randomness import SeededRandomness
    >>> sent = Collision(6, 2, 1).encode(np.array([[0, 1], [0, 1]]), SeededRandomness(1))
    >>> hits_of(Collision(6, 2, 1), sent, PAIR).tolist()
    [32, 32]
    """
    seeds, sent = part.opened(messages)
    code = np.zeros(len(sent), dtype=np.int64)
    for cells in inputs:
        buckets = bucket_of(keystream_words(seeds, np.tile(np.array(cells), (len(seeds), 1))), part.length)
        ordered = np.sort(buckets, axis=1)
        for flag in (*(buckets == sent[:, None]).T, (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
            code = 2 * code + flag
    return code


def collision(epsilon: Fraction) -> list[Check]:
    """A hash seed and a bucket."""
    mechanism = Collision(CELLS, 2, epsilon)
    name = "collision"
    return [
        message(name, mechanism, PAIR, lambda rows: hits_of(mechanism, rows, PAIR), cost=2),
        unbiased(name, mechanism, PAIR, cost=2),
    ]


def separation(epsilon: Fraction) -> list[Check]:
    """Two Collision messages, one about the query and one about the class."""
    mechanism = Separation(SHAPE, epsilon)
    name = "separation"

    def read(rows: NDArray[Any]) -> Integers:
        first = hits_of(mechanism.buckets, rows[:, :3], SINGLE)
        return 16 * first + hits_of(mechanism.labels, rows[:, 3:], SINGLE)

    return [message(name, mechanism, DIAGONAL, read, cost=2), unbiased(name, mechanism, DIAGONAL, cost=2)]


def concatenation(epsilon: Fraction, corrected: bool) -> list[Check]:
    """Query and class in one Collision message; as published it claims no unbiased counts."""
    mechanism = Concatenation(SHAPE, epsilon, corrected)
    name = "concatenation-corrected" if corrected else "concatenation-published"
    # Classes stand behind the three queries in the domain that is hashed.
    parts = ((0, 3), (1, 4))
    target = message(name, mechanism, DIAGONAL, lambda rows: hits_of(mechanism.both, rows, parts), cost=2)
    return [target, unbiased(name, mechanism, DIAGONAL, cost=2)] if corrected else [target]


def answers(name: str, epsilon: Fraction, sheet: AnswerSheet) -> Target:
    """A client that fills in a sheet and claims to spend ε: all its answers may change with one record."""

    def draw(label: int, count: int, randomness: Randomness) -> Integers:
        ones: Integers = sheet.fill(np.full((count, sheet.answers), label), randomness).sum(axis=1)
        return ones

    return Target(name, epsilon, Fraction(0), (0, 1), draw)


def private_answers(epsilon: Fraction) -> Target:
    """PrivateKT: the sheet that holders answer on, three answers at ε/3 each."""
    return answers("privatekt-answers", epsilon, AnswerSheet(classes=2, answers=3, epsilon=epsilon))
