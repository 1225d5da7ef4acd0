"""Telemetry of a node for its operator: events as JSON lines, counters for Prometheus, and health checks.

None of it depends on a record. Events have a closed set of fields; errors are logged as ``failure_in_words`` says.
Counters count questions and refusals, which depend on the questions, the policy and the ledger; they change when an
answer leaves, at a multiple of the node's pace. Response times, processor time and memory are not shown: they depend on
the records and their number.

The remaining budget depends on payments only. It is shown with the token, and by default on the node's own machine.
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
# Bytes of a log file, and the number of older files that are kept: refusals must not fill the disk.
LOG_BYTES, LOG_FILES = 10 * 2**20, 5
_LONGEST = 200
# All events and the fields that each may have.
EVENTS: Mapping[str, tuple[str, ...]] = {
    "started": ("node", "version", "address", "waiting"),
    "loaded": ("node",),
    "rejected": ("reason",),
    "began": ("job", "run", "round", "step"),
    "finished": ("job", "run", "round", "step", "state", "reason", "paid"),
    "draining": ("signal",),
    "ended": ("state",),
    "error": ("what",),
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
    level = logging.WARNING if event in ("rejected", "error") else logging.INFO
    _log.log(level, event, extra={"tacit_fields": fields})


class JsonLines(logging.Formatter):
    """One JSON object per line: time (UTC), level, event and its fields; other loggers' lines are ``message`` events.

    Of an exception only its type and place are logged, because its text may quote a record.

    >>> record = logging.LogRecord("tacit.node", logging.ERROR, "", 0, "round %d", (1,), None)
    >>> json.loads(JsonLines().format(record))["message"]
    'round 1'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line of one log record."""
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
    """Log Tacit's messages of this process as JSON lines, to files of bounded size that only their owner may read."""
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
    # A line that cannot be written, for example on a full disk, must not be printed with its arguments.
    logging.raiseExceptions = False
    # An exception that ends a thread is logged without its text, which may quote a record.
    threading.excepthook = _thread_failed


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None:
        tell("error", what=f"a thread ended: {failure_in_words(failed.exc_value)}")


class NodeMetrics:
    """Counters of one node, in their own registry: Python's default one shows memory and processor time.

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
        self._requests = Counter("tacit_node_requests", "Questions by their outcome.", ["state"], registry=made)
        self._refusals = Counter(
            "tacit_node_refusals", "Questions that were not answered, by reason.", ["reason"], registry=made
        )
        self._draining = Gauge("tacit_node_draining", "1 while the node is stopping.", registry=made)
        Gauge("tacit_node_waiting", "Questions waiting in the queue.", registry=made).set_function(
            lambda: float(waiting())
        )
        self._left = Gauge(
            "tacit_node_budget_epsilon_left", "Remaining epsilon of the account.", ["account"], registry=made
        )
        self._ceiling = Gauge(
            "tacit_node_budget_epsilon_ceiling",
            "Epsilon that the account may spend in total.",
            ["account"],
            registry=made,
        )
        # Every counter exists from the beginning.
        for state in (ANSWERED, REFUSED, CANCELED, EXPIRED):
            self._requests.labels(state)
        for reason in RefusalReason:
            self._refusals.labels(str(reason))

    def settled(self, state: str, reason: RefusalReason | None = None) -> None:
        """Count a finished question."""
        self._requests.labels(state).inc()
        if reason is not None:
            self._refusals.labels(str(reason)).inc()

    def drain(self) -> None:
        """Show that the node is stopping."""
        self._draining.set(1)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        for account, (left, ceiling) in self._budget().items():
            self._left.labels(account).set(left)
            self._ceiling.labels(account).set(ceiling)
        return generate_latest(self._registry)


def read_token(file: Path) -> str:
    """The token for ``/metrics``; a new file, readable by its owner only, if there is none.

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
        raise InvalidInput(f"{file}: a token has at least 16 characters; remove the file to get a new one")
    return found


class NodeWeb:
    """The web server of ``/health``, ``/ready`` and ``/metrics``, of which the last one requires the token.

    ``/health`` answers with the same word for every node. ``ready`` is called for every request to ``/ready``.
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
            tell("error", what=f"/metrics: {failure_in_words(error)}")
            return PlainTextResponse("Unavailable\n", status_code=503)
        return Response(content, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "Cache-Control": "no-store"})

    def start(self, host: str, port: int) -> str:
        """Serve in a thread of its own; returns the address."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind((host, port))
            opened.listen(32)
        except OSError as error:
            opened.close()
            raise InvalidInput(
                f"port {port} of {host} cannot be used ({error.strerror}): name another one as port in [service], or 0 "
                "for any free one"
            ) from None
        config = uvicorn.Config(
            self.app, log_config=None, log_level="critical", access_log=False, server_header=False, lifespan="off",
            ws="none", limit_concurrency=32, timeout_keep_alive=5,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        threading.Thread(target=self._server.run, kwargs={"sockets": [opened]}, daemon=True).start()
        place, used = opened.getsockname()[:2]
        return f"http://{f'[{place}]' if family == socket.AF_INET6 else place}:{used}"

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.should_exit = True
