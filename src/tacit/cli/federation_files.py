"""What ``tacit federation init`` writes: keys, certificates, and files to fill in."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tacit.core.errors import InvalidInput
from tacit.exchange.node_file import NODE_EXAMPLE
from tacit.experiment.federated_job import JOB_EXAMPLE
from tacit.ledger.policy import RULES_EXAMPLE

__all__ = ["new_coordinator", "new_node"]

POLICY = """\
[accounts."{name}"]
epsilon = 1.0               # the most that may ever be spent; no job can raise it
delta = 0.0
# unit = {{ column = "patient", records = 3 }}   # protects persons instead of records

"""


def new_coordinator(folder: Path, hosts: Sequence[str]) -> list[Path]:
    """A coordinator's folder: an authority, a certificate for its names, an example job, a place for nodes' keys."""
    from tacit.exchange.certificates import make_authority, make_server_certificate

    _make(folder)
    make_authority(folder)
    make_server_certificate(folder, "coordinator", [*hosts, "127.0.0.1", "localhost"])
    (folder / "nodes").mkdir(exist_ok=True)
    job = folder / "job.toml"
    if not job.exists():
        job.write_text(JOB_EXAMPLE, encoding="utf-8")
    return [folder / "authority.pem", folder / "coordinator.pem", job, folder / "nodes"]


def new_node(folder: Path, name: str, address: str, authority: Path) -> list[Path]:
    """A node's folder: its own key, the authority's certificate, and its node and policy files to fill in."""
    from tacit.exchange.certificates import make_node_key
    from tacit.exchange.identity import Identity

    if not authority.is_file():
        raise InvalidInput(f"{authority}: no such file; copy authority.pem from the coordinator's folder")
    _make(folder)
    make_node_key(folder, name)
    identity = Identity.new()
    identity.write(folder / f"{name}.identity")
    # The files of all nodes together are everybody's peers.toml.
    (folder / f"{name}.id").write_text(f'"{name}" = "{identity.public.hex()}"\n', encoding="ascii")
    if authority.absolute() != (folder / "authority.pem").absolute():
        shutil.copyfile(authority, folder / "authority.pem")
    text = NODE_EXAMPLE.replace("north", name).replace("coordinator.example.org:9092", address)
    (folder / "node.toml").write_text(text, encoding="utf-8")
    (folder / "policy.toml").write_text(POLICY.format(name=name) + RULES_EXAMPLE, encoding="utf-8")
    return [folder / f"{name}.pub", folder / f"{name}.id", folder / "node.toml", folder / "policy.toml"]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder}: cannot be made ({error.strerror})") from None
