"""The side that sees records: train teachers on disjoint records, count their votes, and answer through the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers, Student
from tacit.core.release import Release
from tacit.core.sensitivity import Sensitivity
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.exponential_mechanism import ExponentialMechanism
from tacit.mechanisms.central.pate import ConfidenceScreen, GaussianVotes, LaplaceVotes
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.central.sealed_table import SealedTable
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare
from tacit.methods.pate.wire import TeacherAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, combine

__all__ = ["TeacherHolder", "teacher_sensitivity"]

MECHANISMS: tuple[type, ...] = (
    ConfidenceScreen,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    DistributedLaplace,
    ExponentialMechanism,
    GaussianVotes,
    LaplaceVotes,
    MaskedShare,
    PermuteAndFlip,
    SealedTable,
)


def teacher_sensitivity(queries: int) -> Sensitivity:
    """How far votes on that many samples move when one teacher becomes any other teacher.

    Each row loses one vote and gains another. Whatever changes one record, one person or one whole holder changes
    one teacher at most, as long as none of them is part of two.

    >>> teacher_sensitivity(5)
    Sensitivity(l1=10, l2_squared=10, linf=1, row_range=10)
    """
    if queries < 1:
        raise InvalidInput(f"queries must be at least 1, got {queries}")
    return Sensitivity(l1=2 * queries, l2_squared=2 * queries, linf=1, row_range=2 * queries)


class TeacherHolder:
    """One account over one or more teachers, each with records of its own: a hospital is one, a curator has many.

    ``teacher`` makes an untrained model with scikit-learn's manners. Teachers are trained at the first question and
    never leave; the votes of all are added up before the gate.
    """

    def __init__(self, records: Sequence[Private[Records]], gate: Gate, teacher: Callable[[], Student]) -> None:
        if not records:
            raise InvalidInput("a holder needs at least one teacher's records")
        if gate.unit.column is not None:
            combine(list(records), require_whole_persons)
        self._records = list(records)
        self._gate = gate
        self._teacher = teacher
        self._taught: list[Private[Student]] | None = None

    def answer(self, ask: TeacherAsk) -> Release[Any]:
        """The mechanism's view of the votes, paid for."""
        if not isinstance(ask.mechanism, MECHANISMS):
            raise InvalidInput(f"this holder does not answer through {type(ask.mechanism).__name__}")
        moves = teacher_sensitivity(len(ask.samples))
        with telling_nothing():
            if self._taught is None:
                self._taught = [each.map(self._learn) for each in self._records]
            votes = combine([each.map(lambda own: vote(own, ask)) for each in self._taught], add_up)
        return self._gate.release(votes, moves, ask.mechanism, ask.purpose, ask.request, ask.question)

    def _learn(self, records: Records) -> Student:
        student = self._teacher()
        student.fit(records.samples, records.labels)
        return student


def vote(teacher: Student, ask: TeacherAsk) -> Integers:
    """One teacher's votes, (samples, classes); a label that is not asked about is no vote."""
    labels = np.asarray(teacher.predict(ask.samples))
    votes: Integers = (labels[:, None] == np.arange(ask.classes)).astype(np.int64)
    return votes


def add_up(tables: list[Integers]) -> Integers:
    """Votes of all teachers together.

    >>> add_up([np.array([[1, 0]]), np.array([[0, 1]])]).tolist()
    [[1, 1]]
    """
    total: Integers = np.sum(tables, axis=0, dtype=np.int64)
    return total


def require_whole_persons(parts: list[Records]) -> None:
    """Refuse a person whose records are spread over teachers: changing that person would change several."""
    if any(each.persons is None for each in parts):
        raise InvalidInput("the account protects persons, so every teacher's records need their person column")
    owners = [np.unique(each.persons) for each in parts if each.persons is not None]
    together = np.concatenate(owners)
    if len(np.unique(together)) != len(together):
        raise InvalidInput("the account protects persons, and the records of one are spread over several teachers")


@contextmanager
def telling_nothing() -> Iterator[None]:
    """Work on records whose failure must not say what was in them: an error is a message to whoever asked."""
    try:
        yield
    except Exception:
        raise InvalidInput(
            "the records do not fit the question (its features, its classes or its size); nothing was charged"
        ) from None
