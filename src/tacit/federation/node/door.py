"""The socket by which a message's own small process hands a request to the node that stays up.

What crosses is how long the coordinator waits, the request as it came, and the reply as it leaves: no other words. Only
the node's user can open the socket. Nothing of the node is imported here, so a message's process starts quickly.
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

__all__ = ["DOOR_VARIABLE", "LocalSocket", "hand_over", "receive"]

# The name in the environment of a node's processes for the socket.
DOOR_VARIABLE = "TACIT_NODE_DOOR"
_SECONDS = struct.Struct("<d")
_LONGEST_ADDRESS = 100


class LocalSocket:
    """A socket at a place, for its owner alone; what a killed process left there is removed."""

    def __init__(self, place: Path, callers: int) -> None:
        self.place = place
        place.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _reachable(place) as address:
            self._socket.bind(address)
        place.chmod(0o600)
        self._socket.listen(callers)

    def accept(self) -> Connection:
        """The next caller; an ``OSError`` once the door is closed."""
        caller, _ = self._socket.accept()
        return Connection(caller.detach())

    def close(self) -> None:
        """Let nobody in any more; whoever waits for callers is told."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.place.unlink(missing_ok=True)


def receive(connection: Connection) -> tuple[bytes, float]:
    """A request, and for how many seconds its reply is waited for; a larger one than may be is an ``OSError``."""
    # One byte more than is read: the node says that it is too large.
    sent = connection.recv_bytes(LARGEST_REQUEST + _SECONDS.size + 1)
    if len(sent) < _SECONDS.size:
        raise EOFError
    (seconds,) = _SECONDS.unpack(sent[: _SECONDS.size])
    return sent[_SECONDS.size :], seconds


def hand_over(place: Path, payload: bytes, seconds: float) -> bytes:
    """Give a request to the node that stays up, and wait for its reply.

    >>> import tempfile, threading
    >>> place = Path(tempfile.mkdtemp()) / "door"
    >>> door = LocalSocket(place, 1)
    >>> def answer():
    ...     with door.accept() as connection:
    ...         payload, seconds = receive(connection)
    ...         connection.send_bytes(payload[::-1])
    >>> thread = threading.Thread(target=answer)
    >>> thread.start()
    >>> hand_over(place, b"which?", 60.0)
    b'?hcihw'
    >>> thread.join()
    >>> door.close()
    """
    with _reachable(place) as address, Client(address, "AF_UNIX") as connection:
        connection.send_bytes(_SECONDS.pack(seconds) + payload)
        return connection.recv_bytes(LARGEST_REQUEST)


@contextmanager
def _reachable(place: Path) -> Iterator[str]:
    """A socket's address, which may have 107 bytes only; a longer path is reached by its open folder."""
    if len(os.fsencode(place)) <= _LONGEST_ADDRESS or sys.platform != "linux":
        yield str(place)
        return
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)
