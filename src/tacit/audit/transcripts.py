"""Audits of whole protocol runs: everything that a server sees, message by message.

Secure aggregation is run as it is: keys, boxes, masked tables, shares of secrets, and the sum. One table has many pairs
of cells, in each of which one record votes for one of the two cells, so that one run gives as many samples as there are
pairs. One of the holders colludes with the server and adds no noise.

A shuffled batch is run as it is, too: encrypted boxes, the shuffler, and what the coordinator finds. It also has many
pairs of cells, each with its own noise messages.

Mutants of the parties do one thing wrong, which the audits must find: half a share of noise, no mask, no shuffling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core import ANYTHING, Ceiling, Integers, Mechanism, Randomness, Release, Sensitivity, Spend
from tacit.core.codec import encode
from tacit.federation.collector.batches import plan_batch, read_shuffled, sealed_messages, shuffled
from tacit.federation.collector.messages import Batch, Submission
from tacit.federation.collector.submission_store import SubmissionOutcome
from tacit.federation.keys import SigningIdentity, public_key
from tacit.federation.secure_aggregation import client, server
from tacit.federation.secure_aggregation.session import STEPS, Session, read_input
from tacit.ledger import open_ledger
from tacit.mechanisms.auditing import Target
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare
from tacit.mechanisms.masked.neighborhoods import Neighborhood
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise, plan_noise_messages
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial
from tacit.private.gate import Gate
from tacit.private.records import Private
from tacit.wire import Price, read_receipt

__all__ = ["HalfShare", "Silent", "masked_transcript", "shuffled_transcript", "unmasked", "unshuffled"]

_VICTIM, HONEST, COLLUDING = "ada", "bob", "eve"
REQUEST = "audit"
_BOTTOMLESS = 10**12
# One record's vote changes from one cell of a pair to the other.
_MOVES = Sensitivity(l1=2, l2_squared=2, linf=1, row_range=2)
_SECRET = b"s" * 32
# Pairs of cells in a batch, and participants: enough that the voters' own noise messages do not matter.
PAIRS = 50
_CLIENTS = 40 * PAIRS

Wrap = Callable[[MaskedShare], Mechanism[Any, Any]]


@dataclass(frozen=True)
class Silent:
    """A holder that follows the protocol but adds no noise, because it colludes with the server."""

    share: MaskedShare

    @property
    def spend(self) -> Spend:
        """As if it had."""
        return self.share.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """As if it had."""
        return self.share.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """The masked table without noise."""
        width = np.dtype(f"u{self.share.plan.bits // 8}")
        return (value.astype(np.uint64) + self.share.mask).astype(width)


def masked_transcript(epsilon: Fraction, packets: bool, wrap: Wrap = lambda share: share) -> Target:
    """What the server and the colluding holder see of one record: the sum, or the messages of the record's holder.

    ``wrap`` is how honest holders answer; a mutant does it wrongly.
    """
    plan = DistributedLaplace(2 / epsilon, l1=2, holders=3, threshold=3, honest=2, most=1, colluding=1)

    def draw(vote: int, count: int, randomness: Randomness) -> Integers:
        table = np.zeros((count, 2), dtype=np.int64)
        table[:, vote] = 1
        tables = {_VICTIM: table, HONEST: np.zeros_like(table), COLLUDING: np.zeros_like(table)}
        state = _run(plan, tables, wrap, randomness)
        if not packets:
            return server.result(state, REQUEST, table.shape).value
        price = Price(REQUEST, REQUEST, plan.spend)
        sent = read_receipt(read_input(state.came["input"][_VICTIM], state.session)[1], _VICTIM, price)[1]
        return plan.opened(np.frombuffer(sent, dtype=f"<u{plan.bits // 8}")).reshape(count, 2)

    return Target("masked-packets" if packets else "masked-sum", epsilon, Fraction(0), (0, 1), draw)


def _run(
    plan: DistributedLaplace, tables: dict[str, Integers], wrap: Wrap, randomness: Randomness
) -> server.ServerState:
    """Run the whole protocol; returns everything that the server has seen."""
    identities = {name: SigningIdentity.new() for name in tables}
    publics = {name: each.public for name, each in identities.items()}
    session = Session("audit", 0, REQUEST, tables[_VICTIM].size, plan, publics, Neighborhood(2, 2))
    ledger = open_ledger("memory:", {name: Ceiling(_BOTTOMLESS) for name in tables})

    def answer(name: str, share: MaskedShare) -> Release[Any]:
        mechanism = Silent(share) if name == COLLUDING else wrap(share)
        gate = Gate(ledger, name, randomness)
        return gate.release(
            Private(tables[name].ravel()),
            lambda: np.zeros_like(tables[name].ravel()),
            _MOVES,
            mechanism,
            "audit",
            REQUEST,
        )

    state = server.ServerState(session)
    holders = {}
    for name, identity in identities.items():
        holders[name], sent = client.announce(session, name, identity)
        state = server.accept_message(state, name, sent)
    for step in STEPS[1:]:
        state, inbox = server.close(state)
        for name, payload in inbox.items():
            match step:
                case "shares":
                    holders[name], sent = client.share_secrets(holders[name], payload)
                case "input":
                    holders[name], sent = client.masked_input(holders[name], payload, partial(answer, name))
                case "agree":
                    holders[name], sent = client.agree(holders[name], payload, identities[name])
                case _:
                    holders[name], sent = client.unmask(holders[name], payload)
            state = server.accept_message(state, name, sent)
    return server.close(state)[0]


def shuffled_transcript(
    epsilon: Fraction,
    delta: Fraction,
    order: bool,
    make: Callable[[Batch, list[Submission]], SubmissionOutcome] = shuffled,
) -> Target:
    """What the coordinator finds in a batch: how many messages of a kind there are, or which one comes first.

    In every pair of cells one participant votes for the first or the second, and others have no vote. A random order of
    all messages is a random order of each pair's, independent of the other pairs. ``make`` is the shuffler.
    """
    plan = plan_noise_messages(epsilon, delta, cells=2 * PAIRS, participants=_CLIENTS, prefer="1/2")

    def draw(vote: int, count: int, randomness: Randomness) -> Integers:
        batches = -(-count // PAIRS)
        seen = np.concatenate([_pairs_seen(plan, vote, order, make, randomness) for _ in range(batches)])
        return seen[:count]

    name = "shuffled-order" if order else "shuffled-counts"
    return Target(name, plan.spend.epsilon, plan.spend.delta, (0, 1), draw, cost=4000)


def _pairs_seen(
    plan: MultiMessageNoise,
    vote: int,
    order: bool,
    make: Callable[[Batch, list[Submission]], SubmissionOutcome],
    randomness: Randomness,
) -> Integers:
    """One batch as the coordinator sees it: a row for every pair of cells."""
    batch = plan_batch(plan, "audit", 0, REQUEST, (_VICTIM, HONEST), public_key(_SECRET), _CLIENTS, block=1)
    votes = {_VICTIM: 2 * np.arange(PAIRS)[:, None] + vote, HONEST: np.full((_CLIENTS - PAIRS, 1), -1)}
    handed_in = [Submission(len(rows), _boxes(plan, batch, name, rows, randomness)) for name, rows in votes.items()]
    messages = np.asarray(read_shuffled(make(batch, handed_in).content, batch, _SECRET, plan).messages)
    slots = 2 * messages[:, 0] + (messages[:, 1] < 0)
    if order:
        first = np.full((PAIRS, 1), -1, dtype=np.int64)
        # Written from the last to the first, so that the first one stays.
        first[slots[::-1] // 4, 0] = slots[::-1] % 4
        return first
    plus, minus, other_plus, other_minus = np.bincount(slots, minlength=4 * PAIRS).reshape(PAIRS, 4).T
    return np.stack([plus - minus, other_plus - other_minus, plus], axis=1)


def _boxes(
    plan: MultiMessageNoise, batch: Batch, node: str, votes: NDArray[Any], randomness: Randomness
) -> NDArray[np.uint8]:
    gate = Gate(open_ledger("memory:", {node: Ceiling(_BOTTOMLESS, "1/2")}), node, randomness)
    release = gate.release(
        Private(votes),
        lambda: np.zeros_like(votes),
        ANYTHING,
        sealed_messages(plan, batch, node, len(votes)),
        "audit",
        REQUEST,
    )
    boxes: NDArray[np.uint8] = release.value
    return boxes


@dataclass(frozen=True)
class HalfShare(Silent):
    """A holder adds half of its share of the noise."""

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """The masked table with too little noise."""
        law = cast(DistributedLaplace, self.share.plan).share_law
        jumps = NegativeBinomial(law.shape / 2, law.epsilon).scatter(1, 2 * value.size, randomness)
        both = np.zeros(2 * value.size, dtype=np.int64)
        np.add.at(both, jumps.slot, jumps.size)
        return super().sample(value + both[: value.size] - both[value.size :], randomness)


def unmasked(share: MaskedShare) -> MaskedShare:
    """A holder leaves its masks out."""
    return MaskedShare(share.plan, share.session, np.zeros_like(share.mask))


def unshuffled(batch: Batch, submissions: list[Submission]) -> SubmissionOutcome:
    """A shuffler forwards boxes in the order in which they came."""
    boxes = np.concatenate([each.pieces for each in submissions])
    content = {
        "batch": batch.digest,
        "pieces": boxes,
        "participants": sum(each.participants for each in submissions),
        "nodes": len(submissions),
        "duplicates": 0,
    }
    return SubmissionOutcome(encode(content), len(boxes))
