"""A SuperLink whose control interface is reachable on loopback only, and the client of that interface.

Flower serves nodes and its control interface on one port. Without user accounts, whoever reaches the port may start
runs, whose code runs here, or register nodes. Here other machines reach the nodes' paths only.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import Status
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, public_key_to_bytes

from tacit.core import InvalidInput, TacitError
from tacit.federation.certificates import on_loopback
from tacit.federation.flower.processes import extend_timeouts, log_with_time, require_version
from tacit.federation.members import Member, fingerprint

__all__ = ["Control", "LoopbackOnly", "explain_unregistered", "run_link"]

_OPEN = ("/v1/fleet", "/health")
UNREGISTERED = "this key is not registered"


class LoopbackOnly:
    """Refuses requests from other machines, except to the paths that nodes need.

    >>> from types import SimpleNamespace
    >>> LoopbackOnly(None).allows({"type": "http", "path": "/v1/control/start-run", "client": ("10.0.0.5", 1)})
    False
    >>> LoopbackOnly(None).allows({"type": "http", "path": "/v1/fleet/pull", "client": ("10.0.0.5", 1)})
    True
    """

    def __init__(self, app: Any) -> None:  # noqa: ANN401
        self._app = app

    def allows(self, scope: Any) -> bool:  # noqa: ANN401
        """Whether a request is allowed for its path and the address of its client."""
        if scope["type"] not in ("http", "websocket") or scope["path"].startswith(_OPEN):
            return True
        return on_loopback((scope.get("client") or ("",))[0])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        """Pass a request on, or answer with status 403."""
        if self.allows(scope):
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def explain_unregistered(activate: Callable[..., Any]) -> Callable[..., Any]:
    """Tell a node that its key is not registered, and log it here, too.

    Flower sends the same error to a node whose previous process is still expected. The node has signed with the key.
    """

    def activated(request: Any, state: Any) -> Any:  # noqa: ANN401
        if state.get_node_id_by_public_key(request.public_key) is None:
            which = fingerprint(bytes_to_public_key(request.public_key))
            raise FlowerError(
                ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED,
                f"a node was not admitted: {UNREGISTERED}, or was removed: {which}",
                public_details=UNREGISTERED,
            )
        return activate(request=request, state=state)

    return activated


def run_link() -> None:
    """``flower-superlink`` with its control interface closed to other machines."""
    require_version()
    extend_timeouts()
    log_with_time()
    from flwr.superlink import main as application
    from flwr.superlink.cli import flower_superlink
    from flwr.superlink.servicer.fleet import fleet_handlers
    from starlette.middleware import Middleware

    usual = application._get_middleware
    fleet_handlers.activate_node = explain_unregistered(fleet_handlers.activate_node)
    application._get_middleware = lambda: [Middleware(LoopbackOnly), *usual()]
    flower_superlink()


class Control:
    """A client of a SuperLink's control interface, over TLS with the federation's own certificate authority."""

    def __init__(self, address: str, authority: Path) -> None:
        self._client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=False,
            root_certificates=authority.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def wait(self, seconds: float) -> None:
        """Wait until the SuperLink answers."""
        end = time.monotonic() + seconds
        while True:
            try:
                self._client.ListNodes(ListNodesRequest())
                return
            except Exception as error:
                if time.monotonic() >= end:
                    raise TacitError(f"the SuperLink does not answer after {seconds:g} seconds ({error})") from None
                time.sleep(0.3)

    def admit_only(self, listed: Sequence[Member]) -> tuple[list[str], list[str]]:
        """Admit these nodes and no others; returns the names of the newly admitted and of the removed nodes.

        The SuperLink keeps keys in its own database. Keys in it that are not listed are unregistered first.
        """
        wanted = {public_key_to_bytes(each.key): each for each in listed}
        known = {bytes(node.public_key): node for node in self.nodes()}
        for key, node in known.items():
            if key in wanted and wanted[key].name != node.name:
                raise InvalidInput(
                    f"{wanted[key].file}: this key was admitted as {node.name!r}, and a key keeps its name. Name the "
                    "file as before, or let the node make a new key with `tacit federation nodes renew`"
                )
        gone = [node for key, node in known.items() if key not in wanted]
        for node in gone:
            self._client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
        new = [(key, each) for key, each in wanted.items() if key not in known]
        for key, each in new:
            try:
                self._client.RegisterNode(RegisterNodeRequest(public_key=key, name=each.name))
            except httpx.HTTPStatusError as error:
                found = FlowerError.from_json(error.response.text)
                if found is None or found.code != ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
                    raise TacitError(f"{each.file}: the SuperLink does not register it ({error})") from None
                raise InvalidInput(
                    f"{each.file}: this key was removed before, and a removed key is not admitted again. The node "
                    "makes a new one with `tacit federation nodes renew`"
                ) from None
        return [each.name for _, each in new], [node.name for node in gone]

    def nodes(self) -> list[Any]:
        """The registered nodes, with their status."""
        found = self._client.ListNodes(ListNodesRequest()).nodes_info
        return [node for node in found if node.status != "unregistered"]

    def start(self, folder: Path, settings: Mapping[str, str]) -> int:
        """Run the app in a folder with these settings; returns the number of the run."""
        with warnings.catch_warnings():
            # These warnings are about Flower's own code.
            warnings.simplefilter("ignore", DeprecationWarning)
            content = build_fab_from_disk(folder)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        request = StartRunRequest(
            fab=fab_to_proto(fab), override_config=user_config_to_proto(dict(settings)), federation=""
        )
        answer = self._client.StartRun(request)
        if not answer.HasField("run_id"):
            raise TacitError("the SuperLink did not start the run")
        return int(answer.run_id)

    def stop_all(self) -> None:
        """Stop all earlier runs: Flower takes a run whose process has died for running, for minutes.

        Until then its nodes wait for the rest of an interrupted message, and get nothing of the next run.
        """
        for run, found in self._client.ListRuns(ListRunsRequest()).run_dict.items():
            if found.status.status != Status.FINISHED:
                with contextlib.suppress(httpx.HTTPError):
                    self._client.StopRun(StopRunRequest(run_id=run))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


if __name__ == "__main__":
    run_link()
