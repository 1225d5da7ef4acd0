"""Bytes in Flower messages: one record with one field, nothing else."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, RecordDict

from tacit.core.errors import InvalidInput

__all__ = ["ANSWER", "content_of", "payload_of"]

ANSWER = "query.answer"
RECORD, FIELD = "tacit", "letter"


def content_of(payload: bytes) -> RecordDict:
    """Bytes as a message's content.

    >>> content_of(b"letter")["tacit"]["letter"]
    b'letter'
    """
    return RecordDict({RECORD: ConfigRecord({FIELD: payload})})


def payload_of(message: Message) -> bytes:
    """The bytes in a message, if it has exactly the one record with the one field."""
    if not message.has_content():
        raise InvalidInput("the message has no content")
    content = message.content
    if list(content) != [RECORD] or list(content[RECORD]) != [FIELD]:
        raise InvalidInput("the message has other records than a letter")
    payload = content[RECORD][FIELD]
    if not isinstance(payload, bytes):
        raise InvalidInput("the message's letter is not bytes")
    return payload
