"""Shuffled and central trust over Flower: nodes hand in to a service, the coordinator gets what it lets out."""

import dataclasses
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.errors import TacitWarning, TooFewParticipants
from tacit.datasets.published import digits
from tacit.federation.collector.batches import open_shuffler
from tacit.federation.collector.client import Address, Unreachable, read_status, submit
from tacit.federation.collector.curator import Curator, open_curator
from tacit.federation.collector.service import make_service
from tacit.federation.coordinator import Journal, NodeHeads, RoundPolicy
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import payload_of
from tacit.federation.flower.summed import Collector, FlowerCollected
from tacit.federation.keys import SigningIdentity, public_key
from tacit.federation.messages import read_response
from tacit.federation.node.steps import Collecting
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tests.federation.federation import federated, nodes

COUNT = 5
TERMS = RoundPolicy(expected=COUNT, at_least=4, deadline=5, grace=0.5, patience=0.5, records=250)
RULES = Rules(
    ("rknn", "class_sums"),
    ("Shuffled", "PermuteAndFlip", "DiscreteLaplaceNoise"),
    ("reverse k-NN labels", "class sums"),
    2,
)
SETTINGS = {"classes": range(10), "nodes": COUNT, "records": 1000, "queries": 12, "surviving": "3/4"}
SECRET = b"s" * 32


@pytest.fixture
def hall(tmp_path):
    with open_hall(tmp_path) as made:
        yield made


@contextmanager
def open_hall(tmp_path, ceiling=1):
    """A shuffler and a curator on loopback, and nodes that trust them; each account may spend as much."""
    made = nodes(COUNT, seed=None, rules=RULES)
    identities = {node.name: SigningIdentity.new() for node in made}
    public = {name: each.public for name, each in identities.items()}
    coordinator = SigningIdentity.new()
    ledger = MemoryLedger({"curator": Ceiling(ceiling)})
    offices = {
        "shuffle": open_shuffler(tmp_path / "shuffler.db", coordinator.public, public),
        "central": open_curator(
            tmp_path / "curator.db", coordinator.public, public, Curator(SECRET, ledger, "curator")
        ),
    }
    services = {name: make_service("127.0.0.1", 0, each) for name, each in offices.items()}
    addresses = {}
    for name, service in services.items():
        service.start()
        addresses[name] = Address(f"http://127.0.0.1:{service.address[1]}", timeout=20)
    ready = [
        dataclasses.replace(
            node,
            ledger=MemoryLedger({node.account: Ceiling(ceiling, "1e-4")}),
            collecting=Collecting(
                identities[node.name], addresses["shuffle"], (addresses["central"], public_key(SECRET)), public
            ),
        )
        for node in made
    ]
    yield Hall(ready, coordinator, addresses, tmp_path)
    for name, service in services.items():
        service.stop()
        offices[name].close()


class Hall:
    def __init__(self, made, coordinator, addresses, folder):
        self.nodes, self.coordinator, self.addresses, self.folder = made, coordinator, addresses, folder

    def grid(self, kind=InProcessGrid, **more):
        app = client_app(lambda context: self.nodes[context.node_config["partition-id"]])
        return kind(app, contexts(COUNT, [node.name for node in self.nodes]), **more)

    def run(self, trust, grid=None, request="r", heads=None):
        collector = Collector(
            self.addresses[trust], self.coordinator, public_key(SECRET) if trust == "central" else None
        )
        journal = Journal.open(self.folder / f"{trust} {request}", "a recipe")
        exchange = FlowerCollected(grid or self.grid(), journal.run, TERMS, collector, journal, heads=heads)
        # One message each: sealing the many of a flood takes a while on a busy machine.
        more = {"delta": "1e-5", "mechanism": "one message"} if trust == "shuffle" else {}
        run = federated(exchange, digits().public_samples, "1", trust=trust, request=request, **(SETTINGS | more))
        return run, exchange

    def payments(self):
        return [node.ledger.balance(node.account).payments for node in self.nodes]


def test_messages_reach_the_coordinator_mixed_and_without_senders(hall):
    grid = hall.grid(keep=True)
    run, exchange = hall.run("shuffle", grid)
    assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.3
    assert (str(run.guarantee.trust), run.guarantee.simulation) == ("shuffle", False)
    assert 0.99 < run.guarantee.epsilon <= 1
    assert "messages of 1000 participants at 5 nodes" in exchange.said[0]
    (batch,) = read_status(hall.addresses["shuffle"])["batches"]
    assert (batch["nodes"], batch["participants"]) == (COUNT, 1000)
    # To the coordinator itself a node says that it paid and handed in, always in as many bytes.
    sent = [payload_of(each) for each in grid.sent]
    assert len({len(each) for each in sent}) == 1
    assert max(map(len, sent)) == 5 + 9
    assert all(isinstance(read_response(each).answer, bytes) for each in sent)
    assert hall.payments() == [1] * COUNT


