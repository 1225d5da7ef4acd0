"""The question of reverse k-NN labeling: queries are sent, and labels, counts or messages come back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core import Adjacency, Floats, InvalidInput, Mechanism, Representation, Sensitivity, Unit, vote_sensitivity
from tacit.core.codec import StrictReader
from tacit.mechanisms.forms import AnswerForm
from tacit.methods import question as asked
from tacit.methods.rknn.voting_rules import NEAREST, VOTING_RULES, published_sensitivity

__all__ = ["VoteAsk", "require_counted", "table_sensitivity"]


def require_counted(unit: Unit) -> None:
    """Refuse an account that protects a holder with all its records, whose votes could all change.

    >>> require_counted(Unit())
    """
    if unit.holder:
        raise InvalidInput(
            "votes protect records, or persons with a bounded number of records; the account protects a whole holder"
        )


def table_sensitivity(
    queries: int,
    classes: int,
    neighbors: int = 1,
    unit: Unit = Unit(),  # noqa: B008
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    labels: int | None = None,
) -> Sensitivity:
    """The sensitivity of votes to one privacy unit.

    ``labels`` is the most labels of a record that has a set of them; then there is also a column of voters.

    >>> table_sensitivity(queries=40, classes=10, unit=Unit.person("patient", 3)).l1
    6
    """
    require_counted(unit)
    return vote_sensitivity(
        queries=queries,
        classes=classes,
        neighbors=neighbors,
        labels=labels or 1,
        records=unit.records,
        replace=adjacency == Adjacency.REPLACE_ONE,
        voters=labels is not None,
    )


@dataclass(frozen=True)
class VoteAsk:
    """The question for the reverse k-NN votes of records on queries.

    Every record votes with its label for its ``neighbors`` nearest queries in the representation's space.
    ``class_names`` are in the order of the labels' indices; ``space`` is a digest of the encoded public samples. The
    answer is the output of ``mechanism`` for the votes: one label per query, noisy counts, or messages of one-record
    holders.

    The squares of ``query_offsets``, one public number per query, are added to the squared distances, which makes votes
    more even. ``labels`` is the most labels of a record, if records have sets of labels; such a record votes with each
    of its labels. A curator then also counts voters, in one more column; a one-record holder fills up its set with
    made-up labels, so that all sets have the same size. A ``voting_rule`` other than the nearest is a published rule,
    whose sensitivity grows with the number of records.
    """

    name: ClassVar[str] = "rknn-votes"
    method: ClassVar[str] = "rknn"
    may_refuse: ClassVar[bool] = False

    queries: Floats  # (s, features), in the representation's space
    representation: Representation
    neighbors: int
    class_names: tuple[str, ...]
    space: str
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str
    query_offsets: Floats | None = None  # (s,)
    labels: int | None = None
    voting_rule: str = NEAREST

    def __post_init__(self) -> None:
        if self.query_offsets is not None and self.query_offsets.shape != (len(self.queries),):
            raise InvalidInput(
                f"query_offsets must be one per query, got {self.query_offsets.shape} for {len(self.queries)} queries"
            )
        if self.labels is not None and not 1 <= self.labels <= self.classes:
            raise InvalidInput(f"labels must be between 1 and the {self.classes} classes, got {self.labels}")
        if self.voting_rule not in VOTING_RULES:
            raise InvalidInput(f"voting_rule must be one of {', '.join(VOTING_RULES)}, got {self.voting_rule!r}")
        if self.voting_rule != NEAREST and (self.query_offsets is not None or self.labels is not None):
            raise InvalidInput(f"{self.voting_rule} votes allow neither query offsets nor sets of labels")

    @property
    def question(self) -> str:
        """A digest of the question, so that a retried request cannot be used for a different one."""
        raised = self.query_offsets is not None
        encoder = asked.representation_digest(self.representation)
        named = (self.queries.shape, self.neighbors, self.class_names, self.space, raised, self.labels)
        content = hashlib.sha256(repr((*named, self.voting_rule, encoder)).encode() + self.queries.tobytes())
        if self.query_offsets is not None:
            content.update(self.query_offsets.tobytes())
        return content.hexdigest()

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def table_shape(self) -> tuple[int, int]:
        """A row per query; a column per class, and one of voters if records have sets of labels."""
        return len(self.queries), self.classes + (self.labels is not None)

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """The form of the mechanism's output for the votes of that many records.

        >>> import numpy as np
        >>> from tacit.mechanisms.central.selection import PermuteAndFlip
        >>> from tacit.representations.scaled import Identity
        >>> queries = np.zeros((2, 3), dtype=np.float32)
        >>> ask = VoteAsk(queries, Identity(3), 1, ("a", "b"), "c0ffee", PermuteAndFlip(1, 2), "labels", "r-1")
        >>> ask.answer_form()
        Numbers(shape=(2,), low=0, high=1)
        >>> ask.answer_form().require(np.array([0, 7]))
        Traceback (most recent call last):
            ...
        tacit.core.errors.InvalidInput: the answer must be whole numbers from 0 to 1
        """
        return asked.mechanism_form(self.mechanism, *self.table_shape, most_records)

    def sensitivity(self, unit: Unit, adjacency: Adjacency, records: Callable[[], int] | None = None) -> Sensitivity:
        """The sensitivity of the table to one privacy unit.

        For a published rule it depends on the number of ``records``, which only a holder of all records knows.
        """
        if self.voting_rule == NEAREST:
            return table_sensitivity(len(self.queries), self.classes, self.neighbors, unit, adjacency, self.labels)
        if adjacency != Adjacency.REPLACE_ONE or unit.column is not None:
            raise InvalidInput(
                f"{self.voting_rule} votes depend on the number of records, which is public only under replace-one "
                "adjacency for single records"
            )
        if records is None:
            raise InvalidInput(f"{self.voting_rule} votes need all records in one place, not tables of votes")
        return published_sensitivity(len(self.queries), self.classes, self.neighbors, records())

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int] | None:
        """The largest cell and the largest total: a record votes for each of its labels, and as a voter, in k queries.

        None for a published rule.
        """
        if self.voting_rule != NEAREST:
            return None
        return records, records * self.neighbors * (1 if self.labels is None else self.labels + 1)

    def fields(self) -> dict[str, Any]:
        """The question as values that can be encoded."""
        return {
            "queries": self.queries,
            "representation": asked.encoding_fields(self.representation),
            "neighbors": self.neighbors,
            **asked.table_fields(self),
            "heights": self.query_offsets,
            "labels": self.labels,
            "connections": self.voting_rule,
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> VoteAsk:
        """The question that ``fields`` wrote, checked."""
        queries = asked.read_points(fields, "queries")
        names = fields.texts("names", asked.MOST_CLASSES)
        # Sets of labels of one-record holders are filled with made-up labels, at most one per class.
        asked.require_small_table(fields, len(queries), 2 * len(names))
        return cls(
            queries=queries,
            representation=asked.read_encoding(fields.nested("representation")),
            neighbors=fields.integer("neighbors", 1, len(queries)),
            query_offsets=asked.read_distances(fields, "heights", len(queries)),
            labels=None if fields.missing("labels") else fields.integer("labels", 1, asked.MOST_CLASSES),
            voting_rule=fields.one_of("connections", VOTING_RULES),
            **asked.read_table_fields(fields, names),
        )
