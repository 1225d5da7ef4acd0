"""The side that sees releases only: ask once, add up what came, and label the public samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.release import Release, gather
from tacit.mechanisms.central.pate import winners
from tacit.methods.pate.wire import TeacherAsk

__all__ = ["TeacherCoordinator", "TeacherLabels", "TeacherState"]


@dataclass(frozen=True)
class TeacherLabels:
    """The teachers' label of every public sample, and the noisy votes where votes were released."""

    labels: Integers  # (queries,)
    votes: Integers | None  # (queries, classes)


@dataclass(frozen=True)
class TeacherState:
    """What a run remembers: the answer, once it is there."""

    answer: Release[TeacherLabels] | None = None


class TeacherCoordinator:
    """Asks the teachers once about the public samples.

    Where several holders answer with votes of their own, each with its own noise, votes are added up; where they
    answer with labels, each label is a vote.
    """

    def __init__(
        self,
        public: NDArray[Any],
        names: Iterable[Any],
        mechanism: Any,  # noqa: ANN401
        request: str,
        purpose: str = "PATE votes",
    ) -> None:
        if mechanism.releases == "flags":
            raise InvalidInput("a confidence screen says which samples to ask about; it gives no labels")
        self._ask = TeacherAsk(public, tuple(map(str, names)), mechanism, purpose, request)
        self._labels_only = mechanism.releases == "labels"

    def begin(self) -> TeacherState:
        """Nothing was asked yet."""
        return TeacherState()

    def ask(self, state: TeacherState) -> TeacherAsk | None:
        """The one question, until it is answered."""
        return self._ask if state.answer is None else None

    def fold(self, state: TeacherState, answers: Sequence[Release[Any]]) -> TeacherState:
        """Add up the answers."""
        if not answers:
            raise InvalidInput("no teacher answered; there is nothing to learn from")
        return TeacherState(gather(answers).map(self._read))

    def result(self, state: TeacherState) -> Release[TeacherLabels]:
        """Labels of the public samples."""
        if state.answer is None:
            raise InvalidInput("the run has no answer yet")
        return state.answer

    def _read(self, answers: list[Any]) -> TeacherLabels:
        if self._labels_only and len(answers) == 1:
            return TeacherLabels(answers[0], None)
        tables = [np.eye(self._ask.classes, dtype=np.int64)[each] if self._labels_only else each for each in answers]
        votes: Integers = np.asarray(np.sum(tables, axis=0, dtype=np.int64))
        return TeacherLabels(winners(votes), None if self._labels_only else votes)
