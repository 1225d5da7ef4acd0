"""The Flower side of a coordinator: send a question to all nodes, and return their releases.

A round of requests ends when every node has answered, or some time after enough of them have, or at its deadline. An
answer that is malformed, of another run, round or step, repeated or late is ignored and counted, and its node is named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from tacit.core import InvalidInput, Release, StaleLedger, TooFewParticipants
from tacit.federation.coordinator import Journal, NodeHeads, RoundAnswers, RoundPolicy, RoundStatus, implausible
from tacit.federation.messages import RefusalReason, Request, digest_request, read_response
from tacit.wire import ask_to_bytes, read_release

__all__ = ["MESSAGE_TYPE", "FlowerExchange", "FlowerGrid", "FlowerTransport", "content_of", "payload_of", "server_app"]

MESSAGE_TYPE = "query.answer"
# A Flower message has exactly one record with one field of bytes.
_RECORD, FIELD = "tacit", "letter"
_PAUSE = 0.2


class FlowerGrid(Protocol):
    """The methods of a Flower grid that are used here."""

    def get_nodes(self) -> Any:  # noqa: ANN401
        """The connected nodes."""
        ...

    def push_messages(self, messages: Any) -> Any:  # noqa: ANN401
        """Send messages; returns their ids."""
        ...

    def pull_messages(self, message_ids: Any) -> Any:  # noqa: ANN401
        """The replies that have arrived."""
        ...


class FlowerTransport:
    """Sends requests to named nodes, by a run's policy; ``tell`` is called with the status of a round as it changes."""

    def __init__(
        self, grid: FlowerGrid, policy: RoundPolicy, tell: Callable[[RoundStatus], None] | None = None
    ) -> None:
        if not 1 <= policy.at_least <= policy.expected:
            raise InvalidInput(f"at_least must be between 1 and the {policy.expected} expected nodes")
        self._grid = grid
        self._policy = policy
        self._begun = False
        self.tell = tell or (lambda _: None)

    def present(self) -> dict[str, int]:
        """The connected nodes by name: once all expected ones are connected, or enough of them after some time."""
        policy, now = self._policy, time.monotonic()
        # A lost node may never come back, and must not delay every round.
        all_until = now + (min(policy.grace, policy.patience) if self._begun else policy.patience)
        enough_until = now + policy.patience
        while len(nodes := _named(self._grid.get_nodes())) < policy.expected:
            if time.monotonic() >= (all_until if len(nodes) >= policy.at_least else enough_until):
                break
            time.sleep(_PAUSE)
        self._begun = True
        if len(nodes) < policy.at_least:
            raise TooFewParticipants(
                f"{len(nodes)} nodes are connected after {self._policy.patience:g} seconds, and at least "
                f"{self._policy.at_least} are needed; nobody was asked and nobody paid"
            )
        return nodes

    def collect(
        self,
        status: RoundStatus,
        nodes: Mapping[str, int],
        requests: Mapping[str, Request],
        take: Callable[[str, bytes], None],
        at_least: int,
    ) -> None:
        """Send each node its request and pass its response to ``take``; a node whose response it rejects is dropped.

        Once ``at_least`` responses were accepted, the other nodes get the policy's grace.
        """
        taken: list[str] = []
        names = {nodes[name]: name for name in requests}

        def heard(name: str, payload: bytes | None) -> None:
            if payload is None:
                status.dropped[name] = "failed or was lost"
                return
            try:
                reply = read_response(payload)
                if reply.budget is not None:
                    status.budgets[name] = reply.budget
                if isinstance(reply.answer, RefusalReason):
                    status.refuse(name, reply.answer)
                elif reply.request_digest != digests[id(requests[name])]:
                    status.dropped[name] = "sent an answer of another run or round"
                else:
                    take(name, reply.answer)
                    taken.append(name)
            except InvalidInput as error:
                status.dropped[name] = f"sent an answer that is malformed ({error})"
            except StaleLedger as error:
                status.dropped[name] = f"sent an answer that is not accepted ({error})"

        status.step = next(iter(requests.values())).step if requests else status.step
        self.tell(status)
        end = time.monotonic() + self._policy.deadline
        silent = set(names)
        # A request that is the same for all nodes is encoded once: it may be large.
        written = {id(request): request for request in requests.values()}
        payloads = {key: request.to_bytes() for key, request in written.items()}
        digests = {key: digest_request(payload) for key, payload in payloads.items()}
        # A list, because a real grid iterates over its messages more than once; it rejects an empty list.
        messages = [self._message(status, node, payloads[id(requests[names[node]])]) for node in sorted(names)]
        sent = list(self._grid.push_messages(messages)) if messages else []
        # Flower answers in its own name where a node's reply is lost, so the node is found by the question's id.
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
                    status.ignore("repeated, or not from a node that was asked")
                    continue
                silent.discard(node)
                heard(names[node], _payload(reply))
                self.tell(status)
                if len(taken) >= at_least:
                    end = min(end, time.monotonic() + self._policy.grace)
            if not waiting or time.monotonic() >= end:
                break
            time.sleep(_PAUSE)
        for node in silent:
            status.dropped.setdefault(names[node], "did not answer in time")
        self.tell(status)

    def _message(self, status: RoundStatus, node: int, payload: bytes) -> Message:
        return Message(
            content_of(payload),
            node,
            MESSAGE_TYPE,
            ttl=max(self._policy.deadline, 1.0),
            group_id=str(status.number + 1),
        )


