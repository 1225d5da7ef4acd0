"""A method from outside: ask how many records have each class, and label everything by the commonest one.

One question, one coordinator, and a ``Method`` that the entry point loads. The options are in ``options.py``; what sees
records is in ``holder.py``, and ``job.py`` combines all of it for ``tacit.distill`` and the command line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.codec import StrictReader
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.protocols import Mechanism
from tacit.core.release import Release, gather
from tacit.core.sensitivity import Sensitivity
from tacit.mechanisms.forms import AnswerForm
from tacit.methods import question as asked
from tacit.methods.registry import Method


def count_sensitivity(unit: Unit, adjacency: Adjacency) -> Sensitivity:
    """A record is in one cell, and in another or in none when it changes."""
    cells = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    moved = cells * unit.records
    return Sensitivity(moved, cells * unit.records**2, unit.records, moved)


@dataclass(frozen=True)
class CountAsk:
    """How many of your records have each class?"""

    name: ClassVar[str] = "histogram-counts"
    method: ClassVar[str] = "histogram"
    may_refuse: ClassVar[bool] = False

    class_names: tuple[str, ...]
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str

    @property
    def question(self) -> str:
        """A digest of what is asked."""
        return hashlib.sha256(repr(self.class_names).encode()).hexdigest()

    @property
    def table_shape(self) -> tuple[int, int]:
        """One row."""
        return 1, len(self.class_names)

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """Noisy counts."""
        return asked.mechanism_form(self.mechanism, *self.table_shape, most_records)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """That of the counts."""
        return count_sensitivity(unit, adjacency)

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int]:
        """A record is counted once."""
        return records, records

    def fields(self) -> dict[str, Any]:
        """All of it as values that can be encoded."""
        return {
            "names": list(self.class_names),
            "mechanism": asked.mechanism_fields(self.mechanism),
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> CountAsk:
        """The question that such values stand for, checked."""
        names = fields.texts("names", asked.MOST_CLASSES)
        return cls(names, asked.read_mechanism(fields.nested("mechanism")), **asked.read_request(fields))


METHOD = Method(
    "histogram",
    (CountAsk,),
    "tacit_example.holder:AT_NODE",
    options="tacit_example.options:Histogram",
    prepare="tacit_example.job:prepare",
)


@dataclass(frozen=True)
class HistogramCoordinator:
    """Sees releases only: the sum of all counts, and for every public sample the class with that rank."""

    class_names: tuple[str, ...]
    public: NDArray[Any]
    mechanism: Mechanism[Any, Any]
    request: str
    rank: int = 1

    def begin(self) -> Release[Any] | None:
        """Nothing is known."""
        return None

    def ask(self, state: Release[Any] | None) -> CountAsk | None:
        """One question."""
        if state is not None:
            return None
        return CountAsk(self.class_names, self.mechanism, "label histogram", self.request)

    def fold(self, state: Release[Any] | None, answers: Sequence[Release[Any]]) -> Release[Any]:
        """The counts of all holders."""
        return gather(answers).map(lambda tables: np.sum(tables, axis=0)[0])

    def result(self, state: Release[Any]) -> Release[Any]:
        """One label for all."""
        return state.map(
            lambda counts: [self.class_names[int(np.argsort(-counts, kind="stable")[self.rank - 1])]] * len(self.public)
        )
