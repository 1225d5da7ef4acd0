"""The side that sees releases only: ask for a gradient, update the weights, and ask again.

Steps are those of a regression without noise on the public samples' spread (the bound of Böhning on its curvature), so
that a few are enough; along components that hardly vary, whose gradients are mostly noise, they are shorter.
What is learned is the mean of the weights after the second half of the steps, in which noise evens out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.core import Integers, InvalidInput, Reals, Release, Representation, gather
from tacit.methods.noisy_sgd.gradient import ERRORS, LARGEST_WEIGHT, RESOLUTION
from tacit.methods.noisy_sgd.wire import GradientAsk

__all__ = [
    "Descent",
    "DescentState",
    "GradientCoordinator",
    "TrainingAsk",
    "TrainingCoordinator",
    "mean_gradient",
    "step_requests",
    "whole_weights",
]


@dataclass(frozen=True)
class Descent:
    """How weights move: ``variances`` are those of the features over public samples, the offset's square last."""

    variances: Reals  # (features + 1,)
    rate: float
    damping: float

    def stepped(self, weights: Reals, gradient: Reals) -> Reals:
        """The weights after a step along the mean gradient of a record, both (features + 1, classes).

        >>> Descent(np.array([1.0, 0.25]), 1.0, 1.0).stepped(np.zeros((2, 2)), np.ones((2, 2)))[:, 0].round(2).tolist()
        [-0.5, -0.8]
        """
        # The offset varies as the features do, all together.
        damped = self.variances + self.damping * self.variances[:-1].mean()
        moved: Reals = weights - self.rate * gradient / damped[:, None]
        return moved

    @staticmethod
    def learned(path: Sequence[Reals]) -> Reals:
        """The mean of the weights after the second half of the steps.

        >>> Descent.learned([np.array([1.0]), np.array([2.0]), np.array([4.0])]).tolist()
        [3.0]
        """
        found: Reals = np.mean(path[len(path) // 2 :], axis=0)
        return found


def whole_weights(weights: Reals) -> Integers:
    """Weights as questions carry them.

    >>> whole_weights(np.array([[0.5, 1e9]])).tolist()
    [[128, 1048576]]
    """
    scaled = np.clip(np.nan_to_num(weights) * RESOLUTION, -LARGEST_WEIGHT, LARGEST_WEIGHT)
    return np.rint(scaled).astype(np.int64)


def mean_gradient(table: Integers, records: float, length: int) -> Reals:
    """What a table says of the mean record, (features + 1, classes), in features of length 1.

    >>> mean_gradient(np.array([[256, 0], [-256, 0]]), 2, 10).tolist()
    [[0.05, -0.05], [0.0, 0.0]]
    """
    found: Reals = table.T / (ERRORS * length * records)
    return found


def step_requests(request: str, steps: int) -> list[str]:
    """The name of each step's request: each is paid for, and replayed, on its own.

    >>> step_requests("r", 1), step_requests("r", 2)
    (['r'], ['r-1', 'r-2'])
    """
    return [request] if steps == 1 else [f"{request}-{number}" for number in range(1, steps + 1)]


@dataclass(frozen=True)
class TrainingAsk:
    """Train a model on your records, and release it through ``mechanism``. It is asked in one process and not sent."""

    representation: Representation
    features: int
    mechanism: Any
    question: str
    purpose: str
    request: str


@dataclass(frozen=True)
class TrainingCoordinator:
    """Asks once for a trained model."""

    question: TrainingAsk

    def begin(self) -> Release[Any] | None:
        """Nothing was asked yet."""
        return None

    def ask(self, state: Release[Any] | None) -> TrainingAsk | None:
        """The one question, until it is answered."""
        return self.question if state is None else None

    def fold(self, state: Release[Any] | None, answers: Sequence[Release[Any]]) -> Release[Any]:
        """The answer."""
        return answers[0]

    def result(self, state: Release[Any] | None) -> Release[Any]:
        """The weights that were released."""
        if state is None:
            raise InvalidInput("the run has no answer yet")
        return state


@dataclass(frozen=True)
class DescentState:
    """What a run remembers: the weights after each step, and the releases that they follow from."""

    path: tuple[Reals, ...] = ()
    answers: tuple[Release[Integers], ...] = ()


@dataclass(frozen=True)
class GradientCoordinator:
    """Asks for the gradient at the weights so far, as often as there are steps.

    ``question`` is the first one, with weights of 0. Where several holders answer, each with its own noise, their
    tables are added up. ``records`` is how many records gradients are taken for.
    """

    question: GradientAsk
    descent: Descent
    steps: int
    records: float

    def begin(self) -> DescentState:
        """Nothing was asked yet."""
        return DescentState()

    def ask(self, state: DescentState) -> GradientAsk | None:
        """The next step's question, if there is one."""
        number = len(state.path)
        if number == self.steps:
            return None
        several = f", round {number + 1} of {self.steps}" if self.steps > 1 else ""
        return replace(
            self.question,
            weights=whole_weights(self._weights(state)),
            purpose=self.question.purpose + several,
            request=step_requests(self.question.request, self.steps)[number],
        )

    def fold(self, state: DescentState, answers: Sequence[Release[Any]]) -> DescentState:
        """Add up the answers, and move."""
        if not answers:
            raise InvalidInput("no holder answered, so no student can be trained")
        table = gather(answers).map(self._added)
        gradient = mean_gradient(table.value, self.records, self.question.length)
        moved = self.descent.stepped(self._weights(state), gradient)
        return DescentState((*state.path, moved), (*state.answers, table))

    def result(self, state: DescentState) -> Release[Reals]:
        """The weights that were learned, (features + 1, classes)."""
        if len(state.path) < self.steps:
            raise InvalidInput("the run has steps that were not answered yet")
        return gather(state.answers).map(lambda _: Descent.learned(state.path))

    def _weights(self, state: DescentState) -> Reals:
        return state.path[-1] if state.path else np.zeros(self.question.weights.shape)

    def _added(self, tables: list[Any]) -> Integers:
        if any(np.shape(table) != self.question.table_shape for table in tables):
            raise InvalidInput("the answers are tables of another shape than the question's")
        added: Integers = np.sum(tables, axis=0, dtype=np.int64)
        return added
