"""Files that an operator writes, read strictly: a node's, a service's; and the arrays that a node reads once per run.

The settings of a node name its records, its policy and its ledger. The coordinator never sees or sets any of it.

Flower starts a new process for every message. So the arrays of a run are in a folder that only the node's owner can
read, made by the process that lives as long as the node and removed with it. A message maps them into memory instead of
reading and checking the file again. They are of one run and of one state of the file: another run, or a file that was
changed, is read anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
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

from tacit.core.errors import InvalidInput, nearest
from tacit.core.places import LedgerUrl, ledger_place
from tacit.datasets.table import check_classes
from tacit.engines.engine import Engine
from tacit.federation.collector.messages import LARGEST_BATCH, MOST_BYTES
from tacit.methods.question import MOST_RECORDS

__all__ = [
    "NODE_EXAMPLE",
    "NODE_NAME",
    "SERVICE_EXAMPLE",
    "File",
    "Key",
    "Link",
    "Names",
    "NodeEngine",
    "NodeFile",
    "RunArrays",
    "ServiceConfig",
    "Trusted",
    "TrustedCurator",
    "private_folder",
    "read_node_file",
    "read_peers",
    "read_service_config",
    "read_settings",
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


# A file, which is relative to the one that names it; a public key; names in their order.
File = Annotated[Path, Field(strict=False)]
LedgerFile = Annotated[InstanceOf[Path] | InstanceOf[LedgerUrl], BeforeValidator(_ledger)]
Key = Annotated[bytes, BeforeValidator(_key)]
Names = Annotated[tuple[str, ...], Field(strict=False)]


def read_settings(path: Path, kind: type[Settings], called: str = "") -> Settings:
    """What the file says, checked against the fields of ``kind``; ``called`` is what the file is to its reader.

    Paths in it are relative to the file, and come back as they are found from anywhere.

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
        found = kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {called}{path}: {getattr(error, 'strerror', None) or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path}: not valid TOML: {error}") from None
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
    """The settings with every path as seen from the folder of their file."""
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
label = "diagnosis"                 # or ["ill", "well"]: one column of zeros and ones per class, for sets of labels
classes = ["ill", "well"]           # public knowledge, in the same order everywhere
features = ["age", "dose"]          # optional: the feature columns, which are matched by name
policy = "policy.toml"              # ceiling, methods, mechanisms, purposes, participants
ledger = "north.ledger"             # made from the policy at the first start, and kept; or postgresql://…
account = "north"
pace = 1.0                          # answers leave at multiples of this many seconds after the question
model = "logistic"                  # the local model, for methods that train one
public = "samples.csv"              # optional: the public samples, for methods that need them here
identity = "north.identity"         # optional, for masked sums: signs this node's messages to the others
peers = "peers.toml"                # optional, for masked sums: the identities of all nodes, from their operators

[engine]                            # optional: count records where they lie; data may be "records/*.parquet" then
name = "threads"                    # or "ray" or "spark", with address = "spark://host:7077" for a cluster
workers = 2

[shuffler]                          # optional: the shuffler that this node trusts to mix, from its own operator
address = "https://shuffler.example.org:9300"
authority = "shuffler-authority.pem"

[curator]                           # optional: the curator that this node trusts with its counts
address = "https://curator.example.org:9301"
authority = "curator-authority.pem"
key = "{zeros}"   # the public key that tables are sealed for

[link]
address = "coordinator.example.org:9092"
authority = "authority.pem"         # the certificate that signs the coordinator's
key = "north.key"                   # this node's own key; the coordinator registers north.pub
""".replace("{zeros}", "0" * 64)


class Link(BaseModel):
    """How to reach the coordinator, and as whom."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    address: Annotated[str, Field(pattern=r"^[^\s/]+:\d{1,5}$")]
    authority: File
    key: File


class Trusted(BaseModel):
    """Where a shuffler or a curator is, and who vouches for it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    address: Annotated[str, Field(pattern=r"^https?://[^\s/]+:\d{1,5}$")]
    authority: File | None = None


class NodeEngine(BaseModel):
    """What counts a node's records where they lie, instead of reading them for every message."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Annotated[str, AfterValidator(lambda name: Engine(name).name)] = "threads"
    workers: Annotated[int, Field(ge=1)] | None = None
    address: str | None = None

    @property
    def engine(self) -> Engine:
        """The engine that is meant."""
        return Engine(self.name, self.workers, self.address)


class TrustedCurator(Trusted):
    """A curator, with the public key that tables are sealed for."""

    key: Key


