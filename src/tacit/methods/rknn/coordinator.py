"""The side that sees releases only: choose queries, ask, and turn answers into labels for the public samples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers, Mechanism, Representation
from tacit.core.release import Release, gather
from tacit.methods.rknn.queries import Clusters, cluster, margins
from tacit.methods.rknn.reading import Reader
from tacit.methods.rknn.wire import VoteAsk

__all__ = ["Labeling", "VoteCoordinator", "VoteState"]


@dataclass(frozen=True)
class VoteState:
    """All that a run remembers between questions."""

    clusters: Clusters
    space: str
    answer: Release[Any] | None = None


@dataclass(frozen=True)
class Labeling:
    """What the public samples are labeled with, and how it came about.

    ``probabilities`` are there only where counts were paid for; labels alone carry no confidence.
    """

    clusters: Clusters
    query_labels: Integers  # (s,)
    query_probabilities: NDArray[np.float64] | None  # (s, classes)
    margins: NDArray[np.float64]  # (public samples,), how far each is from getting another label

    @property
    def labels(self) -> Integers:
        """The class index of every public sample: that of its query."""
        return self.query_labels[self.clusters.membership]

    @property
    def probabilities(self) -> NDArray[np.float64] | None:
        """The class probabilities of every public sample, if counts were released."""
        return None if self.query_probabilities is None else self.query_probabilities[self.clusters.membership]


class VoteCoordinator:
    """Asks once: the centres of clusters of the public samples.

    ``reader`` says what the mechanism's answers mean: labels, noisy counts, or messages.
    """

    def __init__(
        self,
        public: NDArray[Any],
        representation: Representation,
        queries: int,
        neighbors: int,
        names: Iterable[Any],
        mechanism: Mechanism[Any, Any],
        reader: Reader,
        request: str,
        purpose: str = "reverse k-NN labels",
        seed: int = 0,
    ) -> None:
        if neighbors > queries:
            raise InvalidInput(f"neighbors must be at most the {queries} queries, got {neighbors}")
        self._public = public
        self._representation = representation
        self._queries = queries
        self._neighbors = neighbors
        self._names = tuple(map(str, names))
        self._mechanism = mechanism
        self._reader = reader
        self._request = request
        self._purpose = purpose
        self._seed = seed

    def begin(self) -> VoteState:
        """Cluster the public samples."""
        encoded = self._representation.encode(self._public)
        space = hashlib.sha256(encoded.tobytes()).hexdigest()
        return VoteState(cluster(encoded, self._queries, self._seed), space)

    def ask(self, state: VoteState) -> VoteAsk | None:
        """The one question, until it is answered."""
        if state.answer is not None:
            return None
        return VoteAsk(
            queries=state.clusters.centres,
            representation=self._representation,
            neighbors=self._neighbors,
            names=self._names,
            space=state.space,
            mechanism=self._mechanism,
            purpose=self._purpose,
            request=self._request,
        )

    def fold(self, state: VoteState, answers: Sequence[Release[Any]]) -> VoteState:
        """Keep the answer, of the curator or of the whole crowd."""
        if len(answers) != 1:
            raise InvalidInput(f"labeling takes one answer, the curator's or the crowd's; got {len(answers)}")
        return replace(state, answer=gather(answers).map(lambda values: values[0]))

    def result(self, state: VoteState) -> Release[Labeling]:
        """Labels, with calibrated probabilities where counts were paid for."""
        if state.answer is None:
            raise InvalidInput("the run has no answer yet")
        return state.answer.map(lambda answer: self._label(state.clusters, answer))

    def _label(self, clusters: Clusters, answer: Any) -> Labeling:  # noqa: ANN401
        labels, probabilities = self._reader(answer)
        encoded = self._representation.encode(self._public)
        return Labeling(clusters, labels, probabilities, margins(encoded, clusters, labels))
