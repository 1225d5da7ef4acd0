"""The file that describes a shuffler or a curator, and the process that serves it until it is told to stop."""

from __future__ import annotations

import signal
import sys
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.core.errors import InvalidInput, TacitError
from tacit.exchange.post.batch import LARGEST_BATCH
from tacit.exchange.post.office import Office
from tacit.exchange.post.service import MOST_BYTES, make_service

__all__ = ["EXAMPLE", "Site", "read_site", "run_site", "serve"]

EXAMPLE = """\
host = "0.0.0.0"
port = 9300
certificate = "shuffler.pem"   # signed by the federation's authority
key = "shuffler.key"
state = "shuffler.db"          # what is handed in is kept here until it is collected
largest = 67108864             # bytes of a message; what is larger is not read
coordinator = "<64 hexadecimal digits: the coordinator's public identity>"

[nodes]                        # the public identity of every node that may hand in
north = "<64 hexadecimal digits>"
"""

Hexadecimal = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Site(BaseModel):
    """A shuffler or a curator, as its operator wrote it down. A curator has the three last settings too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)]
    certificate: Path | None = None
    key: Path | None = None
    state: Path
    coordinator: Hexadecimal
    nodes: Annotated[dict[str, Hexadecimal], Field(min_length=1)]
    largest: Annotated[int, Field(ge=1024, le=LARGEST_BATCH)] = MOST_BYTES
    sealing: Path | None = None
    ledger: Path | None = None
    account: str | None = None

    @property
    def store(self) -> tuple[Path, bytes, Mapping[str, bytes]]:
        """Where it keeps what is handed in, and who may."""
        identities = {name: bytes.fromhex(public) for name, public in self.nodes.items()}
        return self.state, bytes.fromhex(self.coordinator), identities


def read_site(path: str | Path) -> Site:
    """The description in a TOML file; paths in it are relative to the file."""
    path = Path(path)
    try:
        site = Site.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({error})") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    files = {
        name: path.parent / value
        for name in ("certificate", "key", "state", "sealing", "ledger")
        if (value := getattr(site, name)) is not None
    }
    return site.model_copy(update=files)


def serve(site: Site, office: Office, tell: Callable[[str], None], stop: threading.Event | None = None) -> None:
    """Serve until ``stop`` is set, or the process is told to end."""
    ended = stop or threading.Event()
    if stop is None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: ended.set())
    service = make_service(site.host, site.port, office.handle, office.status, site.certificate, site.key, site.largest)
    thread = threading.Thread(target=service.serve_forever, daemon=True)
    thread.start()
    host, port = service.server_address[:2]
    tell(f"ready at {'http' if site.certificate is None else 'https'}://{host!s}:{port}")
    ended.wait()
    service.shutdown()
    service.server_close()
    office.close()


def run_site(arguments: Sequence[str], opened: Callable[[str], tuple[Site, Office]]) -> int:
    """A process from its arguments to its exit code: 2 for a mistake of its operator, in words."""

    def tell(words: str) -> None:
        sys.stdout.write(words + "\n")
        sys.stdout.flush()

    try:
        if len(arguments) != 1:
            raise InvalidInput("give one argument: the file that describes the service")
        serve(*opened(arguments[0]), tell)
    except InvalidInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except TacitError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
