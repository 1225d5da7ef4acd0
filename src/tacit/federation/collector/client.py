"""The other end of the service: hand in, open, collect, over TLS with the federation's own authority."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tacit.core.errors import InvalidInput, TacitError
from tacit.core.strict_reader import StrictReader, decode_strict
from tacit.federation.certificates import client_context, on_loopback, why_untrusted
from tacit.federation.collector.messages import (
    ANNOUNCE,
    LARGEST_BATCH,
    STRANGER,
    Batch,
    SignedMessage,
    Submission,
    SubmissionRefusal,
    SubmissionRefused,
)
from tacit.federation.collector.submission_store import COORDINATOR, LENGTH
from tacit.federation.keys import SigningIdentity

__all__ = ["Address", "Unreachable", "Untrusted", "collect", "open_batch", "read_status", "submit"]

# Bytes of an answer around what a batch came to.
SLACK = 4096


class Unreachable(TacitError):
    """The service does not answer; nothing is lost, and the same call may be made again."""


class Untrusted(Unreachable):
    """Somebody answers who cannot show that it is the service: called again, the same would come."""


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


def open_batch(address: Address, identity: SigningIdentity, batch: Batch) -> None:
    """The coordinator announces a batch; again is the same as once."""
    _call(address, identity, "open", batch, COORDINATOR, batch.to_bytes()).digest("opened")


def submit(address: Address, identity: SigningIdentity, node: str, batch: Batch, submission: Submission) -> None:
    """A holder hands in; the same again is the same as once. When this returns, it is on the collector's disk."""
    _call(address, identity, "submit", batch, node, submission.to_bytes()).digest("taken")


def collect(address: Address, identity: SigningIdentity, batch: Batch) -> bytes | None:
    """What the batch came to, or nothing while too few are in. The first time closes the batch."""
    try:
        return _call(address, identity, "collect", batch, COORDINATOR, b"").content("output", LARGEST_BATCH)
    except SubmissionRefused as refused:
        if refused.reason is SubmissionRefusal.WAITING:
            return None
        raise


def read_status(address: Address) -> dict[str, Any]:
    """The service's counts."""
    with _connected(address) as client:
        content = _said(address, client, "GET", "/status", b"")
    try:
        counts: dict[str, Any] = json.loads(content)
    except ValueError:
        raise Unreachable(f"{address.url} is not such a service") from None
    return counts


def _call(address: Address, identity: SigningIdentity, kind: str, batch: Batch, node: str, body: bytes) -> StrictReader:
    def signed(kind: str, body: bytes) -> bytes:
        return SignedMessage.signed(identity, kind, batch.run, batch.round, batch.digest, node, body).to_bytes()

    payload = signed(kind, body)
    with _connected(address) as client:
        if len(payload) > STRANGER:
            # Nobody reads so much from somebody whose name was not seen.
            announced = signed("announce", len(payload).to_bytes(LENGTH, "big"))
            _granted(_said(address, client, "POST", ANNOUNCE, announced))
        return _granted(_said(address, client, "POST", "/", payload))


def _granted(content: bytes) -> StrictReader:
    """A reply that does not refuse."""
    fields = decode_strict(content, LARGEST_BATCH, "reply")
    if fields.peek("refused") is not None:
        raise SubmissionRefused(SubmissionRefusal(fields.one_of("refused", tuple(SubmissionRefusal))))
    return fields


@contextmanager
def _connected(address: Address) -> Iterator[httpx.Client]:
    """A client with one connection, which no setting of the machine sends by another way."""
    context = client_context(address.authority) if address.url.startswith("https") else False
    limits = httpx.Limits(max_connections=1, keepalive_expiry=None)
    try:
        with httpx.Client(
            base_url=address.url, verify=context, trust_env=False, timeout=address.timeout, limits=limits
        ) as client:
            yield client
    except httpx.RequestError as error:
        if why := why_untrusted(error):
            raise Untrusted(f"{address.url}: {why}") from None
        raise Unreachable(f"{address.url} does not answer ({error or type(error).__name__})") from None


def _said(address: Address, client: httpx.Client, method: str, path: str, payload: bytes) -> bytes:
    """What the service answers, as it came and no more of it than there can be."""
    content = bytearray()
    with client.stream(method, path, content=payload, headers={"Accept-Encoding": "identity"}) as response:
        for piece in response.iter_raw():
            content += piece
            if len(content) > LARGEST_BATCH + SLACK:
                raise Unreachable(f"{address.url} answers with more than a batch can come to")
    if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        raise SubmissionRefused(SubmissionRefusal.OVERSIZED)
    if response.status_code != httpx.codes.OK:
        raise Unreachable(f"{address.url} answers with status {response.status_code}")
    return bytes(content)
