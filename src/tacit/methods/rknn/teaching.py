"""What happens between answers and after them: labels spread, a student learns, and its view becomes the next space.

All of it is made of public samples and releases, so it costs nothing.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, TacitWarning
from tacit.core.protocols import Representation
from tacit.methods.rknn.coordinator import Labeling, Revision
from tacit.methods.rknn.propagation import keep_surest, lead, propagate
from tacit.methods.student import taught
from tacit.representations.chained import Chained
from tacit.representations.maps import neighbor_graph, spectral_map
from tacit.representations.registry import ground
from tacit.representations.student_features import StudentFeatures, StudentOdds

__all__ = ["PROPAGATIONS", "VOTE_SPACES", "Teacher", "propagation_by"]

PROPAGATIONS = ("clusters", "graph")
VOTE_SPACES = ("student", "student map", "same")


@dataclass(frozen=True)
class Teacher:
    """Trains a student on labeled public samples, and shows samples as it sees them.

    ``label_fraction`` is the fraction of every label's surest samples that are taught; the others abstain.
    ``vote_space`` says where the next votes are cast: in the student's features, on a map of them, or where the last
    ones were.
    """

    untrained: Any
    public: NDArray[Any]
    names: NDArray[Any]
    first: Representation
    soft: bool
    label_fraction: float
    vote_space: str

    def __post_init__(self) -> None:
        if self.vote_space not in VOTE_SPACES:
            raise InvalidInput(f"vote_space must be one of {', '.join(VOTE_SPACES)}, got {self.vote_space!r}")
        if not isinstance(self.label_fraction, numbers.Real) or not 0 < self.label_fraction <= 1:
            raise InvalidInput(f"label_fraction must be above 0 and at most 1, got {self.label_fraction!r}")

    def train(self, labeling: Labeling) -> Any:  # noqa: ANN401
        """The trained student, or one that always says the commonest label: a paid run is not lost to its student."""
        rows = self.public.reshape(len(self.public), -1)
        labels = self.names[labeling.labels]
        sure = keep_surest(labeling.confidence, labeling.labels, self.label_fraction) > 0
        if self.soft and labeling.probabilities is not None:
            # Odds say themselves how sure they are, so where all are taught none abstains.
            shown = sure if self.label_fraction < 1 else slice(None)
            soft = (self.names, labeling.probabilities[shown])
            return taught(self.untrained, rows[shown], labels[shown], np.ones(0), soft)
        # Which samples abstain is decided; what the others weigh is their confidence only where all are taught.
        weights = labeling.confidence if self.label_fraction == 1 else sure.astype(np.float64)
        return taught(self.untrained, rows, labels, weights)

    def revise(self, labeling: Labeling) -> Revision:
        """What a student that learned from the labels so far adds to the next round."""
        from sklearn.dummy import DummyClassifier

        with warnings.catch_warnings():
            # What this student could not learn is no fault yet: the last one is the user's, and says so itself.
            warnings.simplefilter("ignore", TacitWarning)
            trained = self.train(labeling)
        odds = StudentOdds(trained, tuple(self.names.tolist()))
        guesses = np.square(odds.encode(self.public)).astype(np.float64)
        guesses /= guesses.sum(axis=1, keepdims=True)
        if self.vote_space == "same" or isinstance(trained, DummyClassifier):
            return Revision(self.first, guesses)
        seen: Representation = odds
        if hasattr(trained, "features"):
            seen = StudentFeatures(trained)
            if not seen.encode(self.public).any():
                raise InvalidInput("the student's features are not finite numbers: it did not learn")
        if self.vote_space == "student map":
            seen = Chained.fit(self.public, lambda _: seen, spectral_map)
        return Revision(seen, guesses)


def propagation_by(
    name: str, public: NDArray[Any], representation: Representation
) -> Callable[[Labeling], Labeling] | None:
    """How labels of queries become labels of samples: of those in their cluster, or on over the neighbor graph."""
    if name not in PROPAGATIONS:
        raise InvalidInput(f"propagation must be one of {', '.join(PROPAGATIONS)}, got {name!r}")
    if name == "clusters":
        return None
    graph = neighbor_graph(ground(representation, public))

    def listen(labeling: Labeling) -> Labeling:
        classes = int(labeling.labels.max()) + 1
        if classes == 1:
            return labeling
        heard = propagate(graph, np.eye(classes)[labeling.labels] * labeling.confidence[:, None])
        return replace(labeling, labels=heard.argmax(axis=1).astype(np.int64), confidence=lead(heard))

    return listen
