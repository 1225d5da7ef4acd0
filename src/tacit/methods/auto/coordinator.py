"""The side that sees releases only: each question is made of public samples and of what earlier ones released."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.release import Release, gather
from tacit.methods.auto.blocks import Block

__all__ = ["AutoCoordinator", "AutoState", "Step"]


@dataclass(frozen=True)
class Step:
    """A question, what its answer tells, and reasons to think again before it is paid for."""

    question: Any
    read: Callable[[Any], Block]
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class AutoState:
    """What was told so far, and the question that is open."""

    told: tuple[Release[Block], ...]
    step: Step | None


@dataclass(frozen=True)
class AutoCoordinator:
    """Asks ``steps`` questions: the ``first``, and others, each chosen by ``choose`` from the blocks before it."""

    steps: int
    first: Step
    choose: Callable[[Sequence[Block]], Step]

    def begin(self) -> AutoState:
        """The first question, from public samples alone."""
        return AutoState((), self.first)

    def ask(self, state: AutoState) -> Any | None:  # noqa: ANN401
        """The open question."""
        return None if state.step is None else state.step.question

    def fold(self, state: AutoState, answers: Sequence[Release[Any]]) -> AutoState:
        """Read the answer, and choose the next question by all that was told."""
        if len(answers) != 1 or state.step is None:
            raise InvalidInput(f"the default takes one answer, a curator's; got {len(answers)}")
        told = (*state.told, answers[0].map(state.step.read))
        if len(told) == self.steps:
            return AutoState(told, None)
        return AutoState(told, self.choose([each.value for each in told]))

    def result(self, state: AutoState) -> Release[list[Block]]:
        """All that was told."""
        if len(state.told) < self.steps:
            raise InvalidInput("the run has questions that were not answered yet")
        return gather(state.told)
