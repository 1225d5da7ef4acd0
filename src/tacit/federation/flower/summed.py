"""Exchanges in which the coordinator sees only a sum or a shuffled batch: by a collector, or by secure aggregation.

Collected: the answers go to a shuffler or a curator. The coordinator opens a batch there, asks the nodes, and collects
when enough have submitted. The nodes themselves send only a confirmation that they have paid and submitted.

Masked: four steps of secure aggregation, after which the coordinator knows the noisy sum only.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tacit.core import Integers, InvalidInput, Release, TacitError, TooFewParticipants, gather, restored
from tacit.core.files import write_file
from tacit.federation.collector.batches import plan_batch, plan_tables, read_curated, read_shuffled
from tacit.federation.collector.client import Address, Unreachable, Untrusted, collect, open_batch
from tacit.federation.collector.messages import Batch
from tacit.federation.coordinator import Journal, NodeHeads, RoundAnswers, RoundPolicy, RoundStatus, implausible
from tacit.federation.flower.server import FlowerGrid, FlowerTransport
from tacit.federation.keys import KEY_BYTES, SigningIdentity, public_key
from tacit.federation.messages import Request
from tacit.federation.secure_aggregation import server
from tacit.federation.secure_aggregation.session import STEPS, Session
from tacit.mechanisms.masked.neighborhoods import neighborhood_of
from tacit.methods.question import table_shape
from tacit.wire import Price, ask_to_bytes, read_receipt

__all__ = ["Collector", "FlowerCollected", "FlowerMasked"]

_PAUSE = 0.5
_T = TypeVar("_T")


@dataclass(frozen=True)
class Collector:
    """A shuffler or curator as the coordinator reaches it, and the coordinator's identity; ``key`` is the curator's."""

    address: Address
    identity: SigningIdentity
    key: bytes | None = None
    open: Callable[[Address, SigningIdentity, Batch], None] = open_batch
    collect: Callable[[Address, SigningIdentity, Batch], bytes | None] = collect


class FlowerCollected:
    """An exchange with one release per question: shuffled messages without senders, or a curator's noisy sum.

    The ``journal`` has all that a killed coordinator needs to resume: the batch, and the key that decrypts messages.
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
        """The one release of the collected batch, with the receipts of all nodes that paid for it."""
        status, question = RoundStatus(len(self.rounds)), ask_to_bytes(ask)
        self.rounds.append(status)
        self._journal.asked(status.number, question)
        secret = self._secret(status.number)
        kept = self._journal.stored_answers(status.number)
        if kept is None:
            batch, kept = self._handed_in(status, ask, question, secret)
            # From here on the batch may be closed: a node that has not submitted must no longer be asked to pay for it.
            self._journal.store_answers(status.number, kept)
        else:
            batch = self._batch(status.number, ask, kept.names, secret)
            status.asked, status.answered, status.step = kept.names, list(kept.names), "submit"
            self._transport.tell(status)
        output = self._reached(
            lambda: self._collector.collect(self._collector.address, self._collector.identity, batch)
        )
        if output is None:
            self._journal.delete_answers(status.number)
            raise TooFewParticipants(
                f"{status.in_words}, fewer than the guarantee was planned for. Nothing was released; start the run "
                "again when more nodes are connected"
            )
        words = zip(kept.names, kept.releases, strict=True)
        return [self._read(output, batch, ask, secret, [_paid(each, name, ask) for name, each in words])]

    def _handed_in(self, status: RoundStatus, ask: Any, question: bytes, secret: bytes) -> tuple[Batch, RoundAnswers]:  # noqa: ANN401
        """Open the batch and ask until enough nodes have submitted; returns the batch and their confirmations."""
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
        return batch, RoundAnswers(tuple(status.answered), tuple(words[name] for name in status.answered))

    def _read(
        self,
        output: bytes,
        batch: Batch,
        ask: Any,  # noqa: ANN401
        secret: bytes,
        receipts: list[Release[Any]],
    ) -> Release[Any]:
        if ask.mechanism.statistic == "shuffle":
            shuffled = read_shuffled(output, batch, secret, ask.mechanism.inner)
            self.said.append(shuffled.in_words)
            return gather(receipts).map(lambda _: shuffled)
        release, nodes = read_curated(output, batch, ask)
        self.said.append(f"the curator summed the tables of {nodes} nodes")
        return gather([release, *receipts]).map(lambda values: values[0])

    def _batch(self, number: int, ask: Any, names: tuple[str, ...], secret: bytes) -> Batch:  # noqa: ANN401
        """The batch of a round: after a restart the same one, whichever nodes are connected then."""
        file = self._journal.folder / f"batch-{number}.bin"
        if not file.exists():
            if ask.mechanism.statistic == "shuffle":
                batch = plan_batch(
                    ask.mechanism.inner, self._run, number, ask.request, names, public_key(secret), self._policy.records
                )
            else:
                if self._collector.key is None:
                    raise InvalidInput("a curator's public key is needed: nodes encrypt their tables for it")
                batch = plan_tables(
                    ask, self._run, number, names, self._collector.key, self._policy.at_least, self._policy.records
                )
            write_file(file, batch.to_bytes())
        return Batch.read(file.read_bytes())

    def _secret(self, number: int) -> bytes:
        """The secret key that decrypts this round's messages; a fresh one per round."""
        file = self._journal.folder / f"sealing-{number}.key"
        if not file.exists():
            write_file(file, os.urandom(KEY_BYTES), private=True)
        return file.read_bytes()

    def _reached(self, call: Callable[[], _T]) -> _T:
        """Repeat a call while the service is down; it keeps submissions over a restart."""
        end = time.monotonic() + self._policy.deadline
        while True:
            try:
                return call()
            except Untrusted:
                raise
            except Unreachable as error:
                if time.monotonic() >= end:
                    raise Unreachable(
                        f"{error}. It was tried for {self._policy.deadline:g} seconds. Submissions are stored there; "
                        "start the run again when it is back, and nobody pays twice"
                    ) from None
                time.sleep(_PAUSE)


