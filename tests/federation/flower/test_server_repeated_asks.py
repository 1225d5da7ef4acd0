"""Several questions in one run, each of which follows from the answers before it, through every exchange.

A coordinator that is killed at any moment comes back, asks the same and hears the same, and nobody pays twice.
"""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.federation.collector.client import collect
from tacit.federation.coordinator import Journal, NodeHeads, RoundPolicy
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import FlowerExchange
from tacit.federation.flower.summed import Collector, FlowerCollected, FlowerMasked
from tacit.federation.keys import public_key
from tests.federation.federation import federated, masking_nodes, nodes
from tests.federation.flower.test_summed_collected import COUNT as HANDING
from tests.federation.flower.test_summed_collected import SECRET, open_hall
from tests.federation.flower.test_summed_collected import SETTINGS as COLLECTED
from tests.sampled import sampled

ROUNDS, COUNT = 3, 4
TERMS = RoundPolicy(expected=COUNT, at_least=3, deadline=5, grace=0.2, patience=0.2, records=1000)
SETTINGS = {"classes": range(10), "nodes": COUNT, "records": 1000, "queries": 12}


class Dying(InProcessGrid):
    """A grid whose coordinator is killed at its ``die``-th sending: just before it, or when the nodes have answered."""

    def __init__(self, there, die=None, answered=False):
        app = client_app(lambda context: there[context.node_config["partition-id"]])
        super().__init__(app, contexts(len(there), [node.name for node in there]))
        self.die, self.answered, self.pushes = die, answered, 0

    def push_messages(self, messages):
        dies = self.pushes == self.die
        self.pushes += 1
        if dies and not self.answered:
            raise KeyboardInterrupt
        pushed = super().push_messages(messages)
        if dies:
            raise KeyboardInterrupt
        return pushed


def first_question(settings, **more):
    """The question that a run of one round asks."""
    asked = []

    def listen(question):
        asked.append(question)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        federated(listen, digits().public_samples, "1", request="r", **(settings | more))
    return asked[0]


def drive(exchange, ask):
    """Ask several times; what each question is follows from all that was heard before."""
    heard = hashlib.sha256()
    for number in range(ROUNDS):
        moved = np.roll(ask.queries, int.from_bytes(heard.digest()[:2], "big") % len(ask.queries), axis=0)
        question = dataclasses.replace(ask, queries=moved, request=f"r round {number}")
        for release in exchange(question):
            value = getattr(release.value, "messages", release.value)
            heard.update(np.ascontiguousarray(value).tobytes())
    assert [turn.number for turn in exchange.rounds] == list(range(ROUNDS))
    return heard.hexdigest()


def payments(there):
    return [node.ledger.balance(node.account).payments for node in there]


class Plain:
    """Every node answers for itself."""

    pushes = ROUNDS

    def __init__(self, folder):
        self.folder, self.nodes = folder, nodes(COUNT, seed=None, ceiling=ROUNDS)
        self.ask = first_question(SETTINGS)

    def exchange(self, grid):
        journal = Journal.open(self.folder / "journal", "a recipe")
        return FlowerExchange(grid, journal.run, TERMS, journal, heads=NodeHeads(self.folder / "heads"))


class Masked(Plain):
    """The nodes' tables are added up under masks, in five steps per question."""

    pushes = 5 * ROUNDS

    def __init__(self, folder):
        self.folder = folder
        self.nodes, self.peers = masking_nodes(COUNT, seed=None, ceiling=ROUNDS)
        self.ask = first_question(SETTINGS, trust="masked", surviving="3/4")

    def exchange(self, grid):
        journal = Journal.open(self.folder / "journal", "a recipe")
        return FlowerMasked(grid, journal.run, TERMS, self.peers, journal, heads=NodeHeads(self.folder / "heads"))


@pytest.mark.parametrize("kind", [Plain, Masked])
def test_a_run_asks_several_times(kind, tmp_path):
    run = kind(tmp_path)
    grid = Dying(run.nodes)
    heard = drive(run.exchange(grid), run.ask)
    assert grid.pushes == run.pushes
    assert payments(run.nodes) == [ROUNDS] * COUNT
    # A coordinator that comes back after the end hears the same, and sends nothing at all.
    again = Dying(run.nodes, die=0)
    assert drive(run.exchange(again), run.ask) == heard
    assert payments(run.nodes) == [ROUNDS] * COUNT


