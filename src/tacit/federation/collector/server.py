"""Starlette and uvicorn with limits on connections, for services that anyone can reach: collectors and the intake.

Starlette and uvicorn do not limit a connection before its TLS handshake is complete, nor the total time of a request,
so every connection is registered when it is accepted. Until its sender is authenticated, a connection is a *stranger*:
it has one deadline for handshake, request and response together, however active it is, and it is closed first where
there are too many connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tacit.core import InvalidInput
from tacit.federation.certificates import on_loopback
from tacit.federation.processes import failure_in_words

__all__ = ["CLOSE", "Connection", "Connections", "Service", "body_of", "connection_of", "guarded_service"]

_log = logging.getLogger("tacit.collector")

# Bytes of a request's headers.
HEAD = 2**14
# The time for an announced body or a large response: seconds, plus one for this many bytes.
_PATIENCE, _PACE = 60.0, 2**17
# Seconds between two checks of the deadlines, and for running requests when the service is stopped.
_LOOK, ENDING = 0.25, 10
# A connection is for one request, or for an announcement and its message.
CLOSE = {"Connection": "close"}
_Place = tuple[str, int]
Lasting = Callable[[], contextlib.AbstractAsyncContextManager[None]]


class Connection:
    """One connection from the moment it is accepted: whether its sender is authenticated, and its deadline."""

    def __init__(self, accepted: socket.socket, origin: str, seconds: float) -> None:
        self.origin = origin
        self.stranger = True
        self.allowed = 0
        self._socket, self._seconds = accepted, seconds
        self._deadline = time.monotonic() + seconds

    def trust(self, seconds: float) -> None:
        """Never close this connection for another one, and give it this many seconds: its sender is authenticated."""
        self.stranger = False
        self._deadline = time.monotonic() + seconds

    def distrust(self, amount: int = 0) -> None:
        """Treat the connection as a stranger's from now on, with a stranger's time and that for sending this much."""
        self.stranger = True
        self._deadline = time.monotonic() + self._seconds + amount / _PACE

    def give(self, amount: int) -> None:
        """Allow the time for receiving or sending this many bytes."""
        self.trust(_PATIENCE + amount / _PACE)

    def work(self) -> None:
        """Lift the deadline: the request was read, and the time that it takes now is the service's own."""
        self.trust(math.inf)

    def overdue(self, now: float) -> bool:
        """Whether the deadline has passed."""
        return now >= self._deadline

    def cut(self) -> None:
        """Close the connection, whatever it is doing."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """At most ``total`` connections, at most ``each`` of one origin; a stranger has ``seconds`` seconds in total.

    Where there would be one too many, the oldest stranger is closed: an honest request takes less than a second. Only
    the accepting thread changes anything here.
    """

    def __init__(self, total: int, each: int, seconds: float) -> None:
        self.total, self._each, self._seconds = total, each, seconds
        # In the order in which they were accepted.
        self._here: dict[_Place, Connection] = {}

    def admit(self, accepted: socket.socket, place: _Place) -> Connection | None:
        """The new connection; None where there is no room and no stranger to close."""
        made = Connection(accepted, _origin(place[0]), self._seconds)
        for origin, most in ((made.origin, self._each), (None, self.total)):
            here = {key: each for key, each in self._here.items() if origin in (None, each.origin)}
            if len(here) >= most:
                oldest = next((key for key, each in here.items() if each.stranger), None)
                if oldest is None:
                    return None
                self._here.pop(oldest).cut()
        self._here[place] = made
        return made

    def at(self, place: _Place) -> Connection | None:
        """The connection from this address and port, unless it was closed."""
        return self._here.get(place)

    def release(self, place: _Place, connection: Connection) -> None:
        """Forget a connection that has ended."""
        if self._here.get(place) is connection:
            del self._here[place]

    def cut_overdue(self) -> None:
        """Close every connection whose deadline has passed."""
        now = time.monotonic()
        for place in [place for place, each in self._here.items() if each.overdue(now)]:
            self._here.pop(place).cut()

    def all(self) -> list[Connection]:
        """All open connections."""
        return list(self._here.values())


class _Listener(socket.socket):
    """A listening socket whose ``connections`` decide whether to accept, before a byte of a handshake is read."""

    connections: Connections

    def accept(self) -> tuple[socket.socket, Any]:
        found, address = super().accept()
        accepted, place = _Accepted(fileno=found.detach()), (str(address[0]), int(address[1]))
        connection = self.connections.admit(accepted, place)
        if connection is None:
            accepted.close()
            # The event loop takes this for a client that has closed the connection.
            raise ConnectionAbortedError("there is no room")
        accepted.over = lambda: self.connections.release(place, connection)
        return accepted, address


class _Accepted(socket.socket):
    """A connection's socket, which calls ``over`` when it is closed."""

    over: Callable[[], None] | None = None

    def close(self) -> None:
        if self.over is not None:
            self.over()
        super().close()


