"""The socket by which a message's own small process hands a request to the node that stays up.

What crosses is how long the asker waits, the request as it came, and the reply as it leaves: no other words. Only the
node's user can open the socket. Nothing of the node is imported here, so a message's process starts quickly.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

from tacit.federation.messages import LARGEST_REQUEST

__all__ = ["DOOR_VARIABLE", "hand_over", "listen_at", "receive"]

# The name in the environment of a node's processes for the socket.
DOOR_VARIABLE = "TACIT_NODE_DOOR"
_SECONDS = struct.Struct("<d")
_LONGEST_ADDRESS = 100


def listen_at(place: Path, callers: int) -> Listener:
    """A socket at a place, for its owner alone; what a killed process left there is removed."""
    place.unlink(missing_ok=True)
    with _reachable(place) as address:
        made = Listener(address, "AF_UNIX", backlog=callers)
    place.chmod(0o600)
    return made


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
    >>> with listen_at(place, 1) as listener:
    ...     def answer():
    ...         with listener.accept() as connection:
    ...             payload, seconds = receive(connection)
    ...             connection.send_bytes(payload[::-1])
    ...     thread = threading.Thread(target=answer)
    ...     thread.start()
    ...     hand_over(place, b"which?", 60.0)
    b'?hcihw'
    >>> thread.join()
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
