"""The coordinator, which sees releases only: ask for a gradient, update the weights, and ask again.

Steps are preconditioned by the variances of the public samples (Böhning's bound on the curvature), so that a few are
enough; along components of small variance, whose gradients are mostly noise, they are damped. The result is the mean of
the weights over the second half of the steps, which averages the noise.
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
    """The update of the weights; ``variances`` are those of the public features, then the square of the offset."""

    variances: Reals  # (features + 1,)
    rate: float
    damping: float

    def stepped(self, weights: Reals, gradient: Reals) -> Reals:
        """The weights after a step along the mean gradient of a record, both (features + 1, classes).

        >>> Descent(np.array([1.0, 0.25]), 1.0, 1.0).stepped(np.zeros((2, 2)), np.ones((2, 2)))[:, 0].round(2).tolist()
        [-0.5, -0.8]
        """
        # The damping is relative to the mean variance of the features.
        damped = self.variances + self.damping * self.variances[:-1].mean()
        updated: Reals = weights - self.rate * gradient / damped[:, None]
        return updated

    @staticmethod
    def learned(path: Sequence[Reals]) -> Reals:
        """The mean of the weights after the second half of the steps.

        >>> Descent.learned([np.array([1.0]), np.array([2.0]), np.array([4.0])]).tolist()
        [3.0]
        """
        found: Reals = np.mean(path[len(path) // 2 :], axis=0)
        return found


def whole_weights(weights: Reals) -> Integers:
    """Weights as the integers in a question.

    >>> whole_weights(np.array([[0.5, 1e9]])).tolist()
    [[128, 1048576]]
    """
    scaled = np.clip(np.nan_to_num(weights) * RESOLUTION, -LARGEST_WEIGHT, LARGEST_WEIGHT)
    return np.rint(scaled).astype(np.int64)


def mean_gradient(table: Integers, records: float, length: int) -> Reals:
    """The mean gradient of a record, (features + 1, classes), for features of length 1, from a table.

    >>> mean_gradient(np.array([[256, 0], [-256, 0]]), 2, 10).tolist()
    [[0.05, -0.05], [0.0, 0.0]]
    """
    found: Reals = table.T / (ERRORS * length * records)
    return found


def step_requests(request: str, steps: int) -> list[str]:
    """The request id of each step; each is paid, and replayed, separately.

    >>> step_requests("r", 1), step_requests("r", 2)
    (['r'], ['r-1', 'r-2'])
    """
    return [request] if steps == 1 else [f"{request}-{number}" for number in range(1, steps + 1)]


@dataclass(frozen=True)
class TrainingAsk:
    """The question for a trained model, released through ``mechanism``; used in one process and never sent."""

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
        """The state before the question."""
        return None

    def ask(self, state: Release[Any] | None) -> TrainingAsk | None:
        """The one question, until it is answered."""
        return self.question if state is None else None

    def fold(self, state: Release[Any] | None, answers: Sequence[Release[Any]]) -> Release[Any]:
        """The answer."""
        return answers[0]

    def result(self, state: Release[Any] | None) -> Release[Any]:
        """The released weights."""
        if state is None:
            raise InvalidInput("the run has no answer yet")
        return state


@dataclass(frozen=True)
class DescentState:
    """The state of a run: the weights after each step, and the releases from which they were computed."""

    path: tuple[Reals, ...] = ()
    answers: tuple[Release[Integers], ...] = ()


@dataclass(frozen=True)
class GradientCoordinator:
    """Asks for the gradient at the current weights in each of ``steps`` steps.

    ``question`` is the first one, with weights of 0. If several holders answer, each with its own noise, their tables
    are added. ``records`` is the number of records by which sums are divided.
    """

    question: GradientAsk
    descent: Descent
    steps: int
    records: float

    def begin(self) -> DescentState:
        """The state before the first question."""
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
        """Add the answers, and update the weights."""
        if not answers:
            raise InvalidInput("no holder answered, so no student can be trained")
        table = gather(answers).map(self._added)
        gradient = mean_gradient(table.value, self.records, self.question.length)
        updated = self.descent.stepped(self._weights(state), gradient)
        return DescentState((*state.path, updated), (*state.answers, table))

    def result(self, state: DescentState) -> Release[Reals]:
        """The final weights, (features + 1, classes)."""
        if len(state.path) < self.steps:
            raise InvalidInput("the run has steps that were not answered yet")
        return gather(state.answers).map(lambda _: Descent.learned(state.path))

    def _weights(self, state: DescentState) -> Reals:
        return state.path[-1] if state.path else np.zeros(self.question.weights.shape)

    def _added(self, tables: list[Any]) -> Integers:
        if any(np.shape(table) != self.question.table_shape for table in tables):
            raise InvalidInput("the answers are tables of a different shape than the question's")
        added: Integers = np.sum(tables, axis=0, dtype=np.int64)
        return added
