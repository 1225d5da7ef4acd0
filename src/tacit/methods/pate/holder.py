"""The holder, which sees records: train teachers on disjoint records, count their votes, and answer through the gate.

Teachers are trained after the first question is paid. A teacher that cannot be trained or evaluated does not vote; one
whose records are all of one class votes for that class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Adjacency, Integers, InvalidInput, Randomness, Release, Student, permutations, uniform_below
from tacit.mechanisms.choices import TEACHER_VOTES, allowed_for_tables
from tacit.methods.held import held, release_table
from tacit.methods.pate.wire import TeacherAsk
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext, NodeSide, allowed_by_step
from tacit.private.records import Private, Records, combine, inspect, redact_errors, schema_of
from tacit.students.weighted import ESTIMATORS

__all__ = ["AT_NODE", "TEACHERS", "TeacherHolder", "rows_per_teacher"]

_TABLE_MECHANISMS = TEACHER_VOTES
TEACHERS = allowed_for_tables("a holder of teachers", TEACHER_VOTES)


class TeacherHolder:
    """One account over one or more teachers, each with its own records: a hospital is one, a curator has many.

    ``teacher`` makes an untrained model with scikit-learn's interface. Teachers are trained at the first question that
    is paid, and stay private; the votes of all are added before the gate.
    """

    def __init__(self, records: Sequence[Private[Records]], gate: Gate, teacher: Callable[[], Student]) -> None:
        self._records = held(records, gate, "a holder needs at least one teacher's records")
        if gate.unit.column is not None and len(records) > 1:
            # Only a curator with several teachers gets here, when the records are loaded and before any question.
            inspect(records, require_whole_persons)
        self._gate = gate
        self._taught = [each.map(partial(_learned, teacher)) for each in records]

    def exact_votes(self, ask: TeacherAsk) -> Integers:
        """The votes without noise, for the operator's screen only, after the question was answered."""
        return inspect([each.map(partial(vote, ask)) for each in self._taught], add_up)

    def answer(self, ask: TeacherAsk) -> Release[Any]:
        """Pay, and return the mechanism's output for the votes."""
        TEACHERS.require(ask.mechanism, self._gate.named)
        for part in self._records:
            if schema_of(part).shape != ask.samples.shape[1:]:
                raise InvalidInput(
                    "the question is about samples of a different shape than the records; nothing was charged"
                )
        votes = combine([each.map(partial(vote, ask)) for each in self._taught], add_up)
        return release_table(self._gate, ask, votes)


@redact_errors
def _learned(teacher: Callable[[], Student], records: Records) -> Student:
    """A teacher trained on these records; None if it cannot be trained."""
    from sklearn.dummy import DummyClassifier

    single = len(np.unique(records.labels)) == 1
    student: Student = DummyClassifier(strategy="most_frequent") if single else teacher()
    student.fit(records.samples, records.labels)
    return student


@redact_errors
def _predicted(teacher: Student, samples: NDArray[Any]) -> NDArray[Any]:
    labels = np.asarray(teacher.predict(samples))
    if labels.shape != (len(samples),):
        raise ValueError("one label per sample")
    return labels


def vote(ask: TeacherAsk, teacher: Student | None) -> Integers:
    """One teacher's votes, (samples, classes); zeros if it cannot predict, or for a label outside of the classes."""
    labels = None if teacher is None else _predicted(teacher, ask.samples)
    if labels is None:
        labels = np.full(len(ask.samples), -1)
    votes: Integers = (labels[:, None] == np.arange(ask.classes)).astype(np.int64)
    return votes


def add_up(tables: list[Integers]) -> Integers:
    """The sum of all teachers' votes.

    >>> add_up([np.array([[1, 0]]), np.array([[0, 1]])]).tolist()
    [[1, 1]]
    """
    total: Integers = np.sum(tables, axis=0, dtype=np.int64)
    return total


def rows_per_teacher(records: Records, teachers: int, adjacency: Adjacency, randomness: Randomness) -> list[Integers]:
    """The rows of each teacher: every record, or person with all its records, is assigned to a random teacher.

    **One changed record or person changes one teacher**, as ``teacher_sensitivity`` assumes. Proof by coupling: for two
    neighboring data sets assign the common units to the same teachers in both, and a replaced unit to the teacher of
    the one that replaces it. For any order of records and any names of persons this is the right law for both: under
    replace-one adjacency a uniform permutation, so that teachers get equally many; under add-remove, where nothing may
    depend on the number of units, an independent draw for each. For every draw the data sets then differ in one
    teacher, so the guarantee holds for every draw and for their mixture. A deterministic partition would not do: if it
    depends on the number of records, or on the order of names, one more record or another name changes every teacher.

    >>> from tacit.core.randomness import SystemRandomness
    >>> own = Records(np.zeros((3, 1)), np.arange(3), np.array(["ada", "ada", "bob"]))
    >>> sorted(rows.tolist() for rows in rows_per_teacher(own, 2, Adjacency.REPLACE_ONE, SystemRandomness()))
    [[0, 1], [2]]
    """
    whose: Integers = np.arange(len(records.labels))
    if records.persons is not None:
        whose = np.unique(records.persons, return_inverse=True)[1]
    units = int(whose.max(initial=-1)) + 1
    if adjacency is not Adjacency.REPLACE_ONE:
        taught_by = uniform_below(teachers, units, randomness)
    elif teachers > units:
        raise InvalidInput(
            f"there are more teachers, {teachers}, than records or persons to train them: give at most {units}"
        )
    else:
        taught_by = permutations(1, units, randomness)[0] % teachers
    assigned = taught_by[whose]
    # One sort, since a comparison per teacher would take time quadratic in the number of records.
    sizes = np.bincount(assigned, minlength=teachers)
    return np.split(np.argsort(assigned, kind="stable"), np.cumsum(sizes)[:-1])


def require_whole_persons(parts: list[Records]) -> None:
    """Refuse persons whose records are at several teachers: changing such a person would change several of them."""
    owners = [np.unique(each.persons) for each in parts if each.persons is not None]
    together = np.concatenate(owners)
    if len(np.unique(together)) != len(together):
        raise InvalidInput("the account protects persons, and the records of one person are at several teachers")


def answer_at_node(ask: TeacherAsk, context: NodeContext) -> Release[Any]:
    """The answer of a node, which is one teacher."""
    if context.model not in ESTIMATORS:
        raise InvalidInput(f"a teacher must be one of {', '.join(ESTIMATORS)}; this node has model {context.model!r}")
    return TeacherHolder([context.records], context.gate, ESTIMATORS[context.model]).answer(ask)


AT_NODE = NodeSide(answer_at_node, {TeacherAsk: allowed_by_step(_TABLE_MECHANISMS, "a curator of teachers' votes")})
