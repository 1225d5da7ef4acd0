"""The whole runtime is one loop."""

from __future__ import annotations

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
