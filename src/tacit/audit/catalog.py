"""Everything that can be audited by name: what mechanisms say of themselves, the gate, and whole protocols.

The gate is audited end to end, from records to a release: encode, vote, pay, randomize, store, let go. Nothing is
trusted there: not the mechanism, nor that the votes move as little as the holder says, nor that a retried
request gets the release that was paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec

import numpy as np

from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency
from tacit.core.protocols import Integers, Ledger
from tacit.core.randomness import Randomness
from tacit.ledger import open_ledger
from tacit.mechanisms import registry
from tacit.mechanisms.auditing import Check, Target
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.description import Checks
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

__all__ = ["MECHANISMS", "PROTOCOLS", "RETRIES", "gate", "gate_retried", "open_account", "runnable", "whole_path"]

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
    return open_ledger("memory:", {ACCOUNT: Ceiling(BOTTOMLESS, adjacency=adjacency)})


def whole_path(
    name: str, mechanism: PermuteAndFlip, ledger: Callable[[], Ledger] = open_account, times: int = 1
) -> Target:
    """One record of a holder changes its label; every request is made this many ``times``.

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


def runnable(name: str) -> bool:
    """Whether all that an audit needs is installed: protocols need keys and ciphers.

    >>> runnable("permute-and-flip")
    True
    """
    return name not in PROTOCOLS or find_spec("cryptography") is not None


def _protocol(name: str) -> Checks:
    def checks(epsilon: Fraction, delta: Fraction) -> Sequence[Check]:
        if not runnable(name):
            raise InvalidInput(
                f"{name} is the audit of a protocol with keys and ciphers: pip install 'tacit[federated]'"
            )
        from tacit.audit.transcripts import masked_transcript, shuffled_transcript

        if name.startswith("masked"):
            return [masked_transcript(epsilon, packets=name == "masked-packets")]
        return [shuffled_transcript(epsilon, delta, order=name == "shuffled-order")]

    return checks


# What a server sees in whole runs: sum and packets of masked ones, numbers and order of messages in shuffled ones.
PROTOCOLS = ("masked-sum", "masked-packets", "shuffled-counts", "shuffled-order")
MECHANISMS: Mapping[str, Checks] = {
    **registry.audits(),
    "gate": lambda epsilon, delta: [gate(epsilon)],
    "gate-retried": lambda epsilon, delta: [gate_retried(epsilon)],
    **{name: _protocol(name) for name in PROTOCOLS},
}
