"""A node's own file: where its records, its policy and its ledger are. The coordinator never sees or sets any of it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tacit.core.errors import InvalidInput
from tacit.datasets.classes import check_classes
from tacit.exchange.settings_file import read_settings

__all__ = ["NODE_EXAMPLE", "Link", "NodeFile", "read_node_file", "read_peers"]

IDENTITY = 32
NODE_EXAMPLE = """\
name = "north"                      # how the coordinator calls this node
data = "records.csv"                # labeled private records: .csv or .npz
label = "diagnosis"
classes = ["ill", "well"]           # public knowledge, in the same order everywhere
features = ["age", "dose"]          # optional: the feature columns in the coordinator's order
policy = "policy.toml"              # ceiling, methods, mechanisms, purposes, participants
ledger = "north.ledger"             # made from the policy at the first start, and kept
account = "north"
pace = 1.0                          # answers leave at multiples of so many seconds after the question
model = "logistic"                  # the local model, for methods that train one
public = "samples.csv"              # optional: the public samples, for methods that need them here
identity = "north.identity"         # optional, for masked sums: signs what this node says to the others
peers = "peers.toml"                # optional, for masked sums: the identities of all nodes, from the sites themselves

[shuffler]                          # optional: the shuffler that this site trusts to mix, from its own operator
address = "https://shuffler.example.org:9300"
authority = "shuffler-authority.pem"

[curator]                           # optional: the curator that this site trusts with its counts
address = "https://curator.example.org:9301"
authority = "curator-authority.pem"
key = "{zeros}"   # the public key that tables are sealed for

[link]
address = "coordinator.example.org:9092"
authority = "authority.pem"         # the certificate that signs the coordinator's
key = "north.key"                   # this node's own key; the coordinator registers north.pub
""".replace("{zeros}", "0" * 64)


class _Link(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    address: Annotated[str, Field(pattern=r"^[^\s/]+:\d{1,5}$")]
    authority: str
    key: str


class _Service(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    address: Annotated[str, Field(pattern=r"^https?://[^\s/]+:\d{1,5}$")]
    authority: str | None = None


class _Curator(_Service):
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Node(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$")]
    data: str
    label: str
    classes: list[str]
    policy: str
    ledger: str
    account: str
    features: list[str] | None = None
    pace: Annotated[float, Field(ge=0, le=3600)] = 1.0
    model: str = "logistic"
    public: str | None = None
    identity: str | None = None
    peers: str | None = None
    shuffler: _Service | None = None
    curator: _Curator | None = None
    link: _Link | None = None


@dataclass(frozen=True)
class Link:
    """How to reach the coordinator, and as whom."""

    address: str
    authority: Path
    key: Path


@dataclass(frozen=True)
class Service:
    """Where a shuffler or a curator is, who vouches for it, and a curator's public key."""

    address: str
    authority: Path | None
    key: str = ""


@dataclass(frozen=True)
class NodeFile:
    """What a node's file says, with every path made absolute: those in the file are relative to it."""

    name: str
    data: Path
    label: str
    classes: tuple[str, ...]
    features: tuple[str, ...] | None
    policy: Path
    ledger: Path
    account: str
    pace: float
    model: str
    public: Path | None
    identity: Path | None
    peers: Path | None
    state: Path
    shuffler: Service | None
    curator: Service | None
    link: Link | None


def read_node_file(path: str | Path) -> NodeFile:
    """What a node's file says, or an error that names each wrong field.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "node.toml"
    >>> _ = file.write_text(NODE_EXAMPLE)
    >>> read_node_file(file).classes
    ('ill', 'well')
    """
    path = Path(path)
    found = read_settings(path, _Node)
    home = path.absolute().parent
    return NodeFile(
        name=found.name,
        data=home / found.data,
        label=found.label,
        classes=tuple(check_classes(found.classes)),
        features=None if found.features is None else tuple(found.features),
        policy=home / found.policy,
        ledger=home / found.ledger,
        account=found.account,
        pace=found.pace,
        model=found.model,
        public=None if found.public is None else home / found.public,
        identity=None if found.identity is None else home / found.identity,
        peers=None if found.peers is None else home / found.peers,
        state=home / f"{found.name}.state",
        shuffler=_service(found.shuffler, home),
        curator=_service(found.curator, home),
        link=None
        if found.link is None
        else Link(found.link.address, home / found.link.authority, home / found.link.key),
    )


def _service(found: _Service | None, home: Path) -> Service | None:
    if found is None:
        return None
    authority = None if found.authority is None else home / found.authority
    return Service(found.address, authority, found.key if isinstance(found, _Curator) else "")


def read_peers(path: Path) -> dict[str, bytes]:
    """The identities of nodes by name: a TOML file with a line ``name = "64 hexadecimal digits"`` for each.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "peers.toml"
    >>> _ = file.write_text(f'north = "{"ab" * 32}"')
    >>> len(read_peers(file)["north"])
    32
    """
    try:
        found = {str(name): bytes.fromhex(key) for name, key in tomllib.loads(path.read_text("utf-8")).items()}
    except (OSError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path}: the nodes' identities cannot be read ({error})") from None
    if wrong := [name for name, key in found.items() if len(key) != IDENTITY]:
        raise InvalidInput(f"{path}: {wrong[0]} must have {2 * IDENTITY} hexadecimal digits")
    return found
