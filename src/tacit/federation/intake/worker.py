"""A worker of the intake: it serves the open question and stores the messages of devices. It has no state of its own.

Any number of workers run on one store. A message is acknowledged once it is on disk: messages that arrive during a
transaction wait for the next one, so that many devices share one wait for the disk. A killed worker has lost nothing
that it acknowledged; a device without an answer posts the same bytes again.

In the shuffle model a worker sees boxes that it cannot decrypt. It does not log clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
import threading
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tacit.core import InvalidInput
from tacit.federation.certificates import read_validity
from tacit.federation.collector.server import CLOSE, Connections, Service, body_of, connection_of, guarded_service
from tacit.federation.intake.messages import IntakeRefusal, IntakeRefused, message_bytes, read_device_message
from tacit.federation.intake.question import TOKENS, OpenQuestion
from tacit.federation.intake.store import LARGEST_PUT, TAKEN, IntakeStore, StoreUnavailable
from tacit.federation.processes import failure_in_words

if TYPE_CHECKING:
    from tacit.federation.intake.store import MessageOutcome

__all__ = ["QUESTION_PATH", "AddressLimits", "WorkerLimits", "make_worker", "serve_worker"]

_log = logging.getLogger("tacit.intake")

QUESTION_PATH = "/question"
# Seconds: for a stranger's whole request; between two writes of the counts; for which caches keep /question (the file
# under its digest never changes); after which a refused device may retry.
_SECONDS, _FLUSH, _FRESH, _LATER = 15.0, 1.0, 60, 30
_DAY = 86_400


@dataclass(frozen=True)
class WorkerLimits:
    """The limits of a worker: connections in total and per address, posts per address and second, and messages that
    wait for the disk.

    >>> WorkerLimits().pending
    4096
    """

    connections: int = 256
    per_address: int = 32
    rate: float = 5.0
    burst: int = 50
    pending: int = 4096


class _Writer:
    """Stores waiting messages, one transaction after the other."""

    def __init__(self, store: IntakeStore, digest: str, most: int) -> None:
        self._store, self._digest, self._most = store, digest, most
        self._waiting: list[tuple[bytes, bytes, asyncio.Future[MessageOutcome]]] = []
        self._some = asyncio.Event()
        self.dropped: Counter[str] = Counter()

    async def stored(self, token: bytes, payload: bytes) -> MessageOutcome:
        """The outcome of a message, once it is on disk or refused."""
        if len(self._waiting) >= self._most:
            return IntakeRefusal.BUSY
        future: asyncio.Future[MessageOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((token, payload, future))
        self._some.set()
        return await future

    async def run(self) -> None:
        """Store waiting messages until the service ends."""
        while True:
            await self._some.wait()
            batch, self._waiting = self._waiting[:LARGEST_PUT], self._waiting[LARGEST_PUT:]
            if not self._waiting:
                self._some.clear()
            try:
                pairs = [(token, payload) for token, payload, _ in batch]
                outcomes = await run_in_threadpool(self._store.put, self._digest, pairs)
            except Exception as error:
                # Whatever the error is, the devices get an answer, and the next batch is tried.
                _log.error("messages could not be stored: %s", failure_in_words(error))
                outcomes = [IntakeRefusal.BUSY] * len(batch)
            for (_, _, future), outcome in zip(batch, outcomes, strict=True):
                if not future.done():
                    future.set_result(outcome)

    async def flush(self) -> None:
        """Store the counts of refused messages; once per second, so that a flood of messages is no flood of writes."""
        if self.dropped:
            counts, self.dropped = self.dropped, Counter()
            try:
                await run_in_threadpool(self._store.count, counts)
            except StoreUnavailable:
                self.dropped.update(counts)


def make_worker(
    host: str,
    port: int,
    question: OpenQuestion,
    store: IntakeStore,
    tokens: bytes | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    limits: WorkerLimits = WorkerLimits(),  # noqa: B008
    clock: Callable[[], float] = time.time,
) -> Service:
    """A worker that is ready to ``start``; ``tokens`` is the secret with which tokens were issued."""
    if question.admission == TOKENS and tokens is None:
        raise InvalidInput("the question requires tokens: a worker needs the secret with which they were issued")
    store.open(question)
    connections = Connections(limits.connections, limits.per_address, _SECONDS)
    writer = _Writer(store, question.digest, limits.pending)
    routes = _routes(question, store, tokens, connections, AddressLimits(limits.rate, limits.burst), writer, clock)

    @contextlib.asynccontextmanager
    async def writing() -> AsyncIterator[None]:
        async def flushing() -> None:
            while True:
                await asyncio.sleep(_FLUSH)
                await writer.flush()

        tasks = [asyncio.create_task(writer.run()), asyncio.create_task(flushing())]
        yield
        for each in tasks:
            each.cancel()
        await writer.flush()

    return guarded_service(host, port, routes, connections, _SECONDS, certificate, key, writing)


def _routes(
    question: OpenQuestion,
    store: IntakeStore,
    tokens: bytes | None,
    connections: Connections,
    limits: AddressLimits,
    writer: _Writer,
    clock: Callable[[], float],
) -> list[Route]:
    content, tag, most = question.to_bytes(), f'"{question.digest}"', message_bytes(question)

    async def fetch(request: Request) -> Response:
        wanted = request.path_params.get("digest")
        if wanted not in (None, question.digest):
            raise HTTPException(404)
        age = f"max-age={_FRESH}" if wanted is None else f"max-age={365 * _DAY}, immutable"
        headers = {"ETag": tag, "Cache-Control": f"public, {age}"}
        if tag in [each.strip() for each in request.headers.get("If-None-Match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        # Anyone may fetch the question, so whoever reads it slowly or never is closed where there is no room.
        connection_of(request, connections).distrust(len(content))
        return Response(content, headers=headers, media_type="application/octet-stream")

    async def post(request: Request) -> Response:
        connection = connection_of(request, connections)
        try:
            message = await taken(request, connection.origin)
            connection.work()
            outcome = await writer.stored(*message)
        except IntakeRefused as refused:
            outcome = refused.reason
        connection.distrust()
        if outcome != TAKEN:
            writer.dropped[str(outcome)] += 1
        if not isinstance(outcome, IntakeRefusal):
            # A repeated message is counted as a duplicate; its sender gets the same answer.
            return Response(TAKEN, headers=CLOSE, media_type="text/plain")
        later = {"Retry-After": str(_LATER)} if outcome in (IntakeRefusal.BUSY, IntakeRefusal.LIMITED) else {}
        return Response(str(outcome), outcome.status, headers={**CLOSE, **later}, media_type="text/plain")

    async def taken(request: Request, origin: str) -> tuple[bytes, bytes]:
        if not limits.allows(origin, time.monotonic()):
            raise IntakeRefused(IntakeRefusal.LIMITED)
        try:
            body = await body_of(request, most)
        except HTTPException:
            raise IntakeRefused(IntakeRefusal.OVERSIZED) from None
        message = read_device_message(body, question, tokens)
        if clock() >= question.closes:
            raise IntakeRefused(IntakeRefusal.LATE)
        return message.token_id, message.payload

    async def status(request: Request) -> Response:
        if not limits.allows(connection_of(request, connections).origin, time.monotonic()):
            raise HTTPException(429)
        await writer.flush()
        try:
            return JSONResponse(await run_in_threadpool(store.status), headers=CLOSE)
        except StoreUnavailable:
            return Response(str(IntakeRefusal.BUSY), IntakeRefusal.BUSY.status, headers=CLOSE, media_type="text/plain")

    return [
        Route(QUESTION_PATH, fetch, methods=["GET"]),
        Route(QUESTION_PATH + "/{digest}", fetch, methods=["GET"]),
        Route("/", post, methods=["POST"]),
        Route("/status", status, methods=["GET"]),
    ]


def serve_worker(service: Service, certificate: Path | None, tell: Callable[[str], None]) -> None:
    """Serve until the process gets SIGTERM or SIGINT."""
    if certificate is not None and (valid := read_validity(certificate)).expired():
        raise InvalidInput(f"{valid.problem()}. Renew it with `tacit federation nodes renew {certificate.parent}`")
    ended = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: ended.set())
    service.start()
    host, port = service.address
    tell(f"ready at {'http' if certificate is None else 'https'}://{host}:{port}")
    ended.wait()
    service.stop()


_BUCKETS = 2**16


class AddressLimits:
    """At most ``burst`` posts from one address at once, and ``rate`` per second on average; a rate of 0 is no limit.

    Each address has a bucket of tokens that fills up at a steady rate. The number of buckets is fixed, and a keyed hash
    says which one an address has: whoever comes from very many addresses fills no memory, and empties nobody else's
    bucket. Two addresses that share one have its rate together, which is rare while there are far fewer of them than
    buckets. The key is drawn at the start, so nobody can look for addresses that share one.

    >>> limits = AddressLimits(rate=1, burst=2)
    >>> [limits.allows("192.0.2.1", now) for now in (0.0, 0.1, 0.2, 1.1)]
    [True, True, False, True]
    """

    def __init__(self, rate: float, burst: int, buckets: int = _BUCKETS) -> None:
        if rate < 0 or burst < 1 or buckets < 1:
            raise InvalidInput("rate must be at least 0, burst and buckets at least 1")
        self._rate, self._burst, self._buckets = rate, float(burst), buckets
        self._key = os.urandom(16)
        self._level = array("d", [float(burst)]) * buckets
        self._seen = array("d", [0.0]) * buckets

    def allows(self, origin: str, now: float) -> bool:
        """Whether this address may post now; ``now`` is the time of a monotonic clock."""
        if not self._rate:
            return True
        name = hashlib.blake2b(origin.encode(), digest_size=8, key=self._key).digest()
        place = int.from_bytes(name, "big") % self._buckets
        level = min(self._burst, self._level[place] + (now - self._seen[place]) * self._rate)
        self._seen[place] = now
        self._level[place] = level - 1 if level >= 1 else level
        return level >= 1
