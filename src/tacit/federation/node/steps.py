"""A node's side of steps that others take part in: batches that a service collects, and masked sums.

In a batch, encrypted pieces go to a shuffler or a curator, and a receipt to the coordinator.

Where the collector is, and whose key is trusted, is in the node's own file. The coordinator names the batch only.

Each step of a masked sum is a request, and what the node must remember between them is on its disk.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from tacit.core import InvalidInput, Release, TacitError
from tacit.core.files import locked, write_file
from tacit.federation.collector.batches import sealed_messages, sealed_table
from tacit.federation.collector.client import Address, Unreachable, Untrusted, submit
from tacit.federation.collector.messages import Batch, Submission
from tacit.federation.keys import SigningIdentity
from tacit.federation.messages import Request
from tacit.federation.secure_aggregation.client import (
    ClientState,
    agree,
    announce,
    masked_input,
    share_secrets,
    unmask,
)
from tacit.federation.secure_aggregation.neighbors import Equivocation
from tacit.federation.secure_aggregation.session import Session
from tacit.methods.question import table_shape
from tacit.wire import Price, receipt_to_bytes

__all__ = ["Collecting", "FolderMemory", "Masking", "NodeMemory", "collected_step", "hidden_among", "masked_step"]

# How long a collector that is down is called again, and how often: it was paid for, and may be back soon.
_PATIENCE, _PAUSE = 120.0, 2.0
HandIn = Callable[[Address, SigningIdentity, str, Batch, Submission], None]


@dataclass(frozen=True)
class Collecting:
    """What a node needs to submit: its identity, the shuffler it trusts, and the curator with its key.

    ``peers`` are the identities of all nodes by name: a batch may be of these and of nobody else.
    """

    identity: SigningIdentity
    shuffler: Address | None = None
    curator: tuple[Address, bytes] | None = None
    peers: Mapping[str, bytes] = field(default_factory=dict)
    submit: HandIn = submit


def hidden_among(ask: Any, batch: Batch, peers: Mapping[str, bytes]) -> int:  # noqa: ANN401
    """Among how many members a node's own part of a batch is hidden at least, by what this node itself knows.

    Members are the identities in the node's own file that the batch lists, each once; without such a file the node
    knows nobody but itself. A curator releases the sum of ``minimum`` tables already. A shuffler counts clients, whose
    number is part of the guarantee; of how many nodes they are is what the list says.
    """
    if not peers:
        return 1
    members = len({peers[name] for name in batch.nodes if name in peers})
    return members if ask.mechanism.statistic == "shuffle" else min(members, batch.minimum)


def collected_step(
    request: Request,
    batch: Batch,
    ask: Any,  # noqa: ANN401
    name: str,
    collecting: Collecting,
    clients: int,
    records: int,
    answer: Callable[[Any], Release[Any]],
) -> bytes:
    """Encrypt the answer for whom this node trusts, submit it, and confirm payment and submission.

    ``clients`` is how many records or persons the node answers for and ``records`` how many records at most, which is
    public under replace-one adjacency.
    """
    if (batch.run, batch.round, batch.request) != (request.run, request.round, ask.request):
        raise InvalidInput("the batch is for another question")
    if collecting.peers and not set(batch.nodes) <= set(collecting.peers):
        raise InvalidInput("the batch names a node that is not in this one's own file")
    if ask.mechanism.statistic == "shuffle":
        if collecting.shuffler is None:
            raise InvalidInput("this node trusts no shuffler")
        address, participants = collecting.shuffler, clients
        mechanism: Any = sealed_messages(ask.mechanism.inner, batch, name, clients)
    else:
        if collecting.curator is None:
            raise InvalidInput("this node trusts no curator")
        if records > batch.largest:
            # A curator makes a table smaller that counts more, and then one record moves more than was paid for.
            raise InvalidInput(f"the batch is for nodes with up to {batch.largest} records, and this one has more")
        (address, key), participants = collecting.curator, 1
        mechanism = sealed_table(ask, batch, name, key)
    release = answer(replace(ask, mechanism=mechanism))
    submission = Submission(participants, release.value)
    _handed_in(lambda: collecting.submit(address, collecting.identity, name, batch, submission))
    return receipt_to_bytes(release.receipts[0], Price.of(ask))


def _handed_in(call: Callable[[], None]) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return call()
        except Untrusted:
            raise
        except InvalidInput as error:
            # The question was right and is paid for; what is wrong is a file of this node's.
            raise TacitError(str(error)) from None
        except Unreachable:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)


@dataclass
class NodeMemory:
    """What a node remembers, in its process only: for tests and simulations."""

    kept: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Nobody else reads or writes what has this name meanwhile, who asks in the same way."""
        with self._lock:
            yield

    def read(self, name: str) -> bytes | None:
        """What was written under a name."""
        return self.kept.get(name)

    def write(self, name: str, content: bytes) -> None:
        """Write a value."""
        self.kept[name] = content


