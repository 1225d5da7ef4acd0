"""The command lines of Flower's own programs, as a federation starts them: TLS, registered keys, nothing installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tacit.exchange.flower_environment import LINK_PROGRAMS, NODE_PROGRAMS, environment, program_folder
from tacit.exchange.node_file import Link

__all__ = ["link_command", "node_command"]

Command = tuple[list[str], Mapping[str, str]]


def link_command(keys: Path, state: Path, host: str, port: int) -> Command:
    """A SuperLink with the certificates in a folder and its state in another.

    >>> "--enable-supernode-auth" in link_command(Path("keys"), Path("state"), "127.0.0.1", 9092)[0]
    True
    """
    programs = program_folder(state / "programs", LINK_PROGRAMS)
    command = [
        sys.executable, "-m", "tacit.exchange.flower_link",
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


def node_command(file: Path, link: Link, state: Path, port: int) -> Command:
    """A SuperNode that answers by the node file, and can start nothing but this library's own app."""
    programs = program_folder(state / "programs", NODE_PROGRAMS)
    command = [
        sys.executable, "-m", "tacit.exchange.flower_node",
        "--root-certificates", str(link.authority),
        "--superlink", link.address,
        "--auth-supernode-private-key", str(link.key),
        "--node-config", f'tacit-node="{file.absolute()}"',
        "--port", str(port),
    ]  # fmt: skip
    return command, environment(state / "flower", str(programs))
