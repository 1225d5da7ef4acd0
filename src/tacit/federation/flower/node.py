"""A SuperNode with longer timeouts for its own processes, which can be killed and restarted at once."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.federation.collector.client import clock_problem, seconds_ahead
from tacit.federation.flower.link import UNREGISTERED
from tacit.federation.flower.processes import (
    CONNECTED_VARIABLE,
    GAVE_UP,
    HEARTBEAT,
    extend_timeouts,
    log_with_time,
    require_version,
)

__all__ = [
    "discard_unfetched",
    "exit_when_done",
    "fetch_several",
    "retry_activation",
    "retry_lost_connections",
    "run_node",
    "touch_on_success",
]

_log = logging.getLogger("tacit.node")

_PATIENCE, _PAUSE = 4.0 * HEARTBEAT, 2.0
# Messages that the node fetches at a time: each has a small process that waits for its answer.
MOST_AT_ONCE = 4
# Seconds between two checks for replies; the run id that is returned where no message was fetched.
_POLL, _NO_RUN = 0.5, 0
_STRANGER = (
    "this node's key is not registered there, or was removed. Its operator adds the node's .pub file with "
    "`tacit federation nodes add` and starts the coordinator again"
)
STILL_HERE = "it still expects the previous process of this node; trying again"


def retry_activation(activate: Callable[..., Any]) -> Callable[..., Any]:
    """Repeat the activation while the SuperLink still expects a killed process of this node, or does not know the key.

    A SuperLink admits a key only once: two processes with one key would have two ledgers. The key may be registered a
    moment later, when the coordinator has just been started. The cause is logged.
    """
    import httpx
    from flwr.supercore.error import ApiErrorCode, FlowerError

    def again(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401
        end, said = time.monotonic() + _PATIENCE, ""
        while True:
            try:
                return activate(*arguments, **more)
            except httpx.HTTPStatusError as error:
                found = FlowerError.from_json(error.response.text)
                if error.response.status_code == httpx.codes.UNAUTHORIZED:
                    clock = clock_problem(seconds_ahead(error.response.headers.get("Date")))
                    _log.error("the coordinator does not admit this node: %s", clock or "it rejects the signature")
                    raise
                if found is None or found.code != ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED:
                    raise
                unknown = found.public_details is not None and UNREGISTERED in found.public_details
                words = _STRANGER if unknown else STILL_HERE
                if words != said:
                    _log.warning("the coordinator does not admit this node: %s", words)
                    said = words
                if time.monotonic() >= end:
                    raise
                time.sleep(_PAUSE)

    return again


class _RunEnded(Exception):
    """A run ended while one of its messages was being fetched."""


def discard_unfetched(pull: Callable[..., Any]) -> Callable[..., Any]:
    """Discard a message that could not be fetched completely.

    Where a run ends while a node fetches its question, Flower stores the message without its content, and a process
    waits for the content forever. After a few of them the node gets no more messages. Raised as another exception,
    Flower rolls the message back.
    """
    from flwr.supercore.run import RunNotRunningException

    def telling(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:  # noqa: ANN401
            try:
                return call(*arguments)
            except RunNotRunningException:
                raise _RunEnded("its run is over") from None

        return called

    def pulled(**given: Any) -> Any:  # noqa: ANN401
        fetching = {name: telling(given[name]) for name in ("pull_object", "confirm_message_received")}
        return pull(**given | fetching)

    return pulled


def fetch_several(
    pull: Callable[..., Any], push: Callable[..., Any], most: int = MOST_AT_ONCE
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Fetch up to this many messages while one is being answered, so that they wait in the node's own queue.

    Flower fetches one message and no other before the reply is sent. But the node's operator cannot see or cancel a
    message that waits at the SuperLink.
    """
    at_work = 0

    def pulled(**given: Any) -> Any:  # noqa: ANN401
        nonlocal at_work
        if at_work >= most:
            return _NO_RUN
        run = pull(**given)
        if run is not None:
            at_work += 1
        # Flower takes None for an idle node: it would sleep, and send no replies.
        return _NO_RUN if run is None and at_work else run

    def pushed(*, state: Any, **given: Any) -> None:  # noqa: ANN401
        nonlocal at_work
        replies = state.get_messages_legacy(is_reply=True)
        if not replies:
            time.sleep(_POLL)
            return
        at_work = max(0, at_work - len(replies))
        push(state=_Retrieved(state, replies), **given)

    return pulled, pushed


