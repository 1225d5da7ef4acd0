"""Settings files of operators, read strictly: a node's and a service's.

The settings of a node name its records, its policy and its ledger. The coordinator never sees or sets any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PrivateAttr,
    RootModel,
    ValidationError,
)

from tacit.core import InvalidInput, nearest
from tacit.core.places import LedgerUrl, ledger_place
from tacit.core.toml import read_toml
from tacit.datasets.table import check_classes
from tacit.datasets.table_files import OPEN_ENDED, suffix_of
from tacit.engines.engine import Engine
from tacit.federation.certificates import on_loopback
from tacit.federation.collector.messages import LARGEST_BATCH, MOST_BYTES
from tacit.methods.question import MOST_RECORDS
from tacit.representations.arrays import LARGEST_IMAGE

__all__ = [
    "NODE_EXAMPLE", "NODE_NAME", "File", "Key", "Link", "Names", "NodeEngine", "NodeFile",
    "ServiceConfig", "Serving", "Trusted", "TrustedCurator", "read_node_file", "read_peers",
    "read_service_config", "read_settings",
]  # fmt: skip

Settings = TypeVar("Settings", bound=BaseModel)
_KEY_BYTES = 32


def _key(value: object) -> object:
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        found = b""
    if len(found) != _KEY_BYTES:
        raise ValueError(f"must be {2 * _KEY_BYTES} hexadecimal digits")
    return found


def _ledger(value: object) -> object:
    return ledger_place(value) if isinstance(value, str) else value


def _image(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    if min(shape) < 1 or shape[2] not in (1, 3) or prod(shape) > LARGEST_IMAGE:
        raise ValueError("must be height, width, and 1 (gray) or 3 (color), of a small image")
    return shape


# A path relative to the file that names it; a ledger's file or URL; a public key; names in order.
File = Annotated[Path, Field(strict=False)]
LedgerFile = Annotated[InstanceOf[Path] | InstanceOf[LedgerUrl], BeforeValidator(_ledger)]
Key = Annotated[bytes, BeforeValidator(_key)]
Names = Annotated[tuple[str, ...], Field(strict=False)]


def read_settings(path: Path, kind: type[Settings], called: str = "") -> Settings:
    """The settings in a TOML file, checked against the model ``kind``; ``called`` describes the file in errors.

    Paths in the file are relative to it, and are returned as absolute paths.

    >>> class Server(BaseModel, extra="forbid"):
    ...     port: int
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "server.toml"
    >>> _ = file.write_text("port = 9092")
    >>> read_settings(file, Server).port
    9092
    >>> _ = file.write_text("prot = 9092")
    >>> read_settings(file, Server)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: ...server.toml: port: is missing; prot: is not a setting; did you mean 'port'?
    """
    try:
        found = kind.model_validate(read_toml(path, called))
    except ValidationError as error:
        wrong = [
            f"{'.'.join(map(str, each['loc']))}: {_in_words(each['type'], each['msg'], each['loc'], kind)}"
            for each in error.errors()
        ]
        raise InvalidInput(f"{path}: {'; '.join(wrong)}") from None
    return _placed(found, path.absolute().parent)


def _in_words(error: str, message: str, place: Sequence[int | str], kind: type[BaseModel]) -> str:
    if error == "missing":
        return "is missing"
    if error != "extra_forbidden":
        return message.removeprefix("Value error, ")
    for name in place[:-1]:
        field = kind.model_fields.get(str(name))
        within = None if field is None else field.annotation
        kinds = [each for each in (within, *getattr(within, "__args__", ())) if isinstance(each, type)]
        kind = next((each for each in kinds if issubclass(each, BaseModel)), kind)
    meant = nearest(str(place[-1]), list(kind.model_fields))
    return "is not a setting" + (f"; did you mean {meant!r}?" if meant else "")


def _placed(found: Settings, home: Path) -> Settings:
    """The settings with every path relative to the folder ``home`` made absolute."""
    values = {name: getattr(found, name) for name in type(found).model_fields}
    placed = {
        name: _placed(value, home) if isinstance(value, BaseModel) else home / value
        for name, value in values.items()
        if isinstance(value, BaseModel | Path)
    }
    return found.model_copy(update=placed)


NODE_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$"
NODE_EXAMPLE = """\
name = "north"                      # this node's name at the coordinator
data = "records.csv"                # labeled private records: .csv or .npz
label = "diagnosis"                 # or ["ill", "well"]: one column of zeros and ones per class, for multi-label data
classes = ["ill", "well"]           # public knowledge, in the same order everywhere
features = ["age", "dose"]          # optional: the feature columns, which are matched by name
# kind = "mixed"                    # categories, dates, texts, missing values: the job's encoder makes numbers of them
# kind = "images"                   # data is a folder with a folder per class, and there is no label
# shape = [28, 28, 1]               # of the public images: height, width, and 1 (gray) or 3 (color)
policy = "policy.toml"              # ceiling, methods, mechanisms, purposes, participants
ledger = "north.ledger"             # created from the policy at the first start; or postgresql://…
account = "north"
pace = 1.0                          # answers leave at multiples of this many seconds after the question
model = "logistic"                  # the local model, for methods that train one
identity = "north.identity"         # for secure aggregation, a shuffler or a curator: signs this node's messages
# peers = "peers.toml"              # for the same: all nodes' identities, from their operators
# public = "samples.csv"            # the public samples, for methods that need them here

