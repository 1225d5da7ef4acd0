"""Requests to nodes and back over a Flower grid: who is there, what each says, and what became of everyone else.

A round of requests ends when every node has answered, or some time after enough of them have, or at its deadline. What
arrives malformed, from another run, round or step, twice or too late is ignored, counted and named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from flwr.app import ConfigRecord, Message, RecordDict

from tacit.core.errors import InvalidInput, StaleLedger, TooFewParticipants
from tacit.federation.coordinator import RoundPolicy, RoundStatus
from tacit.federation.messages import PASSING, RefusalReason, Request, digest_request, read_response

__all__ = ["MESSAGE_TYPE", "FlowerGrid", "FlowerTransport", "content_of", "payload_of"]

MESSAGE_TYPE = "query.answer"
# Bytes in a Flower message are one record with one field, and nothing else.
RECORD, FIELD = "tacit", "letter"
PAUSE = 0.2


class FlowerGrid(Protocol):
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


class FlowerTransport:
    """Sends requests to named nodes, by the policy of a run; ``tell`` is shown a round while it goes on."""

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
        """The nodes by name, once as many as expected are there, or enough of them after some patience."""
        policy, now = self._policy, time.monotonic()
        # Who was lost may not come back at all, and would hold up every round.
        all_until = now + (min(policy.grace, policy.patience) if self._begun else policy.patience)
        enough_until = now + policy.patience
        while len(nodes := _named(self._grid.get_nodes())) < policy.expected:
            if time.monotonic() >= (all_until if len(nodes) >= policy.at_least else enough_until):
                break
            time.sleep(PAUSE)
        self._begun = True
        if len(nodes) < policy.at_least:
            raise TooFewParticipants(
                f"{len(nodes)} nodes are there after {self._policy.patience:g} seconds, and at least "
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
        """Send each node its request and let ``take`` have what it says; whom that does not suit is dropped.

        ``at_least`` takes are enough: then the others have the grace that is left to them.
        """
        taken: list[str] = []
        names = {nodes[name]: name for name in requests}

        def heard(name: str, payload: bytes | None) -> None:
            if payload is None:
                status.dropped[name] = "failed or was lost"
                return
            try:
                reply = read_response(payload)
                if isinstance(reply.answer, RefusalReason):
                    status.dropped[name] = f"refused: {reply.answer.in_words}"
                    if reply.answer not in PASSING:
                        status.refused.append(name)
                elif reply.request_digest != digests[id(requests[name])]:
                    status.dropped[name] = "sent an answer of another run or round"
                else:
                    take(name, reply.answer)
                    taken.append(name)
            except InvalidInput as error:
                status.dropped[name] = f"sent an answer that is malformed ({error})"
            except StaleLedger as error:
                status.dropped[name] = f"sent an answer that is not taken ({error})"

        status.step = next(iter(requests.values())).step if requests else status.step
        self.tell(status)
        end = time.monotonic() + self._policy.deadline
        silent = set(names)
        # One request for all is written once: a question may be large, and nodes many.
        written = {id(request): request for request in requests.values()}
        payloads = {key: request.to_bytes() for key, request in written.items()}
        digests = {key: digest_request(payload) for key, payload in payloads.items()}
        # A list: a real grid goes through its messages more than once. It does not take none at all.
        messages = [self._message(status, node, payloads[id(requests[names[node]])]) for node in sorted(names)]
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
                    status.ignore("twice, or from nobody who was asked")
                    continue
                silent.discard(node)
                heard(names[node], _payload(reply))
                self.tell(status)
                if len(taken) >= at_least:
                    end = min(end, time.monotonic() + self._policy.grace)
            if not waiting or time.monotonic() >= end:
                break
            time.sleep(PAUSE)
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
    """Nodes by the names under which they were registered, in their order; by number where they have none."""
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
    return RecordDict({RECORD: ConfigRecord({FIELD: payload})})


def payload_of(message: Message) -> bytes:
    """The bytes in a message, if it has exactly the one record with the one field."""
    if not message.has_content():
        raise InvalidInput("the message has no content")
    content = message.content
    if list(content) != [RECORD] or list(content[RECORD]) != [FIELD]:
        raise InvalidInput("the message has other records than a request")
    payload = content[RECORD][FIELD]
    if not isinstance(payload, bytes):
        raise InvalidInput("the message's request is not bytes")
    return payload
