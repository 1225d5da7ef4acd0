"""The holder, which sees records: sample them for every query, and release the noisy votes through the gate only.

A holder checks the question alone, tries it on a made-up record, and gives the gate an electorate: how given records
would vote. The gate pays; only then are records read, sampled by the mechanism, and compared. From then on nothing is
refused: a record that cannot be encoded or compared, or has another class, never votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Adjacency, Encodings, Floats, Integers, Release, ToleranceExceeded
from tacit.mechanisms.central.private_knn import SubsampledGNMax, SubsampledScreen
from tacit.mechanisms.choices import AllowedMechanisms
from tacit.methods.encoding import encoded_chunks
from tacit.methods.held import held, require_single_labels
from tacit.methods.private_knn.wire import NeighborAsk
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext, NodeSide
from tacit.private.partition import bounded
from tacit.private.records import Private, Records, combine, joined

__all__ = ["AT_NODE", "NEIGHBORS", "NearestVoters", "NeighborHolder", "first_smallest", "gathered"]

_MECHANISMS = (SubsampledGNMax, SubsampledScreen)
NEIGHBORS = AllowedMechanisms("a holder of neighbors", _MECHANISMS)


@dataclass(frozen=True)
class NearestVoters:
    """Records as an electorate: a sampled record votes on a query if it is among the nearest sampled ones.

    ``columns`` are the features of records that can be compared, one row per feature; ``voter`` is the voter of each
    record, among ``voters``: the record itself, or its person.

    **A distance depends on the record and the query alone.** Squared differences are added feature by feature, for all
    records at once but independently, so that no record's distance depends on the number of others, as it would in a
    matrix product. Ties go to the first record.
    """

    ask: NeighborAsk
    columns: Floats  # (features, records)
    labels: Integers  # (records,)
    voter: Integers  # (records,)
    voters: int

    def distances(self, query: int, rows: Integers) -> NDArray[np.float64]:
        """The squared distance of each of these records to a query."""
        near = self.columns[:, rows].astype(np.float64)
        point = self.ask.queries[query].astype(np.float64)
        total = np.zeros(len(rows))
        for feature, value in zip(near, point, strict=True):
            difference = feature - value
            total += difference * difference
        return total

    def reached(self, query: int) -> NDArray[np.bool_]:
        """Which voters have a record within the query's reach."""
        every = np.arange(len(self.labels))
        found = np.zeros(self.voters, dtype=np.bool_)
        found[self.voter[self._within(query, self.distances(query, every))]] = True
        return found

    def votes(self, query: int, members: Integers) -> Integers:
        """The number of the nearest records of these voters with each label."""
        called = np.zeros(self.voters, dtype=np.bool_)
        called[members] = True
        rows = np.flatnonzero(called[self.voter])
        distance = self.distances(query, rows)
        inside = np.flatnonzero(self._within(query, distance))
        nearest = rows[inside][first_smallest(distance[inside], self.ask.neighbors)]
        counts: Integers = np.bincount(self.labels[nearest], minlength=self.ask.classes).astype(np.int64)
        return counts

    def _within(self, query: int, distance: NDArray[np.float64]) -> NDArray[np.bool_]:
        if self.ask.reach is None:
            return np.ones(len(distance), dtype=np.bool_)
        inside: NDArray[np.bool_] = distance <= float(self.ask.reach[query]) ** 2
        return inside


def first_smallest(values: NDArray[np.float64], count: int) -> Integers:
    """The indices of the ``count`` smallest values, of equal ones the first; all if there are no more.

    >>> first_smallest(np.array([3.0, 1.0, 2.0, 1.0, 2.0]), 3).tolist()
    [1, 2, 3]
    """
    if len(values) <= count:
        return np.arange(len(values))
    last = np.partition(values, count - 1)[count - 1]
    below, level = values < last, np.flatnonzero(values == last)
    chosen = np.concatenate([np.flatnonzero(below), level[: count - int(below.sum())]])
    return np.sort(chosen)


