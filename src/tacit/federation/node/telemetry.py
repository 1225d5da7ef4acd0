"""What a node that stays up tells its operator: events as JSON lines, counters for Prometheus, and whether it is well.

None of it depends on a record. Events have a closed set of fields; of an error there is what ``failure_in_words`` says.
Counters count questions and refusals, which follow from the questions, the policy and the ledger, and they move when an
answer leaves, at a whole number of paces. Times that answers took, processor time and memory are not told: how long a
question takes and how much memory it needs depends on the records, also on how many there are.

What is left of the budget follows from the payments. It is told to whoever shows the token, by default on the node's
own machine only.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tacit.core import InvalidInput
from tacit.core.files import write_file
from tacit.federation.messages import RefusalReason
from tacit.federation.node.queue import ANSWERED, CANCELED, EXPIRED, REFUSED
from tacit.federation.processes import failure_in_words
from tacit.version import __version__

__all__ = ["EVENTS", "NodeMetrics", "NodeWeb", "log_events", "read_token", "tell"]

_log = logging.getLogger("tacit.service")
# A log may have this many bytes, and this many older ones are kept: whoever asks cannot fill a disk with refusals.
LOG_BYTES, LOG_FILES = 10 * 2**20, 5
_LONGEST = 200
# What may be said of an event, and nothing else.
EVENTS: Mapping[str, tuple[str, ...]] = {
    "started": ("node", "version", "address", "waiting"),
    "loaded": ("node",),
    "queued": ("job", "run", "round", "step"),
    "turned_away": ("reason",),
    "began": ("job", "run", "round", "step"),
    "finished": ("job", "run", "round", "step", "state", "reason", "paid"),
    "draining": ("signal",),
    "ended": ("state",),
    "trouble": ("what",),
}


def tell(event: str, **fields: str | int) -> None:
    """Log an event with the fields that it may have.

    >>> tell("started", records=1000)
    Traceback (most recent call last):
        ...
    ValueError: the event 'started' has no field 'records'
    """
    for name in fields:
        if name not in EVENTS[event]:
            raise ValueError(f"the event {event!r} has no field {name!r}")
    level = logging.WARNING if event in ("turned_away", "trouble") else logging.INFO
    _log.log(level, event, extra={"tacit_fields": fields})


class JsonLines(logging.Formatter):
    """One JSON object per line: time (UTC), level, event, and its fields; words of other loggers are a ``message``.

    Of an exception there is never more than its type and place, because others' words may quote a record.

    >>> record = logging.LogRecord("tacit.node", logging.ERROR, "", 0, "round %d", (1,), None)
    >>> json.loads(JsonLines().format(record))["message"]
    'round 1'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line for one record."""
        fields = getattr(record, "tacit_fields", None)
        said: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "event": "message" if fields is None else record.getMessage(),
        }
        if fields is None:
            said |= {"logger": record.name, "message": record.getMessage()[: 10 * _LONGEST]}
            if record.exc_info and record.exc_info[1] is not None:
                said["error"] = failure_in_words(record.exc_info[1])
        else:
            said |= {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in fields.items()}
        return json.dumps(said)


def log_events(file: Path) -> None:
    """Send what Tacit says in this process to a file of its owner's as JSON lines, in a bounded number of files."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    handler = RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("tacit")
    for before in list(logger.handlers):
        logger.removeHandler(before)
        before.close()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # A line that cannot be written, as on a full disk, must not end up on the screen with its arguments.
    logging.raiseExceptions = False
    # What a thread dies of goes to the log in words, not to the screen with the values that it was about.
    threading.excepthook = _thread_failed


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None:
        tell("trouble", what=f"a thread ended: {failure_in_words(failed.exc_value)}")