def _named(nodes: Iterable[Any]) -> dict[str, int]:
    """Nodes by the names under which they were registered, sorted; by number where they have no name."""
    found = {str(getattr(node, "name", "") or f"node {node.node_id:020d}"): int(node.node_id) for node in nodes}
    return dict(sorted(found.items()))


def _payload(reply: Message) -> bytes | None:
    try:
        return payload_of(reply)
    except InvalidInput:
        return None


def content_of(payload: bytes) -> RecordDict:
    """Bytes as a message's content.

    >>> content_of(b"request")["tacit"]["letter"]
    b'request'
    """
    return RecordDict({_RECORD: ConfigRecord({FIELD: payload})})


def payload_of(message: Message) -> bytes:
    """The bytes in a message, which must have exactly one record with one field."""
    if not message.has_content():
        raise InvalidInput("the message has no content")
    content = message.content
    if list(content) != [_RECORD] or list(content[_RECORD]) != [FIELD]:
        raise InvalidInput("the message is not a request")
    payload = content[_RECORD][FIELD]
    if not isinstance(payload, bytes):
        raise InvalidInput("the message's request is not bytes")
    return payload


class FlowerExchange:
    """An exchange over a Flower grid: called with a question, it returns the releases in the order of the nodes' names.

    ``journal`` stores every round, so that a restarted coordinator does not ask again; ``tell`` is called with the
    status of a round as it changes; ``heads`` remembers the nodes' ledgers. ``answers`` returns releases by name.
    """

    def __init__(
        self,
        grid: FlowerGrid,
        run: str,
        policy: RoundPolicy,
        journal: Journal | None = None,
        tell: Callable[[RoundStatus], None] | None = None,
        heads: NodeHeads | None = None,
    ) -> None:
        self._transport = FlowerTransport(grid, policy, tell)
        self._heads = heads or NodeHeads()
        self._run = run
        self._policy = policy
        self._journal = journal
        self.rounds: list[RoundStatus] = []
        self._places: tuple[str, ...] = ()

    def __call__(self, ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        """The releases of all nodes that answered, by name."""
        return list(self.answers(ask).values())

    def answers(self, ask: Any, invited: Sequence[int] | None = None) -> dict[str, Release[Any]]:  # noqa: ANN401
        """The answers by name: of all nodes, or of the nodes with the invited numbers."""
        status, question = RoundStatus(len(self.rounds)), ask_to_bytes(ask)
        self.rounds.append(status)
        if self._journal is not None:
            self._journal.asked(status.number, question)
            kept = self._journal.stored_answers(status.number)
            if kept is not None:
                status.asked, status.answered, status.refused = kept.names, list(kept.names), list(kept.refused)
                self._meet(())
                self._transport.tell(status)
                return {
                    name: read_release(each, ask, name, self._policy.records)
                    for name, each in zip(kept.names, kept.releases, strict=True)
                }
        nodes = self._transport.present()
        self._meet(tuple(nodes))
        if invited is not None:
            asked = [self._places[place] for place in invited if place < len(self._places)]
            nodes = {name: nodes[name] for name in asked if name in nodes}
        status.asked = tuple(nodes)
        self._transport.tell(status)
        found: dict[str, tuple[bytes, Release[Any]]] = {}

        self._heads.asked(ask.request)

        def take(name: str, content: bytes) -> None:
            release = read_release(content, ask, name, self._policy.records)
            self._heads.take(name, release.receipts)
            if why := implausible(ask, release.value, self._policy.records):
                raise InvalidInput(why)
            found[name] = content, release
            status.answered.append(name)

        policy = self._policy
        request = Request(
            self._run, status.number, len(nodes), question, records=policy.records, features=policy.features
        )
        enough = self._policy.at_least if invited is None else min(self._policy.at_least, len(invited))
        self._transport.collect(status, nodes, dict.fromkeys(nodes, request), take, enough)
        status.require(enough)
        status.answered.sort()
        if self._journal is not None:
            releases = tuple(found[name][0] for name in status.answered)
            self._journal.store_answers(
                status.number, RoundAnswers(tuple(status.answered), releases, tuple(status.refused))
            )
        return {name: found[name][1] for name in status.answered}

    def deliver(self, told: Any, request: str) -> tuple[str, ...]:  # noqa: ANN401
        """Send all connected nodes a message without an answer; the names of those that received it."""
        status = RoundStatus(len(self.rounds))
        self.rounds.append(status)
        nodes = self._transport.present()
        status.asked = tuple(nodes)

        def take(name: str, content: bytes) -> None:
            if content:
                raise InvalidInput("the node answered where no answer was asked for")
            status.answered.append(name)

        notice = Request(self._run, status.number, len(nodes), ask_to_bytes(told), "learn", request.encode())
        self._transport.collect(status, nodes, dict.fromkeys(nodes, notice), take, self._policy.at_least)
        status.answered.sort()
        self._transport.tell(status)
        return tuple(status.answered)

    @property
    def places(self) -> tuple[str, ...]:
        """The names of the holders by number: in the order in which they were first seen."""
        return self._places

    @property
    def refused(self) -> tuple[str, ...]:
        """The nodes that refused the last question, and would refuse it again."""
        return tuple(self.rounds[-1].refused) if self.rounds else ()

    def _meet(self, names: tuple[str, ...]) -> None:
        # A resumed run must mean the same node by the same number.
        known = tuple(dict.fromkeys([*self._places, *names]))
        self._places = known if self._journal is None else self._journal.in_order("places", known)


def server_app(conduct: Callable[[Grid, Mapping[str, Any]], None]) -> ServerApp:
    """A Flower server app that calls ``conduct`` with the grid and the run's settings."""
    made = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        conduct(grid, context.run_config)

    made.main()(main)
    return made
