"""The long-running process of a node: it keeps the records in memory and answers its queue, one question at a time.

Flower starts a small process per message. That process forwards the request to this one, through a socket that only the
node's user can open, and waits for the response; both are the bytes of the wire. Here every request is queued, answered
in its turn, and its outcome stored. ``Node`` decides what is answered, refused and paid. It is created again for each
request, over records that are read once: a changed policy applies from the next question on.

When the process is stopped it finishes the running question and refuses the waiting ones; nothing is paid for them.
"""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from tacit.federation.messages import (
    RefusalReason,
    Response,
    digest_request,
    read_node_request,
    read_response,
)
from tacit.federation.node.local_socket import LocalSocket, receive
from tacit.federation.node.node import Node, open_node
from tacit.federation.node.queue import (
    ANSWERED,
    CANCELED,
    REFUSED,
    RUNNING,
    JobQueue,
    QueuedRequest,
    QueueFull,
)
from tacit.federation.node.records import LoadedArrays
from tacit.federation.node.refusals import price_in_words, reason_for
from tacit.federation.node.telemetry import NodeMetrics, tell
from tacit.federation.processes import failure_in_words
from tacit.federation.settings import NodeFile, read_node_file
from tacit.ledger import inspected
from tacit.methods.encoding import EncodingMemory
from tacit.representations.registry import admitted
from tacit.wire import Price, read_ask

__all__ = ["SOCKET", "NodeService", "budgets"]

SOCKET = "socket"
# The most processes of Flower that may wait for an answer at a time.
MOST_CALLERS = 128
# Seconds until a failed write of the queue is repeated, and between two checks of the queue.
_PAUSE, _LOOK = 1.0, 0.5


