"""The question of PATE: public samples are sent, and noisy votes of teachers come back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tacit.core import Adjacency, InvalidInput, Mechanism, Sensitivity, Unit
from tacit.core.codec import StrictReader
from tacit.mechanisms.forms import AnswerForm
from tacit.methods import question as asked

__all__ = ["TeacherAsk", "teacher_sensitivity"]


def teacher_sensitivity(queries: int) -> Sensitivity:
    """The sensitivity of votes on that many samples to replacing one teacher by any other.

    Each row loses one vote and gains another; a teacher that does not vote changes less. A changed record, person or
    holder changes at most one teacher, as long as none of them belongs to two.

    >>> teacher_sensitivity(5)
    Sensitivity(l1=10, l2_squared=10, linf=1, row_range=10)
    """
    if queries < 1:
        raise InvalidInput(f"queries must be at least 1, got {queries}")
    return Sensitivity(l1=2 * queries, l2_squared=2 * queries, linf=1, row_range=2 * queries)


@dataclass(frozen=True)
class TeacherAsk:
    """The question for the teachers' labels of public samples.

    Every teacher has one vote per sample; the answer is the output of ``mechanism`` for the table of votes
    (samples, classes). ``class_names`` are in the order of the labels' indices.
    """

    name: ClassVar[str] = "pate-votes"
    method: ClassVar[str] = "pate"
    may_refuse: ClassVar[bool] = False

    samples: NDArray[Any]  # (queries, *shape)
    class_names: tuple[str, ...]
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str

    def __post_init__(self) -> None:
        if not len(self.samples):
            raise InvalidInput("there must be at least one sample to vote on")
        asked.require_classes(self.class_names)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def question(self) -> str:
        """A digest of the question, so that a retried request cannot be used for a different one."""
        content = hashlib.sha256(repr((self.samples.shape, str(self.samples.dtype), self.class_names)).encode())
        content.update(self.samples.tobytes())
        return content.hexdigest()

    @property
    def table_shape(self) -> tuple[int, int]:
        """A row per sample, a column per class."""
        return len(self.samples), self.classes

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """The form of the mechanism's output for the votes of that many teachers."""
        return asked.mechanism_form(self.mechanism, *self.table_shape, most_records)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """That of one teacher, for any unit."""
        return teacher_sensitivity(len(self.samples))

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int]:
        """The largest cell and the largest total: a teacher has one vote per sample, for any number of records.

        >>> import numpy as np
        >>> TeacherAsk(np.zeros((3, 2)), ("a", "b"), None, "votes", "r-1").most_votes(1000, holders=4)
        (4, 12)
        """
        return holders, holders * len(self.samples)

    def fields(self) -> dict[str, Any]:
        """The question as values that can be encoded."""
        return {
            "samples": self.samples,
            "names": list(self.class_names),
            "mechanism": asked.mechanism_fields(self.mechanism),
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> TeacherAsk:
        """The question that ``fields`` wrote, checked."""
        samples, names = asked.read_samples(fields), fields.texts("names", asked.MOST_CLASSES)
        asked.require_small_table(fields, len(samples), len(names))
        return cls(
            samples=samples,
            class_names=names,
            mechanism=asked.read_mechanism(fields.nested("mechanism")),
            **asked.read_request(fields),
        )
