"""Masked sums over Flower's messages: exact through dropouts, nothing else is seen, nobody pays twice."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.errors import TooFewParticipants
from tacit.datasets.published import digits
from tacit.federation.coordinator import Journal, NodeHeads, RoundPolicy
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import payload_of
from tacit.federation.flower.summed import FlowerMasked
from tacit.federation.keys import SigningIdentity
from tacit.federation.messages import read_node_request, read_response
from tacit.federation.node.steps import FolderMemory
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.masked.distributed_laplace import MaskedShare
from tacit.methods.rknn.holder import VoteHolder
from tacit.private.gate import Gate
from tests.federation.federation import federated, masking_nodes

COUNT = 6
TERMS = RoundPolicy(expected=COUNT, at_least=4, deadline=2, grace=0.3, patience=0.3, records=1000)
SETTINGS = {"classes": range(10), "nodes": COUNT, "records": 1000, "queries": 12, "trust": "masked"}

EVERY_STEP = ("keys", "shares", "input", "agree", "unmask")


class Dropping(InProcessGrid):
    """Nodes are lost from a step on; ``lost`` says which, by place. ``die`` ends the coordinator at a step."""

    def __init__(self, there, lost=None, die=None, keep=False):
        names = [node.name for node in there]
        super().__init__(
            client_app(lambda context: there[context.node_config["partition-id"]]), contexts(len(there), names), keep
        )
        self.lost, self.die, self.gone = lost or {}, die, set()
        self.steps = []

    def push_messages(self, messages):
        messages = list(messages)
        step = read_node_request(payload_of(messages[0])).step
        self.steps.append(step)
        if step == self.die:
            raise KeyboardInterrupt
        self.gone |= {place + 1 for place, at in self.lost.items() if at == step}
        reached = [each for each in messages if each.metadata.dst_node_id not in self.gone]
        unheard = [f"lost-{each.metadata.dst_node_id}" for each in messages if each not in reached]
        return super().push_messages(reached) + unheard


def masked(grid, peers, journal=None, request="r", heads=None, **more):
    exchange = FlowerMasked(grid, "r", TERMS, peers, journal, heads=heads)
    run = federated(exchange, digits().public_samples, "1", request=request, **(SETTINGS | more))
    return run, exchange


def test_a_masked_run_labels_as_well_as_a_trusted_curator_would():
    there, peers = masking_nodes(COUNT, seed=None)
    grid = Dropping(there, keep=True)
    run, exchange = masked(grid, peers)
    assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.7
    assert (str(run.guarantee.trust), run.guarantee.epsilon, run.guarantee.simulation) == ("masked", 1, False)
    assert "at least 3 must be honest" in str(run.guarantee)
    assert grid.steps == list(EVERY_STEP)
    assert exchange.rounds[0].answered == [node.name for node in there]
    assert [node.ledger.balance(node.account).payments for node in there] == [1] * COUNT


@pytest.mark.parametrize("step", EVERY_STEP)
def test_the_sum_is_exact_with_a_third_of_the_nodes_lost_at_any_step(step):
    # Seeded noise by node and request: the same with and without masks, so sums can be compared to the last bit.
    there, peers = masking_nodes(COUNT)
    grid = Dropping(there, {1: step, 4: step})
    sums = []
    exchange = FlowerMasked(grid, "r", TERMS, peers)

    def listen(ask):
        answer = exchange(ask)
        sums.append((ask, answer[0].value))
        return answer

    federated(listen, digits().public_samples, "1", request="r", **SETTINGS)
    ((ask, found),) = sums
    kept = [node for place, node in enumerate(there) if place not in (1, 4) or step in ("agree", "unmask")]
    expected = np.zeros_like(found)
    for node in kept:
        expected += noisy_table(node, ask)
    np.testing.assert_array_equal(found, expected)
    assert len(exchange.rounds[0].answered) == len(kept)


def noisy_table(node, ask):
    """The table with its share of the noise, as the node drew it, without its mask."""
    gate = Gate(MemoryLedger({"x": Ceiling(1)}), "x", node._randomness(ask.request))
    cells = len(ask.queries) * ask.classes
    bare = MaskedShare(ask.mechanism, "none", np.zeros(cells, dtype=np.uint64))
    return ask.mechanism.opened(VoteHolder([node.records], gate).answer(dataclasses.replace(ask, mechanism=bare)).value)


@pytest.mark.parametrize("step", EVERY_STEP)
def test_below_the_threshold_nothing_is_revealed(step):
    there, peers = masking_nodes(COUNT)
    with pytest.raises(TooFewParticipants, match=r"needs 4 nodes.*Nothing was revealed"):
        masked(Dropping(there, {0: step, 1: step, 2: step}), peers)


@pytest.mark.parametrize("step", EVERY_STEP)
def test_a_coordinator_killed_at_any_step_goes_on_and_nobody_pays_twice(step, tmp_path):
    there, peers = masking_nodes(COUNT, seed=None)
    with pytest.raises(KeyboardInterrupt):
        masked(Dropping(there, die=step), peers, Journal.open(tmp_path, "a recipe"))
    grid = Dropping(there)
    run, _ = masked(grid, peers, Journal.open(tmp_path, "a recipe"))
    # Steps that were over are not asked again.
    assert grid.steps == list(EVERY_STEP[EVERY_STEP.index(step) :])
    assert [node.ledger.balance(node.account).payments for node in there] == [1] * COUNT
    assert len(run.receipts) == COUNT


def test_a_node_restarted_between_steps_goes_on_from_its_disk(tmp_path):
    there, peers = masking_nodes(COUNT, seed=None)
    kept = [
        dataclasses.replace(node, masking=dataclasses.replace(node.masking, memory=FolderMemory(tmp_path / node.name)))
        for node in there
    ]

    def fresh(context):
        # A process for every message, as Flower starts them.
        node = kept[context.node_config["partition-id"]]
        return dataclasses.replace(node, masking=dataclasses.replace(node.masking))

    grid = InProcessGrid(client_app(fresh), contexts(COUNT, [node.name for node in there]))
    masked(grid, peers)
    assert all((file.stat().st_mode & 0o077) == 0 for file in tmp_path.glob("*/*.masking"))


def test_nodes_whose_ledgers_were_put_back_are_not_in_the_sum():
    heads = NodeHeads()
    there, peers = masking_nodes(COUNT, seed=None)
    masked(Dropping(there), peers, heads=heads)
    # The same names with the ledgers that they had before their first payment.
    there, peers = masking_nodes(COUNT, seed=None)
    with pytest.raises(
        TooFewParticipants, match=r"not accepted \(its ledger (was rolled back|forked).*Nothing was revealed"
    ):
        masked(Dropping(there), peers, request="another", heads=heads)


def test_a_node_takes_no_part_with_strangers():
    there, peers = masking_nodes(COUNT)
    sybil = peers | {"site 5": SigningIdentity.new().public}
    with pytest.raises(TooFewParticipants, match="refused: the question is not valid"):
        masked(Dropping(there), sybil)
    assert [node.ledger.balance(node.account).payments for node in there] == [0] * COUNT


def test_nothing_but_masked_tables_leaves_a_node():
    there, peers = masking_nodes(COUNT, seed=None)
    grid = Dropping(there, keep=True)
    masked(grid, peers)
    seen = [payload_of(each) for each in grid.sent]
    assert all(isinstance(read_response(each).answer, bytes) for each in seen)
    assert len(seen) == COUNT * len(EVERY_STEP)
    # Sizes are the same for all nodes in every step, whatever they hold.
    for start in range(0, len(seen), COUNT):
        assert len({len(each) for each in seen[start : start + COUNT]}) == 1
