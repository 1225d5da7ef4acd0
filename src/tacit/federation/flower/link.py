"""A SuperLink whose controls are for its own machine alone.

Flower serves nodes and controls on one port, and without accounts whoever reaches the port may start runs, whose code
runs here, or register nodes. Here only the nodes' side is reachable from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacit.federation.certificates import on_loopback
from tacit.federation.flower.processes import be_patient, log_with_time, require_version

__all__ = ["LoopbackOnly", "main", "telling_strangers"]

OPEN = ("/v1/fleet", "/health")
UNREGISTERED = "this key is not registered"


class LoopbackOnly:
    """Refuses every path from another machine except those that nodes need.

    >>> from types import SimpleNamespace
    >>> LoopbackOnly(None).allows({"type": "http", "path": "/v1/control/start-run", "client": ("10.0.0.5", 1)})
    False
    >>> LoopbackOnly(None).allows({"type": "http", "path": "/v1/fleet/pull", "client": ("10.0.0.5", 1)})
    True
    """

    def __init__(self, app: Any) -> None:  # noqa: ANN401
        self._app = app

    def allows(self, scope: Any) -> bool:  # noqa: ANN401
        """Whether a request may come from where it comes from."""
        if scope["type"] not in ("http", "websocket") or scope["path"].startswith(OPEN):
            return True
        return on_loopback((scope.get("client") or ("",))[0])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        """Pass a request on, or end it."""
        if self.allows(scope):
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def telling_strangers(activate: Callable[..., Any]) -> Callable[..., Any]:
    """Tell a node whose key is not registered that this is why it is not let in, and write it down here, too.

    Flower says the same to it as to a node whose old process is not given up yet. Who asks has signed with the key.
    """
    from flwr.supercore.error import ApiErrorCode, FlowerError
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key

    from tacit.federation.members import fingerprint

    def activated(request: Any, state: Any) -> Any:  # noqa: ANN401
        if state.get_node_id_by_public_key(request.public_key) is None:
            which = fingerprint(bytes_to_public_key(request.public_key))
            raise FlowerError(
                ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED,
                f"a node was not let in: {UNREGISTERED}, or was removed: {which}",
                public_details=UNREGISTERED,
            )
        return activate(request=request, state=state)

    return activated


def main() -> None:
    """``flower-superlink`` with its controls closed to other machines."""
    require_version()
    be_patient()
    log_with_time()
    from flwr.superlink import main as application
    from flwr.superlink.cli import flower_superlink
    from flwr.superlink.servicer.fleet import fleet_handlers
    from starlette.middleware import Middleware

    usual = application._get_middleware
    fleet_handlers.activate_node = telling_strangers(fleet_handlers.activate_node)
    application._get_middleware = lambda: [Middleware(LoopbackOnly), *usual()]
    flower_superlink()


if __name__ == "__main__":
    main()
