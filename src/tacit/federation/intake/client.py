"""A device's two calls: fetch the open question, and post the message. Responses are read up to their largest size.

Only the standard library is used. Except on loopback it uses TLS; it follows no redirect and ignores proxy settings. A
device that cannot reach a worker, or is asked to retry, posts the same bytes again later.
"""

from __future__ import annotations

import hashlib
import http.client
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tacit.core.errors import InvalidInput, TacitError
from tacit.federation.certificates import client_context, on_loopback, why_untrusted
from tacit.federation.intake.messages import IntakeRefusal, IntakeRefused

__all__ = ["IntakeAddress", "IntakeUnreachable", "fetch_question", "post_message"]

_QUESTION = "/question"
_WORD = 200
_OK, _NOT_MODIFIED = 200, 304
# Retried: the worker or its store is unavailable or overloaded.
_PASSING = (408, 429, 500, 502, 503, 504)


class IntakeUnreachable(TacitError):
    """No worker accepted or refused the message; the same bytes may be posted again."""


@dataclass(frozen=True)
class IntakeAddress:
    """The URL of a worker, and the certificate of its authority; without one the system's authorities are trusted.

    >>> IntakeAddress("http://devices.example.org:80")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: http://devices.example.org:80: without TLS only loopback addresses are allowed
    """

    url: str
    authority: str | Path | None = None
    timeout: float = 30.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"an address must be like https://host:port, got {self.url[:80]!r}")
        if parts.scheme == "http" and not on_loopback(parts.hostname):
            raise InvalidInput(f"{self.url[:80]}: without TLS only loopback addresses are allowed")

    def connection(self) -> http.client.HTTPConnection:
        """A connection object, not connected yet."""
        parts = urlsplit(self.url)
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self.timeout)
        context = client_context(self.authority)
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=self.timeout, context=context)


def fetch_question(address: IntakeAddress, most: int, digest: str | None = None, known: bytes | None = None) -> bytes:
    """The question's file of at most ``most`` bytes: the one with this digest, or the open one.

    ``known`` is a file that was fetched before; it is returned if it has not changed. The content is not trusted:
    ``Device.answer`` compares it with a digest.
    """
    headers = {} if known is None else {"If-None-Match": f'"{hashlib.sha256(known).hexdigest()}"'}
    path = _QUESTION if digest is None else f"{_QUESTION}/{digest}"
    status, content = _called(address, "GET", path, b"", headers, most)
    if status == _NOT_MODIFIED and known is not None:
        return known
    if status != _OK:
        raise IntakeUnreachable(f"{address.url} has no such question (status {status})")
    return content


def post_message(
    address: IntakeAddress,
    body: bytes,
    attempts: int = 1,
    pause: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Post a message; on return it is on the intake's disk. Posting the same bytes again changes nothing.

    A worker that is unavailable or overloaded is called again after a ``pause`` in seconds that doubles each time.
    """
    for attempt in range(attempts):
        if attempt:
            sleep(pause * 2 ** (attempt - 1))
        try:
            status, content = _called(address, "POST", "/", body, {"Content-Type": "application/octet-stream"}, _WORD)
        except IntakeUnreachable:
            if attempt + 1 == attempts:
                raise
            continue
        if status == _OK:
            return
        if status not in _PASSING:
            word = content.decode("utf-8", "replace")
            raise IntakeRefused(next((each for each in IntakeRefusal if each == word), IntakeRefusal.MALFORMED))
    raise IntakeUnreachable(f"{address.url} is overloaded; post the same message again later")


def _called(
    address: IntakeAddress, method: str, path: str, body: bytes, headers: dict[str, str], most: int
) -> tuple[int, bytes]:
    connection = address.connection()
    try:
        sent = {**headers, "Accept-Encoding": "identity", "Connection": "close"}
        connection.request(method, path, body or None, sent)
        response = connection.getresponse()
        content = response.read(most + 1)
    except (OSError, http.client.HTTPException) as error:
        why = why_untrusted(error) or str(error)[:80] or type(error).__name__
        raise IntakeUnreachable(f"{address.url} does not answer ({why})") from None
    finally:
        connection.close()
    if len(content) > most:
        raise IntakeUnreachable(f"{address.url} sends more than the limit of {most} bytes")
    return response.status, content
