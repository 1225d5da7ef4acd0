"""The app of a message's own process: take the request out, hand it over to the node that stays up, send its reply."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from tacit.federation.flower.server import MESSAGE_TYPE, content_of, payload_of
from tacit.federation.messages import RefusalReason, Response, digest_request
from tacit.federation.node.door import DOOR_VARIABLE, hand_over
from tacit.federation.processes import failure_in_words

__all__ = ["answering_app", "handing_over"]

_log = logging.getLogger("tacit.node")


def answering_app(reply: Callable[[bytes, Message, Context], bytes]) -> ClientApp:
    """A client app whose answers are what ``reply`` makes of a request.

    Every failure is caught here: what Flower makes of an exception would carry its text to the coordinator.
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


def handing_over() -> ClientApp:
    """The app of a real node: its own operator's node answers, and nothing that a run says changes which one."""
    door = Path(os.environ[DOOR_VARIABLE])
    return answering_app(lambda payload, message, _: hand_over(door, payload, float(message.metadata.ttl)))
