"""The service that collects what nodes hand in, for adapters with a shuffler or a curator."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tacit.core.randomness import SeededRandomness
from tacit.federation.collector.batches import open_shuffler
from tacit.federation.collector.client import Address
from tacit.federation.collector.curator import Curator, open_curator
from tacit.federation.collector.service import make_service
from tacit.federation.coordinator import Journal
from tacit.federation.flower.summed import Collector
from tacit.federation.keys import SigningIdentity, public_key

__all__ = ["CURATOR", "collected"]

CURATOR = "curator"
SECRET = b"s" * 32
COORDINATOR = SigningIdentity.new()


@contextmanager
def collected(trust: str, peers: dict[str, bytes], ledger: Any, seed: int | None, folder: Path | None) -> Iterator[Any]:
    """A shuffler, or a curator that pays from its account in this ledger: what nodes and the coordinator need of it."""
    with TemporaryDirectory() as scratch:
        home = Path(scratch) if folder is None else folder
        home.mkdir(exist_ok=True)
        file = home / f"{trust}.db"
        if trust == "shuffle":
            store = open_shuffler(file, COORDINATOR.public, peers)
        else:
            curator = Curator(SECRET, ledger, CURATOR, None if seed is None else SeededRandomness(seed))
            store = open_curator(file, COORDINATOR.public, peers, curator)
        service = make_service("127.0.0.1", 0, store)
        service.start()
        try:
            address = Address(f"http://127.0.0.1:{service.address[1]}", timeout=20)
            key = public_key(SECRET)
            nodes = {"shuffler": address} if trust == "shuffle" else {"curator": (address, key)}
            journal = Journal.open(home / "journal", "a recipe")
            yield nodes, (Collector(address, COORDINATOR, None if trust == "shuffle" else key), journal)
        finally:
            service.stop()
            store.close()
