"""A process that forks children to be killed. Importing once and forking makes hundreds of kills affordable.

It reads one JSON command a line and answers with one. A child pays, draws, keeps and then tells the outside world,
a file it only appends to. Nothing in the ledger knows that it is watched: the child traces its Python lines, its SQL
statements, SQLite's own virtual-machine steps and what it asks a server from outside, and kills itself as told.
"""

import json
import os
import resource
import signal
import sqlite3
import sys
import time
import traceback
from pathlib import Path

from tacit.core import files
from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, LedgerError
from tacit.core.spend import Pure
from tacit.ledger import open_ledger, store
from tacit.ledger.places import occupied
from tacit.ledger.stored import StoredLedger

# The ledger, and what writes its files.
WATCHED = (str(Path(store.__file__).parent), files.__file__)


class Fault:
    """Counts what happens in the child, and kills it at one count."""

    def __init__(self, watch: str | None, kill_at: int | None) -> None:
        self.count = 0
        self.kill_at = kill_at
        connect = sqlite3.connect

        def watched(*arguments, **options):
            connection = connect(*arguments, **options)
            if watch == "steps":
                connection.set_progress_handler(self.happened, 1)
            else:
                connection.set_trace_callback(self.happened)
            return connection

        if watch == "server":
            self.watch_server()
        elif watch is not None:
            sqlite3.connect = watched
        if watch == "lines":
            sys.settrace(self.trace)

    def watch_server(self) -> None:
        """Before each statement is sent, and again when its answer is here."""
        import psycopg

        execute = psycopg.Connection.execute

        def watched(*arguments, **options):
            self.happened()
            answer = execute(*arguments, **options)
            self.happened()
            return answer

        psycopg.Connection.execute = watched

    def happened(self, *_: object) -> int:
        self.count += 1
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def trace(self, frame, event, argument):
        if frame.f_code.co_filename.startswith(WATCHED) or frame.f_code.co_name == "tell":
            self.happened()
            return self.trace
        return None


def tell(world: str, request: str, payload: bytes) -> None:
    """What the outside world sees: one write, on disk before anything else happens."""
    handle = os.open(world, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{request} {payload.hex()}\n".encode())
    os.fsync(handle)
    os.close(handle)


def release(ledger: StoredLedger, request: str, spend: str, world: str) -> None:
    """What the gate does: pay, look, draw, keep, and only then let go."""
    receipt = ledger.charge("clinic", Pure(spend), "labels", "system", request, "question")
    payload = ledger.stored_release(receipt)
    if payload is None:
        payload = ledger.store_release(receipt, os.urandom(16))
    tell(world, request, payload)


def careless_release(ledger: StoredLedger, request: str, spend: str, world: str) -> None:
    """The mutant that the tests must catch: it lets go first and keeps afterwards."""
    receipt = ledger.charge("clinic", Pure(spend), "labels", "system", request, "question")
    payload = ledger.stored_release(receipt) or os.urandom(16)
    tell(world, request, payload)
    ledger.store_release(receipt, payload)


def work(command: dict) -> None:
    path, world = command["path"], command.get("world", "")
    match command["work"]:
        case "create":
            if not occupied(path):
                open_ledger(path, {"clinic": Ceiling(1)}).close()
        case "release":
            with open_ledger(path) as ledger:
                for request in command["requests"]:
                    (careless_release if command.get("careless") else release)(ledger, request, command["spend"], world)
        case "exhaust":
            time.sleep(max(0.0, command["start"] - time.time()))
            with open_ledger(path) as ledger:
                number = 0
                while True:
                    try:
                        release(ledger, f"{os.getpid()}-{number}", command["spend"], world)
                    except BudgetExceeded:
                        return
                    number += 1
        case "cannot write":
            with open_ledger(path) as ledger:
                # No file may grow: SQLite's next write fails in the kernel, not in a mock.
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
                try:
                    ledger.charge("clinic", Pure(command["spend"]), "labels", "system", "r", "question")
                except LedgerError as error:
                    os.write(command["answer"], str(error).encode())


def child(command: dict, answer: int) -> None:
    fault = Fault(command.get("watch"), command.get("kill_at"))
    work({**command, "answer": answer})
    sys.settrace(None)
    if command.get("watch"):
        os.write(answer, str(fault.count).encode())


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        read, write = os.pipe()
        children = []
        for _ in range(command.get("processes", 1)):
            if (process := os.fork()) == 0:
                os.close(read)
                code = 1
                try:
                    child(command, write)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            children.append(process)
        os.close(write)
        if "kill_after" in command:
            # Not waited for yet, so the number cannot have passed to another process.
            time.sleep(command["kill_after"])
            for process in children:
                os.kill(process, signal.SIGKILL)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in children]
        with os.fdopen(read) as pipe:
            print(json.dumps({"statuses": statuses, "said": pipe.read()}), flush=True)


if __name__ == "__main__":
    main()
