"""A SuperLink whose controls are for its own machine alone.

Flower serves nodes and controls on one port, and without accounts whoever reaches the port may start runs, whose code
runs here, or register nodes. Here only the nodes' side is reachable from elsewhere.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from tacit.exchange.flower_environment import be_patient, require_version

__all__ = ["LoopbackOnly", "main"]

OPEN = ("/v1/fleet", "/health")


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
        host = (scope.get("client") or ("",))[0]
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        """Pass a request on, or end it."""
        if self.allows(scope):
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def main() -> None:
    """``flower-superlink`` with its controls closed to other machines."""
    require_version()
    be_patient()
    from flwr.superlink import main as application
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    usual = application._get_middleware
    application._get_middleware = lambda: [Middleware(LoopbackOnly), *usual()]
    flower_superlink()


if __name__ == "__main__":
    main()
