"""A node's own side: fresh noise for every question and node, and no way past its policy by another step."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.guarantee import Adjacency
from tacit.datasets.published import digits
from tacit.federation.collector.batches import plan_tables
from tacit.federation.collector.client import Address
from tacit.federation.keys import SigningIdentity, public_key
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.steps import Collecting
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity as Unchanged
from tacit.wire import ask_to_bytes
from tests.federation.federation import CLASSES, masking_nodes, nodes

PURPOSE = "reverse k-NN labels"
QUERIES = digits().public_samples[:8].astype(np.float32)
NOISE = DiscreteLaplaceNoise.for_epsilon("1/10", 2)
CURATED = Rules(("rknn",), ("PermuteAndFlip",), (PURPOSE,), participants=2)
KEY = public_key(b"s" * 32)


def ask(mechanism=NOISE, request="r-1"):
    return VoteAsk(QUERIES, Unchanged(64), 1, CLASSES, "space", mechanism, PURPOSE, request)


def twins(seed):
    """Two nodes with the same records."""
    one, other = nodes(2, seed=seed)
    return one, dataclasses.replace(other, records=one.records)


def test_every_question_and_every_node_has_noise_of_its_own():
    """Equal noise would cancel in the difference of two answers, in simulations too."""
    for seed in (5, None):
        one, other = twins(seed)
        first = one.answer(ask()).value
        assert not np.array_equal(first, one.answer(ask(request="r-2")).value)
        assert not np.array_equal(first, other.answer(ask()).value)
        assert np.array_equal(first, one.answer(ask()).value)


def test_only_a_node_with_a_seed_is_a_simulation():
    (real, _), (simulated, _) = twins(None), twins(0)
    assert real.answer(ask()).receipts[0].randomness == "system"
    assert simulated.answer(ask()).receipts[0].randomness == "seeded"


def answered(node, question, step, content=b"", run="run"):
    return read_response(node.reply(Request(run, 0, 6, ask_to_bytes(question), step, content).to_bytes())).answer


def test_a_masked_question_does_not_go_past_the_policy():
    node = masking_nodes(6)[0][0]
    plan = DistributedLaplace.for_epsilon(1, 2, holders=6, most=1000)
    strict = dataclasses.replace(node, rules=dataclasses.replace(node.rules, mechanisms=("PermuteAndFlip",)))
    assert answered(strict, ask(plan), "keys") is RefusalReason.MECHANISM
    assert answered(node, ask(plan), "keys") is RefusalReason.QUESTION


@pytest.fixture
def collecting():
    """A node that trusts a curator, and what it handed in."""
    handed = []
    node = nodes(3, seed=None, rules=CURATED)[0]
    peers = {f"site {place}": bytes([place]) * 32 for place in range(3)}
    trusted = Collecting(
        SigningIdentity.new(),
        curator=(Address("http://127.0.0.1:1"), KEY),
        peers=peers,
        submit=lambda *arguments: handed.append(arguments),
    )
    return dataclasses.replace(node, collecting=trusted), handed


def batch(question, names=("site 0", "site 1", "site 2"), run="run"):
    return plan_tables(question, run, 0, names, KEY, minimum=2, largest=1000).to_bytes()


def test_a_node_hands_in_to_a_batch_of_its_peers_for_this_question_alone(collecting):
    node, handed = collecting
    question = ask(PermuteAndFlip.for_epsilon(1, 2))
    strangers = batch(question, names=("site 0", "site 1", "somebody"))
    assert answered(node, question, "submit", strangers) is RefusalReason.QUESTION
    assert answered(node, question, "submit", batch(question, run="another")) is RefusalReason.QUESTION
    strict = dataclasses.replace(node, rules=dataclasses.replace(CURATED, mechanisms=("Shuffled",)))
    assert answered(strict, question, "submit", batch(question)) is RefusalReason.MECHANISM
    assert (handed, node.ledger.balance(node.account).payments) == ([], 0)
    assert isinstance(answered(node, question, "submit", batch(question)), bytes)
    assert (len(handed), node.ledger.balance(node.account).payments) == (1, 1)


def test_how_many_records_there_are_is_not_said_under_add_remove(collecting):
    node, handed = collecting
    private = MemoryLedger({node.account: Ceiling(1, adjacency=Adjacency.ADD_REMOVE)})
    question = ask(PermuteAndFlip.for_epsilon(1, 2))
    quiet = dataclasses.replace(node, ledger=private)
    assert answered(quiet, question, "submit", batch(question)) is RefusalReason.MECHANISM
    assert (handed, private.balance(node.account).payments) == ([], 0)