# [engine]                          # count records in place; then data may be "records/*.parquet"
# name = "threads"                  # or "ray" or "spark", with address = "spark://host:7077" for a cluster
# workers = 2

# [shuffler]                        # the shuffler that this node trusts
# address = "https://shuffler.example.org:9300"
# authority = "shuffler-authority.pem"

# [curator]                         # the curator that this node trusts with its counts
# address = "https://curator.example.org:9301"
# authority = "curator-authority.pem"
# key = "{zeros}"   # the public key that tables are encrypted for

[service]                           # optional: health checks and metrics, memory, queue, and stopping
host = "127.0.0.1"                  # the address of /health, /ready and /metrics
port = 9464                         # 0: any free port, which is written to <name>.state/service.json
token = "metrics.token"             # the file with the token for /metrics; created at the first start
budget = true                       # show the remaining budget in /metrics; by default on loopback only
encodings = 256                     # MiB of encodings in memory
waiting = 64                        # the most questions in the queue
drain = 60.0                        # seconds for the running answer when the node is stopped

[link]
address = "coordinator.example.org:9092"
authority = "authority.pem"         # the certificate that signs the coordinator's
key = "north.key"                   # this node's own key; the coordinator registers north.pub
tell_budget = false                 # optional: true states in every response what is spent of which ceiling
""".replace("{zeros}", "0" * 64)


class Link(BaseModel):
    """The coordinator's address and authority, this node's key, and whether responses state the account's budget."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    address: Annotated[str, Field(pattern=r"^[^\s/]+:\d{1,5}$")]
    authority: File
    key: File
    tell_budget: bool = False


class Trusted(BaseModel):
    """The address of a shuffler or curator, and the authority that signed its certificate."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    address: Annotated[str, Field(pattern=r"^https?://[^\s/]+:\d{1,5}$")]
    authority: File | None = None


class NodeEngine(BaseModel):
    """The engine that counts a node's records in place, instead of reading them into memory."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Annotated[str, AfterValidator(lambda name: Engine(name).name)] = "threads"
    workers: Annotated[int, Field(ge=1)] | None = None
    address: str | None = None

    @property
    def engine(self) -> Engine:
        """The engine of these settings."""
        return Engine(self.name, self.workers, self.address)


class TrustedCurator(Trusted):
    """A curator, with the public key that tables are encrypted for."""

    key: Key


