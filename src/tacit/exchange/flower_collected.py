"""Questions over a Flower grid whose answers go another way: to a shuffler or a curator who lets out their sum.

The coordinator opens a batch there, asks the nodes, and collects when enough have handed in. From the nodes themselves
it hears only that they have paid and handed in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.release import Release, gather, restored
from tacit.exchange.ciphers import KEY, public_key
from tacit.exchange.curating.tables import plan_tables, read_curated
from tacit.exchange.flower_post import FlowerPost, Grid
from tacit.exchange.identity import Identity
from tacit.exchange.journal import Journal, Kept
from tacit.exchange.letters import Letter
from tacit.exchange.portable import ask_to_bytes
from tacit.exchange.portable_receipts import Price, read_receipt
from tacit.exchange.post.batch import Batch
from tacit.exchange.post.caller import Address, Unreachable, collect, open_batch
from tacit.exchange.rounds import Terms, Turn
from tacit.exchange.shuffling.boxes import plan_batch, read_mixed
from tacit.mechanisms.shuffle.shuffled import Shuffled

__all__ = ["Collector", "FlowerCollected"]

PAUSE = 0.5
T = TypeVar("T")


@dataclass(frozen=True)
class Collector:
    """The service as the coordinator reaches it, and as whom; ``key`` is a curator's public one."""

    address: Address
    identity: Identity
    key: bytes | None = None
    open: Callable[[Address, Identity, Batch], None] = open_batch
    collect: Callable[[Address, Identity, Batch], bytes | None] = collect


class FlowerCollected:
    """An exchange whose answer is one: mixed messages without senders, or a curator's noisy release.

    What a killed coordinator needs to go on is in the ``journal``: the batch, and the key that messages are sealed for.
    """

    def __init__(
        self,
        grid: Grid,
        run: str,
        terms: Terms,
        collector: Collector,
        journal: Journal,
        tell: Callable[[Turn], None] | None = None,
    ) -> None:
        self._post = FlowerPost(grid, terms, tell)
        self._run = run
        self._terms = terms
        self._collector = collector
        self._journal = journal
        self.turns: list[Turn] = []
        self.said: list[str] = []

    def __call__(self, ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        """The one release of what was collected, with the receipts of all who paid for it."""
        turn, question = Turn(len(self.turns)), ask_to_bytes(ask)
        self.turns.append(turn)
        self._journal.asked(turn.number, question)
        secret = self._secret(turn.number)
        kept = self._journal.kept(turn.number)
        if kept is None:
            batch, kept = self._handed_in(turn, ask, question, secret)
            # From here on the batch may be closed: who did not hand in must not be asked to pay for it any more.
            self._journal.keep(turn.number, kept)
        else:
            batch = self._batch(turn.number, ask, kept.names, secret)
            turn.asked, turn.answered, turn.step = kept.names, list(kept.names), "submit"
            self._post.tell(turn)
        output = self._reached(
            lambda: self._collector.collect(self._collector.address, self._collector.identity, batch)
        )
        if output is None:
            self._journal.forget(turn.number)
            raise TooFewParticipants(
                f"{turn.in_words}, and that is fewer than the guarantee was planned for. Nothing was let out; start "
                "the run again when more nodes are there"
            )
        words = zip(kept.names, kept.releases, strict=True)
        return [self._read(output, batch, ask, secret, [_paid(each, name, ask) for name, each in words])]

    def _handed_in(self, turn: Turn, ask: Any, question: bytes, secret: bytes) -> tuple[Batch, Kept]:  # noqa: ANN401
        """Open the batch and ask until enough nodes have handed in; their word for it, by name."""
        nodes = self._post.present()
        batch = self._batch(turn.number, ask, tuple(nodes), secret)
        nodes = {name: node for name, node in nodes.items() if name in batch.nodes}
        turn.asked = tuple(nodes)
        self._post.tell(turn)
        self._reached(lambda: self._collector.open(self._collector.address, self._collector.identity, batch))
        words: dict[str, bytes] = {}

        def take(name: str, content: bytes) -> None:
            _paid(content, name, ask)
            words[name] = content
            turn.answered.append(name)

        letter = Letter(self._run, turn.number, len(nodes), question, "submit", batch.to_bytes())
        self._post.collect(turn, nodes, dict.fromkeys(nodes, letter), take, self._terms.at_least)
        turn.require(self._terms.at_least)
        turn.answered.sort()
        return batch, Kept(tuple(turn.answered), tuple(words[name] for name in turn.answered))

    def _read(
        self,
        output: bytes,
        batch: Batch,
        ask: Any,  # noqa: ANN401
        secret: bytes,
        receipts: list[Release[Any]],
    ) -> Release[Any]:
        if isinstance(ask.mechanism, Shuffled):
            mixed = read_mixed(output, batch, secret, ask.mechanism.inner)
            self.said.append(mixed.in_words)
            return gather(receipts).map(lambda _: mixed)
        release, nodes, unreadable = read_curated(output, batch, ask)
        self.said.append(f"the curator added up {nodes} tables; {unreadable} could not be read")
        return gather([release, *receipts]).map(lambda values: values[0])

    def _batch(self, number: int, ask: Any, names: tuple[str, ...], secret: bytes) -> Batch:  # noqa: ANN401
        """The batch of a round: the same one for a coordinator that comes back, whoever is there then."""
        file = self._journal.folder / f"batch-{number}.bin"
        if not file.exists():
            if isinstance(ask.mechanism, Shuffled):
                batch = plan_batch(
                    ask.mechanism.inner, self._run, number, ask.request, names, public_key(secret), self._terms.records
                )
            else:
                if self._collector.key is None:
                    raise InvalidInput("a curator's public key is needed: nodes seal their tables for it")
                batch = plan_tables(
                    ask, self._run, number, names, self._collector.key, self._terms.at_least, self._terms.records
                )
            draft = file.with_suffix(".draft")
            draft.write_bytes(batch.to_bytes())
            draft.replace(file)
        return Batch.read(file.read_bytes())

    def _secret(self, number: int) -> bytes:
        """The key that this round's messages are sealed for; fresh, and kept for this run only."""
        file: Path = self._journal.folder / f"sealing-{number}.key"
        if not file.exists():
            descriptor = os.open(file.with_suffix(".draft"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(os.urandom(KEY))
            file.with_suffix(".draft").replace(file)
        return file.read_bytes()

    def _reached(self, call: Callable[[], T]) -> T:
        """Call the service again while it is down; a killed one comes back with all that was handed in."""
        end = time.monotonic() + self._terms.deadline
        while True:
            try:
                return call()
            except Unreachable as error:
                if time.monotonic() >= end:
                    raise Unreachable(
                        f"{error}. It was called for {self._terms.deadline:g} seconds. What was handed in is kept "
                        "there; start the run again when it is back, and nobody pays twice"
                    ) from None
                time.sleep(PAUSE)


def _paid(content: bytes, name: str, ask: Any) -> Release[None]:  # noqa: ANN401
    """A node's word that it paid and handed in, for the batch in the letter that it replies to."""
    receipt, left = read_receipt(content, name, Price.of(ask))
    if left:
        raise InvalidInput("the node said more than that it has handed in")
    return restored(None, [receipt.to_json()])
