"""The whole runtime is one loop, which can be stopped at any moment and goes on.

Every round is kept before the next is asked. What is kept is public or was released. The round that was cut off is
asked again under the same request, so holders that had paid for it answer what they answered, and nobody pays twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.core.codec import decode, encode
from tacit.core.protocols import Answer, Ask, Coordinator, Exchange, Result, State
from tacit.core.release import NoResponse, Release, no_response, restored
from tacit.federation.coordinator import Journal, Kept
from tacit.methods.task import Observer

__all__ = ["Checkpoint", "RunControl", "drive"]


def drive(
    coordinator: Coordinator[State, Ask, Answer, Result],
    exchange: Exchange[Ask, Answer],
) -> Result:
    """Ask until there is nothing left to ask.

    >>> class Once:
    ...     def begin(self): return []
    ...     def ask(self, state): return None if state else "ready?"
    ...     def fold(self, state, answers): return state + answers
    ...     def result(self, state): return state
    >>> drive(Once(), lambda ask: ["yes"])
    ['yes']
    """
    state = coordinator.begin()
    while (ask := coordinator.ask(state)) is not None:
        state = coordinator.fold(state, exchange(ask))
    return coordinator.result(state)


@dataclass(frozen=True)
class RunControl:
    """How a run is named, kept and watched; none of it decides what is released.

    A run that was stopped goes on where the same ``request`` is paid from the same ledger, or with ``checkpoint``, a
    folder that remembers it: nothing is paid twice. ``observer`` is told what happens.

    >>> RunControl(request="r-1").checkpoint is None
    True
    """

    request: str | None = None
    checkpoint: str | Path | None = None
    observer: Observer | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A journal in a folder, around an exchange of this process; or no folder, and the request alone.

    >>> Checkpoint.open(None, ("rknn",), "r-1").request
    'r-1'
    """

    folder: Path | None
    request: str | None
    journal: Journal | None = None

    @classmethod
    def open(cls, folder: str | Path | None, settings: tuple[Any, ...], request: str | None) -> Checkpoint:
        """The rounds of a run; ``settings`` say which one, and the folder of another is refused."""
        if folder is None:
            return cls(None, request)
        if not (Path(folder) / "question-0.bin").exists():
            # A run that was refused before its first question binds nobody to its settings.
            (Path(folder) / "run.bin").unlink(missing_ok=True)
        journal = Journal.open(folder, repr(settings))
        return cls(Path(folder), request or journal.run, journal)

    @property
    def fresh(self) -> bool:
        """Whether nothing of this run can have been paid for before: it goes on from nowhere."""
        return self.folder is None and self.request is None

    @property
    def rounds(self) -> int:
        """How many rounds were over when the run stopped."""
        number = 0
        while self.journal is not None and self.journal.kept(number) is not None:
            number += 1
        return number

    def around(self, exchange: Exchange[Any, Any], again: bool = False) -> Exchange[Any, Any]:
        """The exchange, with every round's answers kept, and those that were kept before given again.

        Where holders learn by answering they are asked ``again``, and give what their ledgers remember.
        """
        journal, number = self.journal, 0
        if journal is None:
            return exchange

        def put(ask: Any) -> list[Release[Any]]:  # noqa: ANN401
            nonlocal number
            this, number = number, number + 1
            journal.asked(this, f"{ask.request}\n{ask.question}".encode())
            found = journal.kept(this)
            if found is not None and not again:
                return [_read(each) for each in found.releases]
            answers = list(exchange(ask))
            if found is None:
                journal.keep(this, Kept((), tuple(_written(each) for each in answers)))
            return answers

        return put


def _written(release: Release[Any]) -> bytes:
    if isinstance(release.value, NoResponse):
        return encode({"lost": True})
    return encode({"value": release.value, "receipts": [each.to_json() for each in release.receipts]})


def _read(content: bytes) -> Release[Any]:
    found = decode(content)
    return no_response() if "lost" in found else restored(found["value"], found["receipts"])
