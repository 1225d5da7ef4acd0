"""A shuffler or a curator as a web service: one path for messages, one for announcements, one that shows counts.

Except on loopback it uses TLS. The signature inside a message authenticates its sender; the connection does not. Small
messages are read at once. A larger message must be announced by a signed message first, and is read only if its sender
and batch are known, up to the announced size. ``collector/server.py`` limits unauthenticated connections.
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
from tacit.federation.collector.messages import ANNOUNCE, MOST_BYTES, UNANNOUNCED_BYTES
from tacit.federation.collector.server import CLOSE, Connections, Service, body_of, connection_of, guarded_service
from tacit.federation.collector.submission_store import REFUSALS, SubmissionStore
from tacit.federation.processes import Reminder
from tacit.federation.settings import ServiceConfig

__all__ = ["CONNECTIONS", "PER_ADDRESS", "make_service", "serve"]

# The most connections at a time, in total and from one address.
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

    A message whose announcement the ``store`` accepted is sent over the same connection. At most ``most`` bytes are
    read. A stranger's request has ``seconds`` seconds.
    """
    connections = Connections(CONNECTIONS, PER_ADDRESS, seconds)
    return guarded_service(host, port, _routes(store, connections, most), connections, seconds, certificate, key)


def _routes(store: SubmissionStore, connections: Connections, most: int) -> list[Route]:
    async def take(request: Request) -> Response:
        connection = connection_of(request, connections)
        payload = await body_of(request, max(min(UNANNOUNCED_BYTES, most), connection.allowed))
        connection.work()
        reply = await run_in_threadpool(store.handle, payload)
        if reply in REFUSALS:
            # Strangers get refusals, and must not keep others out by never closing the connection.
            connection.distrust()
        else:
            connection.give(len(reply))
        return Response(reply, headers=CLOSE, media_type="application/octet-stream")

    async def announced(request: Request) -> Response:
        connection = connection_of(request, connections)
        payload = await body_of(request, min(UNANNOUNCED_BYTES, most))
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


# Seconds between two checks of the certificate.
_HOUR = 3600.0


def serve(
    config: ServiceConfig, store: SubmissionStore, tell: Callable[[str], None], stop: threading.Event | None = None
) -> None:
    """Serve until ``stop`` is set, or the process gets SIGTERM or SIGINT."""
    if config.certificate is not None and (valid := read_validity(config.certificate)).expired():
        raise InvalidInput(
            f"{valid.problem()}. Renew it with `tacit federation nodes renew {config.certificate.parent}`"
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
