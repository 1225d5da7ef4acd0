"""The whole runtime is one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tacit.core.protocols import Coordinator, Exchange

__all__ = ["drive"]

State = TypeVar("State")
Ask = TypeVar("Ask")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


def drive(
    coordinator: Coordinator[State, Ask, Answer, Result],
    exchange: Exchange[Ask, Answer],
    state: State | None = None,
    after: Callable[[State], None] | None = None,
) -> Result:
    """Ask until there is nothing left to ask.

    A ``state`` that was kept goes on where it was; ``after`` is shown the state after every round, to keep it.

    >>> class Once:
    ...     def begin(self): return []
    ...     def ask(self, state): return None if state else "ready?"
    ...     def fold(self, state, answers): return state + answers
    ...     def result(self, state): return state
    >>> drive(Once(), lambda ask: ["yes"])
    ['yes']
    """
    if state is None:
        state = coordinator.begin()
    while (ask := coordinator.ask(state)) is not None:
        state = coordinator.fold(state, exchange(ask))
        if after is not None:
            after(state)
    return coordinator.result(state)
