"""The coordinator, which sees releases only: ask, add the votes, and label the public samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Release, gather
from tacit.mechanisms.central.pate import ConfidentScreen, winners
from tacit.methods.pate.wire import TeacherAsk

__all__ = ["TeacherCoordinator", "TeacherLabels", "TeacherState", "teacher_requests"]


@dataclass(frozen=True)
class TeacherLabels:
    """The teachers' labels of the answered samples, and their noisy votes if votes were released.

    ``rows`` are the answered ones among the public samples; ``passed`` says which of them passed the screen. ``more``
    are the numbers that a mechanism releases beside a label per row.
    """

    labels: Integers  # (answered,)
    votes: Integers | None  # (answered, classes)
    rows: Integers  # (answered,)
    passed: NDArray[np.bool_]  # (answered,)
    more: tuple[int, ...] = ()


@dataclass(frozen=True)
class TeacherState:
    """The state of a run: which samples passed, and the queries and answers of every round."""

    passed: Release[NDArray[np.bool_]] | None = None
    rows: tuple[Integers, ...] = ()
    answers: tuple[Release[TeacherLabels], ...] = ()


class TeacherCoordinator:
    """Asks the teachers about public samples: once, after a ``screen``, or in ``rounds``.

    With a screen the first question is on which samples teachers agree; then as many are answered as ``mechanism`` is
    made for: those that passed and, if these are too few, the first of the others, so that no cost depends on what
    passes. With several rounds ``choose`` selects the next queries from the rows and labels released so far.

    If several holders answer with votes, each with its own noise, these are added; if with labels, each is one vote.
    """

    def __init__(
        self,
        public: NDArray[Any],
        names: Iterable[Any],
        mechanism: Any,  # noqa: ANN401
        request: str,
        purpose: str = "PATE votes",
        *,
        screen: ConfidentScreen | None = None,
        answers: int | None = None,
        rounds: int = 1,
        choose: Callable[[Integers, Integers, int], Integers] | None = None,
    ) -> None:
        if mechanism.releases == "flags":
            raise InvalidInput("a confidence screen gives no labels; it only selects the samples to ask about")
        if rounds > 1 and choose is None:
            raise InvalidInput("several rounds need a rule that chooses the next samples")
        self._ask = TeacherAsk(public, tuple(map(str, names)), mechanism, purpose, request)
        self._screen = screen
        self._answers = len(public) if answers is None else answers
        self._requests = teacher_requests(request, rounds)
        self._choose = choose
        self._labels_only = mechanism.releases == "labels"

    def begin(self) -> TeacherState:
        """The state before the first question."""
        return TeacherState()

    def ask(self, state: TeacherState) -> TeacherAsk | None:
        """The screen, if there is one, and then each round's question until it is answered."""
        if len(state.answers) == len(self._requests):
            return None
        if self._screen is not None and state.passed is None:
            return replace(self._ask, mechanism=self._screen, request=f"{self._ask.request}-screen")
        rows, request = self._rows(state), self._requests[len(state.answers)]
        return replace(self._ask, samples=self._ask.samples[rows], request=request)

    def fold(self, state: TeacherState, answers: Sequence[Release[Any]]) -> TeacherState:
        """The state with the screened samples, or with the teachers' labels."""
        if not answers:
            raise InvalidInput("no teacher answered, so no student can be trained")
        if self._screen is not None and state.passed is None:
            if len(answers) != 1:
                raise InvalidInput(f"a screen expects one answer, from a curator; got {len(answers)}")
            return replace(state, passed=answers[0])
        rows = self._rows(state)
        passed = np.ones(len(rows), dtype=np.bool_) if state.passed is None else state.passed.value[rows]
        labels = gather(answers).map(lambda given: self._read(given, rows, passed))
        return replace(state, rows=(*state.rows, rows), answers=(*state.answers, labels))

    def result(self, state: TeacherState) -> Release[TeacherLabels]:
        """The labels of the answered samples, with the receipts of the screen."""
        if len(state.answers) < len(self._requests):
            raise InvalidInput("the run has no answer yet")
        everything: list[Release[Any]] = [*state.answers, *([] if state.passed is None else [state.passed])]
        return gather(everything).map(lambda values: _together(values[: len(state.answers)]))

    def _rows(self, state: TeacherState) -> Integers:
        """Which samples are asked about now."""
        every = np.arange(len(self._ask.samples))
        if state.passed is not None:
            every = np.argsort(~state.passed.value, kind="stable")
        if state.answers and self._choose is not None:
            known = _together([each.value for each in state.answers])
            every = self._choose(known.rows, known.labels, self._answers)
        rows: Integers = np.sort(every[: self._answers]).astype(np.int64)
        return rows

    def _read(self, answers: list[Any], rows: Integers, passed: NDArray[np.bool_]) -> TeacherLabels:
        if self._labels_only and len(answers) == 1:
            labels, more = np.split(answers[0], [len(rows)])
            return TeacherLabels(labels, None, rows, passed, tuple(more.tolist()))
        tables = [np.eye(self._ask.classes, dtype=np.int64)[each] if self._labels_only else each for each in answers]
        votes: Integers = np.asarray(np.sum(tables, axis=0, dtype=np.int64))
        return TeacherLabels(winners(votes), None if self._labels_only else votes, rows, passed)


def teacher_requests(request: str, rounds: int) -> list[str]:
    """The request id of each round; each is paid, and replayed, separately.

    >>> teacher_requests("r", 1), teacher_requests("r", 2)
    (['r'], ['r-1', 'r-2'])
    """
    return [request] if rounds == 1 else [f"{request}-{number}" for number in range(1, rounds + 1)]


def _together(rounds: Sequence[TeacherLabels]) -> TeacherLabels:
    """The labels of all rounds."""
    votes = [each.votes for each in rounds if each.votes is not None]
    return TeacherLabels(
        np.concatenate([each.labels for each in rounds]),
        np.concatenate(votes) if votes else None,
        np.concatenate([each.rows for each in rounds]),
        np.concatenate([each.passed for each in rounds]),
        sum((each.more for each in rounds), ()),
    )
