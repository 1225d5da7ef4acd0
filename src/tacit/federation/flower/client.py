"""Simulated nodes in one process, and a Flower grid without a network. Simulations protect nobody.

Simulated nodes have parts of one data set, accounts in memory and seeded noise. The grid calls their client apps when
messages are pushed. For the server side it behaves like Flower's own: messages get ids, replies are pulled once, and a
node that fails answers with Flower's own error.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from tacit.core import Ceiling, InvalidInput
from tacit.datasets.published import digits
from tacit.datasets.tables import read_table
from tacit.federation.flower.handover import answering_app
from tacit.federation.node.node import Node
from tacit.ledger import open_ledger
from tacit.ledger.policy import Rules
from tacit.methods.registry import METHODS
from tacit.private.records import Private, Records

__all__ = ["InProcessGrid", "client_app", "configured_node", "contexts", "node_app", "simulated_node"]

# The key by which Flower's simulation numbers its nodes.
PLACE = "partition-id"


def client_app(node_of: Callable[[Context], Node]) -> ClientApp:
    """A client app that answers by the node that ``node_of`` returns for a context, in this process."""
    return answering_app(lambda payload, _, context: node_of(context).reply(payload))


def configured_node(context: Context) -> Node:
    """The simulated node at this context's place, with a part of the data that the run names.

    Only Flower's own simulation numbers its nodes. A real node is configured by its operator's file and answers in a
    process that stays up.
    """
    place, count = context.node_config[PLACE], context.node_config["num-partitions"]
    return simulated_node(int(place), int(count), context.run_config)


node_app = client_app(configured_node)


CEILING = 10**6
SIMULATED_RULES = Rules(
    methods=tuple(each.name for each in METHODS.values() if each.questions),
    mechanisms=(
        "RandomizedLabels",
        "DiscreteGaussianNoise",
        "DiscreteLaplaceNoise",
        "PermuteAndFlip",
        "Responses",
        "RoundedGaussianNoise",
        "SubsampledGNMax",
        "SubsetSelection",
    ),
    purposes=(
        "reverse k-NN labels",
        "PrivateKT labels",
        "PATE votes",
        "FedMD predictions",
        "class sums",
        "noisy SGD",
        "Private k-NN votes",
    ),
    participants=1,
)


def simulated_node(place: int, count: int, settings: Mapping[str, Any]) -> Node:
    """The node at one of ``count`` places, with its part of the data set that the settings name.

    >>> simulated_node(0, 4, {"simulation": "digits", "seed": 1}).name
    'node 00000'
    """
    source, seed = str(settings.get("simulation", "")), int(settings.get("seed", 0))
    if not source:
        raise InvalidInput("a simulation needs data: set simulation to digits, or to an .npz file with X and y")
    return _node(source, place, count, seed)


# Cached for the life of the process: a node that is asked again has its ledger and its stored answers.
@cache
def _node(source: str, place: int, count: int, seed: int) -> Node:
    samples, labels, classes = _data(source)
    rows = np.arange(place, len(samples), count)
    name = f"node {place:05d}"
    return Node(
        name=name,
        classes=classes,
        records=Private(Records(samples[rows], labels[rows])),
        rules=SIMULATED_RULES,
        ledger=open_ledger("memory:", {name: Ceiling(CEILING, "1/2")}),
        account=name,
        seed=seed,
    )


@lru_cache(maxsize=2)
def _data(source: str) -> tuple[NDArray[Any], NDArray[np.int64], tuple[str, ...]]:
    if source == "digits":
        parts = digits()
        return parts.private_samples, parts.private_labels, tuple(map(str, parts.classes))
    table = read_table(source, "y")
    assert table.labels is not None
    names, indices = np.unique(table.labels, return_inverse=True)
    return table.samples, indices.astype(np.int64), tuple(map(str, names))


# Flower's code for a client app that raised.
RAISED = 2


def contexts(count: int, names: Sequence[str] | None = None) -> list[Context]:
    """One context per node, numbered as in Flower's own simulation.

    >>> [each.node_config["partition-id"] for each in contexts(2)]
    [0, 1]
    """
    return [
        Context(
            run_id=1,
            node_id=number + 1,
            node_config={"partition-id": number, "num-partitions": count, "name": names[number] if names else ""},
            state=RecordDict(),
            run_config={},
        )
        for number in range(count)
    ]


class InProcessGrid(Grid):  # type: ignore[misc]
    """A grid whose nodes are function calls. With ``keep``, ``sent`` has every reply, for tests that inspect them."""

    def __init__(self, app: ClientApp, nodes: Sequence[Context], keep: bool = False) -> None:
        # Flower adds the sender's ids to messages, and sets them itself in its own processes only.
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
        self._app = app
        self._nodes = {context.node_id: context for context in nodes}
        self._replies: dict[str, Message] = {}
        self._keep = keep
        self.sent: list[Message] = []

    def set_run(self, run: object) -> None:
        """There is one run only."""

    @property
    def run(self) -> object:
        """There is one run only."""
        return None

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """A message, as Flower's own grids make it."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """All nodes, always."""
        return list(self._nodes)

    def get_nodes(self) -> list[NodeInfo]:
        """All nodes, always, with the names they were given."""
        return [NodeInfo(node_id=node, name=context.node_config["name"]) for node, context in self._nodes.items()]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Call the client app for each message, and keep its reply until it is pulled."""
        pushed = []
        for message in messages:
            identity = uuid.uuid4().hex
            message.metadata.__dict__["_message_id"] = identity
            try:
                reply = self._app(message, self._nodes[message.metadata.dst_node_id])
            except Exception as error:
                reply = Message(Error(RAISED, f"{type(error)}:<'{error}'>"), reply_to=message)
            self._replies[identity] = reply
            if self._keep:
                self.sent.append(reply)
            pushed.append(identity)
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The available replies, each once."""
        return [self._replies.pop(each) for each in list(message_ids) if each in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Push, then pull until all replies are available or the timeout has passed."""
        waiting, found = set(self.push_messages(messages)), []
        end = None if timeout is None else time.monotonic() + timeout
        while waiting and (end is None or time.monotonic() < end):
            replies = self.pull_messages(waiting)
            waiting -= {each.metadata.reply_to_message_id for each in replies}
            found += replies
        return found
