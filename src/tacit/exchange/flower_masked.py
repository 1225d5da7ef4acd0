"""Masked sums over a Flower grid: four steps, after which the coordinator knows the noisy sum and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.release import Release
from tacit.exchange.curating.tables import table_shape
from tacit.exchange.flower_post import FlowerPost, Grid
from tacit.exchange.journal import Journal
from tacit.exchange.letters import Letter
from tacit.exchange.masking import server
from tacit.exchange.masking.session import Session
from tacit.exchange.portable import ask_to_bytes
from tacit.exchange.rounds import Terms, Turn
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace

__all__ = ["FlowerMasked"]


class FlowerMasked:
    """An exchange whose answer is one: the sum of the nodes' tables with their noise.

    ``identities`` are the nodes' public keys by name; the nodes know them too. The sum is exact for every set of at
    least the plan's threshold of nodes, whoever drops out at whatever step; below it the run ends in words.
    """

    def __init__(
        self,
        grid: Grid,
        run: str,
        terms: Terms,
        identities: Mapping[str, bytes],
        journal: Journal | None = None,
        tell: Callable[[Turn], None] | None = None,
    ) -> None:
        self._post = FlowerPost(grid, terms, tell)
        self._run = run
        self._identities = dict(identities)
        self._journal = journal
        self.turns: list[Turn] = []

    def __call__(self, ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        """The one release of the sum, with every survivor's receipt; its value is the table."""
        plan = ask.mechanism
        if not isinstance(plan, DistributedLaplace):
            raise InvalidInput(f"a masked sum needs noise in shares, not {type(plan).__name__}")
        turn, question = Turn(len(self.turns)), ask_to_bytes(ask)
        self.turns.append(turn)
        if self._journal is not None:
            self._journal.asked(turn.number, question)
        state = self._kept(turn.number)
        if state is None:
            session = Session(self._run, turn.number, ask.request, math.prod(table_shape(ask)), plan, self._identities)
            state = server.ServerState(session)
        # A sum that is complete needs nobody any more.
        there = self._post.present() if state.step != "over" else {}
        nodes = {name: node for name, node in there.items() if name in state.session.nodes}
        turn.asked = tuple(nodes)
        self._post.tell(turn)
        inbox = dict.fromkeys(nodes, state.session.to_bytes())
        if state.step in server.STEPS[1:]:
            inbox = _inbox(state)
        while state.step != "over":
            state = self._step(turn, nodes, state, inbox, question)
            self._keep(turn.number, state)
            state, inbox = server.close(state)
        turn.answered = sorted(state.came["input"])
        self._post.tell(turn)
        return [server.result(state, ask.purpose, table_shape(ask))]

    def _step(
        self,
        turn: Turn,
        nodes: Mapping[str, int],
        state: server.ServerState,
        inbox: Mapping[str, bytes],
        question: bytes,
    ) -> server.ServerState:
        """Send a step to everyone who is still in it, and take what comes."""
        step = state.step
        # The question is needed where a node first hears of it, and where it looks at its records.
        asked = question if step in ("keys", "input") else b""
        letters = {
            name: Letter(self._run, turn.number, len(state.session.nodes), asked, step, inbox[name])
            for name in inbox
            if name in nodes
        }

        def take(name: str, content: bytes) -> None:
            nonlocal state
            state = server.accept(state, name, content)

        self._post.collect(turn, nodes, letters, take, state.session.plan.threshold)
        if len(state.came[step]) < state.session.plan.threshold:
            raise TooFewParticipants(
                f"{turn.in_words}. The step {step!r} of the masked sum needs {state.session.plan.threshold} nodes. "
                "Nothing was revealed; start the run again when more nodes are there"
            )
        return state

    def _file(self, number: int) -> Path | None:
        return None if self._journal is None else self._journal.folder / f"masked-{number}.bin"

    def _keep(self, number: int, state: server.ServerState) -> None:
        """A step that is over is kept before the next one is begun."""
        file = self._file(number)
        if file is not None:
            draft = file.with_suffix(".draft")
            draft.write_bytes(state.to_bytes())
            draft.replace(file)

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