def gathered(ask: NeighborAsk, records: Records, persons: bool, cache: Encodings | None = None) -> NearestVoters:
    """The electorate of these records; with ``persons`` the records of a person are sampled together.

    >>> from tacit.representations.scaled import Identity
    >>> ask = NeighborAsk(np.array([[0.0]]), Identity(1), 2, ("a", "b"), "c0ffee", None, "votes", "r-1")
    >>> rows = np.array([[5.0], [1.0], [np.nan], [2.0], [0.0]])
    >>> voters = gathered(ask, Records(rows, np.array([0, 1, 0, 0, 7])), persons=False)
    >>> voters.voters, voters.votes(0, np.arange(5)).tolist(), voters.votes(0, np.array([0, 3])).tolist()
    (5, [1, 1], [2, 0])
    """
    voter: Integers = np.arange(len(records.labels))
    if persons:
        voter = np.unique(np.asarray(records.persons), return_inverse=True)[1]
    chunks = list(encoded_chunks(ask.representation, records.samples, cache))
    width = ask.queries.shape[1]
    features = np.concatenate(chunks) if chunks else np.zeros((0, width), dtype=np.float32)
    voting = np.isfinite(features).all(axis=1) & (records.labels >= 0) & (records.labels < ask.classes)
    columns = np.ascontiguousarray(features[voting].T)
    return NearestVoters(ask, columns, records.labels[voting], voter[voting], int(voter.max(initial=-1)) + 1)


class NeighborHolder:
    """One account over one or more sets of records: a hospital, or a curator trusted with several.

    All sets are one electorate. At most as many records per person are used as the account's unit allows. Encodings of
    records are cached only if the holder passes its own ``cache``.
    """

    def __init__(
        self,
        records: Sequence[Private[Records]],
        gate: Gate,
        cache: Encodings | None = None,
    ) -> None:
        self._records = held(records, gate)
        self._gate = gate
        self._cache = cache

    def answer(self, ask: NeighborAsk) -> Release[Any]:
        """Pay, and return the mechanism's output for the votes."""
        NEIGHBORS.require(ask.mechanism, self._gate.named)
        require_priced(ask, self._gate.adjacency)
        require_single_labels(self._records, ask.representation, ask.queries.shape[1], "Private k-NN takes")
        sensitivity = ask.sensitivity(self._gate.unit, self._gate.adjacency)
        voters = combine(self._records, partial(self._gathered, ask))
        return self._gate.release(
            voters,
            partial(nobody, ask),
            sensitivity,
            ask.mechanism,
            ask.purpose,
            ask.request,
            ask.question,
        )

    def _gathered(self, ask: NeighborAsk, parts: list[Records]) -> NearestVoters:
        unit = self._gate.unit
        records = joined(bounded(parts, unit, self._gate.randomness))
        return gathered(ask, records, unit.column is not None, self._cache)


def nobody(ask: NeighborAsk) -> NearestVoters:
    """An electorate without voters."""
    empty: Integers = np.zeros(0, dtype=np.int64)
    return NearestVoters(ask, np.zeros((ask.queries.shape[1], 0), dtype=np.float32), empty, empty, 0)


def require_priced(ask: NeighborAsk, adjacency: Adjacency) -> None:
    """Refuse a mechanism for another number of queries, or for an adjacency that the account does not have."""
    mechanism: Any = ask.mechanism
    if mechanism.queries != len(ask.queries):
        raise ToleranceExceeded(
            f"{type(mechanism).__name__} is made for {mechanism.queries} queries, and {len(ask.queries)} are asked "
            "about; nothing was charged"
        )
    # A guarantee under replace-one adjacency holds under add-remove too.
    if adjacency is Adjacency.REPLACE_ONE and not mechanism.replace_one:
        raise ToleranceExceeded(
            f"{type(mechanism).__name__} is accounted under add-remove adjacency, and the account has replace-one; "
            "nothing was charged"
        )


def answer_at_node(ask: NeighborAsk, context: NodeContext) -> Release[Any]:
    """The answer of a node."""
    return NeighborHolder([context.records], context.gate, context.encodings).answer(ask)


AT_NODE = NodeSide(answer_at_node, {NeighborAsk: {"answer": AllowedMechanisms("a plain answer", _MECHANISMS)}})
