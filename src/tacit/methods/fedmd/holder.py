"""The side that sees records: three kinds of parties, by what leaves them and what it costs.

``SubsetParty`` buys the release of some of its records once (FedMD-NFDP; all of them: FedMD-NP), and everything it
says afterwards follows from those. ``RandomizedParty`` trains on all its records and randomizes every prediction.
``VotingParty`` trains on all its records, but what it releases are noisy reverse k-NN votes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.protocols import Integers
from tacit.core.release import Release
from tacit.core.sensitivity import ANYTHING, vote_sensitivity
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.mechanisms.central.sealed_table import SealedTable
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare
from tacit.methods.fedmd.responses import Responses
from tacit.methods.fedmd.study import Study
from tacit.methods.fedmd.wire import Feedback, PredictAsk, VoteAsk
from tacit.neighbors import vote_counts
from tacit.private.gate import Gate
from tacit.private.records import Private, Records

__all__ = ["SUBSET_REQUEST", "RandomizedParty", "SubsetParty", "VotingParty"]

VOTING_MECHANISMS = (PermuteAndFlip, DiscreteLaplaceNoise, DistributedLaplace, MaskedShare, SealedTable)
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
            raise InvalidInput("sampling records is stable for one record under replace-one; the account protects else")
        with _telling_nothing():
            columns = records.map(lambda own: _columns(own, sample))
        self._subset: Release[list[NDArray[Any]]] = gate.release(
            columns, ANYTHING, sample, "the training subset (NFDP)", SUBSET_REQUEST
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
        self._subset.map(lambda own: self._study.absorb(feedback, own[0], own[1]))

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

    def answer(self, ask: PredictAsk) -> Release[Any]:
        """What the mechanism makes of the predictions."""
        self._study.check(ask)
        mechanism = ask.mechanism
        if isinstance(mechanism, Responses):
            if ask.form.kind != "argmax" or (mechanism.count, mechanism.local.cells) != (
                len(ask.rows),
                ask.form.classes,
            ):
                raise InvalidInput("randomized responses need argmax, and one response for each prediction")
            moves = ANYTHING
        elif isinstance(mechanism, DiscreteLaplaceNoise | DiscreteGaussianNoise):
            moves = ask.form.sensitivity(len(ask.rows))
        else:
            raise InvalidInput(f"this party does not answer through {type(mechanism).__name__}")

        def said(own: Records) -> NDArray[Any]:
            found = self._study.predictions(ask, own.samples, own.labels)
            return found if isinstance(mechanism, Responses) else ask.form.table(found)

        with _telling_nothing():
            predictions = self._records.map(said)
        return self._gate.release(predictions, moves, mechanism, ask.purpose, ask.request, ask.question)

    def learn(self, feedback: Feedback) -> None:
        """Digest a consensus and revisit the records; nothing leaves."""
        self._records.map(lambda own: self._study.absorb(feedback, own.samples, own.labels))


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

    def answer(self, ask: VoteAsk) -> Release[Any]:
        """Votes with noise, or one label a query."""
        if not isinstance(ask.mechanism, VOTING_MECHANISMS):
            raise InvalidInput(f"this party does not answer through {type(ask.mechanism).__name__}")
        moves = vote_sensitivity(
            queries=len(ask.queries),
            classes=ask.classes,
            neighbors=1,
            replace=self._gate.adjacency is Adjacency.REPLACE_ONE,
        )

        def counted(own: Records) -> Integers:
            return vote_counts(ask.representation.encode(own.samples), own.labels, ask.queries, 1, ask.classes)

        with _telling_nothing():
            votes = self._records.map(counted)
        return self._gate.release(votes, moves, ask.mechanism, ask.purpose, ask.request, ask.question)

    def begin(self) -> None:
        """Train on the records; nothing leaves. Voting itself needs no model."""
        self._records.map(lambda own: self._study.begin(own.samples, own.labels))

    def learn(self, feedback: Feedback) -> None:
        """Digest a consensus and revisit the records; nothing leaves."""
        self._records.map(lambda own: self._study.absorb(feedback, own.samples, own.labels))


def _columns(own: Records, sample: SubsetSample | StratifiedSample) -> list[NDArray[Any]]:
    """Records as the sampler takes them, checked before anything is paid."""
    if isinstance(sample, SubsetSample):
        sizes, expected = [len(own.labels)], [sample.population]
        columns = [own.samples, own.labels]
    else:
        # Only classes that the party has are drawn from; they are counted from 0 without gaps.
        compact = np.unique(own.labels, return_inverse=True)[1]
        sizes, expected = np.bincount(compact).tolist(), [each.population for each in sample.strata]
        columns = [own.samples, own.labels, compact.astype(np.int64)]
    if sizes != expected:
        raise InvalidInput("the sample was made for another number of records")
    return columns


@contextmanager
def _telling_nothing() -> Iterator[None]:
    """Work on records whose failure must not say what was in them: an error is a message to whoever asked."""
    try:
        yield
    except Exception:
        raise InvalidInput(
            "the records do not fit the question (its features, its classes or its size); nothing was charged"
        ) from None