@dataclass(frozen=True)
class FolderMemory:
    """What a node remembers, in a folder that only its owner may look into: it holds secrets."""

    folder: Path

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Nobody else, in this process or another, reads or writes what has this name meanwhile, asking likewise."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.folder / f"{name}.lock"):
            yield

    def read(self, name: str) -> bytes | None:
        """What was written under a name."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a value, atomically and on disk before it is used."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self.folder / name, content, private=True)


@dataclass(frozen=True)
class Masking:
    """What a node needs for masked sums: who it is, whom it takes part with, and a memory.

    ``peers`` are the identities of all nodes by name, from the node's own file: a coordinator that invents nodes could
    subtract their noise from the sum.
    """

    identity: SigningIdentity
    peers: Mapping[str, bytes]
    memory: NodeMemory | FolderMemory


def masked_step(
    request: Request,
    ask: Any,  # noqa: ANN401
    name: str,
    masking: Masking,
    answer: Callable[[Any], Release[Any]],
) -> bytes:
    """A node's message in one step of a masked sum.

    ``answer`` takes the question with the masked mechanism in it, and goes through the gate.
    """
    key = f"{hashlib.sha256(f'{request.run} {request.round}'.encode()).hexdigest()[:32]}.masking"
    # Two requests at once, about different nodes that dropped out, would each find that nothing was said yet.
    with masking.memory.held(key):
        return _said(request, ask, name, masking, answer, key)


def _said(
    request: Request,
    ask: Any,  # noqa: ANN401
    name: str,
    masking: Masking,
    answer: Callable[[Any], Release[Any]],
    key: str,
) -> bytes:
    kept = masking.memory.read(key)
    if request.step == "keys":
        session = Session.read(request.content, masking.peers)
        _require_session(session, request, ask, name, masking)
        if kept is not None:
            state = ClientState.read(kept)
            if state.session != session:
                raise InvalidInput("this round was started with another session")
            return state.said["keys"]
        state, said = announce(session, name, masking.identity)
    else:
        if kept is None:
            raise InvalidInput("this round was not started here")
        state = ClientState.read(kept)
        match request.step:
            case "shares":
                state, said = share_secrets(state, request.content)
            case "input":
                _require_session(state.session, request, ask, name, masking)
                state, said = masked_input(state, request.content, lambda share: answer(replace(ask, mechanism=share)))
            case "agree":
                state, said = agree(state, request.content, masking.identity)
            case _:
                try:
                    state, said = unmask(state, request.content)
                except Equivocation:
                    # A second try could be made until the node draws none of the wrong signatures.
                    masking.memory.write(key, state.forgotten.to_bytes())
                    raise
    # Remembered before it is said: a node that says two different things in one step gives its table away.
    masking.memory.write(key, state.to_bytes())
    return said


def _require_session(session: Session, request: Request, ask: Any, name: str, masking: Masking) -> None:  # noqa: ANN401
    if ask is None or session.plan != ask.mechanism:
        raise InvalidInput("the session's plan is not the one that the question names")
    if session.neighborhood is None:
        # Nobody would sign whose tables are in the sum, and a coordinator could tell every holder something else.
        raise InvalidInput("the plan names no number of colluding holders, so nobody would sign who is in the sum")
    if session.cells != prod(table_shape(ask)):
        raise InvalidInput("the session is for a table of another size than the question's")
    if (session.run, session.round, session.request) != (request.run, request.round, ask.request):
        raise InvalidInput("the session is for another question")
    if name not in session.nodes or any(masking.peers.get(each) != key for each, key in session.nodes.items()):
        raise InvalidInput("the session leaves this node out, or names a node that is not in this one's own file")
