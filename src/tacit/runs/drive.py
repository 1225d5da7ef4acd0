"""The loop that runs every method, and checkpoints from which a stopped run resumes.

Every round is stored before the next one is asked. All of it is public or was released. An interrupted round is asked
again under the same request id, so holders that have paid for it repeat their stored answers, and nothing is paid
twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.core.codec import decode, encode
from tacit.core.protocols import Answer, Ask, Coordinator, Exchange, Result, State
from tacit.core.release import NoResponse, Release, no_response, restored
from tacit.federation.coordinator import Journal, RoundAnswers
from tacit.methods.task import Observer

__all__ = ["Checkpoint", "RunControl", "drive"]


def drive(
    coordinator: Coordinator[State, Ask, Answer, Result],
    exchange: Exchange[Ask, Answer],
) -> Result:
    """Ask the coordinator's questions, one after the other, and return its result.

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
    """The name, the checkpoint and the observer of a run; none of them changes what is released.

    A stopped run resumes if the same ``request`` is paid from the same ledger, or with ``checkpoint``, a folder that
    stores its rounds: nothing is paid twice. ``observer`` is called with the progress.

    >>> RunControl(request="r-1").checkpoint is None
    True
    """

    request: str | None = None
    checkpoint: str | Path | None = None
    observer: Observer | None = None


@dataclass(frozen=True)
class Checkpoint:
    """The journal of a run in a folder; or no folder, and the request id only.

    >>> Checkpoint.open(None, ("rknn",), "r-1").request
    'r-1'
    """

    folder: Path | None
    request: str | None
    journal: Journal | None = None

    @classmethod
    def open(cls, folder: str | Path | None, settings: tuple[Any, ...], request: str | None) -> Checkpoint:
        """The checkpoint of the run with these settings; the folder of another run is refused."""
        if folder is None:
            return cls(None, request)
        if not (Path(folder) / "question-0.bin").exists():
            # A run that was refused before its first question may be started with other settings.
            (Path(folder) / "run.bin").unlink(missing_ok=True)
        journal = Journal.open(folder, repr(settings))
        return cls(Path(folder), request or journal.run, journal)

    @property
    def fresh(self) -> bool:
        """Whether the run is new, so that nothing of it was paid before."""
        return self.folder is None and self.request is None

    @property
    def rounds(self) -> int:
        """How many rounds were complete when the run stopped."""
        number = 0
        while self.journal is not None and self.journal.stored_answers(number) is not None:
            number += 1
        return number

    def around(self, exchange: Exchange[Any, Any], again: bool = False) -> Exchange[Any, Any]:
        """The exchange, which stores every round's answers and returns stored ones without asking.

        Holders that learn by answering are asked ``again``, and repeat the answers stored in their ledgers.
        """
        journal, number = self.journal, 0
        if journal is None:
            return exchange

        def put(ask: Any) -> list[Release[Any]]:  # noqa: ANN401
            nonlocal number
            this, number = number, number + 1
            journal.asked(this, f"{ask.request}\n{ask.question}".encode())
            found = journal.stored_answers(this)
            if found is not None and not again:
                return [_read(each) for each in found.releases]
            answers = list(exchange(ask))
            if found is None:
                journal.store_answers(this, RoundAnswers((), tuple(_written(each) for each in answers)))
            return answers

        return put


def _written(release: Release[Any]) -> bytes:
    if isinstance(release.value, NoResponse):
        return encode({"lost": True})
    return encode({"value": release.value, "receipts": [each.to_json() for each in release.receipts]})


def _read(content: bytes) -> Release[Any]:
    found = decode(content)
    return no_response() if "lost" in found else restored(found["value"], found["receipts"])
