"""The members of a federation: at every start the public keys in the folder ``nodes`` are admitted, and no others.

A removed key is moved to ``nodes/removed`` and never admitted again; a node that returns needs a new key.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from tacit.core import InvalidInput
from tacit.federation.certificates import replace_file
from tacit.federation.settings import NODE_NAME, read_peers

__all__ = ["Member", "add_member", "fingerprint", "members", "read_key", "remove_member", "removed_members"]

PEERS = "peers.toml"


@dataclass(frozen=True)
class Member:
    """A node's name, public key and file, and the date since when it is listed."""

    name: str
    file: Path
    key: ec.EllipticCurvePublicKey
    since: datetime.date

    @property
    def fingerprint(self) -> str:
        """The key's fingerprint, as ``ssh-keygen -lf`` shows it."""
        return fingerprint(self.key)


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """The SHA-256 fingerprint of a key, to be compared by telephone."""
    content = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1]
    digest = hashlib.sha256(base64.b64decode(content)).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def read_key(file: Path) -> ec.EllipticCurvePublicKey:
    """The public key of a node, from its file."""
    try:
        found = load_ssh_public_key(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidInput(f"{file}: not a node's public key, as `tacit federation init --node` makes it") from None
    if not isinstance(found, ec.EllipticCurvePublicKey):
        raise InvalidInput(f"{file}: not a node's public key: a node has a key on an elliptic curve")
    return found


def members(folder: Path) -> list[Member]:
    """The admitted nodes, sorted by name; two nodes with the same key are an error."""
    found = _read(folder / "nodes", folder)
    seen: dict[str, Member] = {}
    for each in found:
        other = seen.setdefault(each.fingerprint, each)
        if other is not each:
            raise InvalidInput(f"{each.file}: the same key as {other.file.name}; every node has a key of its own")
    return found


def removed_members(folder: Path) -> list[Member]:
    """The removed nodes, sorted by name and date."""
    return _read(folder / "nodes" / "removed", folder)


def add_member(folder: Path, public: Path, identity: Path | None = None, renewed: bool = False) -> Member:
    """Admit a node by its ``<name>.pub``; ``identity`` is its ``<name>.id``, for the folder's peers.toml.

    A ``renewed`` key replaces the one that is listed under the name, which is removed.
    """
    _require_folder(folder)
    name, key = public.stem, read_key(public)
    if not re.fullmatch(NODE_NAME, name):
        raise InvalidInput(f"{public}: a node has the name of its file, and {name!r} is not a valid name")
    here = {each.name: each for each in members(folder)}
    known = {each.fingerprint: each for each in removed_members(folder)}
    if fingerprint(key) in known:
        raise InvalidInput(
            f"{public}: this key was removed on {known[fingerprint(key)].since}, and a removed key is not admitted "
            "again. The node makes a new one with `tacit federation nodes renew`"
        )
    if (twin := next((each for each in here.values() if each.fingerprint == fingerprint(key)), None)) is not None:
        if twin.name != name:
            raise InvalidInput(f"{public}: this key is listed as {twin.name} already")
    elif name in here and not renewed:
        raise InvalidInput(
            f"{name} is listed with another key ({here[name].fingerprint}). If the node made a new one: "
            f"`tacit federation nodes renew {folder} --key {public}`"
        )
    elif name not in here and renewed:
        raise InvalidInput(f"{name} is not listed, so there is no key to renew; use `tacit federation nodes add`")
    peers = None if identity is None else {**_peers(folder), **_one_identity(identity, name)}
    if name in here and twin is None:
        _set_aside(folder, here[name])
    if twin is None:
        replace_file(folder / "nodes" / f"{name}.pub", public.read_bytes())
    if peers is not None:
        _write_peers(folder, peers)
    return next(each for each in members(folder) if each.name == name)


def remove_member(folder: Path, name: str) -> Member:
    """Remove a node from the list, and its identity from the folder's peers.toml."""
    _require_folder(folder)
    found = {each.name: each for each in members(folder)}
    if name not in found:
        listed = ", ".join(list(found)[:10]) or "nobody"
        raise InvalidInput(f"{folder}: no node {name!r} is listed; listed: {listed}")
    _set_aside(folder, found[name])
    peers = _peers(folder)
    if peers.pop(name, None) is not None:
        _write_peers(folder, peers)
    return found[name]


def _set_aside(folder: Path, member: Member) -> None:
    place = folder / "nodes" / "removed"
    place.mkdir(exist_ok=True)
    day = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M%S.%f")
    member.file.replace(place / f"{member.name} {day}.pub")


def _require_folder(folder: Path) -> None:
    if not (folder / "authority.pem").is_file() or not (folder / "nodes").is_dir():
        raise InvalidInput(f"{folder}: not a coordinator's folder; make one with `tacit federation init {folder}`")


def _read(place: Path, folder: Path) -> list[Member]:
    if not (folder / "authority.pem").is_file():
        _require_folder(folder)
    found = []
    for file in sorted(place.glob("*.pub")):
        since = datetime.datetime.fromtimestamp(file.stat().st_ctime, datetime.UTC).date()
        name = file.stem.rpartition(" ")[0] if place.name == "removed" else file.stem
        found.append(Member(name, file, read_key(file), since))
    return found


def _peers(folder: Path) -> dict[str, bytes]:
    return read_peers(folder / PEERS) if (folder / PEERS).exists() else {}


def _one_identity(file: Path, name: str) -> dict[str, bytes]:
    found = read_peers(file)
    if list(found) != [name]:
        raise InvalidInput(f"{file}: must contain the identity of {name} only")
    return found


def _write_peers(folder: Path, peers: Mapping[str, bytes]) -> None:
    lines = "".join(f'"{name}" = "{key.hex()}"\n' for name, key in sorted(peers.items()))
    replace_file(folder / PEERS, lines.encode("ascii"))
