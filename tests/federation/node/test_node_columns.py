"""A node's columns are matched with the public samples' by name, before anything is paid."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.randomness import SeededRandomness
from tacit.federation.messages import RefusalReason, Request, read_node_request, read_response
from tacit.federation.node.node import Node
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity
from tacit.wire import ask_to_bytes, read_release

NAMES = ("age", "dose", "weight")
QUERIES = np.array([[0, 0, 9], [9, 0, 0]], dtype=np.float32)
ASK = VoteAsk(QUERIES, Identity(3), 1, ("a", "b"), "c0ffee", DiscreteLaplaceNoise.for_epsilon(1, 2), "votes", "r-1")


def node(features=NAMES, order=(0, 1, 2)):
    samples = SeededRandomness(1).words(60).reshape(20, 3).astype(np.float64) % 10
    return Node(
        name="ada",
        classes=("a", "b"),
        records=Private(Records(samples[:, order], np.arange(20) % 2)),
        rules=Rules(("rknn",), ("DiscreteLaplaceNoise",), ("votes",), participants=1),
        ledger=MemoryLedger({"ada": Ceiling(1)}),
        account="ada",
        seed=5,
        features=features,
    )


def said(node, features):
    wire_request = Request("run", 0, 1, ask_to_bytes(ASK), records=100, features=features)
    answer = read_response(node.reply(wire_request.to_bytes())).answer
    return answer if isinstance(answer, RefusalReason) else read_release(answer, ASK, "ada", 100).value.tolist()


def test_names_travel():
    assert read_node_request(Request("run", 0, 1, b"", features=NAMES).to_bytes()).features == NAMES


def test_columns_in_another_order_give_the_same_votes():
    reversed_node = node(NAMES[::-1], (2, 1, 0))
    assert said(reversed_node, NAMES) == said(node(), NAMES)
    # As it was, by place: other votes, and nobody noticed.
    assert said(dataclasses.replace(node(NAMES[::-1], (2, 1, 0)), features=None), NAMES) != said(node(), NAMES)


@pytest.mark.parametrize("other", [("age", "dose", "size"), ("age", "dose"), (*NAMES, "height")])
def test_other_columns_are_refused_and_nothing_is_paid(other, caplog):
    own = node()
    assert said(own, other) is RefusalReason.COLUMNS
    assert own.ledger.balance("ada").payments == 0
    assert "the columns are not those of the public samples" in caplog.text


@pytest.mark.parametrize("features", [None, NAMES])
def test_without_names_on_one_side_columns_are_as_they_stand(features):
    assert said(node(features), ()) == said(node(None), NAMES)
