"""The Flower side of a coordinator: put a question to all nodes, and come back with their releases.

A round ends when every node has answered, or some time after enough of them have, or at its deadline. What arrives
malformed, from another run or round, twice or too late is ignored, counted and named; it cannot change the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.release import Release
from tacit.exchange.answers import read_answer
from tacit.exchange.flower_messages import ANSWER, content_of, payload_of
from tacit.exchange.journal import Journal, Kept
from tacit.exchange.letters import Letter, Reason, read_reply
from tacit.exchange.portable import ask_to_bytes
from tacit.exchange.rounds import Terms, Turn

__all__ = ["Answer", "FlowerExchange", "server_app"]

PAUSE = 0.2


class Post(Protocol):
    """What is used of a Flower grid."""

    def get_nodes(self) -> Any:  # noqa: ANN401
        """The nodes that are there."""
        ...

    def push_messages(self, messages: Any) -> Any:  # noqa: ANN401
        """Send."""
        ...

    def pull_messages(self, message_ids: Any) -> Any:  # noqa: ANN401
        """Receive what is there."""
        ...


@dataclass(frozen=True)
class Answer:
    """A node's release."""

    name: str
    release: Release[Any]


class FlowerExchange:
    """An exchange over a grid: call it with a question, get the releases in the order of the nodes' names.

    ``journal`` keeps every round, so that a coordinator that comes back asks nobody again; ``tell`` is shown a round
    while it goes on. ``answers`` gives the names along.
    """

    def __init__(
        self,
        grid: Post,
        run: str,
        terms: Terms,
        journal: Journal | None = None,
        tell: Callable[[Turn], None] | None = None,
    ) -> None:
        if not 1 <= terms.at_least <= terms.expected:
            raise InvalidInput(f"at_least must be between 1 and the {terms.expected} expected nodes")
        self._grid = grid
        self._run = run
        self._terms = terms
        self._journal = journal
        self._tell = tell or (lambda _: None)
        self._number = 0
        self.turns: list[Turn] = []

    def __call__(self, ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        """The releases of all nodes that answered, by name."""
        return [each.release for each in self.answers(ask)]

    def answers(self, ask: Any, invited: Sequence[int] | None = None) -> list[Answer]:  # noqa: ANN401
        """The answers of all nodes, or of those at the invited places among the names in order."""
        number, question = self._number, ask_to_bytes(ask)
        self._number += 1
        if self._journal is not None:
            self._journal.asked(number, question)
            kept = self._journal.kept(number)
            if kept is not None:
                turn = Turn(number, kept.names, list(kept.names))
                self.turns.append(turn)
                self._tell(turn)
                return [
                    Answer(name, read_answer(each, ask, self._terms.records))
                    for name, each in zip(kept.names, kept.releases, strict=True)
                ]
        turn = Turn(number)
        self.turns.append(turn)
        nodes = self._present()
        if invited is not None:
            chosen = {list(nodes)[place] for place in invited if place < len(nodes)}
            nodes = {name: node for name, node in nodes.items() if name in chosen}
        turn.asked = tuple(nodes)
        self._tell(turn)
        raw = self._asked(turn, nodes, question, ask)
        self._tell(turn)
        turn.require(min(self._terms.at_least, len(nodes)) if invited is not None else self._terms.at_least)
        turn.answered.sort()
        if self._journal is not None:
            self._journal.keep(number, Kept(tuple(turn.answered), tuple(raw[name][0] for name in turn.answered)))
        return [Answer(name, raw[name][1]) for name in turn.answered]

    def _present(self) -> dict[str, int]:
        """The nodes by name, once as many as expected are there, or enough of them after some patience."""
        end = time.monotonic() + self._terms.patience
        while len(nodes := _named(self._grid.get_nodes())) < self._terms.expected and time.monotonic() < end:
            time.sleep(PAUSE)
        if len(nodes) < self._terms.at_least:
            raise TooFewParticipants(
                f"{len(nodes)} nodes are there after {self._terms.patience:g} seconds, and at least "
                f"{self._terms.at_least} are needed; nobody was asked and nobody paid"
            )
        return nodes

    def _asked(
        self,
        turn: Turn,
        nodes: dict[str, int],
        question: bytes,
        ask: Any,  # noqa: ANN401
    ) -> dict[str, tuple[bytes, Release[Any]]]:
        """What each node answered, as bytes and read; everything else is in the turn."""
        letter = Letter(self._run, turn.number, len(nodes), question).to_bytes()
        names = {node: name for name, node in nodes.items()}
        found: dict[str, tuple[bytes, Release[Any]]] = {}

        def read(node: int, payload: bytes | None) -> None:
            name = names[node]
            if payload is None:
                turn.dropped[name] = "failed or was lost"
                return
            try:
                reply = read_reply(payload)
                if isinstance(reply.answer, Reason):
                    turn.dropped[name] = f"refused: {reply.answer.in_words}"
                elif (reply.run, reply.round) != (self._run, turn.number):
                    turn.dropped[name] = "sent an answer of another run or round"
                else:
                    found[name] = reply.answer, read_answer(reply.answer, ask, self._terms.records)
                    turn.answered.append(name)
            except InvalidInput as error:
                turn.dropped[name] = f"sent an answer that is malformed ({error})"

        end = time.monotonic() + self._terms.deadline

        def heard(node: int, payload: bytes | None) -> float:
            nonlocal end
            read(node, payload)
            self._tell(turn)
            if len(turn.answered) >= self._terms.at_least:
                end = min(end, time.monotonic() + self._terms.grace)
            return end

        self._sent(letter, names, turn, end, heard)
        for name in nodes:
            if name not in found:
                turn.dropped.setdefault(name, "did not answer in time")
        return found

    def _sent(
        self,
        letter: bytes,
        nodes: Iterable[int],
        turn: Turn,
        end: float,
        heard: Callable[[int, bytes | None], float],
    ) -> None:
        """Send a letter to all nodes and pass on what each says, nothing for one that failed, until the end."""
        seconds = max(end - time.monotonic(), 1.0)
        silent = set(nodes)
        messages = [
            Message(content_of(letter), node, ANSWER, ttl=seconds, group_id=str(turn.number + 1))
            for node in sorted(silent)
        ]
        waiting = set(self._grid.push_messages(messages))
        while True:
            for reply in self._grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                node = reply.metadata.src_node_id
                if node not in silent:
                    turn.ignored["twice, or from nobody who was asked"] += 1
                    continue
                silent.discard(node)
                end = heard(node, _payload(reply))
            if not waiting or time.monotonic() >= end:
                return
            time.sleep(PAUSE)


def server_app(conduct: Callable[[Grid, Mapping[str, Any]], None]) -> ServerApp:
    """A server app whose whole work is a function of the grid and the run's settings."""
    made = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        conduct(grid, context.run_config)

    made.main()(main)
    return made


def _named(nodes: Iterable[Any]) -> dict[str, int]:
    """Nodes by the names under which they were registered, in their order; by number where they have none."""
    found = {str(getattr(node, "name", "") or f"node {node.node_id:020d}"): int(node.node_id) for node in nodes}
    return dict(sorted(found.items()))


def _payload(reply: Message) -> bytes | None:
    try:
        return payload_of(reply)
    except InvalidInput:
        return None
