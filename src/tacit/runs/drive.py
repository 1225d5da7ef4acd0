"""The whole runtime is one loop, which can be stopped at any moment and goes on.

Every round is kept before the next is asked. What is kept is public or was released. The round that was cut off is
asked again under the same request, so holders that had paid for it answer what they answered, and nobody pays twice.

The public side is timed, in whole seconds. How long it takes to read, encode, search or add up records depends on the
records, and no noise covers it. So these steps have no time, and neither has the run as a whole. What happens at the
coordinator depends on public samples and on releases alone: its time is post-processing, and may be written down.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from tacit.core import NoResponse, Release, no_response, restored
from tacit.core.codec import decode, encode
from tacit.core.protocols import Answer, Ask, Coordinator, Exchange, Result, State
from tacit.federation.coordinator import Journal, Kept
from tacit.methods.task import Observer

__all__ = ["ASKING", "LEARNING", "Checkpoint", "PublicTiming", "RunControl", "TimedCoordinator", "drive"]


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


ASKING, LEARNING = "questions and answers", "training the student"
clock = time.monotonic


class PublicTiming:
    """Seconds of steps that see no record, added up by name.

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
        """Whole seconds, cut: less than one is 0."""
        return {step: int(spent) for step, spent in self._spent.items()}


class TimedCoordinator(Generic[State, Ask, Answer, Result]):
    """A coordinator whose own work is timed; what happens between its calls, at holders, is not."""

    def __init__(self, inner: Coordinator[State, Ask, Answer, Result], timing: PublicTiming) -> None:
        self._inner, self._timing = inner, timing

    def begin(self) -> State:
        """As the coordinator begins."""
        with self._timing.of(ASKING):
            return self._inner.begin()

    def ask(self, state: State) -> Ask | None:
        """The coordinator's next question."""
        with self._timing.of(ASKING):
            return self._inner.ask(state)

    def fold(self, state: State, answers: Any) -> State:  # noqa: ANN401
        """What the coordinator makes of answers."""
        with self._timing.of(ASKING):
            return self._inner.fold(state, answers)

    def result(self, state: State) -> Any:  # noqa: ANN401
        """What the coordinator ends with."""
        with self._timing.of(ASKING):
            return self._inner.result(state)
