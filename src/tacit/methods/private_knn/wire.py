"""The question of Private k-NN: public points are sent, and noisy votes of the nearest sampled records come back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core import Adjacency, Floats, InvalidInput, Mechanism, Representation, Sensitivity, Unit
from tacit.core.codec import StrictReader
from tacit.mechanisms.forms import AnswerForm
from tacit.methods import question as asked

__all__ = ["NeighborAsk", "neighbor_sensitivity"]


def neighbor_sensitivity(neighbors: int, unit: Unit = Unit()) -> Sensitivity:  # noqa: B008
    """The sensitivity of the k nearest votes on one query to a voter that is added, removed or replaced.

    A voter is a record, or a person with at most m records; s = min(m, k). The distance of a record depends on the
    record and the query alone, and ties go to the first record; a run's records are in the order in which they were
    given, and are never divided by what they contain. So the order of all other records never changes. An
    added voter brings a ≤ s votes and displaces at most the last a: a votes are added and at most a removed. If one
    voter replaces another, let one have a votes and the other b ≤ a: a votes are added, and b and a − b others removed.
    Either way no cell changes by more than s, and squares sum to at most 2s². A record that cannot be encoded or
    compared never votes, as if it were removed.

    >>> neighbor_sensitivity(5).l2_squared, neighbor_sensitivity(5, Unit.person("patient", 3)).l2_squared
    (2, 18)
    """
    if unit.holder:
        raise InvalidInput("Private k-NN protects records or persons with a bounded number of them, not whole holders")
    if neighbors < 1:
        raise InvalidInput(f"neighbors must be at least 1, got {neighbors}")
    most = min(unit.records, neighbors)
    return Sensitivity(l1=2 * most, l2_squared=2 * most**2, linf=most, row_range=2 * most)


@dataclass(frozen=True)
class NeighborAsk:
    """The question for the labels of the nearest records of a random sample, for each of these points.

    ``mechanism`` samples records for every query and randomizes the votes of the ``neighbors`` nearest sampled ones.
    With ``reach``, one distance per query, a record farther away does not vote. ``class_names`` are in the order of the
    labels' indices; ``space`` is a digest of the encoded public samples.
    """

    name: ClassVar[str] = "private_knn-votes"
    method: ClassVar[str] = "private_knn"
    may_refuse: ClassVar[bool] = False

    queries: Floats  # (queries, features), in the representation's space
    representation: Representation
    neighbors: int
    class_names: tuple[str, ...]
    space: str
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str
    reach: Floats | None = None  # (queries,)

    def __post_init__(self) -> None:
        asked.require_classes(self.class_names)
        if self.reach is not None and self.reach.shape != (len(self.queries),):
            raise InvalidInput(f"reach must be one per query, got {self.reach.shape} for {len(self.queries)} queries")

    @property
    def question(self) -> str:
        """A digest of the question, so that a retried request cannot be used for a different one."""
        encoder = asked.representation_digest(self.representation)
        named = (self.queries.shape, self.neighbors, self.class_names, self.space, self.reach is not None, encoder)
        content = hashlib.sha256(repr(named).encode() + self.queries.tobytes())
        if self.reach is not None:
            content.update(self.reach.tobytes())
        return content.hexdigest()

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def table_shape(self) -> tuple[int, int]:
        """A row per query, a column per class."""
        return len(self.queries), self.classes

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """The form of the mechanism's output, for any number of records.

        >>> import numpy as np
        >>> from tacit.mechanisms.central.private_knn import SubsampledScreen
        >>> from tacit.representations.scaled import Identity
        >>> screen = SubsampledScreen("0.15", 9, 2, queries=3)
        >>> NeighborAsk(np.zeros((3, 1)), Identity(1), 4, ("a", "b"), "c0ffee", screen, "votes", "r-1").answer_form()
        Flags(count=3)
        """
        return asked.mechanism_form(self.mechanism, *self.table_shape, self.neighbors)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """The sensitivity of the votes on one query; the mechanism composes over queries."""
        return neighbor_sensitivity(self.neighbors, unit)

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int]:
        """The largest cell and the largest total: k records vote on a query, for any number of records.

        >>> import numpy as np
        >>> from tacit.representations.scaled import Identity
        >>> ask = NeighborAsk(np.zeros((3, 1)), Identity(1), 4, ("a", "b"), "c0ffee", None, "votes", "r-1")
        >>> ask.most_votes(1000, holders=2)
        (8, 24)
        """
        return holders * self.neighbors, holders * self.neighbors * len(self.queries)

    def fields(self) -> dict[str, Any]:
        """The question as values that can be encoded."""
        return {
            "queries": self.queries,
            "representation": asked.encoding_fields(self.representation),
            "neighbors": self.neighbors,
            **asked.table_fields(self),
            "reach": self.reach,
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> NeighborAsk:
        """The question that ``fields`` wrote, checked."""
        queries, names = asked.read_points(fields, "queries"), fields.texts("names", asked.MOST_CLASSES)
        asked.require_small_table(fields, len(queries), len(names))
        return cls(
            queries=queries,
            representation=asked.read_encoding(fields.nested("representation")),
            neighbors=fields.integer("neighbors", 1, asked.MOST_RECORDS),
            reach=asked.read_distances(fields, "reach", len(queries)),
            **asked.read_table_fields(fields, names),
        )
