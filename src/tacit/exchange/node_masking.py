"""A node's side of a masked sum: each step is a letter, and what the node must remember between them is on its disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.release import Release
from tacit.exchange.identity import Identity
from tacit.exchange.letters import Letter
from tacit.exchange.masking.client import ClientState, announce, masked_input, shares, unmask
from tacit.exchange.masking.session import Session
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace

__all__ = ["FolderMemory", "Masking", "Memory", "masked_step"]


@dataclass
class Memory:
    """What a node remembers, in its process only: for tests and simulations."""

    kept: dict[str, bytes] = field(default_factory=dict)

    def read(self, name: str) -> bytes | None:
        """What was written under a name."""
        return self.kept.get(name)

    def write(self, name: str, content: bytes) -> None:
        """Write something down."""
        self.kept[name] = content


@dataclass(frozen=True)
class FolderMemory:
    """What a node remembers, in a folder that only its owner may look into: it holds secrets."""

    folder: Path

    def read(self, name: str) -> bytes | None:
        """What was written under a name."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write something down, whole or not at all, on disk before it is counted on."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.folder / f"{name}.draft"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(self.folder / name)


@dataclass(frozen=True)
class Masking:
    """What a node needs for masked sums: who it is, whom it takes part with, and a memory.

    ``peers`` are the identities of all nodes by name, from the site's own file: a coordinator that makes nodes up
    could take their noise out of the sum.
    """

    identity: Identity
    peers: Mapping[str, bytes]
    memory: Memory | FolderMemory


def masked_step(
    letter: Letter,
    ask: Any,  # noqa: ANN401
    name: str,
    masking: Masking,
    answer: Callable[[Any], Release[Any]],
) -> bytes:
    """What a node says in one step of a masked sum.

    ``answer`` takes the question with the masked mechanism in it, and goes through the gate.
    """
    key = f"{hashlib.sha256(f'{letter.run} {letter.round}'.encode()).hexdigest()[:32]}.masking"
    kept = masking.memory.read(key)
    if letter.step == "keys":
        session = Session.read(letter.content)
        _require_session(session, letter, ask, masking)
        if kept is not None:
            state = ClientState.read(kept)
            if state.session != session:
                raise InvalidInput("this round was begun with another session")
            return state.said["keys"]
        state, said = announce(session, name, masking.identity)
    else:
        if kept is None:
            raise InvalidInput("this round was not begun here")
        state = ClientState.read(kept)
        match letter.step:
            case "shares":
                state, said = shares(state, letter.content)
            case "input":
                _require_session(state.session, letter, ask, masking)
                state, said = masked_input(state, letter.content, lambda share: answer(replace(ask, mechanism=share)))
            case _:
                state, said = unmask(state, letter.content)
    # Remembered before it is said: a node that says two different things in one step gives its table away.
    masking.memory.write(key, state.to_bytes())
    return said


def _require_session(session: Session, letter: Letter, ask: Any, masking: Masking) -> None:  # noqa: ANN401
    if not isinstance(ask.mechanism, DistributedLaplace) or session.plan != ask.mechanism:
        raise InvalidInput("the session's plan is not the one that the question names")
    if (session.run, session.round, session.request) != (letter.run, letter.round, ask.request):
        raise InvalidInput("the session is for another question")
    if any(masking.peers.get(name) != public for name, public in session.nodes.items()):
        raise InvalidInput("the session names a node that this site does not know")
