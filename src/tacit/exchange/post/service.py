"""A shuffler or a curator as a small web service: one address that takes envelopes, and one that shows counts.

Outside loopback it speaks TLS only. Who sends is shown by the signature inside an envelope, not by the connection.
Messages beyond a stated size are not read, and slow connections are cut.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput

__all__ = ["CONNECTIONS", "MOST_BYTES", "make_service", "on_loopback"]

SLOWEST = 60.0
# Connections at a time, and bytes of a message.
CONNECTIONS = 64
MOST_BYTES = 64 * 2**20


def on_loopback(host: str) -> bool:
    """Whether an address never leaves the machine.

    >>> on_loopback("127.0.0.1"), on_loopback("localhost"), on_loopback("0.0.0.0"), on_loopback("shuffler.example")
    (True, True, False, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_service(
    host: str,
    port: int,
    handle: Callable[[bytes], bytes],
    status: Callable[[], dict[str, Any]],
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    most: int = MOST_BYTES,
) -> ThreadingHTTPServer:
    """A server that is ready to ``serve_forever``. Without a certificate it listens on loopback only.

    A message has to be read before its signature can be checked, so strangers can make the server hold
    ``CONNECTIONS`` times ``most`` bytes, and no more.
    """
    if certificate is None and not on_loopback(host):
        raise InvalidInput(f"a service at {host} needs a certificate and its key; without TLS only loopback is served")

    class Handler(BaseHTTPRequestHandler):
        timeout = SLOWEST
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "tacit", ""

        def do_POST(self) -> None:
            try:
                length = int(self.headers.get("Content-Length", ""))
            except ValueError:
                length = -1
            if not 0 <= length <= most:
                self._reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"")
                return
            payload = self.rfile.read(length)
            if len(payload) == length:
                self._reply(HTTPStatus.OK, handle(payload))

        def do_GET(self) -> None:
            if self.path != "/status":
                self._reply(HTTPStatus.NOT_FOUND, b"")
                return
            self._reply(HTTPStatus.OK, json.dumps(status()).encode(), "application/json")

        def _reply(self, status: HTTPStatus, content: bytes, kind: str = "application/octet-stream") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if status is not HTTPStatus.OK:
                # What was not read would be taken for the next request.
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Addresses are nobody's business: nothing is logged about a connection."""

    class Service(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A connection that breaks off is not an error of ours, and who it was is not written down."""

        def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
            if not free.acquire(blocking=False):
                self.shutdown_request(request)
                return
            super().process_request(request, client_address)

        def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
            try:
                super().process_request_thread(request, client_address)
            finally:
                free.release()

        def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
            if context is None:
                super().finish_request(request, client_address)
                return
            # The handshake happens here, in the connection's own thread, so that a slow one holds up nobody.
            request.settimeout(SLOWEST)
            with context.wrap_socket(request, server_side=True) as wrapped:
                super().finish_request(wrapped, client_address)

    free = threading.BoundedSemaphore(CONNECTIONS)
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(f"{certificate}: cannot be used as a certificate ({error})") from None
    try:
        return Service((host, port), Handler)
    except OSError as error:
        raise InvalidInput(f"cannot listen at {host}:{port} ({error.strerror})") from None
