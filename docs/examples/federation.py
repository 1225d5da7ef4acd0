"""A federation in one process: four nodes with a policy and a ledger each, and a coordinator that has no record."""

import tacit
from tacit.federation.node.node import Node
from tacit.ledger.policy import Rules
from tacit.private.records import Private, Records

parts = tacit.digits()
classes = tuple(map(str, range(10)))
rules = Rules(
    methods=("rknn",),
    mechanisms=("DiscreteLaplaceNoise",),
    purposes=("reverse k-NN labels",),
    participants=3,
)
nodes = [
    Node(
        name,
        classes,
        Private(Records(parts.private_samples[place::4], parts.private_labels[place::4])),
        rules,
        tacit.open_ledger("memory:", {name: tacit.Ceiling(2)}),
        name,
    )
    for place, name in enumerate(("east", "north", "south", "west"))
]


def exchange(question):  # over a network: messages, TLS and keys; here: calls
    return [node.answer(question) for node in nodes]


run = tacit.distill(
    None,  # the coordinator has no record
    parts.public_samples,
    epsilon=2.0,
    classes=classes,
    method="rknn",
    exchange=tacit.Nodes(exchange, nodes=4, records=1000),
)

print(run.guarantee)
print("left at each node:", [node.ledger.balance(node.name).remaining_shown for node in nodes])
