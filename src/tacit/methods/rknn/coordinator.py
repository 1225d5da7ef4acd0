"""The coordinator, which sees releases only: choose queries, ask, and turn answers into labels of the public samples.

A run has one or more rounds. After each but the last a student is trained on the labels so far; the next queries are
where that student is uncertain, and votes are counted in its feature space. The student is post-processing of releases,
so only the answers cost anything.
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
    """One question: number of queries, mechanism, reader of the answer, and how queries are chosen.

    ``selection`` is one of ``SELECTIONS``; the first round has no student yet, and its queries are clusters. With
    ``proportions`` the reader's probabilities are the class proportions of a cluster.
    """

    queries: int
    mechanism: Mechanism[Any, Any]
    reader: Reader
    selection: str = "clusters"
    proportions: bool = False


@dataclass(frozen=True)
class Labeling:
    """The labels of the public samples, and the clusters and query labels they come from.

    ``probabilities`` are None unless counts were released and every sample belongs to a query.
    """

    clusters: Clusters
    query_labels: Integers  # (s,)
    labels: Integers  # (public samples,)
    confidence: Reals  # (public samples,), from 0 (another label is as likely) to 1
    probabilities: Reals | None = None  # (public samples, classes)
    counts: Integers | None = None  # (s, classes), as released, with noise


@dataclass(frozen=True)
class Revision:
    """The result of a student trained between rounds: its feature space, and its predictions for public samples."""

    representation: Representation
    probabilities: Reals  # (public samples, classes)


@dataclass(frozen=True)
class VoteState:
    """The state of a run: the current queries, and the labelings so far."""

    representation: Representation
    encoded: Floats  # (public samples, features)
    clusters: Clusters
    guesses: Reals | None
    answers: tuple[Release[Labeling], ...] = ()


def round_requests(request: str, rounds: int) -> list[str]:
    """The request id of each round; each is paid, and replayed, separately.

    >>> round_requests("r", 1), round_requests("r", 2)
    (['r'], ['r-1', 'r-2'])
    """
    return [request] if rounds == 1 else [f"{request}-{number}" for number in range(1, rounds + 1)]


class VoteCoordinator:
    """Asks once, or several times in the feature space of a student trained on the answers.

    ``propagate`` may improve the labels of clusters, from public samples; ``revise`` trains the student between rounds.
    ``voting_rule`` determines the queries that a record votes for: the nearest, the nearest with ``balanced`` numbers
    of public samples, or those of a published rule.
    """

    def __init__(
        self,
        public: NDArray[Any],
        representation: Representation,
        rounds: Sequence[Round],
        neighbors: int,
        names: Iterable[Any],
        request: str,
        propagate: Callable[[Labeling], Labeling] | None = None,
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
            raise InvalidInput("a run needs at least one round, and several only with a student between them")
        self._public = public
        self._representation = representation
        self._rounds = tuple(rounds)
        self._neighbors = neighbors
        self._names = tuple(map(str, names))
        self._request = request
        self._propagate = propagate
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
        """Label the public samples by the answer, and prepare the next round."""
        if len(answers) != 1:
            raise InvalidInput(
                f"labeling expects one answer, of a curator or of all one-record holders; got {len(answers)}"
            )
        labeling = answers[0].map(lambda answer: self._label(state, answer))
        labelings = (*state.answers, labeling)
        if len(labelings) == len(self._rounds):
            return VoteState(state.representation, state.encoded, state.clusters, state.guesses, labelings)
        # The student is computed from all rounds so far, whose receipts stay with their answers.
        assert self._revise is not None
        revision = self._revise(labeling.value)
        encoded = revision.representation.encode(self._public)
        coming = self._rounds[len(labelings)]
        clusters = SELECTIONS[coming.selection](encoded, revision.probabilities, coming.queries)
        return VoteState(revision.representation, encoded, clusters, revision.probabilities, labelings)

    def result(self, state: VoteState) -> Release[Labeling]:
        """The labels after the last round, with calibrated probabilities if counts were released."""
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
            # Samples outside of all queries are those of which the student was certain: its predictions are used.
            labels[~asked] = state.guesses[~asked].argmax(axis=1)
            confidence[~asked] = lead(state.guesses[~asked])
        probabilities = None
        if query_probabilities is not None and asked.all():
            probabilities = query_probabilities[part.membership]
            if this.proportions and state.guesses is not None:
                # The answer gives the class proportions of a cluster; the student says which samples have which class.
                probabilities = iterative_proportional_fitting(query_probabilities, part.membership, state.guesses)
                labels, confidence = probabilities.argmax(axis=1).astype(np.int64), lead(probabilities)
        labeling = Labeling(state.clusters, query_labels, labels, confidence, probabilities)
        final = labeling if self._propagate is None else self._propagate(labeling)
        return replace(final, counts=np.asarray(answer)) if isinstance(this.reader, CountReader) else final
