"""Questions over a Flower grid whose answers go another way: to a shuffler or a curator who lets out their sum.

The coordinator opens a batch there, asks the nodes, and collects when enough have handed in. From the nodes themselves
it hears only that they have paid and handed in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.files import write_file
from tacit.core.release import Release, gather, restored
from tacit.federation.collector.client import Address, Unreachable, Untrusted, collect, open_batch
from tacit.federation.collector.messages import Batch
from tacit.federation.collector.shuffler import plan_batch, read_mixed
from tacit.federation.collector.tables import plan_tables, read_curated
from tacit.federation.coordinator import NodeHeads, RoundPolicy, RoundStatus
from tacit.federation.flower.transport import FlowerGrid, FlowerTransport
from tacit.federation.journal import Journal, Kept
from tacit.federation.keys import KEY, SigningIdentity, public_key
from tacit.federation.messages import Request
from tacit.wire import Price, ask_to_bytes, read_receipt

__all__ = ["Collector", "FlowerCollected"]

PAUSE = 0.5
T = TypeVar("T")


@dataclass(frozen=True)
class Collector:
    """The service as the coordinator reaches it, and as whom; ``key`` is a curator's public one."""

    address: Address
    identity: SigningIdentity
    key: bytes | None = None
    open: Callable[[Address, SigningIdentity, Batch], None] = open_batch
    collect: Callable[[Address, SigningIdentity, Batch], bytes | None] = collect


class FlowerCollected:
    """An exchange whose answer is one: mixed messages without senders, or a curator's noisy release.

    What a killed coordinator needs to go on is in the ``journal``: the batch, and the key that messages are sealed for.
    """

    def __init__(
        self,
        grid: FlowerGrid,
        run: str,
        policy: RoundPolicy,
        collector: Collector,
        journal: Journal,
        tell: Callable[[RoundStatus], None] | None = None,
        heads: NodeHeads | None = None,
    ) -> None:
        self._transport = FlowerTransport(grid, policy, tell)
        self._heads = heads or NodeHeads()
        self._run = run
        self._policy = policy
        self._collector = collector
        self._journal = journal
        self.rounds: list[RoundStatus] = []
        self.said: list[str] = []

    def __call__(self, ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        """The one release of what was collected, with the receipts of all who paid for it."""
        status, question = RoundStatus(len(self.rounds)), ask_to_bytes(ask)
        self.rounds.append(status)
        self._journal.asked(status.number, question)
        secret = self._secret(status.number)
        kept = self._journal.kept(status.number)
        if kept is None:
            batch, kept = self._handed_in(status, ask, question, secret)
            # From here on the batch may be closed: who did not hand in must not be asked to pay for it any more.
            self._journal.keep(status.number, kept)
        else:
            batch = self._batch(status.number, ask, kept.names, secret)
            status.asked, status.answered, status.step = kept.names, list(kept.names), "submit"
            self._transport.tell(status)
        output = self._reached(
            lambda: self._collector.collect(self._collector.address, self._collector.identity, batch)
        )
        if output is None:
            self._journal.forget(status.number)
            raise TooFewParticipants(
                f"{status.in_words}, and that is fewer than the guarantee was planned for. Nothing was let out; start "
                "the run again when more nodes are there"
            )
        words = zip(kept.names, kept.releases, strict=True)
        return [self._read(output, batch, ask, secret, [_paid(each, name, ask) for name, each in words])]

    def _handed_in(self, status: RoundStatus, ask: Any, question: bytes, secret: bytes) -> tuple[Batch, Kept]:  # noqa: ANN401
        """Open the batch and ask until enough nodes have handed in; their word for it, by name."""
        nodes = self._transport.present()
        batch = self._batch(status.number, ask, tuple(nodes), secret)
        nodes = {name: node for name, node in nodes.items() if name in batch.nodes}
        status.asked = tuple(nodes)
        self._transport.tell(status)
        self._reached(lambda: self._collector.open(self._collector.address, self._collector.identity, batch))
        words: dict[str, bytes] = {}

        self._heads.asked(ask.request)

        def take(name: str, content: bytes) -> None:
            self._heads.take(name, _paid(content, name, ask).receipts)
            words[name] = content
            status.answered.append(name)

        request = Request(
            self._run,
            status.number,
            len(nodes),
            question,
            "submit",
            batch.to_bytes(),
            features=self._policy.features,
        )
        self._transport.collect(status, nodes, dict.fromkeys(nodes, request), take, self._policy.at_least)
        status.require(self._policy.at_least)
        status.answered.sort()
        return batch, Kept(tuple(status.answered), tuple(words[name] for name in status.answered))

    def _read(
        self,
        output: bytes,
        batch: Batch,
        ask: Any,  # noqa: ANN401
        secret: bytes,
        receipts: list[Release[Any]],
    ) -> Release[Any]:
        if ask.mechanism.statistic == "shuffle":
            mixed = read_mixed(output, batch, secret, ask.mechanism.inner)
            self.said.append(mixed.in_words)
            return gather(receipts).map(lambda _: mixed)
        release, nodes = read_curated(output, batch, ask)
        self.said.append(f"the curator added up the tables of {nodes} nodes")
        return gather([release, *receipts]).map(lambda values: values[0])

    def _batch(self, number: int, ask: Any, names: tuple[str, ...], secret: bytes) -> Batch:  # noqa: ANN401
        """The batch of a round: the same one for a coordinator that comes back, whoever is there then."""
        file = self._journal.folder / f"batch-{number}.bin"
        if not file.exists():
            if ask.mechanism.statistic == "shuffle":
                batch = plan_batch(
                    ask.mechanism.inner, self._run, number, ask.request, names, public_key(secret), self._policy.records
                )
            else:
                if self._collector.key is None:
                    raise InvalidInput("a curator's public key is needed: nodes seal their tables for it")
                batch = plan_tables(
                    ask, self._run, number, names, self._collector.key, self._policy.at_least, self._policy.records
                )
            write_file(file, batch.to_bytes())
        return Batch.read(file.read_bytes())

    def _secret(self, number: int) -> bytes:
        """The key that this round's messages are sealed for; fresh, and kept for this run only."""
        file = self._journal.folder / f"sealing-{number}.key"
        if not file.exists():
            write_file(file, os.urandom(KEY), private=True)
        return file.read_bytes()

    def _reached(self, call: Callable[[], T]) -> T:
        """Call the service again while it is down; a killed one comes back with all that was handed in."""
        end = time.monotonic() + self._policy.deadline
        while True:
            try:
                return call()
            except Untrusted:
                raise
            except Unreachable as error:
                if time.monotonic() >= end:
                    raise Unreachable(
                        f"{error}. It was called for {self._policy.deadline:g} seconds. What was handed in is kept "
                        "there; start the run again when it is back, and nobody pays twice"
                    ) from None
                time.sleep(PAUSE)


def _paid(content: bytes, name: str, ask: Any) -> Release[None]:  # noqa: ANN401
    """A node's word that it paid and handed in, for the batch in the request that it replies to."""
    receipt, left = read_receipt(content, name, Price.of(ask))
    if left:
        raise InvalidInput("the node said more than that it has handed in")
    return restored(None, [receipt.to_json()])
