"""The Flower side of a coordinator: put a question to all nodes, and come back with their releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid as FlowerGrid
from flwr.serverapp import ServerApp

from tacit.core.errors import InvalidInput
from tacit.core.release import Release
from tacit.exchange.flower_post import FlowerPost, Grid
from tacit.exchange.journal import Journal, Kept
from tacit.exchange.letters import Letter
from tacit.exchange.portable import ask_to_bytes, read_release
from tacit.exchange.rounds import Terms, Turn

__all__ = ["FlowerExchange", "server_app"]


class FlowerExchange:
    """An exchange over a grid: call it with a question, get the releases in the order of the nodes' names.

    ``journal`` keeps every round, so that a coordinator that comes back asks nobody again; ``tell`` is shown a round
    while it goes on. ``answers`` gives the names along.
    """

    def __init__(
        self,
        grid: Grid,
        run: str,
        terms: Terms,
        journal: Journal | None = None,
        tell: Callable[[Turn], None] | None = None,
    ) -> None:
        self._post = FlowerPost(grid, terms, tell)
        self._run = run
        self._terms = terms
        self._journal = journal
        self.turns: list[Turn] = []
        self._places: tuple[str, ...] = ()

    def __call__(self, ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        """The releases of all nodes that answered, by name."""
        return list(self.answers(ask).values())

    def answers(self, ask: Any, invited: Sequence[int] | None = None) -> dict[str, Release[Any]]:  # noqa: ANN401
        """The answers by name: of all nodes, or of those at the invited places among all names."""
        turn, question = Turn(len(self.turns)), ask_to_bytes(ask)
        self.turns.append(turn)
        if self._journal is not None:
            self._journal.asked(turn.number, question)
            kept = self._journal.kept(turn.number)
            if kept is not None:
                turn.asked, turn.answered, turn.refused = kept.names, list(kept.names), list(kept.refused)
                self._meet(())
                self._post.tell(turn)
                return {
                    name: read_release(each, ask, name, self._terms.records)
                    for name, each in zip(kept.names, kept.releases, strict=True)
                }
        nodes = self._post.present()
        self._meet(tuple(nodes))
        if invited is not None:
            asked = [self._places[place] for place in invited if place < len(self._places)]
            nodes = {name: nodes[name] for name in asked if name in nodes}
        turn.asked = tuple(nodes)
        self._post.tell(turn)
        found: dict[str, tuple[bytes, Release[Any]]] = {}

        def take(name: str, content: bytes) -> None:
            found[name] = content, read_release(content, ask, name, self._terms.records)
            turn.answered.append(name)

        letter = Letter(self._run, turn.number, len(nodes), question, records=self._terms.records)
        enough = self._terms.at_least if invited is None else min(self._terms.at_least, len(invited))
        self._post.collect(turn, nodes, dict.fromkeys(nodes, letter), take, enough)
        turn.require(enough)
        turn.answered.sort()
        if self._journal is not None:
            releases = tuple(found[name][0] for name in turn.answered)
            self._journal.keep(turn.number, Kept(tuple(turn.answered), releases, tuple(turn.refused)))
        return {name: found[name][1] for name in turn.answered}

    def deliver(self, told: Any, request: str) -> tuple[str, ...]:  # noqa: ANN401
        """Tell all nodes that are there something they do not answer; the names of those that took note."""
        turn = Turn(len(self.turns))
        self.turns.append(turn)
        nodes = self._post.present()
        turn.asked = tuple(nodes)

        def take(name: str, content: bytes) -> None:
            if content:
                raise InvalidInput("the node said something where nothing was asked")
            turn.answered.append(name)

        letter = Letter(self._run, turn.number, len(nodes), ask_to_bytes(told), "learn", request.encode())
        self._post.collect(turn, nodes, dict.fromkeys(nodes, letter), take, self._terms.at_least)
        turn.answered.sort()
        self._post.tell(turn)
        return tuple(turn.answered)

    @property
    def places(self) -> tuple[str, ...]:
        """The names by which a method knows its holders by place: in order, and who comes later comes last."""
        return self._places

    @property
    def refused(self) -> tuple[str, ...]:
        """Who refused the last question, and would refuse it again."""
        return tuple(self.turns[-1].refused) if self.turns else ()

    def _meet(self, names: tuple[str, ...]) -> None:
        # A run that goes on must mean the same node by the same place.
        known = tuple(dict.fromkeys([*self._places, *names]))
        self._places = known if self._journal is None else self._journal.in_order("places", known)


def server_app(conduct: Callable[[FlowerGrid, Mapping[str, Any]], None]) -> ServerApp:
    """A server app whose whole work is a function of the grid and the run's settings."""
    made = ServerApp()

    def main(grid: FlowerGrid, context: Context) -> None:
        conduct(grid, context.run_config)

    made.main()(main)
    return made
