"""The time of the public steps of a run, in whole seconds: choosing questions, reading answers, training the student.

The time to read, encode, search or sum records depends on the records, and no noise covers it. So neither these steps
nor the whole run are timed. The coordinator's work depends on public samples and releases only: its time is
post-processing, and may be stored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic

from tacit.core.protocols import Answer, Ask, Coordinator, Result, State

__all__ = ["ASKING", "LEARNING", "PublicTiming", "TimedCoordinator"]

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
