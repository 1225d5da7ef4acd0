"""A shuffler or a curator as a small web service: one address that takes messages, and one that shows counts.

Outside loopback it uses TLS only. The signature inside a message authenticates its sender, not the connection. A
small message is read at once. A larger one is announced first, signed, and read only if its sender and its batch are
known, up to what was announced. Strangers are kept short by ``collector/server.py``.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tacit.core import InvalidInput
from tacit.federation.certificates import expiry_warnings, read_validity
from tacit.federation.collector.messages import ANNOUNCE, MOST_BYTES, STRANGER
from tacit.federation.collector.server import CLOSE, Connections, Service, body_of, connection_of, guarded_service
from tacit.federation.collector.submission_store import SubmissionStore
from tacit.federation.processes import Reminder
from tacit.federation.settings import ServiceConfig

__all__ = ["CONNECTIONS", "PER_ADDRESS", "make_service", "serve"]

# Connections at a time, in all and of one address.
CONNECTIONS, PER_ADDRESS = 64, 16
# Seconds for a stranger's whole request, handshake included.
SECONDS = 15.0


def make_service(
    host: str,
    port: int,
    store: SubmissionStore,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    most: int = MOST_BYTES,
    seconds: float = SECONDS,
) -> Service:
    """A service that is ready to ``start``. Without a certificate it listens on loopback only.

    What the ``store`` grants to an announcement may be sent over the same connection; never more than ``most`` bytes
    are read. A stranger's request has ``seconds`` seconds.
    """
    connections = Connections(CONNECTIONS, PER_ADDRESS, seconds)
    return guarded_service(host, port, _routes(store, connections, most), connections, seconds, certificate, key)


def _routes(store: SubmissionStore, connections: Connections, most: int) -> list[Route]:
    async def take(request: Request) -> Response:
        connection = connection_of(request, connections)
        payload = await body_of(request, max(min(STRANGER, most), connection.allowed))
        connection.work()
        reply = await run_in_threadpool(store.handle, payload)
        # A refusal is a few bytes, so only who was known has something to wait for.
        connection.give(len(reply))
        return Response(reply, headers=CLOSE, media_type="application/octet-stream")

    async def announced(request: Request) -> Response:
        connection = connection_of(request, connections)
        payload = await body_of(request, min(STRANGER, most))
        if connection.allowed:
            raise HTTPException(409)
        reply, allowed = await run_in_threadpool(store.announce, payload)
        if allowed > most:
            raise HTTPException(413)
        if allowed:
            connection.allowed = allowed
            connection.give(allowed)
        return Response(reply, headers={} if allowed else CLOSE, media_type="application/octet-stream")

    async def status(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(store.status), headers=CLOSE)

    return [
        Route("/", take, methods=["POST"]),
        Route(ANNOUNCE, announced, methods=["POST"]),
        Route("/status", status, methods=["GET"]),
    ]


# Seconds between two looks at the certificate.
_HOUR = 3600.0


def serve(
    config: ServiceConfig, store: SubmissionStore, tell: Callable[[str], None], stop: threading.Event | None = None
) -> None:
    """Serve until ``stop`` is set, or the process is told to end."""
    if config.certificate is not None and (valid := read_validity(config.certificate)).expired():
        raise InvalidInput(
            f"{valid.trouble()}. Renew it with `tacit federation nodes renew {config.certificate.parent}`"
        )
    ended = stop or threading.Event()
    if stop is None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: ended.set())
    service = make_service(config.host, config.port, store, config.certificate, config.key, config.largest)
    reminder = Reminder(lambda: expiry_warnings([] if config.certificate is None else [config.certificate]), tell)
    service.start()
    host, port = service.address
    tell(f"ready at {'http' if config.certificate is None else 'https'}://{host}:{port}")
    reminder.look()
    while not ended.wait(_HOUR):
        reminder.look()
    service.stop()
    store.close()
