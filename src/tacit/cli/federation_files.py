"""What ``tacit federation init`` writes: keys, certificates, and files to fill in."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tacit.core.errors import InvalidInput
from tacit.exchange.node_file import NODE_EXAMPLE
from tacit.experiment.federated_job import JOB_EXAMPLE
from tacit.ledger.policy import RULES_EXAMPLE

__all__ = ["new_coordinator", "new_node", "new_service"]

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
    _identify(folder, "coordinator")
    job = folder / "job.toml"
    if not job.exists():
        job.write_text(JOB_EXAMPLE, encoding="utf-8")
    return [folder / name for name in ("authority.pem", "coordinator.pem", "coordinator.id", "job.toml", "nodes")]


def new_service(folder: Path, kind: str, hosts: Sequence[str], port: int, coordinator: Path, nodes: Path) -> list[Path]:
    """A shuffler's or a curator's folder: an authority of its own, so that no coordinator can pass for it; its file.

    ``coordinator`` is the coordinator's ``coordinator.id``, ``nodes`` a file with those of all nodes. A curator also
    gets a key that tables are sealed for, and a policy for a ledger of its own.
    """
    from tacit.exchange.certificates import make_authority, make_server_certificate
    from tacit.exchange.ciphers import public_key
    from tacit.exchange.identity import Identity
    from tacit.exchange.node_file import read_peers

    if kind not in ("shuffler", "curator"):
        raise InvalidInput(f"a service is a shuffler or a curator, got {kind!r}")
    asking, handing = read_peers(coordinator), read_peers(nodes)
    if list(asking) != ["coordinator"]:
        raise InvalidInput(f"{coordinator}: must have the coordinator's identity and nothing else")
    _make(folder)
    make_authority(folder)
    make_server_certificate(folder, kind, [*hosts, "127.0.0.1", "localhost"])
    host = "127.0.0.1" if not hosts else "0.0.0.0"  # noqa: S104
    lines = [f'host = "{host}"', f"port = {port}", f'certificate = "{kind}.pem"', f'key = "{kind}.key"']
    lines += [f'state = "{kind}.db"', f'coordinator = "{asking["coordinator"].hex()}"']
    made = [folder / "authority.pem", folder / f"{kind}.toml"]
    if kind == "curator":
        sealing = Identity.new()
        sealing.write(folder / "sealing.key")
        (folder / "curator.key.pub").write_text(public_key(sealing.secret).hex() + "\n", encoding="ascii")
        (folder / "policy.toml").write_text(POLICY.format(name="curator"), encoding="utf-8")
        lines += ['sealing = "sealing.key"', 'ledger = "curator.ledger"', 'account = "curator"']
        made += [folder / "curator.key.pub", folder / "policy.toml"]
    lines += ["[nodes]", *(f'"{name}" = "{key.hex()}"' for name, key in handing.items())]
    (folder / f"{kind}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def new_node(folder: Path, name: str, address: str, authority: Path) -> list[Path]:
    """A node's folder: its own key, the authority's certificate, and its node and policy files to fill in."""
    from tacit.exchange.certificates import make_node_key

    if not authority.is_file():
        raise InvalidInput(f"{authority}: no such file; copy authority.pem from the coordinator's folder")
    _make(folder)
    make_node_key(folder, name)
    _identify(folder, name)
    if authority.absolute() != (folder / "authority.pem").absolute():
        shutil.copyfile(authority, folder / "authority.pem")
    text = NODE_EXAMPLE.replace("north", name).replace("coordinator.example.org:9092", address)
    (folder / "node.toml").write_text(text, encoding="utf-8")
    (folder / "policy.toml").write_text(POLICY.format(name=name) + RULES_EXAMPLE, encoding="utf-8")
    return [folder / f"{name}.pub", folder / f"{name}.id", folder / "node.toml", folder / "policy.toml"]


def _identify(folder: Path, name: str) -> None:
    """A key that signs what a party says to others, and a line with its public half.

    The lines of all nodes together are everybody's peers.toml.
    """
    from tacit.exchange.identity import Identity

    identity = Identity.new()
    identity.write(folder / f"{name}.identity")
    (folder / f"{name}.id").write_text(f'"{name}" = "{identity.public.hex()}"\n', encoding="ascii")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder}: cannot be made ({error.strerror})") from None