class NodeMetrics:
    """Counters of one node, in a registry of their own: Python's usual one tells memory and processor time.

    >>> metrics = NodeMetrics("north")
    >>> metrics.settled(REFUSED, RefusalReason.BUDGET)
    >>> 'tacit_node_refusals_total{reason="budget"} 1.0' in metrics.text().decode()
    True
    """

    def __init__(
        self,
        name: str,
        waiting: Callable[[], int] = lambda: 0,
        budget: Callable[[], Mapping[str, tuple[float, float]]] = dict,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry, self._budget = CollectorRegistry(), budget
        made = self._registry
        info = Gauge("tacit_node_info", "The node and its version.", ["node", "version"], registry=made)
        info.labels(name, __version__).set(1)
        self._requests = Counter("tacit_node_requests", "Questions by what became of them.", ["state"], registry=made)
        self._refusals = Counter(
            "tacit_node_refusals", "Questions that were not answered, by reason.", ["reason"], registry=made
        )
        self._draining = Gauge("tacit_node_draining", "1 while the node ends.", registry=made)
        Gauge("tacit_node_waiting", "Questions that wait.", registry=made).set_function(lambda: float(waiting()))
        self._left = Gauge("tacit_node_budget_epsilon_left", "What is left.", ["account"], registry=made)
        self._ceiling = Gauge("tacit_node_budget_epsilon_ceiling", "What there ever is.", ["account"], registry=made)
        # All that can ever be counted is there from the beginning.
        for state in (ANSWERED, REFUSED, CANCELED, EXPIRED):
            self._requests.labels(state)
        for reason in RefusalReason:
            self._refusals.labels(str(reason))

    def settled(self, state: str, reason: RefusalReason | None = None) -> None:
        """Count a question that is dealt with."""
        self._requests.labels(state).inc()
        if reason is not None:
            self._refusals.labels(str(reason)).inc()

    def drain(self) -> None:
        """Say that the node ends."""
        self._draining.set(1)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        for account, (left, ceiling) in self._budget().items():
            self._left.labels(account).set(left)
            self._ceiling.labels(account).set(ceiling)
        return generate_latest(self._registry)


def read_token(file: Path) -> str:
    """What ``/metrics`` wants to be shown; made where there is none yet, for its owner's eyes.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "metrics.token"
    >>> read_token(file) == read_token(file), oct(file.stat().st_mode & 0o777)
    (True, '0o600')
    """
    try:
        if not file.exists():
            write_file(file, f"{secrets.token_urlsafe(32)}\n".encode(), private=True, replace=False)
        found = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: cannot be read ({getattr(error, 'strerror', None) or 'not text'})") from None
    if len(found) < 16:
        raise InvalidInput(f"{file}: a token has at least 16 characters; remove the file and one is made")
    return found


class NodeWeb:
    """``/health``, ``/ready`` and ``/metrics``; the last one for whoever shows the token, and nobody else.

    Whoever asks for health learns one word, which is the same for every node. ``ready`` is asked each time.
    """

    def __init__(self, metrics: NodeMetrics, token: str, ready: Callable[[], bool]) -> None:
        self._metrics, self._token, self._ready = metrics, token, ready
        self._server: uvicorn.Server | None = None
        self.app = Starlette(
            routes=[
                Route("/health", lambda _: PlainTextResponse("ok\n")),
                Route("/ready", self._readiness),
                Route("/metrics", self._shown),
            ]
        )

    def _readiness(self, _: Request) -> Response:
        return PlainTextResponse("ready\n") if self._ready() else PlainTextResponse("not ready\n", status_code=503)

    def _shown(self, request: Request) -> Response:
        shown = request.headers.get("authorization", "")
        if not secrets.compare_digest(shown.encode(), f"Bearer {self._token}".encode()):
            return PlainTextResponse("Unauthorized\n", status_code=401, headers={"WWW-Authenticate": "Bearer"})
        try:
            content = self._metrics.text()
        except Exception as error:
            tell("trouble", what=f"/metrics: {failure_in_words(error)}")
            return PlainTextResponse("Unavailable\n", status_code=503)
        return Response(content, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "Cache-Control": "no-store"})

    def start(self, host: str, port: int) -> str:
        """Serve in a thread of its own; the address."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind((host, port))
            opened.listen(32)
        except OSError as error:
            opened.close()
            raise InvalidInput(f"port {port} of {host} cannot be used ({error.strerror}): see [service]") from None
        config = uvicorn.Config(
            self.app, log_config=None, log_level="critical", access_log=False, server_header=False, lifespan="off",
            ws="none", limit_concurrency=32, timeout_keep_alive=5,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        threading.Thread(target=self._server.run, kwargs={"sockets": [opened]}, daemon=True).start()
        place, used = opened.getsockname()[:2]
        return f"http://{f'[{place}]' if family == socket.AF_INET6 else place}:{used}"

    def stop(self) -> None:
        """Serve no more."""
        if self._server is not None:
            self._server.should_exit = True