class NodeService:
    """The process of a node that has its records. The settings in ``file`` are read again for every question."""

    def __init__(self, file: Path, queue: JobQueue, metrics: NodeMetrics) -> None:
        self._file, self._queue, self._metrics = file, queue, metrics
        self._arrays = LoadedArrays()
        self._encodings = EncodingMemory(read_node_file(file).service.encodings * 2**20)
        self._waiting: dict[bytes, list[Future[bytes]]] = {}
        self._at_work, self._hearing = b"", 0
        self._lock = threading.Lock()
        self._changed, self._draining, self._idle = threading.Event(), threading.Event(), threading.Event()
        # Requests are read and stored one at a time: they may be large.
        self._reading, self._callers = threading.Lock(), threading.BoundedSemaphore(MOST_CALLERS)
        self._socket: LocalSocket | None = None
        self._worker = threading.Thread(target=self._work, daemon=True)

    def load(self) -> None:
        """Read and check the records; errors are for the operator who starts the node."""
        self._open().ledger.close()
        tell("loaded", node=read_node_file(self._file).name)

    def start(self, folder: Path) -> Path:
        """Resume the queue, and listen at a socket in this folder, which is its owner's only; returns the socket."""
        self._queue.recover()
        self._socket = LocalSocket(folder / SOCKET, MOST_CALLERS)
        self._worker.start()
        threading.Thread(target=self._listen, args=(self._socket,), daemon=True).start()
        return self._socket.place

    @property
    def alive(self) -> bool:
        """Whether the thread that answers is running."""
        return self._worker.is_alive()

    @property
    def ready(self) -> bool:
        """Whether it accepts questions."""
        return self.alive and not self._draining.is_set()

    def drain(self) -> None:
        """Accept no more questions and refuse the waiting ones; the running one is finished."""
        self._draining.set()
        self._changed.set()
        self._metrics.drain()
        with self._lock:
            left = {key: self._waiting.pop(key) for key in list(self._waiting) if key != self._at_work}
        for key, callers in left.items():
            with suppress(sqlite3.Error):
                self._queue.refuse_waiting(key, str(RefusalReason.BUSY))
            self._metrics.settled(REFUSED, RefusalReason.BUSY)
            for each in callers:
                each.set_result(b"")

    def idle(self, seconds: float) -> bool:
        """Wait at most this long for the running question and its response; returns whether it is finished."""
        return self._idle.wait(seconds) and not self._hearing

    def ask(self, payload: bytes, seconds: float) -> bytes:
        """The response to a request, in its turn; ``seconds`` is how long the coordinator waits for it."""
        digest = digest_request(payload)
        try:
            request = read_node_request(payload)
            answer: Future[bytes] = Future()
            with self._lock:
                if self._draining.is_set():
                    raise QueueFull("the node is stopping")
                key = self._queue.put(payload, request, seconds)
                self._waiting.setdefault(key, []).append(answer)
        except Exception as error:
            reason = RefusalReason.BUSY if isinstance(error, QueueFull) else reason_for(error)
            what = failure_in_words(error) if reason in (RefusalReason.FAILED, RefusalReason.BUSY) else str(reason)
            tell("rejected", reason=what)
            self._metrics.settled(REFUSED, reason)
            return Response(digest, reason).to_bytes()
        del payload
        self._changed.set()
        # Empty: the node was stopped before the question's turn.
        return answer.result() or Response(digest, RefusalReason.BUSY).to_bytes()

    def _work(self) -> None:
        while not self._draining.is_set():
            self._changed.clear()
            try:
                with self._lock:
                    request = None if self._draining.is_set() else self._queue.take()
                    self._at_work = b"" if request is None else request.key
            except sqlite3.Error as error:
                tell("error", what=f"the queue cannot be written: {failure_in_words(error)}")
                self._draining.wait(_PAUSE)
                continue
            if request is None:
                self._changed.wait(_LOOK)
                continue
            self._settle(request)
        self._idle.set()

    def _settle(self, request: QueuedRequest) -> None:
        """Answer one question, store its outcome, and pass the response to its callers."""
        about: dict[str, str | int] = {
            "job": request.job,
            "run": request.run,
            "round": request.round,
            "step": request.step,
        }
        state, reason, paid = request.state, None, ""
        if state == RUNNING:
            tell("began", **about)
            reply, paid = self._answered(request)
            try:
                answer = read_response(reply).answer
            except Exception as error:
                # Raised here it would end this thread, and after a restart the same question would end it again.
                tell("error", what=f"the response cannot be sent: {failure_in_words(error)}")
                answer = RefusalReason.FAILED
                reply = Response(digest_request(request.payload), answer).to_bytes()
            reason = answer if isinstance(answer, RefusalReason) else None
            state = ANSWERED if reason is None else CANCELED if reason is RefusalReason.CANCELED else REFUSED
        else:
            reason = RefusalReason.CANCELED if state == CANCELED else RefusalReason.BUSY
            reply = Response(digest_request(request.payload), reason).to_bytes()
        # If this cannot be stored the question is run again, which pays nothing and gives the same answer.
        try:
            self._queue.finish(request, state, str(reason or ""), paid)
        except sqlite3.Error as error:
            tell("error", what=f"the queue cannot be written: {failure_in_words(error)}")
        self._metrics.settled(state, reason)
        tell("finished", **about, state=state, reason=str(reason or ""), paid=paid)
        with self._lock:
            callers = self._waiting.pop(request.key, [])
        for each in callers:
            each.set_result(reply)

    def _answered(self, request: QueuedRequest) -> tuple[bytes, str]:
        """The response, and its price if it was paid now."""
        try:
            node = self._open(request.job)
        except Exception as error:
            tell("error", what=f"the node cannot answer: {failure_in_words(error)}")
            return Response(digest_request(request.payload), RefusalReason.FAILED).to_bytes(), ""
        try:
            before = node.ledger.balance(node.account).payments
            reply = node.reply(request.payload)
            if self._queue.canceled(request.job):
                # Canceled while the response waited for the pace.
                reply = Response(digest_request(request.payload), RefusalReason.CANCELED).to_bytes()
            bought = node.ledger.balance(node.account).payments > before
            return reply, _price(request, node) if bought else ""
        except Exception as error:
            tell("error", what=f"the node cannot answer: {failure_in_words(error)}")
            return Response(digest_request(request.payload), RefusalReason.FAILED).to_bytes(), ""
        finally:
            node.ledger.close()

    def _open(self, job: str = "") -> Node:
        reads = self._arrays.reads
        node = open_node(read_node_file(self._file), self._arrays)
        if self._arrays.reads != reads:
            self._encodings.forget()
        return replace(node, encodings=self._encodings, canceled=lambda: self._queue.canceled(job))

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            socket, self._socket = self._socket, None
            socket.close()

    def _listen(self, socket: LocalSocket) -> None:
        while True:
            try:
                connection = socket.accept()
            except OSError as error:
                if self._socket is None:
                    return
                tell("error", what=f"a connection cannot be accepted: {failure_in_words(error)}")
                self._draining.wait(_PAUSE)
                continue
            if self._callers.acquire(blocking=False):
                threading.Thread(target=self._hear, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _hear(self, connection: Connection) -> None:
        # The caller may have ended in the meantime.
        with self._lock:
            self._hearing += 1
        try:
            with connection, suppress(EOFError, OSError):
                with self._reading:
                    payload, seconds = receive(connection)
                connection.send_bytes(self.ask(payload, seconds))
        finally:
            with self._lock:
                self._hearing -= 1
            self._callers.release()


def _price(request: QueuedRequest, node: Node) -> str:
    with admitted(node.rules.representations):
        ask = read_ask(read_node_request(request.payload).ask, methods=node.rules.methods)
    return price_in_words(Price.of(ask).spend)


def budgets(settings: NodeFile) -> dict[str, tuple[float, float]]:
    """The remaining ε and the ceiling of the node's account, if the operator allows to show them."""
    if not settings.service.tells_budget:
        return {}
    with inspected(settings.ledger) as book:
        balance = book.balance(settings.account)
    return {settings.account: (float(balance.remaining), float(balance.ceiling.epsilon))}
