"""A SuperNode that waits long enough for its own processes, and that can be killed and started again at once."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.federation.collector.client import clock_trouble, seconds_ahead
from tacit.federation.flower.link import UNREGISTERED
from tacit.federation.flower.processes import (
    CONNECTED_VARIABLE,
    GAVE_UP,
    HEARTBEAT,
    be_patient,
    log_with_time,
    require_version,
)

__all__ = ["ended", "noted", "persistent", "run_node", "several_at_once", "taken_up", "whole_or_not_at_all"]

_log = logging.getLogger("tacit.node")

_PATIENCE, _PAUSE = 4.0 * HEARTBEAT, 2.0
# Messages that may be at the node at a time: each has a small process that waits for its answer.
MOST_AT_ONCE = 4
# Seconds between two looks for replies; what stands for a run where none was fetched.
_POLL, _NO_RUN = 0.5, 0
_STRANGER = (
    "it does not know this node's key, or has removed it. Its operator adds the node's .pub file with "
    "`tacit federation nodes add` and starts the coordinator again"
)
STILL_HERE = "it still expects the previous process of this node; trying again"


def taken_up(activate: Callable[..., Any]) -> Callable[..., Any]:
    """Ask again to be admitted while the SuperLink still expects a killed process, or does not know the key.

    It admits a node only once, as it should: two processes with one key would have two ledgers. A key may be
    registered a moment later, when the coordinator has just been started. What is the matter is written down.
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
                    clock = clock_trouble(seconds_ahead(error.response.headers.get("Date")))
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
    """A run ended while its message was on its way to the node."""


def whole_or_not_at_all(pull: Callable[..., Any]) -> Callable[..., Any]:
    """Take a message that could not be fetched for one that was never there.

    Where a run ends while a late node fetches its question, Flower keeps the empty message, and a process waits for
    its content for good. A few of them, and the node hears nothing more. Told as an ordinary failure, all is undone.
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


def several_at_once(
    pull: Callable[..., Any], push: Callable[..., Any], most: int = MOST_AT_ONCE
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Fetch further messages while one is being answered, up to this many: the node's own queue has them then.

    Flower fetches one, and asks for no other before its reply is sent. A message that waits at the SuperLink is one
    that the node's operator cannot see or cancel.
    """
    at_work = 0

    def pulled(**given: Any) -> Any:  # noqa: ANN401
        nonlocal at_work
        if at_work >= most:
            return _NO_RUN
        run = pull(**given)
        if run is not None:
            at_work += 1
        # None would mean: nothing is at work, sleep, and send no replies.
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
    """Flower's state of a node, whose replies are those that were retrieved already."""

    def __init__(self, state: Any, replies: Any) -> None:  # noqa: ANN401
        self._state, self._replies = state, replies

    def get_messages_legacy(self, **_: Any) -> Any:  # noqa: ANN401
        return self._replies

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._state, name)


def persistent(make: Callable[[], Any]) -> Callable[[], Any]:
    """Ask again after any connection that was cut; Flower gives up for good where it was cut in its TLS handshake.

    A certificate that is not trusted stays so: that is still given up, and told.
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


def noted(call: Callable[..., Any], file: Path) -> Callable[..., Any]:
    """Touch a file whenever a call succeeds: its time is when the coordinator was heard last."""

    def called(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401
        found = call(*arguments, **more)
        try:
            file.touch(mode=0o600)
        except OSError as error:
            _log.warning("%s: cannot be written (%s)", file.name, error.strerror)
        return found

    return called


def ended(run: Callable[..., Any], failing_only: bool = False) -> Callable[..., Any]:
    """End this process where the work of one of its threads ends, or only where that fails.

    Flower's web server would keep the process: alive, and connected to nobody.
    """

    def ran(*arguments: Any, **more: Any) -> None:  # noqa: ANN401
        try:
            run(*arguments, **more)
            if failing_only:
                return
        except Exception as error:
            _log.error("the connection to the coordinator failed: %s", type(error).__name__)
        _log.error("the connection to the coordinator is given up")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(GAVE_UP)

    return ran


def run_node() -> None:
    """``flower-supernode``, on a machine that may be busy, over a connection that may be cut at any time."""
    require_version()
    be_patient()
    log_with_time()
    from flwr.supercore import heartbeat
    from flwr.supernode import fleet_http_connection, start_client_internal
    from flwr.supernode.cli import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    connected = Path(os.environ[CONNECTED_VARIABLE])
    FleetHttpClient.ActivateNode = noted(taken_up(FleetHttpClient.ActivateNode), connected)
    FleetHttpClient.PullMessages = noted(FleetHttpClient.PullMessages, connected)
    FleetHttpClient.SendNodeHeartbeat = noted(FleetHttpClient.SendNodeHeartbeat, connected)
    fleet_http_connection.make_simple_http_retry_invoker = persistent(
        fleet_http_connection.make_simple_http_retry_invoker
    )
    # Without its signs of life the SuperLink takes the node for lost, and nothing here would notice.
    heartbeat.HeartbeatSender._run = ended(heartbeat.HeartbeatSender._run, failing_only=True)
    start_client_internal._pull_and_store_message = whole_or_not_at_all(start_client_internal._pull_and_store_message)
    heartbeat.HEARTBEAT_DEFAULT_INTERVAL = fleet_http_connection.HEARTBEAT_DEFAULT_INTERVAL = HEARTBEAT
    start_client_internal._pull_and_store_message, start_client_internal._push_messages = several_at_once(
        start_client_internal._pull_and_store_message, start_client_internal._push_messages
    )
    ended(flower_supernode)()


if __name__ == "__main__":
    run_node()