class NodeFile(BaseModel):
    """What a node's file says."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Annotated[str, Field(pattern=NODE_NAME)]
    data: File
    label: str | Names
    classes: Annotated[Names, AfterValidator(lambda names: tuple(check_classes(names)))]
    policy: File
    ledger: LedgerFile
    account: str
    features: Names | None = None
    pace: Annotated[float, Field(ge=0, le=3600)] = 1.0
    model: str = "logistic"
    public: File | None = None
    identity: File | None = None
    peers: File | None = None
    shuffler: Trusted | None = None
    curator: TrustedCurator | None = None
    engine: NodeEngine | None = None
    link: Link | None = None
    _home: Path = PrivateAttr(Path())

    @property
    def state(self) -> Path:
        """The folder of what the node must remember: beside its file, under its name."""
        return self._home / f"{self.name}.state"


class Peers(RootModel[dict[str, Key]]):
    """The identities of nodes by name."""


def read_node_file(path: str | Path) -> NodeFile:
    """What a node's file says, or an error that names each wrong field.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "node.toml"
    >>> _ = file.write_text(NODE_EXAMPLE)
    >>> read_node_file(file).classes
    ('ill', 'well')
    """
    path = Path(path)
    found = read_settings(path, NodeFile)
    if not isinstance(found.label, str) and sorted(found.label) != sorted(found.classes):
        raise InvalidInput(f"{path}: where label is a list of columns, they are the classes, one column each")
    if not isinstance(found.label, str) and found.engine is not None:
        raise InvalidInput(f"{path}: an engine counts records with one label each: name one column, or leave it out")
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


Arrays = Mapping[str, NDArray[Any]]


class RunArrays:
    """Arrays that are made once per ``run``; without a folder they are made each time.

    >>> import tempfile
    >>> home, made = Path(tempfile.mkdtemp()), []
    >>> source = home / "records.csv"
    >>> _ = source.write_text("1,2")
    >>> def read():
    ...     made.append("read")
    ...     return {"samples": np.array([1.0, 2.0])}
    >>> [RunArrays("run", home / "arrays").of(source, "as numbers", read)["samples"].tolist() for _ in range(2)]
    [[1.0, 2.0], [1.0, 2.0]]
    >>> made
    ['read']
    """

    def __init__(self, run: str = "", folder: Path | None = None) -> None:
        self._folder = folder
        self._run = _name(run)

    def of(self, source: Path, how: str, make: Callable[[], Arrays]) -> Arrays:
        """The arrays that ``make`` makes of a file as it is now; ``how`` is all else that they depend on."""
        if self._folder is None:
            return make()
        found = source.stat()
        state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        place = self._folder / self._run / _name(f"{source.absolute()} {state} {how}")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Two messages at once: the second waits for what the first reads.
        with FileLock(self._folder / "lock", mode=0o600):
            if not place.is_dir():
                arrays = make()
                # A disk without room for a copy does not keep a node from answering.
                with suppress(OSError):
                    self._forget_others()
                    _write(place, arrays)
                return arrays
            # Changes to what is mapped stay in this process.
            return {file.stem: np.asarray(np.load(file, mmap_mode="c")) for file in sorted(place.glob("*.npy"))}

    def _forget_others(self) -> None:
        assert self._folder is not None
        for other in self._folder.iterdir():
            if other.is_dir() and other.name != self._run:
                shutil.rmtree(other)


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """An empty folder that only its owner may look into, for as long as this lasts; what a crash left is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(place: Path, arrays: Arrays) -> None:
    """All arrays or none."""
    draft = place.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    place.parent.mkdir(mode=0o700, exist_ok=True)
    draft.mkdir(mode=0o700)
    try:
        for name, array in arrays.items():
            with os.fdopen(os.open(draft / f"{name}.npy", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as opened:
                np.save(opened, array, allow_pickle=False)
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _name(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()[:32]


SERVICE_EXAMPLE = """\
host = "0.0.0.0"
port = 9300
certificate = "shuffler.pem"   # signed by the federation's authority
key = "shuffler.key"
state = "shuffler.db"          # submissions are stored here until they are collected
largest = 67108864             # the most bytes of a message; larger ones are not read
coordinator = "<64 hexadecimal digits: the coordinator's public identity>"

[nodes]                        # the public identity of every node that may submit
north = "<64 hexadecimal digits>"
"""


class ServiceConfig(BaseModel):
    """A shuffler or a curator, as its operator wrote it down. A curator has the last settings too."""

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
        """The store of its submissions, and who may submit."""
        return self.state, self.coordinator, self.nodes


def read_service_config(path: str | Path) -> ServiceConfig:
    """The description in a TOML file, or an error that names each wrong field."""
    return read_settings(Path(path), ServiceConfig)
