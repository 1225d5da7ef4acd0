"""Nodes that are lost and come back, and coordinators that come back when nobody is there any more."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.errors import TooFewParticipants
from tacit.datasets.published import digits
from tacit.federation.collector.client import Unreachable
from tacit.federation.coordinator import Journal, RoundPolicy
from tacit.federation.flower import server
from tacit.federation.flower.client import InProcessGrid
from tacit.federation.flower.server import FlowerExchange, FlowerTransport
from tests.federation.federation import masking_nodes
from tests.federation.flower.test_server_methods import COUNT, grid_over, there, transferred
from tests.federation.flower.test_summed_collected import COUNT as HANDING
from tests.federation.flower.test_summed_collected import Losing, hall  # noqa: F401
from tests.federation.flower.test_summed_masked import Dropping, masked


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(server, "time", made)
    return made


def post_over(counts, at_least=2):
    """A post whose nodes are as many as the function says."""

    def get_nodes():
        return [SimpleNamespace(name=f"n{each}", node_id=each) for each in range(counts())]

    terms = RoundPolicy(expected=3, at_least=at_least, grace=10, patience=100)
    return FlowerTransport(SimpleNamespace(get_nodes=get_nodes), terms)


def test_a_node_that_does_not_come_back_holds_up_no_later_round(clock):
    post = post_over(lambda: 2)
    assert len(post.present()) == 2
    assert clock.now == pytest.approx(100, abs=1)
    assert len(post.present()) == 2
    assert clock.now == pytest.approx(110, abs=1)


def test_a_later_round_waits_until_enough_are_there(clock):
    post = post_over(lambda: 3 if clock.now < 1 or clock.now > 60 else 1)
    assert len(post.present()) == 3
    clock.now = 5
    assert len(post.present()) == 3
    assert clock.now > 60
    with pytest.raises(TooFewParticipants, match="1 nodes are connected after 100 seconds"):
        post_over(lambda: 1).present()


class Sometimes(InProcessGrid):
    """The replies of a node are lost in some rounds, and in some it is not there."""

    lost, away, node = (), (), 2

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.round = -1

    def get_nodes(self):
        self.round += 1
        return [each for each in super().get_nodes() if each.node_id != self.node or self.round not in self.away]

    def pull_messages(self, message_ids):
        found = super().pull_messages(message_ids)
        return [each for each in found if self.round not in self.lost or each.metadata.src_node_id != self.node]


def exchange_over(grid, folder):
    terms = RoundPolicy(expected=COUNT, at_least=3, deadline=0.5, grace=0, patience=0, records=1000)
    return FlowerExchange(grid, "r", terms, Journal.open(folder, "a recipe"))


def told_again(run, made, folder):
    """The same run by a coordinator that comes back when nobody is there: it asks nobody and learns the same."""

    class Silent(InProcessGrid):
        def get_nodes(self):
            raise AssertionError("somebody was looked for")

    again = transferred(exchange_over(grid_over(made, Silent), folder))
    samples = digits().test_samples
    np.testing.assert_array_equal(run.student.predict_proba(samples), again.student.predict_proba(samples))
    assert run.receipts == again.receipts


@pytest.mark.parametrize("how", ["lost", "away"])
def test_privatekt_asks_a_lost_node_again(how, tmp_path):
    made = there(seed=None)
    grid = grid_over(made, Sometimes)
    setattr(grid, how, (1,))
    exchange = exchange_over(grid, tmp_path)
    run = transferred(exchange)
    assert ["site 1" in turn.answered for turn in exchange.rounds] == [True, False, True, True]
    assert run.metrics["exhausted"] == 0
    # A reply that was lost had been paid for.
    assert [node.ledger.balance(node.account).payments for node in made] == [4, 4 if how == "lost" else 3, 4, 4, 4]
    told_again(run, made, tmp_path)


def test_privatekt_takes_in_a_node_that_was_not_there_at_first(tmp_path):
    made = there(seed=None)
    grid = grid_over(made, Sometimes)
    grid.away = (0, 1)
    exchange = exchange_over(grid, tmp_path)
    run = transferred(exchange)
    assert exchange.places == ("site 0", "site 2", "site 3", "site 4", "site 1")
    assert ["site 1" in turn.answered for turn in exchange.rounds] == [False, False, True, True]
    told_again(run, made, tmp_path)


def test_privatekt_does_not_ask_a_node_again_that_refused(tmp_path):
    made = there(seed=None)
    made[1] = there(seed=None, ceiling=20)[1]
    exchange = exchange_over(grid_over(made), tmp_path)
    run = transferred(exchange)
    assert ["site 1" in turn.asked for turn in exchange.rounds] == [True, True, False, False]
    assert run.metrics["exhausted"] == 1
    told_again(run, made, tmp_path)


@pytest.mark.parametrize("trust", ["shuffle", "central"])
def test_who_did_not_hand_in_is_not_asked_to_pay_for_a_batch_that_is_closed(hall, trust, monkeypatch):  # noqa: F811
    class Dying(Losing):
        lost = frozenset({2})

    collected = "tacit.federation.flower.summed.FlowerCollected._read"
    with monkeypatch.context() as patched:

        def die(*_):
            raise KeyboardInterrupt

        patched.setattr(collected, die)
        with pytest.raises(KeyboardInterrupt):
            hall.run(trust, hall.grid(Dying))
    paid = hall.payments()
    assert sum(paid) == HANDING - 1

    class Gone(InProcessGrid):
        def get_nodes(self):
            raise AssertionError("somebody was looked for")

    run, exchange = hall.run(trust, hall.grid(Gone))
    assert len(exchange.rounds[0].answered) == HANDING - 1
    assert len(run.receipts) == HANDING - 1 + (trust == "central")
    assert hall.payments() == paid


def test_a_collector_that_stays_away_ends_the_run_in_words(hall, monkeypatch):  # noqa: F811
    def away(*_):
        raise Unreachable("https://mix.example.org:9300 does not answer")

    monkeypatch.setattr("tacit.federation.flower.summed._PAUSE", 0.5)
    monkeypatch.setattr("tests.federation.flower.test_summed_collected.Collector", lambda *each: collector(*each, away))
    with pytest.raises(Unreachable, match=r"tried for 5 seconds.*again when it is back, and nobody pays twice"):
        hall.run("central")


def collector(address, identity, key, call):
    from tacit.federation.flower.summed import Collector

    return Collector(address, identity, key, collect=call)


def test_a_masked_sum_that_is_complete_needs_nobody(tmp_path):
    made, peers = masking_nodes(6, seed=None)
    run, _ = masked(Dropping(made), peers, Journal.open(tmp_path, "a recipe"))

    class Gone(Dropping):
        def get_nodes(self):
            raise AssertionError("somebody was looked for")

    again, _ = masked(Gone(made), peers, Journal.open(tmp_path, "a recipe"))
    assert (run.labels == again.labels).all()
    assert dataclasses.astuple(run.guarantee) == dataclasses.astuple(again.guarantee)
