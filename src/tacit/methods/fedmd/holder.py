"""The side that sees records: three kinds of parties, by what leaves them and what it costs.

``SubsetParty`` buys the release of some of its records once (FedMD-NFDP; all of them: FedMD-NP), and everything it
says afterwards follows from those. ``RandomizedParty`` trains on all its records and randomizes every prediction.
``VotingParty`` trains on all its records, but what it releases are noisy reverse k-NN votes.

Each looks at the question alone and pays before a record is touched. A model that cannot be trained or asked predicts
at random, or nothing at all; both are within what the noise was made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import ANYTHING, Adjacency, Integers, InvalidInput, Release, Unit, uniform_below
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.mechanisms.choices import PARTY_VOTES, prediction_door, table_door
from tacit.methods.encoding import encoded_chunks, require_encodable
from tacit.methods.fedmd.models import ConsensusStore, Study
from tacit.methods.fedmd.wire import Feedback, PartyVoteAsk, PredictAsk
from tacit.methods.held import release_table
from tacit.neighbors import vote_counts
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext, NodeSide, table_doors
from tacit.private.records import Private, Records, inspect, schema_of

__all__ = [
    "AT_NODE",
    "PARTY_TABLES",
    "PREDICTING",
    "SUBSET_REQUEST",
    "VOTING",
    "RandomizedParty",
    "SubsetParty",
    "VotingParty",
]

PARTY_TABLES = PARTY_VOTES
VOTING = table_door("a voting party", PARTY_VOTES)
PREDICTING = prediction_door("a party")
# One name for all runs: whoever asks again, the account gives the subset that it bought first.
SUBSET_REQUEST = "the records of this party that train its models"


class SubsetParty:
    """Learns from a fixed subset of its records, drawn once through the gate.

    The ledger keeps the subset: a party that is started again with the same ledger gets the records it drew first
    and pays nothing. A subset of another size is another question under the same name, and is refused.
    """

    def __init__(
        self, records: Private[Records], sample: SubsetSample | StratifiedSample, gate: Gate, study: Study
    ) -> None:
        if gate.unit != Unit() or gate.adjacency is not Adjacency.REPLACE_ONE:
            raise InvalidInput(
                "sampling records is stable for one record under replace-one; the account protects a different unit"
            )
        # The owner chose the sample for these records; a mistake is the owner's to read, before anything is paid.
        inspect([records], lambda own: _columns(own[0], sample))
        schema = schema_of(records)
        classes = np.repeat(np.arange(len(sample.strata)), [each.population for each in sample.strata])

        def empty() -> list[NDArray[Any]]:
            return [np.zeros((len(classes), *schema.shape), dtype=schema.dtype), np.zeros_like(classes), classes]

        self._subset: Release[list[NDArray[Any]]] = gate.release(
            records.map(lambda own: _columns(own, sample)),
            empty,
            ANYTHING,
            sample,
            "the training subset (NFDP)",
            SUBSET_REQUEST,
        )
        self._study = study

    def answer(self, ask: PredictAsk) -> Release[NDArray[Any]]:
        """Predictions that follow from the released subset and public knowledge: nothing more is paid."""
        self._study.check(ask)
        if ask.mechanism is not None:
            raise InvalidInput(f"this party does not answer through {type(ask.mechanism).__name__}; it needs none")
        return self._subset.map(lambda own: self._said(ask, own))

    def learn(self, feedback: Feedback) -> None:
        """Digest a consensus and revisit the subset."""
        self._subset.map(lambda own: self._study.train_on_consensus(feedback, own[0], own[1]))

    def _said(self, ask: PredictAsk, own: list[NDArray[Any]]) -> NDArray[Any]:
        said = self._study.predictions(ask, own[0], own[1])
        return said if ask.form.kind == "argmax" else ask.form.table(said)


class RandomizedParty:
    """Learns from all its records; every prediction is randomized before it leaves, and paid for in every round.

    The model itself is as private as the records. It stays with the party.
    """

    def __init__(self, records: Private[Records], gate: Gate, study: Study) -> None:
        self._records = records
        self._gate = gate
        self._study = study

    def answer(self, ask: PredictAsk, before: Sequence[Feedback] = ()) -> Release[Any]:
        """What the mechanism makes of the predictions, after the model has learned what was agreed on ``before``."""
        self._study.check(ask)
        for feedback in before:
            self._study.check_feedback(feedback, ask.form.classes)
        mechanism: Any = ask.mechanism
        PREDICTING.require(mechanism, self._gate.named)
        rows, form = len(ask.rows), ask.form
        # Labels are randomized one by one, and a table of predictions as a whole.
        one_by_one = mechanism.statistic == "labels"
        if one_by_one and (form.kind != "argmax" or (mechanism.count, mechanism.local.cells) != (rows, form.classes)):
            raise InvalidInput("randomized responses need argmax, and one response for each prediction")
        sensitivity = ask.sensitivity(self._gate.unit, self._gate.adjacency)

        def said(own: Records) -> NDArray[Any]:
            for feedback in before:
                self._study.train_on_consensus(feedback, own.samples, own.labels)
            found = self._study.predictions(ask, own.samples, own.labels)
            return found if one_by_one else form.table(found)

        def empty() -> NDArray[Any]:
            if one_by_one:
                return uniform_below(form.classes, rows, self._gate.randomness)
            return np.zeros((rows, form.classes), dtype=np.int64)

        return self._gate.release(
            self._records.map(said), empty, sensitivity, mechanism, ask.purpose, ask.request, ask.question
        )

    def learn(self, feedback: Feedback) -> None:
        """Digest a consensus and revisit the records; nothing leaves."""
        inspect([self._records], lambda own: self._study.train_on_consensus(feedback, own[0].samples, own[0].labels))


class VotingParty:
    """Learns from all its records; what it releases are noisy reverse k-NN votes of its records, once.

    A record's vote depends on that record and on public points alone, so one record moves two votes at most,
    where it may move every prediction of a model.
    """

    def __init__(self, records: Private[Records], gate: Gate, study: Study) -> None:
        if gate.unit != Unit():
            raise InvalidInput("a voting party protects one record; the account protects persons, or a whole holder")
        self._records = records
        self._gate = gate
        self._study = study

    def answer(self, ask: PartyVoteAsk) -> Release[Any]:
        """Votes with noise, or one label per query."""
        VOTING.require(ask.mechanism, self._gate.named)
        require_encodable(ask.representation, schema_of(self._records).blank, ask.queries.shape[1])

        def counted(own: Records) -> Integers:
            encoded = encoded_chunks(ask.representation, own.samples)
            return vote_counts(encoded, own.labels, ask.queries, 1, ask.classes)

        return release_table(self._gate, ask, self._records.map(counted))

    def begin(self) -> None:
        """Train on the records; nothing leaves. Voting itself needs no model."""
        inspect([self._records], lambda own: self._study.begin(own[0].samples, own[0].labels))

    def learn(self, feedback: Feedback) -> None:
        """Digest a consensus and revisit the records; nothing leaves."""
        inspect([self._records], lambda own: self._study.train_on_consensus(feedback, own[0].samples, own[0].labels))


def answer_at_node(ask: PredictAsk | PartyVoteAsk, context: NodeContext) -> Release[Any]:
    """The answer of a node's own party."""
    room: ConsensusStore | None = context.store
    if ask.classes != len(context.classes):
        raise InvalidInput(f"the question is about {ask.classes} classes, this node knows {len(context.classes)}")
    if room is None:
        raise InvalidInput("this node has no public samples, which FedMD needs")
    if isinstance(ask, PartyVoteAsk):
        return VotingParty(context.records, context.gate, room.study()).answer(ask)
    return room.answer(ask, RandomizedParty(context.records, context.gate, room.study()).answer)


def _learn_at_node(feedback: Feedback, request: str, room: ConsensusStore) -> None:
    room.conclude(request, feedback)


AT_NODE = NodeSide(
    answer_at_node,
    {
        PredictAsk: {"answer": PREDICTING},
        PartyVoteAsk: table_doors(PARTY_TABLES, "a curator of parties' votes"),
    },
    _learn_at_node,
)


def _columns(own: Records, sample: SubsetSample | StratifiedSample) -> list[NDArray[Any]]:
    """Records as the sampler takes them, if they are those it was made for."""
    expected = [each.population for each in sample.strata]
    if sample.stratified:
        # Only classes that the party has are drawn from; they are counted from 0 without gaps.
        compact = np.unique(own.labels, return_inverse=True)[1]
        sizes, columns = np.bincount(compact).tolist(), [own.samples, own.labels, compact.astype(np.int64)]
    else:
        sizes, columns = [len(own.labels)], [own.samples, own.labels]
    if sizes != expected:
        raise InvalidInput("the sample was made for another number of records")
    return columns
