"""The whole path from records to a release, audited end to end: encode, vote, pay, randomize, keep, let go.

Here nothing is trusted: not the mechanism, nor that the votes move as little as the holder says, nor that a retried
request gets the release that was paid for.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tacit.audit.checks import Target
from tacit.core.guarantee import Adjacency
from tacit.core.protocols import Integers, Ledger
from tacit.core.randomness import Randomness
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

__all__ = ["RETRIES", "gate", "gate_retried", "open_account", "whole_path"]

ACCOUNT = "audited"
# More than any audit can spend: it is each release that is audited, not their sum.
BOTTOMLESS = 10**12
QUERIES = np.array([[0.0, 0.0], [10.0, 10.0]], dtype=np.float32)
# How often a request is made: the more, the sooner a fresh draw for an old payment shows.
RETRIES = 8
# Two records near the first query, of which the second may have either label.
SAMPLES = np.array([[1.0, 0.0], [0.0, 1.0]])


def open_account(adjacency: Adjacency = Adjacency.REPLACE_ONE) -> Ledger:
    """A ledger with one account that never runs dry."""
    return MemoryLedger({ACCOUNT: Ceiling(BOTTOMLESS, adjacency=adjacency)})


def whole_path(
    name: str, mechanism: PermuteAndFlip, ledger: Callable[[], Ledger] = open_account, times: int = 1
) -> Target:
    """One record of a holder changes its label; every request is made so many ``times``.

    What is compared is how often the query near the record got label 1.
    """

    def draw(label: int, count: int, randomness: Randomness) -> Integers:
        records = Private(Records(SAMPLES, np.array([0, label])))
        holder = VoteHolder([records], Gate(ledger(), ACCOUNT, randomness))
        released = np.zeros(count, dtype=np.int64)
        for number, _ in np.ndindex(count, times):
            ask = VoteAsk(QUERIES, Identity(2), 1, ("0", "1"), "", mechanism, "audit", request=f"request {number}")
            released[number] += holder.answer(ask).value[0]
        return released

    return Target(name, mechanism.spend.epsilon, Fraction(0), (0, 1), draw, cost=100 + 100 * times)


def gate(epsilon: Fraction) -> Target:
    """Labels by permute-and-flip, each request once."""
    return whole_path("gate", PermuteAndFlip.for_epsilon(epsilon, row_range=2))


def gate_retried(epsilon: Fraction) -> Target:
    """Every request is made again and again, as if answers were lost: all of them together still cost ε."""
    return whole_path("gate-retried", PermuteAndFlip.for_epsilon(epsilon, row_range=2), times=RETRIES)
