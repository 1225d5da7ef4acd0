"""A node's client process: it runs this library's own app, never the code that came with a run.

Flower hands every node the app that the coordinator submitted, unpacks it and runs it. A node that is sovereign
cannot have that: here the app's files are not even unpacked, and the app is always the installed one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tacit.exchange.flower_environment import require_version

__all__ = ["main"]


def _nothing(*_: Any, **__: Any) -> Path:  # noqa: ANN401
    return Path()


def _installed(*_: Any, **__: Any) -> Any:  # noqa: ANN401
    # Imported only here: by now the process has reported that it is alive, and may take its time.
    from tacit.exchange.flower_client import app

    return app


def main() -> None:
    """``flwr-clientapp`` with the installed app in place of the one that was sent."""
    require_version()
    # Beside this command Flower imports the one that runs a whole node, with its database and its web server: two
    # seconds for each message, and not needed here.
    node = "flwr.supernode.cli.flower_supernode"
    sys.modules[node] = ModuleType(node)
    sys.modules[node].__dict__["flower_supernode"] = None
    from flwr.supernode.cli import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp

    run_clientapp.install_from_fab = _nothing
    run_clientapp.get_project_dir = _nothing
    run_clientapp.install_app_dependencies = _nothing
    run_clientapp.get_load_client_app_fn = lambda **_: _installed
    flwr_clientapp()
