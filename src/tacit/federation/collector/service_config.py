"""The file that describes a shuffler or a curator, and the process that serves it until it is told to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tacit.core.errors import InvalidInput
from tacit.federation.certificates import expiry_warnings, read_validity
from tacit.federation.collector.messages import LARGEST_BATCH
from tacit.federation.collector.service import MOST_BYTES, make_service
from tacit.federation.collector.submission_store import SubmissionStore
from tacit.federation.logs import Reminder
from tacit.federation.settings_file import File, Key, read_settings
from tacit.methods.question import MOST_RECORDS

__all__ = ["SERVICE_EXAMPLE", "ServiceConfig", "read_service_config", "serve"]

SERVICE_EXAMPLE = """\
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

# Seconds between two looks at the certificate.
LOOK = 3600.0


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
    ledger: File | None = None
    account: str | None = None
    node_records: Annotated[int, Field(ge=1, le=MOST_RECORDS)] = MOST_RECORDS

    @property
    def store(self) -> tuple[Path, bytes, Mapping[str, bytes]]:
        """Where it keeps what is handed in, and who may."""
        return self.state, self.coordinator, self.nodes


def read_service_config(path: str | Path) -> ServiceConfig:
    """The description in a TOML file, or an error that names each wrong field."""
    return read_settings(Path(path), ServiceConfig)


def serve(
    config: ServiceConfig, store: SubmissionStore, tell: Callable[[str], None], stop: threading.Event | None = None
) -> None:
    """Serve until ``stop`` is set, or the process is told to end."""
    if config.certificate is not None and (valid := read_validity(config.certificate)).expired():
        raise InvalidInput(
            f"{valid.trouble()}. Renew it with `tacit federation nodes renew {config.certificate.parent}`"
        )
    ended = stop or threading.Event()
    if stop is None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: ended.set())
    service = make_service(config.host, config.port, store, config.certificate, config.key, config.largest)
    reminder = Reminder(lambda: expiry_warnings([] if config.certificate is None else [config.certificate]), tell)
    service.start()
    host, port = service.address
    tell(f"ready at {'http' if config.certificate is None else 'https'}://{host}:{port}")
    reminder.look()
    while not ended.wait(LOOK):
        reminder.look()
    service.stop()
    store.close()
