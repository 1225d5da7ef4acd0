"""The Flower side of a coordinator: put a question to all nodes, and come back with their releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from tacit.core.errors import InvalidInput
from tacit.core.release import Release
from tacit.federation.coordinator import NodeHeads, RoundPolicy, RoundStatus, implausible
from tacit.federation.flower.transport import FlowerGrid, FlowerTransport
from tacit.federation.journal import Journal, Kept
from tacit.federation.messages import Request
from tacit.wire import ask_to_bytes, read_release

__all__ = ["FlowerExchange", "server_app"]


class FlowerExchange:
    """An exchange over a grid: call it with a question, get the releases in the order of the nodes' names.

    ``journal`` keeps every round, so that a coordinator that comes back asks nobody again; ``tell`` is shown a round
    while it goes on; ``heads`` remembers the nodes' ledgers. ``answers`` gives the names along.
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
        """The answers by name: of all nodes, or of those at the invited places among all names."""
        status, question = RoundStatus(len(self.rounds)), ask_to_bytes(ask)
        self.rounds.append(status)
        if self._journal is not None:
            self._journal.asked(status.number, question)
            kept = self._journal.kept(status.number)
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
            self._journal.keep(status.number, Kept(tuple(status.answered), releases, tuple(status.refused)))
        return {name: found[name][1] for name in status.answered}

    def deliver(self, told: Any, request: str) -> tuple[str, ...]:  # noqa: ANN401
        """Tell all nodes that are there something they do not answer; the names of those that took note."""
        status = RoundStatus(len(self.rounds))
        self.rounds.append(status)
        nodes = self._transport.present()
        status.asked = tuple(nodes)

        def take(name: str, content: bytes) -> None:
            if content:
                raise InvalidInput("the node said something where nothing was asked")
            status.answered.append(name)

        notice = Request(self._run, status.number, len(nodes), ask_to_bytes(told), "learn", request.encode())
        self._transport.collect(status, nodes, dict.fromkeys(nodes, notice), take, self._policy.at_least)
        status.answered.sort()
        self._transport.tell(status)
        return tuple(status.answered)

    @property
    def places(self) -> tuple[str, ...]:
        """The names by which a method knows its holders by place: in order, and who comes later comes last."""
        return self._places

    @property
    def refused(self) -> tuple[str, ...]:
        """Who refused the last question, and would refuse it again."""
        return tuple(self.rounds[-1].refused) if self.rounds else ()

    def _meet(self, names: tuple[str, ...]) -> None:
        # A run that goes on must mean the same node by the same place.
        known = tuple(dict.fromkeys([*self._places, *names]))
        self._places = known if self._journal is None else self._journal.in_order("places", known)


def server_app(conduct: Callable[[Grid, Mapping[str, Any]], None]) -> ServerApp:
    """A server app whose whole work is a function of the grid and the run's settings."""
    made = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        conduct(grid, context.run_config)

    made.main()(main)
    return made
