"""The Unix socket between Flower's process per message and the node's long-running process.

A caller sends how long the coordinator waits and the request's bytes, and gets the response's bytes. Only the node's
user can open the socket. This module imports nothing of the node, so that a message's process starts quickly.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection
from pathlib import Path

from tacit.federation.messages import LARGEST_REQUEST

__all__ = ["SOCKET_VARIABLE", "LocalSocket", "forward_request", "receive"]

# The environment variable with the socket's path, in the processes that Flower starts.
SOCKET_VARIABLE = "TACIT_NODE_SOCKET"
_SECONDS = struct.Struct("<d")
_LONGEST_ADDRESS = 100


class LocalSocket:
    """A listening socket at a path, for its owner only; the leftover of a killed process is removed."""

    def __init__(self, place: Path, callers: int) -> None:
        self.place = place
        place.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _reachable(place) as address:
            self._socket.bind(address)
        place.chmod(0o600)
        self._socket.listen(callers)

    def accept(self) -> Connection:
        """The next connection; an ``OSError`` once the socket is closed."""
        caller, _ = self._socket.accept()
        return Connection(caller.detach())

    def close(self) -> None:
        """Accept no more connections; a waiting ``accept`` raises."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.place.unlink(missing_ok=True)


def receive(connection: Connection) -> tuple[bytes, float]:
    """A request, and for how many seconds its caller waits; a request above the limit is an ``OSError``."""
    # One byte above the limit is read, so that the node can refuse the request for its size.
    sent = connection.recv_bytes(LARGEST_REQUEST + _SECONDS.size + 1)
    if len(sent) < _SECONDS.size:
        raise EOFError
    (seconds,) = _SECONDS.unpack(sent[: _SECONDS.size])
    return sent[_SECONDS.size :], seconds


def forward_request(place: Path, payload: bytes, seconds: float) -> bytes:
    """Send a request to the node's long-running process, and wait for the response.

    >>> import tempfile, threading
    >>> place = Path(tempfile.mkdtemp()) / "socket"
    >>> listening = LocalSocket(place, 1)
    >>> def answer():
    ...     with listening.accept() as connection:
    ...         payload, seconds = receive(connection)
    ...         connection.send_bytes(payload[::-1])
    >>> thread = threading.Thread(target=answer)
    >>> thread.start()
    >>> forward_request(place, b"which?", 60.0)
    b'?hcihw'
    >>> thread.join()
    >>> listening.close()
    """
    with _reachable(place) as address, Client(address, "AF_UNIX") as connection:
        connection.send_bytes(_SECONDS.pack(seconds) + payload)
        return connection.recv_bytes(LARGEST_REQUEST)


@contextmanager
def _reachable(place: Path) -> Iterator[str]:
    """A socket's address, which may have at most 107 bytes; a longer path is reached through its open folder."""
    if len(os.fsencode(place)) <= _LONGEST_ADDRESS or sys.platform != "linux":
        yield str(place)
        return
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)
