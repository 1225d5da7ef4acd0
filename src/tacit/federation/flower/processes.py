"""The commands of Flower's programs in a federation: TLS, registered keys, no telemetry, a tested version.

Flower sends every node the app that the coordinator submitted, unpacks it and runs it. A node must not run the
coordinator's code: here the app's files are not even unpacked, and the node runs the installed app.
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
from tacit.federation.node.local_socket import SOCKET_VARIABLE
from tacit.federation.processes import Processes, last_lines

if TYPE_CHECKING:
    from tacit.federation.settings import Link

__all__ = [
    "CONNECTED_VARIABLE", "GAVE_UP", "HEARTBEAT", "NodeConnection", "extend_timeouts", "link_command", "log_with_time",
    "require_version", "run_installed", "supernode_command",
]  # fmt: skip

Command = tuple[list[str], Mapping[str, str]]

# Seconds between two heartbeats. A SuperLink considers a node lost when two of them are missing.
HEARTBEAT = 15
# The exit code of a node's Flower process that lost its connection; the variable with the file that it touches.
GAVE_UP, CONNECTED_VARIABLE = 75, "TACIT_NODE_CONNECTED"
_VERSION = "1.41"
_PATIENCE = 120
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
# A shell script, because the path of the interpreter may be too long for a shebang line.
PROGRAM = """#!/bin/sh
exec '{python}' -c '{code}' "$@"
"""
# Flower's processes check that their parent's process id exists, and that of a zombie still does.
END_WITH_PARENT = "from tacit.federation.processes import end_with_parent; end_with_parent(); "
_TIMED = "from tacit.federation.flower.processes import log_with_time; log_with_time(); "
EXECUTOR = {
    "flower-superexec": END_WITH_PARENT + _TIMED + "from flwr.supercore.cli import flower_superexec; flower_superexec()"
}
# All programs that a node's Flower may start: the executor, and this library's own app.
NODE_PROGRAMS = EXECUTOR | {
    "flwr-clientapp": END_WITH_PARENT + "from tacit.federation.flower.processes import run_installed; run_installed()"
}
# The programs that a SuperLink starts: the executor, and the coordinator's app.
LINK_PROGRAMS = EXECUTOR | {
    "flwr-serverapp": END_WITH_PARENT + _TIMED + "from flwr.superlink.cli import flwr_serverapp; flwr_serverapp()"
}


def require_version() -> None:
    """Require the version of Flower that was tested: this package changes Flower's internals."""
    try:
        found = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise InvalidInput("a federation needs Flower: pip install 'tacit[federated]'") from None
    if not found.startswith(f"{_VERSION}."):
        raise InvalidInput(f"a federation needs Flower {_VERSION}, found {found}: pip install 'tacit[federated]'")


def extend_timeouts() -> None:
    """Wait two minutes for a started process to report; on a busy machine Flower's 30 seconds are too short."""
    from flwr.supercore.corestate import in_memory_corestate, sql_corestate

    in_memory_corestate.HEARTBEAT_DEFAULT_INTERVAL = _PATIENCE
    sql_corestate.HEARTBEAT_DEFAULT_INTERVAL = _PATIENCE


def log_with_time() -> None:
    """Log with a time on every line of this process, Flower's and Tacit's."""
    from flwr.supercore.logger import update_console_handler
    from uvicorn.config import LOGGING_CONFIG

    from tacit.federation.processes import log_to

    log_to()
    update_console_handler(timestamps=True, colored=False)
    # Flower's web server has its own log format.
    for formatter in LOGGING_CONFIG["formatters"].values():
        formatter["fmt"] = f"%(asctime)s {formatter['fmt']}"
        formatter["use_colors"] = False


def environment(home: Path, path: str) -> Mapping[str, str]:
    """The environment variables of a Flower process with its own folder for files.

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
            # One thread per process: more would slow the other nodes on the machine down.
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }
    )


def program_folder(folder: Path, programs: Mapping[str, str]) -> Path:
    """Write the programs that a Flower process starts into a folder, by name and Python code.

    Flower sends an app's code from the coordinator to the nodes, and a node would run any code that it gets. With this
    folder as its whole PATH it runs the installed programs instead.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in programs.items():
        file = folder / name
        file.write_text(PROGRAM.format(python=sys.executable, code=code), encoding="utf-8")
        file.chmod(0o755)
    return folder


def link_command(keys: Path, state: Path, host: str, port: int) -> Command:
    """The command of a SuperLink with the certificates in one folder and its state in another.

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
    # The coordinator runs its own code, which may need other programs.
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return command, environment(state / "flower", path)


def supernode_command(link: Link, state: Path, socket: Path, port: int) -> Command:
    """The command of a SuperNode that forwards requests to the socket ``socket``, and runs this library's app only."""
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
        SOCKET_VARIABLE: str(socket),
        CONNECTED_VARIABLE: str(state / "connected"),
    }


@dataclass
class NodeConnection:
    """A node's Flower process: started, watched, and restarted after a pause if it lost its connection or was killed.

    If it ends for another reason, for example because the node is not admitted, that is an error for the operator.
    Pauses double from one to the next, and start again from the shortest after a process that lasted.
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
        """Start the process; it is connected once it touches its file."""
        (self.state / "connected").unlink(missing_ok=True)
        self.processes.start("node", *self.command)
        self._since, self._again = time.monotonic(), None

    @property
    def connected(self) -> bool:
        """Whether the process is running and had a recent answer of the coordinator."""
        try:
            heard = time.time() - (self.state / "connected").stat().st_mtime
        except OSError:
            return False
        return heard < 3 * HEARTBEAT and self.processes.alive("node")

    def look(self) -> None:
        """Restart the process if it is due; an error if it ended for another reason."""
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
            # Its child processes may have survived, with its port and its messages.
            self.processes.kill("node")
            self.start()


def run_installed() -> None:
    """``flwr-clientapp`` with the installed app in place of the one that was sent."""
    require_version()
    log_with_time()
    # Together with this command Flower imports the one that runs a whole node, with database and web server: that takes
    # two seconds per message and is not needed here.
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
    # Imported only here: by now the process has reported to Flower, which no longer waits for it.
    from tacit.federation.flower.handover import forwarding_app

    return forwarding_app()
