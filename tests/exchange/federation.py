"""Small federations for tests: the digits at a few nodes."""

from tacit.datasets.digits import digits
from tacit.exchange.node import Node
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.ledger.policy import Rules
from tacit.private.partition import split_evenly
from tacit.private.records import Private, Records

CLASSES = tuple(map(str, range(10)))
RULES = Rules(("rknn",), ("DiscreteLaplaceNoise", "SubsetSelection"), ("reverse k-NN labels",), participants=2)


def nodes(count=4, seed=5, rules=RULES, ceiling=1, records=1000, **more):
    parts = digits()
    made = []
    for place, rows in enumerate(split_evenly(records, count)):
        name = f"site {place}"
        own = Records(parts.private_samples[rows], parts.private_labels[rows])
        ledger = MemoryLedger({name: Ceiling(ceiling)})
        made.append(Node(name, CLASSES, Private(own), rules, ledger, name, seed=seed, **more))
    return made
