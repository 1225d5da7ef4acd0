"""A node's side of a batch that a shuffler or a curator collects: sealed pieces go there, a receipt to who asked.

Where the collector is, and whose key is trusted, is in the node's own file. The coordinator names the batch only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.release import Release
from tacit.exchange.curating.tables import sealed_table
from tacit.exchange.identity import Identity
from tacit.exchange.letters import Letter
from tacit.exchange.portable_receipts import Price, receipt_to_bytes
from tacit.exchange.post.batch import Batch, Submission
from tacit.exchange.post.caller import Address, Unreachable, hand_in
from tacit.exchange.shuffling.boxes import sealed_messages
from tacit.mechanisms.shuffle.shuffled import Shuffled

__all__ = ["Collecting", "collected_step"]

# How long a collector that is down is called again, and how often: it was paid for, and may be back soon.
PATIENCE, PAUSE = 120.0, 2.0
HandIn = Callable[[Address, Identity, str, Batch, Submission], None]


@dataclass(frozen=True)
class Collecting:
    """What a node needs to hand in: who it is, the shuffler it trusts, and the curator with its key.

    ``peers`` are the identities of all nodes by name: a batch may be of these and of nobody else.
    """

    identity: Identity
    shuffler: Address | None = None
    curator: tuple[Address, bytes] | None = None
    peers: Mapping[str, bytes] = field(default_factory=dict)
    hand_in: HandIn = hand_in


def collected_step(
    letter: Letter,
    ask: Any,  # noqa: ANN401
    name: str,
    collecting: Collecting,
    clients: int,
    answer: Callable[[Any], Release[Any]],
) -> bytes:
    """Seal the answer for whom this node trusts, hand it in, and say that it was paid for and handed in.

    ``clients`` is how many records the node speaks for, which is public under replace-one adjacency.
    """
    batch = Batch.read(letter.content)
    if (batch.run, batch.round, batch.request) != (letter.run, letter.round, ask.request):
        raise InvalidInput("the batch is for another question")
    if collecting.peers and not set(batch.nodes) <= set(collecting.peers):
        raise InvalidInput("the batch names a node that this site does not know")
    if isinstance(ask.mechanism, Shuffled):
        if collecting.shuffler is None:
            raise InvalidInput("this node trusts no shuffler")
        address, participants = collecting.shuffler, clients
        mechanism: Any = sealed_messages(ask.mechanism.inner, batch, name)
    else:
        if collecting.curator is None:
            raise InvalidInput("this node trusts no curator")
        (address, key), participants = collecting.curator, 1
        mechanism = sealed_table(ask, batch, name, key)
    release = answer(replace(ask, mechanism=mechanism))
    submission = Submission(participants, release.value)
    _handed_in(lambda: collecting.hand_in(address, collecting.identity, name, batch, submission))
    return receipt_to_bytes(release.receipts[0], Price.of(ask))


def _handed_in(call: Callable[[], None]) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except Unreachable:
            if time.monotonic() >= end:
                raise
            time.sleep(PAUSE)
