"""Masked sums over Flower's messages in which each node masks with a few neighbors."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.datasets.published import digits
from tacit.federation.coordinator import Journal, RoundPolicy
from tacit.federation.flower.summed import FlowerMasked
from tacit.federation.keys import SigningIdentity
from tacit.ledger.policy import Rules
from tacit.runs.federation import read_job
from tests.federation.federation import federated, masking_nodes
from tests.federation.flower.test_summed_masked import Dropping

COUNT = 7
STEPS = ["keys", "shares", "input", "agree", "unmask"]
TERMS = RoundPolicy(expected=COUNT, at_least=6, deadline=2, grace=0.3, patience=0.3, records=1000)
SETTINGS = {
    "classes": range(10), "nodes": COUNT, "records": 1000, "queries": 12, "trust": "masked", "surviving": "6/7",
    "colluding": 1,
}  # fmt: skip


def masked(grid, peers, journal=None):
    exchange = FlowerMasked(grid, "r", TERMS, peers, journal)
    return federated(exchange, digits().public_samples, "1", request="r", **SETTINGS), exchange


def test_a_run_with_neighbors_labels_and_says_on_whom_it_rests():
    there, peers = masking_nodes(COUNT, seed=None)
    grid = Dropping(there, {4: "input"})
    run, exchange = masked(grid, peers)
    assert grid.steps == STEPS
    assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.6
    assert "collude with up to 1 of all 7 holders" in str(run.guarantee)
    assert len(exchange.rounds[0].answered) == 6
    assert sum(node.ledger.balance(node.account).payments for node in there) == 6


@pytest.mark.parametrize("step", ["input", "agree", "unmask"])
def test_a_coordinator_killed_at_a_step_goes_on_and_nobody_pays_twice(step, tmp_path):
    there, peers = masking_nodes(COUNT, seed=None)
    with pytest.raises(KeyboardInterrupt):
        masked(Dropping(there, die=step), peers, Journal.open(tmp_path, "a recipe"))
    grid = Dropping(there)
    run, _ = masked(grid, peers, Journal.open(tmp_path, "a recipe"))
    assert grid.steps == STEPS[STEPS.index(step) :]
    assert [node.ledger.balance(node.account).payments for node in there] == [1] * COUNT
    assert len(run.receipts) == COUNT


def test_a_node_takes_no_part_where_its_own_file_names_others():
    there, peers = masking_nodes(COUNT)
    with pytest.raises(TooFewParticipants, match="refused: the question is not valid"):
        masked(Dropping(there), peers | {"site 5": SigningIdentity.new().public})
    assert [node.ledger.balance(node.account).payments for node in there] == [0] * COUNT


def test_a_policy_bounds_how_many_others_must_be_honest():
    """A bound on who colludes rests on everybody else: a policy that allows fewer refuses it."""
    there, peers = masking_nodes(COUNT)
    rules = Rules(("rknn",), ("DistributedLaplace",), ("reverse k-NN labels",), participants=2, honest_others=4)
    for node in there:
        object.__setattr__(node, "rules", rules)
    with pytest.raises(TooFewParticipants, match="relies on fewer honest others"):
        masked(Dropping(there), peers)


def test_a_job_says_how_many_may_collude_in_masked_sums_only(tmp_path):
    file = tmp_path / "job.toml"
    text = (
        'method = "rknn"\npublic = "p.csv"\nclasses = ["a", "b"]\nepsilon = 1.0\nrecords = 100\nnodes = 7\n'
        'at_least = 6\nout = "out"\npeers = "peers.toml"\ncolluding = 1\n'
    )
    file.write_text(text + 'trust = "masked"\n')
    assert read_job(file).colluding == 1
    file.write_text(text)
    said = r"colluding is for masked trust \(secure aggregation\), not for local trust"
    with pytest.raises(InvalidInput, match=said):
        read_job(file)
