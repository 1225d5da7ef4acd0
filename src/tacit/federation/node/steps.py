"""A node's part in batches that a shuffler or curator collects, and in secure aggregation.

For a batch, encrypted pieces go to the shuffler or curator, and a receipt goes to the coordinator. The collector's
address and trusted key are in the node's own file; the coordinator only names the batch.

Each step of secure aggregation is a request; between the steps the node's state is on its disk.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
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

# Seconds for which an unreachable collector is called again, and between two calls: the submission is paid for.
_PATIENCE, _PAUSE = 120.0, 2.0
# The endings of names of masked rounds' states, and the most rounds of which a state is kept.
_SUFFIX, MOST_MASKED_ROUNDS = ".masking", 64
HandIn = Callable[[Address, SigningIdentity, str, Batch, Submission], None]


@dataclass(frozen=True)
class Collecting:
    """A node's settings for submitting: its identity, the shuffler that it trusts, and the curator with its key.

    ``peers`` are the identities of all nodes by name: a batch may name these nodes only.
    """

    identity: SigningIdentity
    shuffler: Address | None = None
    curator: tuple[Address, bytes] | None = None
    peers: Mapping[str, bytes] = field(default_factory=dict)
    submit: HandIn = submit


def hidden_among(ask: Any, batch: Batch, peers: Mapping[str, bytes]) -> int:  # noqa: ANN401
    """The smallest number of nodes among which this node's part of a batch is hidden, as far as this node can verify.

    Counted are the different identities in the node's own file that the batch lists; without such a file only the node
    itself. A curator may release the sum of ``minimum`` tables. A shuffler's minimum is of participants, not nodes, and
    is part of the guarantee; so for shuffled batches all listed nodes count.
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
    participants: int,
    records: int,
    answer: Callable[[Any], Release[Any]],
) -> bytes:
    """Encrypt the answer for the shuffler or curator of this node's own file, submit it, and return the receipt.

    ``participants`` is the node's number of records or persons and ``records`` the most records that they have; both
    are public under replace-one adjacency.
    """
    if (batch.run, batch.round, batch.request) != (request.run, request.round, ask.request):
        raise InvalidInput("the batch is for another question")
    if collecting.peers and not set(batch.nodes) <= set(collecting.peers):
        raise InvalidInput("the batch names a node that is not in this node's own list")
    if ask.mechanism.statistic == "shuffle":
        if collecting.shuffler is None:
            raise InvalidInput("this node trusts no shuffler")
        address = collecting.shuffler
        mechanism: Any = sealed_messages(ask.mechanism.inner, batch, name, participants)
    else:
        if collecting.curator is None:
            raise InvalidInput("this node trusts no curator")
        if records > batch.largest:
            # A curator clips a table with larger counts, and then one record could change more than was paid for.
            raise InvalidInput(
                f"the batch is for nodes with up to {batch.largest} records, and this node may have more"
            )
        (address, key), participants = collecting.curator, 1  # a table of all
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
            # The question was valid and is paid for; the error is in this node's own settings.
            raise TacitError(str(error)) from None
        except Unreachable:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)


@dataclass
class NodeMemory:
    """A node's state between steps, in memory: for tests and simulations."""

    kept: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Lock the value of this name against other threads."""
        with self._lock:
            yield

    def read(self, name: str) -> bytes | None:
        """The value of a name; None if there is none."""
        return self.kept.get(name)

    def write(self, name: str, content: bytes) -> None:
        """Write a value."""
        self.kept.pop(name, None)
        self.kept[name] = content

    def names(self, suffix: str) -> list[str]:
        """The names with this ending, those that were written first coming first."""
        return [name for name in self.kept if name.endswith(suffix)]

    def forget(self, name: str) -> None:
        """Remove a value."""
        self.kept.pop(name, None)


@dataclass(frozen=True)
class FolderMemory:
    """A node's state between steps, in a folder that only its owner may read: it contains secrets."""

    folder: Path

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Lock the values against other threads and processes: one lock for all, because names come from outside."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.folder / "lock"):
            yield

    def read(self, name: str) -> bytes | None:
        """The value of a name; None if there is none."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a value, atomically and on disk before it is used."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self.folder / name, content, private=True)

    def names(self, suffix: str) -> list[str]:
        """The names with this ending, those that were written first coming first."""
        found = [(file.stat().st_mtime_ns, file.name) for file in self.folder.glob(f"*{suffix}")]
        return [name for _, name in sorted(found)]

    def forget(self, name: str) -> None:
        """Remove a value."""
        (self.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class Masking:
    """A node's settings for secure aggregation: its identity, the other nodes, and the store of its state.

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
    """A node's message in one step of secure aggregation.

    ``answer`` gets the question with the masked mechanism in it, and answers through the gate.
    """
    key = f"{hashlib.sha256(f'{request.run} {request.round}'.encode()).hexdigest()[:32]}{_SUFFIX}"
    if request.step != "keys" and masking.memory.read(key) is None:
        # Before anything is written for it: such a request costs nothing.
        raise InvalidInput("this round was not started here")
    # Otherwise two simultaneous unmask requests with different dropouts could both be answered.
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
        _make_room(masking.memory)
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
                    # The coordinator must not retry until the node happens to check no wrong signature.
                    masking.memory.write(key, state.forgotten.to_bytes())
                    raise
    # Stored before it is sent: two different messages in one step would reveal the node's table.
    masking.memory.write(key, state.to_bytes())
    return said


def _make_room(memory: NodeMemory | FolderMemory) -> None:
    """Forget the oldest rounds that are not paid yet or are over, so that a coordinator cannot fill the disk.

    An unpaid round can be started again, with other keys. The last answer of one that is over is repeated for as long
    as its state is there. Rounds in between are forgotten last: they are paid, and their sum would lack this node.
    """

    def between(name: str) -> bool:
        try:
            said = ClientState.read(memory.read(name) or b"").said
        except InvalidInput:
            return False
        return "input" in said and "unmask" not in said

    names = memory.names(_SUFFIX)
    excess = max(0, len(names) + 1 - MOST_MASKED_ROUNDS)
    dropped = list(islice((name for name in names if not between(name)), excess))
    dropped += [name for name in names if name not in dropped][: excess - len(dropped)]
    for name in dropped:
        memory.forget(name)


def _require_session(session: Session, request: Request, ask: Any, name: str, masking: Masking) -> None:  # noqa: ANN401
    if ask is None or session.plan != ask.mechanism:
        raise InvalidInput("the session's plan is not the one that the question names")
    if session.cells != prod(table_shape(ask)):
        raise InvalidInput("the session's table does not have the size of the question's")
    if session.cells > getattr(session.plan, "cells", session.cells):
        raise InvalidInput("the noise is accounted for fewer cells than the question's table has")
    if (session.run, session.round, session.request) != (request.run, request.round, ask.request):
        raise InvalidInput("the session is for another question")
    if name not in session.nodes or any(masking.peers.get(each) != key for each, key in session.nodes.items()):
        raise InvalidInput(
            "the session does not include this node, or names a node that is not in this node's own list"
        )
