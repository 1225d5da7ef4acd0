"""The client of a shuffler or curator: open, submit to and collect batches over TLS, and check the connection."""

from __future__ import annotations

import datetime
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tacit.core import InvalidInput, TacitError
from tacit.core.codec import StrictReader, decode_strict
from tacit.federation.certificates import Validity, client_context, on_loopback, why_untrusted
from tacit.federation.collector.messages import (
    ANNOUNCE,
    LARGEST_BATCH,
    UNANNOUNCED_BYTES,
    Batch,
    SignedMessage,
    Submission,
    SubmissionRefusal,
    SubmissionRefused,
)
from tacit.federation.collector.submission_store import COORDINATOR, LENGTH_BYTES
from tacit.federation.keys import SigningIdentity

__all__ = [
    "Address", "ConnectionCheck", "Unreachable", "Untrusted", "clock_problem", "collect", "open_batch", "reach",
    "read_status", "seconds_ahead", "submit",
]  # fmt: skip

# Bytes that a response may have beyond a batch's result.
_SLACK = 4096


class Unreachable(TacitError):
    """The service does not answer; the same call may be repeated without loss."""


class Untrusted(Unreachable):
    """The server cannot authenticate itself; repeating the call would not help."""


@dataclass(frozen=True)
class Address:
    """The URL of a service, and the certificate of the authority that signed its certificate."""

    url: str
    authority: str | Path | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None:
            raise InvalidInput(f"an address must be like https://host:port, got {self.url!r}")
        if parts.scheme == "http" and not on_loopback(parts.hostname):
            raise InvalidInput(f"{self.url}: without TLS only loopback addresses are allowed")


def open_batch(address: Address, identity: SigningIdentity, batch: Batch) -> None:
    """Open a batch, as the coordinator; repeating the call changes nothing."""
    _call(address, identity, "open", batch, COORDINATOR, batch.to_bytes()).digest("opened")


def submit(address: Address, identity: SigningIdentity, node: str, batch: Batch, submission: Submission) -> None:
    """Submit to a batch, as a holder; repeating it changes nothing. On return it is on the collector's disk."""
    _call(address, identity, "submit", batch, node, submission.to_bytes()).digest("taken")


def collect(address: Address, identity: SigningIdentity, batch: Batch) -> bytes | None:
    """The result of a batch, or None while too few have submitted. The first result closes the batch."""
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
        raise Unreachable(f"{address.url} is not a Tacit service") from None
    return counts


def _call(address: Address, identity: SigningIdentity, kind: str, batch: Batch, node: str, body: bytes) -> StrictReader:
    def signed(kind: str, body: bytes) -> bytes:
        return SignedMessage.signed(identity, kind, batch.run, batch.round, batch.digest, node, body).to_bytes()

    payload = signed(kind, body)
    with _connected(address) as client:
        if len(payload) > UNANNOUNCED_BYTES:
            # The service reads large messages only after a signed announcement.
            announced = signed("announce", len(payload).to_bytes(LENGTH_BYTES, "big"))
            _granted(_said(address, client, "POST", ANNOUNCE, announced))
        return _granted(_said(address, client, "POST", "/", payload))


def _granted(content: bytes) -> StrictReader:
    """The fields of a response; a refusal is raised."""
    fields = decode_strict(content, LARGEST_BATCH, "reply")
    if fields.peek("refused") is not None:
        raise SubmissionRefused(SubmissionRefusal(fields.one_of("refused", tuple(SubmissionRefusal))))
    return fields


@contextmanager
def _connected(address: Address) -> Iterator[httpx.Client]:
    """A client with one connection, which ignores proxy settings of the environment."""
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
    """The body of the service's response, up to the largest size that it can have."""
    content = bytearray()
    with client.stream(method, path, content=payload, headers={"Accept-Encoding": "identity"}) as response:
        for piece in response.iter_raw():
            content += piece
            if len(content) > LARGEST_BATCH + _SLACK:
                raise Unreachable(f"{address.url} sends more bytes than the largest batch has")
    if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        raise SubmissionRefused(SubmissionRefusal.OVERSIZED)
    if response.status_code != httpx.codes.OK:
        raise Unreachable(f"{address.url} answers with status {response.status_code}")
    return bytes(content)


# Seconds by which a clock may be ahead or behind: a SuperLink accepts no signature from the future and no old one.
AHEAD, BEHIND = 5.0, 300.0
# No service has this path, but every response has a Date header.
_HEALTH = "/health"


@dataclass(frozen=True)
class ConnectionCheck:
    """The result of a connection test: the problem, if there is one, the certificate's validity, and the clocks.

    ``trusted`` is whether the server's certificate is signed by the authority. ``ahead`` is by how many seconds the
    clock of this machine is ahead of the server's.
    """

    problem: str | None = None
    trusted: bool = False
    validity: Validity | None = None
    ahead: float | None = None


def reach(address: str, authority: Path | None, timeout: float = 10.0) -> ConnectionCheck:
    """Connect to ``host:port`` or a URL, trusting this certificate authority only."""
    parts = urlsplit(address if "//" in address else f"https://{address}")
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    else:
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=client_context(authority))
    trusted, validity = False, None
    try:
        connection.connect()
        if isinstance(connection.sock, ssl.SSLSocket):
            trusted, validity = True, _validity(connection.sock, address)
        connection.request("GET", _HEALTH)
        response = connection.getresponse()
        response.read(1024)
        return ConnectionCheck(None, trusted, validity, seconds_ahead(response.headers.get("Date")))
    except ssl.SSLCertVerificationError as error:
        return ConnectionCheck(f"{address}: {why_untrusted(error)}")
    except ssl.SSLError as error:
        return ConnectionCheck(f"{address}: does not use TLS correctly ({error.reason or error})")
    except (OSError, http.client.HTTPException) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ConnectionCheck(f"{address}: cannot be reached ({said})", trusted, validity)
    finally:
        connection.close()


def clock_problem(ahead: float | None) -> str | None:
    """What is wrong with the clock of this machine compared with the server's; None if nothing.

    >>> clock_problem(400)
    'the clock of this machine is 400 seconds ahead of the server; at most 5 are tolerated'
    >>> clock_problem(-400)
    'the clock of this machine is 400 seconds behind the server; at most 300 are tolerated'
    >>> clock_problem(-0.5) is None
    True
    """
    if ahead is None or -BEHIND <= ahead <= AHEAD:
        return None
    side, most = ("ahead of", AHEAD) if ahead > 0 else ("behind", BEHIND)
    return f"the clock of this machine is {abs(ahead):.0f} seconds {side} the server; at most {most:.0f} are tolerated"


def seconds_ahead(date: str | None) -> float | None:
    """By how many seconds this machine's clock is ahead of a server's ``Date`` header; None if it is missing."""
    try:
        theirs = parsedate_to_datetime(date or "")
        # The header has whole seconds.
        return (datetime.datetime.now(datetime.UTC) - theirs).total_seconds() - 0.5
    except (TypeError, ValueError):
        return None


def _validity(connected: ssl.SSLSocket, address: str) -> Validity | None:
    shown = connected.getpeercert() or {}
    begins, ends = shown.get("notBefore"), shown.get("notAfter")
    if not isinstance(begins, str) or not isinstance(ends, str):
        return None
    times = (datetime.datetime.fromtimestamp(ssl.cert_time_to_seconds(each), datetime.UTC) for each in (begins, ends))
    return Validity(Path(f"the certificate of {address}"), *times)
