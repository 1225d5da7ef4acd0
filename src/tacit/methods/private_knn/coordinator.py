"""The coordinator, which sees releases only: screen the queries if that is wanted, and ask about those that passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Release, gather
from tacit.mechanisms.central.private_knn import SubsampledGNMax
from tacit.methods.private_knn.wire import NeighborAsk

__all__ = ["NeighborCoordinator", "NeighborState", "NeighborVotes"]


@dataclass(frozen=True)
class NeighborVotes:
    """The noisy votes on the answered queries, their rows among all queries, and which of them passed."""

    rows: Integers  # (answered,)
    votes: Integers  # (answered, classes)
    passed: NDArray[np.bool_]  # (answered,)


@dataclass(frozen=True)
class NeighborState:
    """The state of a run: which queries passed, and the votes."""

    passed: Release[NDArray[np.bool_]] | None = None
    votes: Release[NeighborVotes] | None = None


@dataclass(frozen=True)
class NeighborCoordinator:
    """Asks once; with a ``screen`` first on which queries neighbors agree, and then about the planned number of them.

    ``question`` is about all queries, and its ``mechanism`` is made for the number that is answered: those that passed
    and, if these are too few, the first of the others. So the cost does not depend on what passes and is known before
    the run begins. If several holders answer, each with its own noise, the votes are added.
    """

    question: NeighborAsk
    screen: NeighborAsk | None = None

    def begin(self) -> NeighborState:
        """The state before the first question."""
        return NeighborState()

    def ask(self, state: NeighborState) -> NeighborAsk | None:
        """The screen, if there is one, and then the question about the selected queries."""
        if state.votes is not None:
            return None
        if self.screen is not None and state.passed is None:
            return self.screen
        rows, reach = self._rows(state), self.question.reach
        return replace(self.question, queries=self.question.queries[rows], reach=None if reach is None else reach[rows])

    def fold(self, state: NeighborState, answers: Sequence[Release[Any]]) -> NeighborState:
        """The state with the screened queries, or with the votes."""
        if not answers:
            raise InvalidInput("no holder answered, so no student can be trained")
        if self.screen is not None and state.passed is None:
            if len(answers) != 1:
                raise InvalidInput(f"a screen expects one answer, from a curator; got {len(answers)}")
            return NeighborState(passed=answers[0])
        rows = self._rows(state)
        passed = np.ones(len(rows), dtype=np.bool_) if state.passed is None else state.passed.value[rows]

        def added(tables: list[Any]) -> NeighborVotes:
            if any(np.shape(table) != (len(rows), self.question.classes) for table in tables):
                raise InvalidInput("the answers are tables of a different shape than the question's")
            return NeighborVotes(rows, np.sum(tables, axis=0, dtype=np.int64), passed)

        return replace(state, votes=gather(answers).map(added))

    def result(self, state: NeighborState) -> Release[NeighborVotes]:
        """The votes, with the receipts of the screen."""
        if state.votes is None:
            raise InvalidInput("the run has questions that were not answered yet")
        if state.passed is None:
            return state.votes
        both: list[Release[Any]] = [state.passed, state.votes]
        return gather(both).map(lambda values: values[1])

    def _rows(self, state: NeighborState) -> Integers:
        """The queries that are answered: those that passed, then others, as many as the mechanism is made for."""
        mechanism = cast(SubsampledGNMax, self.question.mechanism)
        every = np.arange(len(self.question.queries))
        if state.passed is not None:
            every = np.argsort(~state.passed.value, kind="stable")
        rows: Integers = np.sort(every[: mechanism.queries]).astype(np.int64)
        return rows
