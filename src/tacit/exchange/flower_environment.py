"""Where Flower's processes run: no telemetry, no update checks, a home of their own, the version that was tested."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from tacit.core.errors import InvalidInput

__all__ = [
    "LINK_PROGRAMS",
    "NODE_PROGRAMS",
    "VERSION",
    "be_patient",
    "environment",
    "program_folder",
    "require_version",
]

VERSION = "1.41"
PATIENCE = 120
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
# By a shell, because the path of an interpreter may be too long for a first line.
PROGRAM = """#!/bin/sh
exec '{python}' -c '{code}' "$@"
"""
# Flower's processes look whether their parent has a number, and a dead one that nobody has buried has one still.
MORTAL = "from tacit.exchange.processes import end_with_parent; end_with_parent(); "
EXECUTOR = {"flower-superexec": MORTAL + "from flwr.supercore.cli import flower_superexec; flower_superexec()"}
# All that a node's Flower may start: the executor, and this library's own app.
NODE_PROGRAMS = EXECUTOR | {"flwr-clientapp": MORTAL + "from tacit.exchange.flower_pinned import main; main()"}
# What a SuperLink starts: the executor, and a coordinator's app.
LINK_PROGRAMS = EXECUTOR | {
    "flwr-serverapp": MORTAL + "from flwr.superlink.cli import flwr_serverapp; flwr_serverapp()"
}


def require_version() -> None:
    """Refuse to go on without Flower, or with a version whose insides may differ from those that were tested."""
    try:
        found = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise InvalidInput("a federation needs Flower: pip install 'tacit[federated]'") from None
    if not found.startswith(f"{VERSION}."):
        raise InvalidInput(f"a federation needs Flower {VERSION}, found {found}: pip install 'tacit[federated]'")


def be_patient() -> None:
    """Give a process that was started two minutes to report, on a busy machine; Flower's half minute is too short."""
    from flwr.supercore.corestate import in_memory_corestate, sql_corestate

    in_memory_corestate.HEARTBEAT_DEFAULT_INTERVAL = PATIENCE
    sql_corestate.HEARTBEAT_DEFAULT_INTERVAL = PATIENCE


def environment(home: Path, path: str) -> Mapping[str, str]:
    """The environment of a Flower process whose files are in a folder of its own.

    >>> environment(Path("state"), "programs")["FLWR_TELEMETRY_ENABLED"]
    '0'
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FLWR_")}
    return (
        inherited
        | QUIET
        | {
            "FLWR_HOME": str(home),
            "PATH": path,
            # One thread a process: more only get in the way of the other nodes on the machine.
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }
    )


def program_folder(folder: Path, programs: Mapping[str, str]) -> Path:
    """A folder with the programs that a Flower process starts, by their names and code.

    Flower sends an app's code from the coordinator to the nodes, and a node would run whatever it is sent. With this
    folder as its whole PATH it runs what is installed here instead.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in programs.items():
        file = folder / name
        file.write_text(PROGRAM.format(python=sys.executable, code=code), encoding="utf-8")
        file.chmod(0o755)
    return folder
