"""The Flower side of a node: take a request, hand it to this machine's node, send its reply. Nothing else is sent."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from tacit.federation.flower.processes import ARRAYS
from tacit.federation.flower.transport import MESSAGE_TYPE, content_of, payload_of
from tacit.federation.logs import failure_in_words
from tacit.federation.messages import RefusalReason, Response, digest_request
from tacit.federation.node.files import RunArrays, read_node_file
from tacit.federation.node.node import Node, open_node

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
        except Exception as error:
            log.error("the node cannot answer: %s", failure_in_words(error))
            said = Response(digest_request(payload), RefusalReason.FAILED).to_bytes()
        return Message(content_of(said), reply_to=message)

    made.query(MESSAGE_TYPE.split(".")[1])(answer)
    return made


def configured_node(context: Context) -> Node:
    """The node of this machine, by the file that its own operator named; a run has no say in it.

    Only a node of Flower's own simulation, which has a place among others and no file, takes a part of the data that
    the run names.
    """
    settings = context.node_config
    if NODE_FILE not in settings and PLACE in settings:
        from tacit.federation.flower.simulated import simulated_node

        return simulated_node(int(settings[PLACE]), int(settings["num-partitions"]), context.run_config)
    folder = os.environ.get(ARRAYS)
    return open_node(
        read_node_file(str(settings[NODE_FILE])), RunArrays(str(context.run_id), Path(folder) if folder else None)
    )


app = client_app(configured_node)
