"""Masked sums over a Flower grid: four steps, after which the coordinator knows the noisy sum and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput, TacitError, TooFewParticipants
from tacit.core.files import write_file
from tacit.core.protocols import Integers
from tacit.core.release import Release
from tacit.federation.coordinator import NodeHeads, RoundPolicy, RoundStatus, implausible
from tacit.federation.flower.transport import FlowerGrid, FlowerTransport
from tacit.federation.journal import Journal
from tacit.federation.messages import Request
from tacit.federation.secure_aggregation import server
from tacit.federation.secure_aggregation.session import Session
from tacit.methods.question import table_shape
from tacit.wire import ask_to_bytes

__all__ = ["FlowerMasked"]


class FlowerMasked:
    """An exchange whose answer is one: the sum of the nodes' tables with their noise.

    ``identities`` are the nodes' public keys by name; the nodes know them too. The sum is exact for every set of at
    least the plan's threshold of nodes, whoever drops out at whatever step; below it the run ends in words.
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
        """The one release of the sum, with every survivor's receipt; its value is the table."""
        plan = ask.mechanism
        if plan.statistic != "share":
            raise InvalidInput(f"a masked sum needs noise in shares, not {type(plan).__name__}")
        status, question = RoundStatus(len(self.rounds)), ask_to_bytes(ask)
        self.rounds.append(status)
        if self._journal is not None:
            self._journal.asked(status.number, question)
        self._heads.asked(ask.request)
        state = self._kept(status.number)
        if state is None:
            session = Session(
                self._run, status.number, ask.request, math.prod(table_shape(ask)), plan, self._identities
            )
            state = server.ServerState(session)
        # A sum that is complete needs nobody any more.
        there = self._transport.present() if state.step != "over" else {}
        nodes = {name: node for name, node in there.items() if name in state.session.nodes}
        status.asked = tuple(nodes)
        self._transport.tell(status)
        inbox = dict.fromkeys(nodes, state.session.to_bytes())
        if state.step in server.STEPS[1:]:
            inbox = _inbox(state)
        while state.step != "over":
            state = self._step(status, nodes, state, inbox, question)
            self._keep(status.number, state)
            state, inbox = server.close(state)
        status.answered = sorted(state.came["input"])
        self._transport.tell(status)
        return [server.result(state, ask.purpose, table_shape(ask)).map(partial(self._plausible, ask, status.answered))]

    def _plausible(self, ask: Any, nodes: Sequence[str], table: Integers) -> Integers:  # noqa: ANN401
        """The sum, unless these nodes' votes and noise cannot come to it."""
        why = implausible(ask, table, self._policy.records, len(nodes), self._policy.all_records)
        if why is not None:
            raise TacitError(
                f"the masked sum cannot be right: {why}. At least one of {', '.join(nodes)} sent something else than "
                "its votes; under masks nobody can see which. The sum is not used, and what was paid for it is spent. "
                "Find out at the nodes, and ask again without the one that it was"
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
        """Send a step to everyone who is still in it, and take what comes."""
        step = state.step
        # The question is needed where a node first hears of it, and where it looks at its records.
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
                "Nothing was revealed; start the run again when more nodes are there"
            )
        return state

    def _file(self, number: int) -> Path | None:
        return None if self._journal is None else self._journal.folder / f"masked-{number}.bin"

    def _keep(self, number: int, state: server.ServerState) -> None:
        """A step that is over is kept before the next one is begun."""
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
    """What was to be sent in the open step: it follows from the step before."""
    before = server.STEPS[server.STEPS.index(state.step) - 1]
    _, inbox = server.close(replace(state, step=before))
    return inbox