def test_a_trusted_curator_labels_best(hall):
    run, exchange = hall.run("central")
    assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.7
    assert (str(run.guarantee.trust), run.guarantee.epsilon) == ("central", 1)
    assert exchange.said == ["the curator summed the tables of 5 nodes"]
    assert len(run.receipts) == COUNT + 1
    assert hall.payments() == [1] * COUNT


def test_a_curator_adds_up_sums_that_are_below_zero(tmp_path):
    """With much budget the sums that came through a curator are those of all records, but for the noise."""
    from tacit.methods.class_sums import method as class_sums_method
    from tacit.methods.class_sums.holder import class_sums
    from tacit.private.records import inspect

    asked = []
    fitted = class_sums_method.public_probabilities
    with open_hall(tmp_path, ceiling=200) as hall, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            class_sums_method,
            "public_probabilities",
            lambda sums, ask, *others: asked.append(ask) or fitted(sums, ask, *others),
        )
        collector = Collector(hall.addresses["central"], hall.coordinator, public_key(SECRET))
        journal = Journal.open(tmp_path / "journal", "a recipe")
        exchange = FlowerCollected(hall.grid(), journal.run, TERMS, collector, journal)
        settings = {"classes": range(10), "nodes": COUNT, "records": 1000, "surviving": "3/4", "request": "r"}
        with pytest.warns(TacitWarning, match="epsilon = 200"):
            run = federated(
                exchange, digits().public_samples, 200, trust="central", method="class_sums", components=6, **settings
            )
        (ask,) = asked
        exact = sum(inspect([node.records], lambda own: class_sums(ask, own[0])) for node in hall.nodes)
        assert hall.payments() == [1] * COUNT
    off = np.abs(run.arrays["sums"] - exact)
    # Each noise is beyond 25 scales with a probability of e^-25.
    assert off.max() < 25 * float(ask.mechanism.scale)
    assert (exact < 0).any()
    assert np.abs(exact).max() > 10 * off.max()
    assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.6


class Losing(InProcessGrid):
    lost = frozenset()

    def push_messages(self, messages):
        messages = list(messages)
        reached = [each for each in messages if each.metadata.dst_node_id not in self.lost]
        return super().push_messages(reached) + ["lost"] * (len(messages) - len(reached))


@pytest.mark.parametrize("trust", ["shuffle", "central"])
def test_a_round_goes_on_without_a_node_that_is_lost(hall, trust):
    grid = hall.grid(Losing)
    grid.lost = {2}
    run, exchange = hall.run(trust, grid)
    assert len(exchange.rounds[0].answered) == COUNT - 1
    assert run.recipe["answered"] == COUNT - 1 + (trust == "central")


@pytest.mark.parametrize("trust", ["shuffle", "central"])
def test_too_few_end_in_words_and_nothing_comes_out(hall, trust):
    grid = hall.grid(Losing)
    grid.lost = {2, 3}
    with pytest.raises(TooFewParticipants, match="3 of 5 nodes answered"):
        hall.run(trust, grid)
    (batch,) = read_status(hall.addresses[trust])["batches"]
    assert not batch["collected"]


@pytest.mark.parametrize("trust", ["shuffle", "central"])
def test_a_coordinator_that_was_killed_collects_what_was_handed_in(hall, trust):
    class Dying(InProcessGrid):
        def pull_messages(self, message_ids):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hall.run(trust, hall.grid(Dying))
    run, _ = hall.run(trust)
    assert hall.payments() == [1] * COUNT
    again, _ = hall.run(trust)
    np.testing.assert_array_equal(run.probabilities, again.probabilities)
    assert (run.labels == again.labels).all()


def test_a_node_seals_only_for_whom_its_own_file_names(hall):
    hall.nodes = [
        dataclasses.replace(node, collecting=dataclasses.replace(node.collecting, shuffler=None, curator=None))
        for node in hall.nodes
    ]
    for trust in ("shuffle", "central"):
        with pytest.raises(TooFewParticipants, match="refused"):
            hall.run(trust)
    assert hall.payments() == [0] * COUNT


def test_a_node_calls_again_while_the_shuffler_is_down(hall, monkeypatch):
    monkeypatch.setattr("tacit.federation.node.steps._PAUSE", 0.01)
    down = iter([True, True])

    def flaky(*arguments):
        if next(down, False):
            raise Unreachable("down")
        return submit(*arguments)

    first = hall.nodes[0]
    hall.nodes[0] = dataclasses.replace(first, collecting=dataclasses.replace(first.collecting, submit=flaky))
    _, exchange = hall.run("central")
    assert len(exchange.rounds[0].answered) == COUNT


def test_nodes_whose_ledgers_were_put_back_do_not_count(hall):
    heads = NodeHeads()
    hall.run("central", heads=heads)
    # Each with the ledger that it had before its first payment.
    hall.nodes = [
        dataclasses.replace(node, ledger=MemoryLedger({node.account: Ceiling(1, "1e-5")})) for node in hall.nodes
    ]
    with pytest.raises(TooFewParticipants, match=r"not accepted \(its ledger (was rolled back|forked)"):
        hall.run("central", request="another", heads=heads)