def _paid(content: bytes, name: str, ask: Any) -> Release[None]:  # noqa: ANN401
    """A node's confirmation that it paid and submitted, for the batch in the request."""
    receipt, left = read_receipt(content, name, Price.of(ask))
    if left:
        raise InvalidInput("the node sent more than the confirmation of its submission")
    return restored(None, [receipt.to_json()])


class FlowerMasked:
    """An exchange with one release per question: the sum of the nodes' noisy tables, by secure aggregation.

    ``identities`` are the nodes' public keys by name; the nodes have them, too. Whichever nodes drop out at whatever
    step, the sum is that of the remaining ones while at least the plan's threshold remain; below it the run ends with
    an error.
    """

    def __init__(
        self,
        grid: FlowerGrid,
        run: str,
        policy: RoundPolicy,
        identities: Mapping[str, bytes],
        journal: Journal | None = None,
        tell: Callable[[RoundStatus], None] | None = None,
        heads: NodeHeads | None = None,
    ) -> None:
        self._transport = FlowerTransport(grid, policy, tell)
        self._policy = policy
        self._heads = heads or NodeHeads()
        self._run = run
        self._identities = dict(identities)
        self._journal = journal
        self.rounds: list[RoundStatus] = []

    def __call__(self, ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        """The one release of the sum, with the receipt of every node whose table is in it."""
        plan = ask.mechanism
        if plan.statistic != "share":
            raise InvalidInput(f"secure aggregation needs a distributed mechanism, not {type(plan).__name__}")
        status, question = RoundStatus(len(self.rounds)), ask_to_bytes(ask)
        self.rounds.append(status)
        if self._journal is not None:
            self._journal.asked(status.number, question)
        self._heads.asked(ask.request)
        state = self._kept(status.number)
        if state is None:
            graph = neighborhood_of(plan.holders, plan.threshold, plan.honest, plan.colluding)
            if graph is None:
                raise InvalidInput("secure aggregation needs a plan that names how many holders may collude")
            cells = math.prod(table_shape(ask))
            session = Session(self._run, status.number, ask.request, cells, plan, self._identities, graph)
            state = server.ServerState(session)
        # A complete sum needs no node.
        there = self._transport.present() if state.step != "over" else {}
        nodes = {name: node for name, node in there.items() if name in state.session.nodes}
        status.asked = tuple(nodes)
        self._transport.tell(status)
        inbox = dict.fromkeys(nodes, state.session.announced)
        if state.step in STEPS[1:]:
            inbox = _inbox(state)
        while state.step != "over":
            state = self._step(status, nodes, state, inbox, question)
            self._keep(status.number, state)
            state, inbox = server.close(state)
        status.answered = sorted(state.came["input"])
        self._transport.tell(status)
        return [server.result(state, ask.purpose, table_shape(ask)).map(partial(self._plausible, ask, status.answered))]

    def _plausible(self, ask: Any, nodes: Sequence[str], table: Integers) -> Integers:  # noqa: ANN401
        """The sum, if it lies in the range of these nodes' votes and noise; else an error."""
        why = implausible(ask, table, self._policy.records, len(nodes), self._policy.all_records)
        if why is not None:
            raise TacitError(
                f"the masked sum cannot be right: {why}. At least one of {', '.join(nodes)} sent something other than "
                "its votes; under masks nobody can see which. The sum is not used, and what was paid for it is spent. "
                "Ask the nodes' operators, and run again without the faulty node"
            )
        return table

    def _step(
        self,
        status: RoundStatus,
        nodes: Mapping[str, int],
        state: server.ServerState,
        inbox: Mapping[str, bytes],
        question: bytes,
    ) -> server.ServerState:
        """Send one step's messages to the remaining nodes, and collect their responses."""
        step = state.step
        # The question is sent in the first step, and in the step in which a node reads its records.
        asked = question if step in ("keys", "input") else b""
        requests = {
            name: Request(
                self._run,
                status.number,
                len(state.session.nodes),
                asked,
                step,
                inbox[name],
                features=self._policy.features,
            )
            for name in inbox
            if name in nodes
        }

        def take(name: str, content: bytes) -> None:
            nonlocal state
            after = server.accept_message(state, name, content)
            if step == "input":
                self._heads.take(name, server.receipts_of(state.session, name, content))
            state = after

        self._transport.collect(status, nodes, requests, take, state.session.plan.threshold)
        if len(state.came[step]) < state.session.plan.threshold:
            raise TooFewParticipants(
                f"{status.in_words}. The step {step!r} of the masked sum needs {state.session.plan.threshold} nodes. "
                "Nothing was revealed; start the run again when more nodes are connected"
            )
        return state

    def _file(self, number: int) -> Path | None:
        return None if self._journal is None else self._journal.folder / f"masked-{number}.bin"

    def _keep(self, number: int, state: server.ServerState) -> None:
        """Store a completed step before the next one begins."""
        file = self._file(number)
        if file is not None:
            write_file(file, state.to_bytes())

    def _kept(self, number: int) -> server.ServerState | None:
        file = self._file(number)
        if file is None or not file.exists():
            return None
        state, _ = server.close(server.ServerState.read(file.read_bytes()))
        return state


def _inbox(state: server.ServerState) -> dict[str, bytes]:
    """The messages of the open step, which are computed from the step before."""
    before = STEPS[STEPS.index(state.step) - 1]
    _, inbox = server.close(replace(state, step=before))
    return inbox
