"""The loop that runs every method, and checkpoints from which a stopped run resumes.

Every round is stored before the next one is asked. All of it is public or was released. An interrupted round is asked
again under the same request id, so holders that have paid for it repeat their stored answers, and nothing is paid
twice.

The public steps are timed, in whole seconds. The time to read, encode, search or sum records depends on the records,
and no noise covers it, so neither these steps nor the whole run are timed. The coordinator's work depends on public
samples and releases only: its time is post-processing, and may be stored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from tacit.core import InvalidInput, NoResponse, Release, no_response, restored
from tacit.core.codec import decode, encode
from tacit.core.protocols import Answer, Ask, Coordinator, Exchange, Result, State
from tacit.federation.coordinator import Journal, RoundAnswers
from tacit.methods.task import Observer

__all__ = ["ASKING", "LEARNING", "Checkpoint", "PublicTiming", "RunControl", "TimedCoordinator", "drive"]


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

    def __post_init__(self) -> None:
        kinds: dict[str, tuple[Any, str]] = {
            "request": (str, "a text"),
            "checkpoint": ((str, Path), "a folder"),
            "observer": (Observer, "a tacit.Observer"),
        }
        for name, (kind, what) in kinds.items():
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                raise InvalidInput(f"{name} must be {what}, got {given!r}")


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


ASKING, LEARNING = "questions and answers", "training the student"
clock = time.monotonic


class PublicTiming:
    """The seconds of steps that see no record, by name.

    >>> timing = PublicTiming()
    >>> with timing.of(LEARNING):
    ...     pass
    >>> timing.seconds()
    {'training the student': 0}
    """

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Add the time that passes here to a step."""
        began = clock()
        yield
        self._spent[step] = self._spent.get(step, 0.0) + clock() - began

    def seconds(self) -> dict[str, int]:
        """Whole seconds, rounded down."""
        return {step: int(spent) for step, spent in self._spent.items()}


class TimedCoordinator(Generic[State, Ask, Answer, Result]):
    """A coordinator whose own work is timed; the holders' work between its calls is not."""

    def __init__(self, inner: Coordinator[State, Ask, Answer, Result], timing: PublicTiming) -> None:
        self._inner, self._timing = inner, timing

    def begin(self) -> State:
        """The coordinator's first state."""
        with self._timing.of(ASKING):
            return self._inner.begin()

    def ask(self, state: State) -> Ask | None:
        """The coordinator's next question."""
        with self._timing.of(ASKING):
            return self._inner.ask(state)

    def fold(self, state: State, answers: Any) -> State:  # noqa: ANN401
        """The coordinator's state after these answers."""
        with self._timing.of(ASKING):
            return self._inner.fold(state, answers)

    def result(self, state: State) -> Any:  # noqa: ANN401
        """The coordinator's result."""
        with self._timing.of(ASKING):
            return self._inner.result(state)