class _Retrieved:
    """Flower's state of a node, with the replies that were already retrieved."""

    def __init__(self, state: Any, replies: Any) -> None:  # noqa: ANN401
        self._state, self._replies = state, replies

    def get_messages_legacy(self, **_: Any) -> Any:  # noqa: ANN401
        return self._replies

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._state, name)


def retry_lost_connections(make: Callable[[], Any]) -> Callable[[], Any]:
    """Retry after every lost connection; Flower itself gives up if a connection was lost in its TLS handshake.

    A certificate that is not trusted is still an error.
    """
    import httpx

    def made() -> Any:  # noqa: ANN401
        invoker = make()
        gives_up = invoker.should_giveup

        def should_give_up(error: Exception) -> bool:
            cut = isinstance(error, httpx.TransportError) and "certificate" not in str(error).lower()
            return not cut and bool(gives_up(error))

        invoker.should_giveup = should_give_up
        return invoker

    return made


def touch_on_success(call: Callable[..., Any], file: Path) -> Callable[..., Any]:
    """Touch a file whenever a call succeeds: its time is that of the last answer of the coordinator."""

    def called(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401
        found = call(*arguments, **more)
        try:
            file.touch(mode=0o600)
        except OSError as error:
            _log.warning("%s: cannot be written (%s)", file.name, error.strerror)
        return found

    return called


def exit_when_done(run: Callable[..., Any], failing_only: bool = False) -> Callable[..., Any]:
    """Exit this process when one of its threads ends, or only when it fails.

    Otherwise Flower's web server would keep the process alive without a connection.
    """

    def ran(*arguments: Any, **more: Any) -> None:  # noqa: ANN401
        try:
            run(*arguments, **more)
            if failing_only:
                return
        except Exception as error:
            _log.error("the connection to the coordinator failed: %s", type(error).__name__)
        _log.error("the connection to the coordinator has ended")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(GAVE_UP)

    return ran


def run_node() -> None:
    """``flower-supernode`` with the changes of this module."""
    require_version()
    extend_timeouts()
    log_with_time()
    from flwr.supercore import heartbeat
    from flwr.supernode import fleet_http_connection, start_client_internal
    from flwr.supernode.cli import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    connected = Path(os.environ[CONNECTED_VARIABLE])
    FleetHttpClient.ActivateNode = touch_on_success(retry_activation(FleetHttpClient.ActivateNode), connected)
    FleetHttpClient.PullMessages = touch_on_success(FleetHttpClient.PullMessages, connected)
    FleetHttpClient.SendNodeHeartbeat = touch_on_success(FleetHttpClient.SendNodeHeartbeat, connected)
    fleet_http_connection.make_simple_http_retry_invoker = retry_lost_connections(
        fleet_http_connection.make_simple_http_retry_invoker
    )
    # Without heartbeats the SuperLink considers the node lost, and nothing here would notice.
    heartbeat.HeartbeatSender._run = exit_when_done(heartbeat.HeartbeatSender._run, failing_only=True)
    start_client_internal._pull_and_store_message = discard_unfetched(start_client_internal._pull_and_store_message)
    heartbeat.HEARTBEAT_DEFAULT_INTERVAL = fleet_http_connection.HEARTBEAT_DEFAULT_INTERVAL = HEARTBEAT
    start_client_internal._pull_and_store_message, start_client_internal._push_messages = fetch_several(
        start_client_internal._pull_and_store_message, start_client_internal._push_messages
    )
    exit_when_done(flower_supernode)()


if __name__ == "__main__":
    run_node()
