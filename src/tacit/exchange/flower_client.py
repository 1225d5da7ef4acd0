"""The Flower side of a node: take a letter, hand it to this site's node, send its reply. Nothing else is sent."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from tacit.exchange.flower_messages import ANSWER, content_of, payload_of
from tacit.exchange.letters import Reason, Reply, ticket_of
from tacit.exchange.node import Node, open_node
from tacit.exchange.node_file import read_node_file

__all__ = ["NODE_FILE", "app", "client_app", "configured_node"]

log = logging.getLogger("tacit.node")

# The key in a SuperNode's own configuration that names its node file.
NODE_FILE = "tacit-node"
# The key by which Flower's simulation numbers its nodes.
PLACE = "partition-id"


def client_app(node_of: Callable[[Context], Node]) -> ClientApp:
    """A client app that answers by the node which ``node_of`` finds for a context.

    Every failure is caught here: what Flower makes of an exception would carry its text to the coordinator.
    """
    made = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        payload = b""
        try:
            payload = payload_of(message)
            said = node_of(context).reply(payload)
        except Exception:
            log.exception("the node cannot answer")
            said = Reply(ticket_of(payload), Reason.FAILED).to_bytes()
        return Message(content_of(said), reply_to=message)

    made.query(ANSWER.split(".")[1])(answer)
    return made


def configured_node(context: Context) -> Node:
    """The node of this machine, by the file that its own operator named; a run has no say in it.

    Only a node of Flower's own simulation, which has a place among others and no file, takes a part of the data that
    the run names.
    """
    settings = context.node_config
    if NODE_FILE not in settings and PLACE in settings:
        from tacit.exchange.node_simulated import simulated_node

        return simulated_node(int(settings[PLACE]), int(settings["num-partitions"]), context.run_config)
    return open_node(read_node_file(str(settings[NODE_FILE])))


app = client_app(configured_node)