class Serving(BaseModel):
    """A node's long-running process: the address of its metrics, its memory for encodings, its queue, and stopping.

    >>> Serving().host, Serving(host="0.0.0.0").tells_budget, Serving(host="0.0.0.0", budget=True).tells_budget
    ('127.0.0.1', False, True)
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    token: File | None = None
    budget: bool | None = None
    encodings: Annotated[int, Field(ge=0, le=2**20)] = 256
    waiting: Annotated[int, Field(ge=1, le=1024)] = 64
    drain: Annotated[float, Field(gt=0, le=3600)] = 60.0

    @property
    def tells_budget(self) -> bool:
        """Whether metrics show the remaining budget: by default on loopback only."""
        return on_loopback(self.host) if self.budget is None else self.budget


class NodeFile(BaseModel):
    """The settings of a node."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Annotated[str, Field(pattern=NODE_NAME)]
    data: File
    label: str | Names | None = None
    classes: Annotated[Names, AfterValidator(lambda names: tuple(check_classes(names)))]
    policy: File
    ledger: LedgerFile
    account: str
    features: Names | None = None
    kind: Literal["mixed", "images"] | None = None
    shape: Annotated[tuple[int, int, int], Field(strict=False), AfterValidator(_image)] | None = None
    pace: Annotated[float, Field(ge=0, le=3600)] = 1.0
    model: str = "logistic"
    public: File | None = None
    identity: File | None = None
    peers: File | None = None
    shuffler: Trusted | None = None
    curator: TrustedCurator | None = None
    engine: NodeEngine | None = None
    service: Serving = Serving()
    link: Link | None = None
    _home: Path = PrivateAttr(Path())

    @property
    def state(self) -> Path:
        """The folder of the node's state: beside its settings file, named after the node."""
        return self._home / f"{self.name}.state"


class Peers(RootModel[dict[str, Key]]):
    """The identities of nodes by name."""


def read_node_file(path: str | Path) -> NodeFile:
    """The settings in a node's file; errors name each wrong field.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "node.toml"
    >>> _ = file.write_text(NODE_EXAMPLE)
    >>> read_node_file(file).classes
    ('ill', 'well')
    """
    path = Path(path)
    found = read_settings(path, NodeFile)
    images = found.kind == "images"
    if images and (found.shape is None or found.label is not None):
        raise InvalidInput(f"{path}: images need their shape, and no label: folders name the classes")
    if not images and found.shape is not None:
        raise InvalidInput(f'{path}: shape is for kind = "images"')
    if not images and found.label is None:
        raise InvalidInput(f"{path}: label: is missing")
    if isinstance(found.label, tuple) and sorted(found.label) != sorted(found.classes):
        raise InvalidInput(f"{path}: label is a list of columns, which must be the classes, one column each")
    if isinstance(found.label, tuple) and found.engine is not None:
        raise InvalidInput(
            f"{path}: an engine counts records with one label each: give label one column, or remove [engine]"
        )
    if found.kind is not None and found.engine is not None:
        raise InvalidInput(f"{path}: an engine counts numbers: remove [engine], or kind")
    if found.kind == "mixed" and found.features is None and suffix_of(found.data) in OPEN_ENDED:
        # The columns of such a file are the keys of its records, and a coordinator may learn the columns.
        raise InvalidInput(f"{path}: {found.data.name} has no header: name its feature columns in features")
    found._home = path.absolute().parent
    return found


def read_peers(path: Path) -> dict[str, bytes]:
    """The identities of nodes by name: a TOML file with a line ``name = "64 hexadecimal digits"`` for each.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "peers.toml"
    >>> _ = file.write_text(f'north = "{"ab" * 32}"')
    >>> len(read_peers(file)["north"])
    32
    """
    return read_settings(path, Peers, "the nodes' identities ").root


class ServiceConfig(BaseModel):
    """The settings of a shuffler or a curator; the last four are for a curator only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)]
    certificate: File | None = None
    key: File | None = None
    state: File
    coordinator: Key
    nodes: Annotated[dict[str, Key], Field(min_length=1)]
    largest: Annotated[int, Field(ge=1024, le=LARGEST_BATCH)] = MOST_BYTES
    sealing: File | None = None
    ledger: LedgerFile | None = None
    account: str | None = None
    node_records: Annotated[int, Field(ge=1, le=MOST_RECORDS)] = MOST_RECORDS

    @property
    def store(self) -> tuple[Path, bytes, Mapping[str, bytes]]:
        """The file of its store, the coordinator's identity, and the identities of the nodes that may submit."""
        return self.state, self.coordinator, self.nodes


def read_service_config(path: str | Path) -> ServiceConfig:
    """The settings in a TOML file; errors name each wrong field."""
    return read_settings(Path(path), ServiceConfig)
