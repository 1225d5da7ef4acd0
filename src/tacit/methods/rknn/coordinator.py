"""The side that sees releases only: choose queries, ask, and turn answers into labels for the public samples.

A run has one round or more. After each but the last a student learns from the labels so far; the next queries lie
where that student is unsure, and votes are cast in its view of the samples. The student is made of releases, so none
of this costs anything beyond the answers themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, Integers, InvalidInput, Mechanism, Reals, Release, Representation, gather
from tacit.methods.rknn.queries import (
    SELECTIONS,
    UNASKED,
    Clusters,
    cluster,
    iterative_proportional_fitting,
    lead,
    margins,
)
from tacit.methods.rknn.reading import CountReader, Reader
from tacit.methods.rknn.voting_rules import NEAREST, balanced_offsets
from tacit.methods.rknn.wire import VoteAsk

__all__ = ["BALANCED", "Labeling", "Revision", "Round", "VoteCoordinator", "VoteState", "round_requests"]


BALANCED = "balanced"


@dataclass(frozen=True)
class Round:
    """One question: how many queries, what answers it, how answers are read, and where later queries lie.

    ``selection`` names one of ``SELECTIONS``; the first round knows no student, and asks about clusters.
    ``proportions`` says that the reader's probabilities are how the classes share a cluster.
    """

    queries: int
    mechanism: Mechanism[Any, Any]
    reader: Reader
    selection: str = "clusters"
    proportions: bool = False


@dataclass(frozen=True)
class Labeling:
    """What the public samples are labeled with, and how it came about.

    ``probabilities`` are there only where counts were paid for and every sample was asked about; labels alone carry no
    such confidence.
    """

    clusters: Clusters
    query_labels: Integers  # (s,)
    labels: Integers  # (public samples,)
    confidence: Reals  # (public samples,), from 0: might as well be another label, to 1
    probabilities: Reals | None = None  # (public samples, classes)
    counts: Integers | None = None  # (s, classes), as they were released with noise in them


@dataclass(frozen=True)
class Revision:
    """What a student that learned from the labels so far adds: its view of samples, and its guesses at public ones."""

    representation: Representation
    probabilities: Reals  # (public samples, classes)


@dataclass(frozen=True)
class VoteState:
    """All that a run remembers between questions: where it asks now, and what it was told so far."""

    representation: Representation
    encoded: Floats  # (public samples, features)
    clusters: Clusters
    guesses: Reals | None
    answers: tuple[Release[Labeling], ...] = ()


def round_requests(request: str, rounds: int) -> list[str]:
    """The name of each round's request: each is paid for, and replayed, on its own.

    >>> round_requests("r", 1), round_requests("r", 2)
    (['r'], ['r-1', 'r-2'])
    """
    return [request] if rounds == 1 else [f"{request}-{number}" for number in range(1, rounds + 1)]


class VoteCoordinator:
    """Asks once, or again in the view of a student that learned from the answers.

    ``spread`` may improve on the labels that clusters give, from public samples; ``revise`` trains the student
    between rounds. ``voting_rule`` says which queries a record votes for: the nearest, the nearest with ``balanced``
    numbers of public samples, or by a published rule.
    """

    def __init__(
        self,
        public: NDArray[Any],
        representation: Representation,
        rounds: Sequence[Round],
        neighbors: int,
        names: Iterable[Any],
        request: str,
        spread: Callable[[Labeling], Labeling] | None = None,
        revise: Callable[[Labeling], Revision] | None = None,
        voting_rule: str = NEAREST,
        purpose: str = "reverse k-NN labels",
    ) -> None:
        for number, each in enumerate(rounds, start=1):
            if neighbors > each.queries:
                raise InvalidInput(f"neighbors must be at most the {each.queries} queries, got {neighbors}")
            if number > 1 and each.selection not in SELECTIONS:
                raise InvalidInput(
                    f"unknown selection {each.selection!r}: choose one of {', '.join(sorted(SELECTIONS))}"
                )
        if not rounds or (len(rounds) > 1 and revise is None):
            raise InvalidInput("a run has at least one round, and more than one only with a student between them")
        self._public = public
        self._representation = representation
        self._rounds = tuple(rounds)
        self._neighbors = neighbors
        self._names = tuple(map(str, names))
        self._request = request
        self._spread = spread
        self._revise = revise
        self._voting_rule = voting_rule
        self._purpose = purpose

    def begin(self) -> VoteState:
        """Cluster the public samples."""
        encoded = self._representation.encode(self._public)
        return VoteState(self._representation, encoded, cluster(encoded, self._rounds[0].queries), None)

    def ask(self, state: VoteState) -> VoteAsk | None:
        """The next round's question, if there is one."""
        number = len(state.answers)
        if number == len(self._rounds):
            return None
        several, balanced = len(self._rounds) > 1, self._voting_rule == BALANCED
        return VoteAsk(
            queries=state.clusters.centers,
            representation=state.representation,
            neighbors=self._neighbors,
            class_names=self._names,
            space=hashlib.sha256(state.encoded.tobytes()).hexdigest(),
            mechanism=self._rounds[number].mechanism,
            purpose=self._purpose + (f", round {number + 1} of {len(self._rounds)}" if several else ""),
            request=round_requests(self._request, len(self._rounds))[number],
            query_offsets=balanced_offsets(state.encoded, state.clusters.centers, self._neighbors)
            if balanced
            else None,
            voting_rule=NEAREST if balanced else self._voting_rule,
        )

    def fold(self, state: VoteState, answers: Sequence[Release[Any]]) -> VoteState:
        """Label the public samples by the answer, of the curator or of all one-record holders; go to the next round."""
        if len(answers) != 1:
            raise InvalidInput(
                f"labeling takes one answer, the curator's or that of all one-record holders; got {len(answers)}"
            )
        labeling = answers[0].map(lambda answer: self._label(state, answer))
        told = (*state.answers, labeling)
        if len(told) == len(self._rounds):
            return VoteState(state.representation, state.encoded, state.clusters, state.guesses, told)
        # What the student is made of was told in every round so far; the receipts stay with those answers.
        assert self._revise is not None
        revision = self._revise(labeling.value)
        encoded = revision.representation.encode(self._public)
        coming = self._rounds[len(told)]
        clusters = SELECTIONS[coming.selection](encoded, revision.probabilities, coming.queries)
        return VoteState(revision.representation, encoded, clusters, revision.probabilities, told)

    def result(self, state: VoteState) -> Release[Labeling]:
        """Labels after the last round, with calibrated probabilities where counts were paid for."""
        if len(state.answers) < len(self._rounds):
            raise InvalidInput("the run has questions that were not answered yet")
        return gather(state.answers).map(lambda labelings: labelings[-1])

    def _label(self, state: VoteState, answer: Any) -> Labeling:  # noqa: ANN401
        this = self._rounds[len(state.answers)]
        query_labels, query_probabilities = this.reader(answer)
        asked = state.clusters.membership != UNASKED
        labels, confidence = np.empty(len(asked), dtype=np.int64), np.empty(len(asked))
        part = Clusters(state.clusters.centers, state.clusters.membership[asked])
        labels[asked] = query_labels[part.membership]
        confidence[asked] = margins(state.encoded[asked], part, query_labels)
        if state.guesses is not None:
            # What was not asked about is what the student was sure of: its own word stands.
            labels[~asked] = state.guesses[~asked].argmax(axis=1)
            confidence[~asked] = lead(state.guesses[~asked])
        probabilities = None
        if query_probabilities is not None and asked.all():
            probabilities = query_probabilities[part.membership]
            if this.proportions and state.guesses is not None:
                # The answer says how many of a cluster are of each class; the student may know which.
                probabilities = iterative_proportional_fitting(query_probabilities, part.membership, state.guesses)
                labels, confidence = probabilities.argmax(axis=1).astype(np.int64), lead(probabilities)
        labeling = Labeling(state.clusters, query_labels, labels, confidence, probabilities)
        spread = labeling if self._spread is None else self._spread(labeling)
        return replace(spread, counts=np.asarray(answer)) if isinstance(this.reader, CountReader) else spread
