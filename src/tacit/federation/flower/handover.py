"""The Flower app of a node: forwards each request to the node's long-running process and returns its response."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from tacit.federation.flower.server import MESSAGE_TYPE, content_of, payload_of
from tacit.federation.messages import RefusalReason, Response, digest_request
from tacit.federation.node.local_socket import SOCKET_VARIABLE, forward_request
from tacit.federation.processes import failure_in_words

__all__ = ["answering_app", "forwarding_app"]

_log = logging.getLogger("tacit.node")


def answering_app(reply: Callable[[bytes, Message, Context], bytes]) -> ClientApp:
    """A client app that answers each request with ``reply``.

    Every exception is caught here: Flower would send its text to the coordinator.
    """
    made = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        payload = b""
        try:
            payload = payload_of(message)
            said = reply(payload, message, context)
        except Exception as error:
            _log.error("the node cannot answer: %s", failure_in_words(error))
            said = Response(digest_request(payload), RefusalReason.FAILED).to_bytes()
        return Message(content_of(said), reply_to=message)

    made.query(MESSAGE_TYPE.split(".")[1])(answer)
    return made


def forwarding_app() -> ClientApp:
    """The app of a real node: the node that its operator started answers, whatever the run's settings say."""
    socket = Path(os.environ[SOCKET_VARIABLE])
    return answering_app(lambda payload, message, _: forward_request(socket, payload, float(message.metadata.ttl)))