class Service:
    """A server that is listening, and answers between ``start`` and ``stop``."""

    def __init__(self, server: uvicorn.Server, listener: _Listener) -> None:
        self._server, self._listener = server, listener
        self._thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        self.address: _Place = listener.getsockname()[:2]

    def start(self) -> None:
        """Start to answer, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more connections, wait for running requests, and return."""
        self._server.should_exit = True
        for each in self._listener.connections.all():
            if each.stranger:
                each.cut()
        self._thread.join()


def guarded_service(
    host: str,
    port: int,
    routes: list[Route],
    connections: Connections,
    seconds: float,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    lasting: Lasting = contextlib.nullcontext,
) -> Service:
    """A service with these routes that is ready to ``start``. Without a certificate it listens on loopback only.

    A stranger's request has ``seconds`` seconds. ``lasting`` is a context manager around the life of the service.
    """
    if certificate is None and not on_loopback(host):
        raise InvalidInput(f"a service at {host} needs a certificate and its key; without TLS only loopback is served")
    context = None if certificate is None else _server_context(certificate, key)
    config = uvicorn.Config(
        _application(routes, connections, lasting),
        # The implementations in Python: only they accept and close through the listener above.
        loop="asyncio",
        http="h11",
        ws="none",
        # Addresses of clients are not logged.
        log_config=None,
        log_level="critical",
        access_log=False,
        # A client's address must not be taken from a header that the client wrote.
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=HEAD,
        timeout_keep_alive=math.ceil(seconds),
        timeout_graceful_shutdown=ENDING,
        backlog=2 * connections.total,
        ssl_context_factory=None if context is None else lambda *_: context,
    )
    return Service(uvicorn.Server(config), _listening(host, port, connections))


def connection_of(request: Request, connections: Connections) -> Connection:
    """The connection of a request, found by the client's address and port."""
    found = connections.at((request.client.host, request.client.port)) if request.client else None
    if found is None:
        # It was closed in the meantime.
        raise HTTPException(408)
    return found


async def body_of(request: Request, limit: int) -> bytes:
    """A request's body; nothing is read if its stated length is missing or above the limit."""
    length = request.headers.get("Content-Length", "")
    if not length.isdecimal() or len(length) > 20:
        raise HTTPException(411)
    if int(length) > limit:
        raise HTTPException(413)
    return await request.body()


def _application(routes: list[Route], connections: Connections, lasting: Lasting) -> Starlette:
    async def refused(_: Request, error: Exception) -> Response:
        return Response(status_code=error.status_code if isinstance(error, HTTPException) else 400, headers=CLOSE)

    async def failed(_: Request, error: Exception) -> Response:
        _log.error("a request could not be answered: %s", failure_in_words(error))
        return Response(status_code=500, headers=CLOSE)

    @contextlib.asynccontextmanager
    async def watching(_: Starlette) -> AsyncIterator[None]:
        async def watch() -> None:
            while True:
                connections.cut_overdue()
                await asyncio.sleep(_LOOK)

        watcher = asyncio.create_task(watch())
        async with lasting():
            yield
        watcher.cancel()

    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: refused, ClientDisconnect: refused, Exception: failed},
        lifespan=watching,
    )


def _server_context(certificate: str | Path, key: str | Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"{certificate}: cannot be used as a certificate ({error})") from None
    return context


def _listening(host: str, port: int, connections: Connections) -> _Listener:
    listener = _Listener(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.connections = connections
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2 * connections.total)
    except OSError as error:
        listener.close()
        raise InvalidInput(f"cannot listen at {host}:{port} ({error.strerror})") from None
    return listener


def _origin(address: str) -> str:
    """An IPv4 address, or the /64 network of an IPv6 address, all of which one machine may own."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(ip_network(f"{found}/64", strict=False))
    return str(found)
