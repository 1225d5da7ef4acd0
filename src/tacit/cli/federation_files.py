"""What ``tacit federation init`` writes: keys, certificates, and files to fill in."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tacit.core.errors import InvalidInput
from tacit.federation.node.files import NAME, NODE_EXAMPLE
from tacit.ledger.policy_file import RULES_EXAMPLE
from tacit.runs.federation import JOB_EXAMPLE

__all__ = ["listening_address", "new_coordinator", "new_node", "new_service"]

POLICY = """\
[accounts."{name}"]
epsilon = 1.0               # the most that may ever be spent; no job can raise it
delta = 0.0
# unit = {{ column = "patient", records = 3 }}   # protects persons instead of records

"""


def new_coordinator(folder: Path, hosts: Sequence[str]) -> list[Path]:
    """A coordinator's folder: an authority, a certificate for its names, an example job, a place for nodes' keys."""
    from tacit.federation.certificates import make_authority, make_server_certificate

    _make(folder)
    make_authority(folder)
    make_server_certificate(folder, "coordinator", [*hosts, "127.0.0.1", "localhost"])
    (folder / "nodes").mkdir(exist_ok=True)
    _identify(folder, "coordinator")
    job = folder / "job.toml"
    if not job.exists():
        job.write_text(JOB_EXAMPLE, encoding="utf-8")
    return [folder / name for name in ("authority.pem", "coordinator.pem", "coordinator.id", "job.toml", "nodes")]


def listening_address(hosts: Sequence[str]) -> str:
    """Where a service listens that is reached under these names: at an address that is named, else at all.

    >>> listening_address(["127.0.0.1"]), listening_address(["mix.example.org"])
    ('127.0.0.1', '0.0.0.0')
    """
    from ipaddress import ip_address

    from tacit.federation.certificates import on_loopback

    if all(map(on_loopback, hosts)):
        return hosts[0] if len(hosts) == 1 and hosts[0] != "localhost" else "127.0.0.1"
    try:
        (only,) = hosts
        return str(ip_address(only))
    except ValueError:
        # A name says how others reach the service, not which of its addresses this machine should listen at.
        return "0.0.0.0"  # noqa: S104


def new_service(
    folder: Path,
    kind: str,
    hosts: Sequence[str],
    port: int,
    coordinator: Path,
    nodes: Path,
    listen: str | None = None,
) -> list[Path]:
    """A shuffler's or a curator's folder: an authority of its own, so that no coordinator can pass for it; its file.

    ``coordinator`` is the coordinator's ``coordinator.id``, ``nodes`` a file with those of all nodes. A curator also
    gets a key that tables are sealed for, and a policy for a ledger of its own. ``listen`` is the address it listens
    at, where that does not follow from its names.
    """
    from tacit.federation.certificates import make_authority, make_server_certificate
    from tacit.federation.keys import SigningIdentity, public_key
    from tacit.federation.node.files import read_peers

    if kind not in ("shuffler", "curator"):
        raise InvalidInput(f"a service is a shuffler or a curator, got {kind!r}")
    asking, handing = read_peers(coordinator), read_peers(nodes)
    if list(asking) != ["coordinator"]:
        raise InvalidInput(f"{coordinator}: must have the coordinator's identity and nothing else")
    _make(folder)
    make_authority(folder)
    make_server_certificate(folder, kind, [*hosts, "127.0.0.1", "localhost"])
    host = listen or listening_address(hosts)
    lines = [f'host = "{host}"', f"port = {port}", f'certificate = "{kind}.pem"', f'key = "{kind}.key"']
    lines += [f'state = "{kind}.db"', f'coordinator = "{asking["coordinator"].hex()}"']
    made = [folder / "authority.pem", folder / f"{kind}.toml"]
    if kind == "curator":
        sealing = SigningIdentity.new()
        sealing.write(folder / "sealing.key")
        (folder / "curator.key.pub").write_text(public_key(sealing.secret).hex() + "\n", encoding="ascii")
        (folder / "policy.toml").write_text(POLICY.format(name="curator"), encoding="utf-8")
        lines += ['sealing = "sealing.key"', 'ledger = "curator.ledger"', 'account = "curator"']
        lines += ["node_records = 10000000   # the most records that one node may have: no table may count more"]
        made += [folder / "curator.key.pub", folder / "policy.toml"]
    lines += ["[nodes]", *(f'"{name}" = "{key.hex()}"' for name, key in handing.items())]
    (folder / f"{kind}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def new_node(folder: Path, name: str, address: str, authority: Path) -> list[Path]:
    """A node's folder: its own key, the authority's certificate, and its node and policy files to fill in."""
    from tacit.federation.certificates import make_node_key

    if not re.fullmatch(NAME, name):
        raise InvalidInput(f"a node's name has letters, digits, spaces and . _ - and at most 64 of them, got {name!r}")
    if not re.fullmatch(r"\S+:\d{1,5}", address):
        raise InvalidInput(
            f"--address must be the coordinator's host:port, for example hub.example.org:9092, got {address!r}"
        )
    if not authority.is_file():
        raise InvalidInput(f"{authority}: no such file; copy authority.pem from the coordinator's folder")
    if b"-----BEGIN CERTIFICATE-----" not in authority.read_bytes():
        raise InvalidInput(f"{authority}: not a certificate; copy authority.pem from the coordinator's folder")
    for file in (folder / "node.toml", folder / "policy.toml"):
        # They may be filled in already, and a policy decides what the ledger allows.
        if file.exists() and not (folder / f"{name}.key").exists():
            raise InvalidInput(f"{file}: exists already; choose another folder")
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
    from tacit.federation.keys import SigningIdentity

    identity = SigningIdentity.new()
    identity.write(folder / f"{name}.identity")
    (folder / f"{name}.id").write_text(f'"{name}" = "{identity.public.hex()}"\n', encoding="ascii")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder}: cannot be made ({error.strerror})") from None
