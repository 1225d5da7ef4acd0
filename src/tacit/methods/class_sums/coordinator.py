"""The side that sees releases only: ask once, and add up what came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.release import Release, gather
from tacit.methods.class_sums.wire import SumAsk

__all__ = ["ReleasedSums", "SumCoordinator", "SumState"]


@dataclass(frozen=True)
class ReleasedSums:
    """The noisy sums, a row per class, and of how many answers they are the sum: each brought a noise of its own."""

    table: Integers  # (classes, components + 1)
    answers: int = 1


@dataclass(frozen=True)
class SumState:
    """What a run remembers: the sums, once they are there."""

    sums: Release[ReleasedSums] | None = None


@dataclass(frozen=True)
class SumCoordinator:
    """Asks for the sums once. Where several holders answer, each with its own noise, the tables are added up."""

    question: SumAsk

    def begin(self) -> SumState:
        """Nothing was asked yet."""
        return SumState()

    def ask(self, state: SumState) -> SumAsk | None:
        """The one question, until it is answered."""
        return self.question if state.sums is None else None

    def fold(self, state: SumState, answers: Sequence[Release[Any]]) -> SumState:
        """Add up the answers."""
        if not answers:
            raise InvalidInput("no holder answered; there is nothing to learn from")
        return SumState(gather(answers).map(self._added))

    def result(self, state: SumState) -> Release[ReleasedSums]:
        """The sums."""
        if state.sums is None:
            raise InvalidInput("the run has no answer yet")
        return state.sums

    def _added(self, tables: list[Any]) -> ReleasedSums:
        if any(np.shape(table) != self.question.table_shape for table in tables):
            raise InvalidInput("the answers are tables of another shape than the question's")
        return ReleasedSums(np.sum(tables, axis=0, dtype=np.int64), len(tables))
