"""A device's two calls: fetch the open question, and post the message. Of an answer no more is read than there can be.

Only the standard library is used. Outside loopback it speaks TLS only, follows no redirection and reads no setting of
the machine's. A device that cannot reach a worker, or is told to come back, posts the same bytes again later.
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
# Tried again: the worker, or its store, is not there, or has too much to do.
_PASSING = (408, 429, 500, 502, 503, 504)


class IntakeUnreachable(TacitError):
    """No worker took the message and none refused it; the same bytes may be posted again."""


@dataclass(frozen=True)
class IntakeAddress:
    """Where a worker is, and the certificate of the authority that vouches for it; without one the system's are asked.

    >>> IntakeAddress("http://devices.example.org:80")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: http://devices.example.org:80: without TLS only loopback is called
    """

    url: str
    authority: str | Path | None = None
    timeout: float = 30.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"an address must be like https://host:port, got {self.url[:80]!r}")
        if parts.scheme == "http" and not on_loopback(parts.hostname):
            raise InvalidInput(f"{self.url[:80]}: without TLS only loopback is called")

    def connection(self) -> http.client.HTTPConnection:
        """A connection that is not made yet."""
        parts = urlsplit(self.url)
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self.timeout)
        context = client_context(self.authority)
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=self.timeout, context=context)


def fetch_question(address: IntakeAddress, most: int, digest: str | None = None, known: bytes | None = None) -> bytes:
    """The question's file, of at most this many bytes: the one of this digest, or whichever is open.

    ``known`` is a file that was fetched before: it is returned where it is still the one. Nothing of what comes is
    believed; ``Device.answer`` compares it with a digest.
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
    """Post a message; when this returns it is on the intake's disk. The same bytes again are the same as once.

    A worker that does not answer, or has too much to do, is called again after a ``pause`` that doubles each time.
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
    raise IntakeUnreachable(f"{address.url} has too much to do; post the same message again later")


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
        raise IntakeUnreachable(f"{address.url} answers with more than the {most} bytes that are read")
    return response.status, content
