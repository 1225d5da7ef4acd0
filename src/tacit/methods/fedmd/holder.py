"""The holder, which sees records: three kinds of parties, by what they release.

``SubsetParty`` pays once for the release of some of its records (FedMD-NFDP; all of them: FedMD-NP), and all its
answers are post-processing of those. ``RandomizedParty`` trains on all its records and randomizes every prediction.
``VotingParty`` trains on all its records, but releases noisy reverse k-NN votes.

Each checks the question alone and pays before a record is read. A model that cannot be trained or evaluated gives
random predictions or an empty table; the sensitivity covers both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import ANYTHING, Adjacency, Integers, InvalidInput, Release, Unit, uniform_below
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.mechanisms.choices import PARTY_VOTES, allowed_for_predictions, allowed_for_tables
from tacit.methods.encoding import encoded_chunks, require_encodable
from tacit.methods.fedmd.models import ConsensusStore, Study
from tacit.methods.fedmd.wire import Feedback, PartyVoteAsk, PredictAsk
from tacit.methods.held import release_table
from tacit.neighbors import vote_counts
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext, NodeSide, allowed_by_step
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
VOTING = allowed_for_tables("a voting party", PARTY_VOTES)
PREDICTING = allowed_for_predictions("a party")
# One request id for all runs, so that an account always replays its first subset.
SUBSET_REQUEST = "the records of this party that train its models"


class SubsetParty:
    """Trains on a fixed subset of its records, drawn once through the gate.

    The ledger stores the subset: a party that is restarted with the same ledger gets the same records and pays nothing.
    A subset of a different size is a different question under the same request id, and is refused.
    """

    def __init__(
        self, records: Private[Records], sample: SubsetSample | StratifiedSample, gate: Gate, study: Study
    ) -> None:
        if gate.unit != Unit() or gate.adjacency is not Adjacency.REPLACE_ONE:
            raise InvalidInput(
                "sampling records protects one record under replace-one adjacency, and the account another unit"
            )
        # The owner chose the sample for these records, and sees an error before anything is paid.
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
        """Predictions from the released subset and public data, at no further cost."""
        self._study.check(ask)
        if ask.mechanism is not None:
            raise InvalidInput(f"this party uses no mechanism, and the question has {type(ask.mechanism).__name__}")
        return self._subset.map(lambda own: self._said(ask, own))

    def learn(self, feedback: Feedback) -> None:
        """Train on a consensus, then on the subset again."""
        self._subset.map(lambda own: self._study.train_on_consensus(feedback, own[0], own[1]))

    def _said(self, ask: PredictAsk, own: list[NDArray[Any]]) -> NDArray[Any]:
        said = self._study.predictions(ask, own[0], own[1])
        return said if ask.form.kind == "argmax" else ask.form.table(said)


class RandomizedParty:
    """Trains on all its records; every prediction is randomized before it leaves, and paid for in every round.

    The model itself is as private as the records and stays with the party.
    """

    def __init__(self, records: Private[Records], gate: Gate, study: Study) -> None:
        self._records = records
        self._gate = gate
        self._study = study

    def answer(self, ask: PredictAsk, before: Sequence[Feedback] = ()) -> Release[Any]:
        """The randomized predictions, after training on the consensus of the rounds ``before``."""
        self._study.check(ask)
        for feedback in before:
            self._study.check_feedback(feedback, ask.form.classes)
        mechanism: Any = ask.mechanism
        PREDICTING.require(mechanism, self._gate.named)
        rows, form = len(ask.rows), ask.form
        # Labels are randomized one by one, a table of predictions by one mechanism.
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
        """Train on a consensus, then on the records again; nothing is released."""
        inspect([self._records], lambda own: self._study.train_on_consensus(feedback, own[0].samples, own[0].labels))


class VotingParty:
    """Trains on all its records, and releases noisy reverse k-NN votes of its records once.

    A record's vote depends on that record and on public points alone, so replacing one record changes at most two
    votes, while it may change every prediction of a model.
    """

    def __init__(self, records: Private[Records], gate: Gate, study: Study) -> None:
        if gate.unit != Unit():
            raise InvalidInput("a voting party protects one record; the account protects persons or a whole holder")
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
        """Train on the records; nothing is released. Voting itself needs no model."""
        inspect([self._records], lambda own: self._study.begin(own[0].samples, own[0].labels))

    def learn(self, feedback: Feedback) -> None:
        """Train on a consensus, then on the records again; nothing is released."""
        inspect([self._records], lambda own: self._study.train_on_consensus(feedback, own[0].samples, own[0].labels))


def answer_at_node(ask: PredictAsk | PartyVoteAsk, context: NodeContext) -> Release[Any]:
    """The answer of a node."""
    store: ConsensusStore | None = context.store
    if ask.classes != len(context.classes):
        raise InvalidInput(f"the question is about {ask.classes} classes, this node knows {len(context.classes)}")
    if store is None:
        raise InvalidInput("this node has no public samples, which FedMD needs")
    if isinstance(ask, PartyVoteAsk):
        return VotingParty(context.records, context.gate, store.study()).answer(ask)
    return store.answer(ask, RandomizedParty(context.records, context.gate, store.study()).answer)


def _learn_at_node(feedback: Feedback, request: str, store: ConsensusStore) -> None:
    store.conclude(request, feedback)


AT_NODE = NodeSide(
    answer_at_node,
    {
        PredictAsk: {"answer": PREDICTING},
        PartyVoteAsk: allowed_by_step(PARTY_TABLES, "a curator of parties' votes"),
    },
    _learn_at_node,
)


def _columns(own: Records, sample: SubsetSample | StratifiedSample) -> list[NDArray[Any]]:
    """Records as columns for the sampler; refused if their numbers are not those of the sample."""
    expected = [each.population for each in sample.strata]
    if sample.stratified:
        # Only the classes that the party has are drawn from, renumbered from 0 without gaps.
        compact = np.unique(own.labels, return_inverse=True)[1]
        sizes, columns = np.bincount(compact).tolist(), [own.samples, own.labels, compact.astype(np.int64)]
    else:
        sizes, columns = [len(own.labels)], [own.samples, own.labels]
    if sizes != expected:
        raise InvalidInput("the sample was made for a different number of records")
    return columns
