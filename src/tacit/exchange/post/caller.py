"""The other end of the service: hand in, open, collect, over TLS with the federation's own authority."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tacit.core.errors import InvalidInput, TacitError
from tacit.exchange.fields import opened
from tacit.exchange.identity import Identity
from tacit.exchange.post.batch import LARGEST_BATCH, Batch, Submission
from tacit.exchange.post.envelope import Envelope, Reason, Refused
from tacit.exchange.post.office import COORDINATOR
from tacit.exchange.post.service import on_loopback

__all__ = ["Address", "Unreachable", "collect", "hand_in", "open_batch", "read_status"]


class Unreachable(TacitError):
    """The service does not answer; nothing is lost, and the same call may be made again."""


@dataclass(frozen=True)
class Address:
    """Where a service is, and the certificate of the authority that vouches for it."""

    url: str
    authority: str | Path | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None:
            raise InvalidInput(f"an address must be like https://host:port, got {self.url!r}")
        if parts.scheme == "http" and not on_loopback(parts.hostname):
            raise InvalidInput(f"{self.url}: without TLS only loopback is called")


def open_batch(address: Address, identity: Identity, batch: Batch) -> None:
    """The coordinator announces a batch; again is the same as once."""
    _call(address, _enveloped(identity, "open", batch, COORDINATOR, batch.to_bytes()), "opened")


def hand_in(address: Address, identity: Identity, node: str, batch: Batch, submission: Submission) -> None:
    """A holder hands in; the same again is the same as once. When this returns, it is on the collector's disk."""
    _call(address, _enveloped(identity, "submit", batch, node, submission.to_bytes()), "taken")


def collect(address: Address, identity: Identity, batch: Batch) -> bytes | None:
    """What the batch came to, or nothing while too few are in. The first time closes the batch."""
    try:
        return _call(address, _enveloped(identity, "collect", batch, COORDINATOR, b""), "output")
    except Refused as refused:
        if refused.reason is Reason.WAITING:
            return None
        raise


def read_status(address: Address) -> dict[str, Any]:
    """The service's counts."""
    content = _request(address, "GET", "/status", b"")
    try:
        counts: dict[str, Any] = json.loads(content)
    except ValueError:
        raise Unreachable(f"{address.url} is not such a service") from None
    return counts


def _enveloped(identity: Identity, kind: str, batch: Batch, node: str, body: bytes) -> bytes:
    return Envelope.signed(identity, kind, batch.run, batch.round, batch.digest, node, body).to_bytes()


def _call(address: Address, payload: bytes, expected: str) -> bytes:
    fields = opened(_request(address, "POST", "/", payload), LARGEST_BATCH, "reply")
    if fields.peek("refused") is not None:
        raise Refused(Reason(fields.one_of("refused", tuple(Reason))))
    return fields.content(expected, LARGEST_BATCH) if expected == "output" else fields.digest(expected).encode()


def _request(address: Address, method: str, path: str, payload: bytes) -> bytes:
    parts = urlsplit(address.url)
    assert parts.hostname is not None
    if parts.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=address.authority)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(f"{address.authority}: cannot be used as an authority ({error})") from None
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=address.timeout, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=address.timeout)
    try:
        connection.request(method, path, payload)
        response = connection.getresponse()
        content = response.read(LARGEST_BATCH)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{address.url} does not answer ({error})") from None
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise Unreachable(f"{address.url} answers with status {response.status}")
    return content
