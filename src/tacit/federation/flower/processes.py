"""Flower's own programs, as a federation starts them: TLS, registered keys, no telemetry, the version that was tested.

Flower sends every node the app that the coordinator submitted, unpacks it and runs it. A node must not run code of
others: here the app's files are not even unpacked, and the app is always the installed one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tacit.core import InvalidInput, TacitError
from tacit.federation.node.door import DOOR_VARIABLE
from tacit.federation.processes import Processes, last_lines

if TYPE_CHECKING:
    from tacit.federation.settings import Link

__all__ = [
    "CONNECTED_VARIABLE", "GAVE_UP", "HEARTBEAT", "NodeConnection", "be_patient", "link_command", "log_with_time",
    "require_version", "run_installed", "supernode_command",
]  # fmt: skip

Command = tuple[list[str], Mapping[str, str]]

# Seconds between two signs of life. A SuperLink gives a node up when two of them are missing.
HEARTBEAT = 15
# The exit code of a node's Flower process that has given its connection up, and where it notes that it is connected.
GAVE_UP, CONNECTED_VARIABLE = 75, "TACIT_NODE_CONNECTED"
_VERSION = "1.41"
_PATIENCE = 120
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
# By a shell, because the path of an interpreter may be too long for a first line.
PROGRAM = """#!/bin/sh
exec '{python}' -c '{code}' "$@"
"""
# Flower's processes look whether their parent has a number, and a dead one that nobody has buried has one still.
MORTAL = "from tacit.federation.processes import end_with_parent; end_with_parent(); "
_TIMED = "from tacit.federation.flower.processes import log_with_time; log_with_time(); "
EXECUTOR = {"flower-superexec": MORTAL + _TIMED + "from flwr.supercore.cli import flower_superexec; flower_superexec()"}
# All that a node's Flower may start: the executor, and this library's own app.
NODE_PROGRAMS = EXECUTOR | {
    "flwr-clientapp": MORTAL + "from tacit.federation.flower.processes import run_installed; run_installed()"
}
# What a SuperLink starts: the executor, and a coordinator's app.
LINK_PROGRAMS = EXECUTOR | {
    "flwr-serverapp": MORTAL + _TIMED + "from flwr.superlink.cli import flwr_serverapp; flwr_serverapp()"
}


def require_version() -> None:
    """Refuse to go on without Flower, or with a version whose insides may differ from those that were tested."""
    try:
        found = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise InvalidInput("a federation needs Flower: pip install 'tacit[federated]'") from None
    if not found.startswith(f"{_VERSION}."):
        raise InvalidInput(f"a federation needs Flower {_VERSION}, found {found}: pip install 'tacit[federated]'")


def be_patient() -> None:
    """Give a process that was started two minutes to report, on a busy machine; Flower's half minute is too short."""
    from flwr.supercore.corestate import in_memory_corestate, sql_corestate

    in_memory_corestate.HEARTBEAT_DEFAULT_INTERVAL = _PATIENCE
    sql_corestate.HEARTBEAT_DEFAULT_INTERVAL = _PATIENCE


def log_with_time() -> None:
    """Give every line of this process a time, Flower's and Tacit's alike."""
    from flwr.supercore.logger import update_console_handler
    from uvicorn.config import LOGGING_CONFIG

    from tacit.federation.processes import log_to

    log_to()
    update_console_handler(timestamps=True, colored=False)
    # Flower's web server has lines of its own.
    for formatter in LOGGING_CONFIG["formatters"].values():
        formatter["fmt"] = f"%(asctime)s {formatter['fmt']}"
        formatter["use_colors"] = False


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


def link_command(keys: Path, state: Path, host: str, port: int) -> Command:
    """A SuperLink with the certificates in a folder and its state in another.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as state:
    ...     command, _ = link_command(Path("keys"), Path(state), "127.0.0.1", 9092)
    >>> "--enable-supernode-auth" in command
    True
    """
    programs = program_folder(state / "programs", LINK_PROGRAMS)
    command = [
        sys.executable, "-m", "tacit.federation.flower.link",
        "--ssl-ca-certfile", str(keys / "authority.pem"),
        "--ssl-certfile", str(keys / "coordinator.pem"),
        "--ssl-keyfile", str(keys / "coordinator.key"),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        "--host", host, "--port", str(port),
        "--database", str(state / "link.db"),
    ]  # fmt: skip
    # The coordinator runs its own code, which may need more than these.
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return command, environment(state / "flower", path)


def supernode_command(link: Link, state: Path, door: Path, port: int) -> Command:
    """A SuperNode that hands over what comes to the node behind the door, and starts nothing but this library's app."""
    programs = program_folder(state / "programs", NODE_PROGRAMS)
    command = [
        sys.executable, "-m", "tacit.federation.flower.node",
        "--root-certificates", str(link.authority),
        "--superlink", link.address,
        "--auth-supernode-private-key", str(link.key),
        "--port", str(port),
    ]  # fmt: skip
    return command, {
        **environment(state / "flower", str(programs)),
        DOOR_VARIABLE: str(door),
        CONNECTED_VARIABLE: str(state / "connected"),
    }


@dataclass
class NodeConnection:
    """A node's Flower process: started, watched, and started again after a pause where it gave up or was killed.

    Where it ends by itself, as one that is not let in does, it is for the operator, and told as an error. Pauses double
    from one to the next; a process that lasted is forgotten.
    """

    processes: Processes
    command: Command
    state: Path
    tell: Callable[[str], None]
    shortest: float = 1.0
    longest: float = 60.0
    lasting: float = 300.0
    _pause: float = 0.0
    _since: float = 0.0
    _again: float | None = None

    def start(self) -> None:
        """Start the process; it is connected only when it says so."""
        (self.state / "connected").unlink(missing_ok=True)
        self.processes.start("node", *self.command)
        self._since, self._again = time.monotonic(), None

    @property
    def connected(self) -> bool:
        """Whether the process is there and has heard the coordinator of late."""
        try:
            heard = time.time() - (self.state / "connected").stat().st_mtime
        except OSError:
            return False
        return heard < 3 * HEARTBEAT and self.processes.alive("node")

    def look(self) -> None:
        """See that the process is there, or that it comes again; an error where it ended for a reason of its own."""
        if self.processes.alive("node"):
            return
        now = time.monotonic()
        if self._again is None:
            code = self.processes.running["node"].returncode
            if code != GAVE_UP and code >= 0:
                raise TacitError(f"the node ended. The end of its log:\n{last_lines(self.state / 'node.log')}")
            lasted = now - self._since >= self.lasting
            self._pause = self.shortest if lasted or not self._pause else min(self.longest, 2 * self._pause)
            self._again = now + self._pause
            self.tell(f"the connection to the coordinator was lost; connecting again in {self._pause:g} seconds")
        elif now >= self._again:
            # What it had started may have outlived it, and would have its port and its messages.
            self.processes.kill("node")
            self.start()


def run_installed() -> None:
    """``flwr-clientapp`` with the installed app in place of the one that was sent."""
    require_version()
    log_with_time()
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


def _nothing(*_: Any, **__: Any) -> Path:  # noqa: ANN401
    return Path()


def _installed(*_: Any, **__: Any) -> Any:  # noqa: ANN401
    # Imported only here: by now the process has reported that it is alive, and may take its time.
    from tacit.federation.flower.handover import handing_over

    return handing_over()
