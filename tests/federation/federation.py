"""Small federations for tests: the digits at a few nodes."""

import dataclasses
from fractions import Fraction

from tacit.core.account import Ceiling
from tacit.datasets.published import digits
from tacit.federation.keys import SigningIdentity
from tacit.federation.node.node import Node
from tacit.federation.node.steps import Masking, NodeMemory
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.methods.task import Nodes
from tacit.private.partition import split_evenly
from tacit.private.records import Private, Records
from tacit.runs.distill import distill

CLASSES = tuple(map(str, range(10)))
RULES = Rules(("rknn",), ("DiscreteLaplaceNoise", "SubsetSelection"), ("reverse k-NN labels",), participants=2)


def nodes(count=4, seed=5, rules=RULES, ceiling=1, records=1000, delta=0, **more):
    parts = digits()
    made = []
    for place, rows in enumerate(split_evenly(records, count)):
        name = f"site {place}"
        own = Records(parts.private_samples[rows], parts.private_labels[rows])
        ledger = MemoryLedger({name: Ceiling(ceiling, delta)})
        made.append(Node(name, CLASSES, Private(own), rules, ledger, name, seed=seed, **more))
    return made


def masking_nodes(count=6, seed=5, ceiling=1, **more):
    """Nodes that know each other's identities."""
    rules = Rules(("rknn",), ("DistributedLaplace",), ("reverse k-NN labels",), participants=2)
    made = nodes(count, seed, rules, ceiling, **more)
    identities = {node.name: SigningIdentity.new() for node in made}
    peers = {name: each.public for name, each in identities.items()}
    return [
        dataclasses.replace(node, masking=Masking(identities[node.name], peers, NodeMemory())) for node in made
    ], peers


def federated(
    exchange, public, epsilon=None, *, nodes, records=1000, holders="nodes", surviving="2/3", colluding=None,
    deliver=None, **more,
):  # fmt: skip
    """A run over nodes, by distill."""
    there = Nodes(exchange, nodes, records, holders, Fraction(surviving), colluding=colluding, deliver=deliver)
    return distill(None, public, epsilon, exchange=there, **more)