@pytest.mark.parametrize("answered", [False, True], ids=["before it sends", "when they have answered"])
@pytest.mark.parametrize(
    ("kind", "die"), sampled([(kind, die) for kind in (Plain, Masked) for die in range(kind.pushes)], 3),
    ids=lambda each: getattr(each, "__name__", each),
)  # fmt: skip
def test_a_coordinator_that_is_killed_in_any_round_goes_on_and_nobody_pays_twice(kind, die, answered, tmp_path):
    run = kind(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        drive(run.exchange(Dying(run.nodes, die, answered)), run.ask)
    grid = Dying(run.nodes)
    heard = drive(run.exchange(grid), run.ask)
    # What was over is not asked again.
    assert grid.pushes == run.pushes - die
    assert payments(run.nodes) == [ROUNDS] * COUNT
    assert drive(run.exchange(Dying(run.nodes, die=0)), run.ask) == heard


@pytest.mark.parametrize("kind", [Plain, Masked])
def test_a_round_that_was_begun_with_another_question_is_not_mixed_up(kind, tmp_path):
    run = kind(tmp_path)
    drive(run.exchange(Dying(run.nodes)), run.ask)
    other = dataclasses.replace(run.ask, queries=run.ask.queries + 1)
    with pytest.raises(InvalidInput, match="round 1 was started with another question"):
        drive(run.exchange(Dying(run.nodes)), other)
    assert payments(run.nodes) == [ROUNDS] * COUNT


class Collecting:
    """A coordinator whose answers are collected by a service, and who is killed at its ``die``-th collecting."""

    def __init__(self, hall, trust):
        self.hall, self.trust = hall, trust
        more = {"delta": "1e-5", "mechanism": "one message"} if trust == "shuffle" else {}
        self.ask = first_question(COLLECTED, trust=trust, **more)

    def exchange(self, grid, die=None, done=False):
        collected = 0

        def dying(*arguments):
            nonlocal collected
            dies = collected == die
            collected += 1
            if dies and not done:
                raise KeyboardInterrupt
            found = collect(*arguments)
            if dies:
                raise KeyboardInterrupt
            return found

        key = public_key(SECRET) if self.trust == "central" else None
        collector = Collector(self.hall.addresses[self.trust], self.hall.coordinator, key, collect=dying)
        folder = Path(self.hall.folder)
        journal = Journal.open(folder / f"{self.trust} journal", "a recipe")
        terms = RoundPolicy(expected=HANDING, at_least=4, deadline=5, grace=0.5, patience=0.5, records=250)
        return FlowerCollected(grid, journal.run, terms, collector, journal, heads=NodeHeads(folder / "heads"))


# Sealing messages takes a while, so a shuffled run is killed in its second round only.
DEATHS = [
    (trust, where, die, after)
    for trust, rounds in (("central", range(ROUNDS)), ("shuffle", (1,)))
    for where in ("send", "collect")
    for die in rounds
    for after in (False, True)
]


@pytest.mark.parametrize(("trust", "where", "die", "after"), sampled(DEATHS, 3))
def test_a_coordinator_that_is_killed_while_others_collect_goes_on(trust, where, die, after, tmp_path):
    with open_hall(tmp_path, ceiling=ROUNDS) as hall:
        run = Collecting(hall, trust)
        grid = Dying(hall.nodes, die, after) if where == "send" else Dying(hall.nodes)
        first = run.exchange(grid) if where == "send" else run.exchange(grid, die, after)
        with pytest.raises(KeyboardInterrupt):
            drive(first, run.ask)
        grid = Dying(hall.nodes)
        heard = drive(run.exchange(grid), run.ask)
        # Nodes that have handed in are not asked again, also where nothing was collected yet.
        assert grid.pushes == ROUNDS - die - (where == "collect")
        assert payments(hall.nodes) == [ROUNDS] * HANDING
        assert drive(run.exchange(Dying(hall.nodes, die=0)), run.ask) == heard
        assert payments(hall.nodes) == [ROUNDS] * HANDING
