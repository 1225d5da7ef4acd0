"""Letters to nodes and back over a Flower grid: who is there, what each says, and what became of everyone else.

A round of letters ends when every node has answered, or some time after enough of them have, or at its deadline. What
arrives malformed, from another run, round or step, twice or too late is ignored, counted and named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from flwr.app import Message

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.exchange.flower_messages import ANSWER, content_of, payload_of
from tacit.exchange.letters import Letter, Reason, read_reply, ticket_of
from tacit.exchange.rounds import Terms, Turn

__all__ = ["FlowerPost", "Grid"]

PAUSE = 0.2


class Grid(Protocol):
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


class FlowerPost:
    """Sends letters to named nodes, by the terms of a run; ``tell`` is shown a round while it goes on."""

    def __init__(self, grid: Grid, terms: Terms, tell: Callable[[Turn], None] | None = None) -> None:
        if not 1 <= terms.at_least <= terms.expected:
            raise InvalidInput(f"at_least must be between 1 and the {terms.expected} expected nodes")
        self._grid = grid
        self._terms = terms
        self._begun = False
        self.tell = tell or (lambda _: None)

    def present(self) -> dict[str, int]:
        """The nodes by name, once as many as expected are there, or enough of them after some patience."""
        terms, now = self._terms, time.monotonic()
        # Who was lost may not come back at all, and would hold up every round.
        all_until = now + (min(terms.grace, terms.patience) if self._begun else terms.patience)
        enough_until = now + terms.patience
        while len(nodes := _named(self._grid.get_nodes())) < terms.expected:
            if time.monotonic() >= (all_until if len(nodes) >= terms.at_least else enough_until):
                break
            time.sleep(PAUSE)
        self._begun = True
        if len(nodes) < terms.at_least:
            raise TooFewParticipants(
                f"{len(nodes)} nodes are there after {self._terms.patience:g} seconds, and at least "
                f"{self._terms.at_least} are needed; nobody was asked and nobody paid"
            )
        return nodes

    def collect(
        self,
        turn: Turn,
        nodes: Mapping[str, int],
        letters: Mapping[str, Letter],
        take: Callable[[str, bytes], None],
        at_least: int,
    ) -> None:
        """Send each node its letter and let ``take`` have what it says; whom that does not suit is dropped.

        ``at_least`` takes are enough: then the others have the grace that is left to them.
        """
        taken: list[str] = []
        names = {nodes[name]: name for name in letters}

        def heard(name: str, payload: bytes | None) -> None:
            if payload is None:
                turn.dropped[name] = "failed or was lost"
                return
            try:
                reply = read_reply(payload)
                if isinstance(reply.answer, Reason):
                    turn.dropped[name] = f"refused: {reply.answer.in_words}"
                    if reply.answer is not Reason.FAILED:
                        turn.refused.append(name)
                elif reply.ticket != tickets[id(letters[name])]:
                    turn.dropped[name] = "sent an answer of another run or round"
                else:
                    take(name, reply.answer)
                    taken.append(name)
            except InvalidInput as error:
                turn.dropped[name] = f"sent an answer that is malformed ({error})"

        turn.step = next(iter(letters.values())).step if letters else turn.step
        self.tell(turn)
        end = time.monotonic() + self._terms.deadline
        silent = set(names)
        # One letter for all is written once: a question may be large, and nodes many.
        written = {id(letter): letter for letter in letters.values()}
        payloads = {key: letter.to_bytes() for key, letter in written.items()}
        tickets = {key: ticket_of(payload) for key, payload in payloads.items()}
        # A list: a real grid goes through its messages more than once. It does not take none at all.
        messages = [self._message(turn, node, payloads[id(letters[names[node]])]) for node in sorted(names)]
        sent = list(self._grid.push_messages(messages)) if messages else []
        # Flower answers in its own name where a reply cannot be had, so who is meant is told by the question.
        whose = dict(zip(sent, sorted(names), strict=False)) if len(sent) == len(names) else {}
        waiting = set(sent)
        while True:
            for reply in self._grid.pull_messages(waiting):
                question = reply.metadata.reply_to_message_id
                waiting.discard(question)
                node = reply.metadata.src_node_id
                if node not in names:
                    node = whose.get(question, node)
                if node not in silent:
                    turn.ignore("twice, or from nobody who was asked")
                    continue
                silent.discard(node)
                heard(names[node], _payload(reply))
                self.tell(turn)
                if len(taken) >= at_least:
                    end = min(end, time.monotonic() + self._terms.grace)
            if not waiting or time.monotonic() >= end:
                break
            time.sleep(PAUSE)
        for node in silent:
            turn.dropped.setdefault(names[node], "did not answer in time")
        self.tell(turn)

    def _message(self, turn: Turn, node: int, payload: bytes) -> Message:
        return Message(
            content_of(payload), node, ANSWER, ttl=max(self._terms.deadline, 1.0), group_id=str(turn.number + 1)
        )


def _named(nodes: Iterable[Any]) -> dict[str, int]:
    """Nodes by the names under which they were registered, in their order; by number where they have none."""
    found = {str(getattr(node, "name", "") or f"node {node.node_id:020d}"): int(node.node_id) for node in nodes}
    return dict(sorted(found.items()))


def _payload(reply: Message) -> bytes | None:
    try:
        return payload_of(reply)
    except InvalidInput:
        return None
