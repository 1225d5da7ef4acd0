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
from tacit.methods.rknn.spreading import keep_surest, lead, propagate
from tacit.representations.chained import Chained
from tacit.representations.interpolated import Interpolated
from tacit.representations.spectral import neighbor_graph, spectral_map
from tacit.representations.student_features import StudentFeatures, StudentOdds
from tacit.students.weighted import fit_hard, fit_soft

__all__ = ["SPREADS", "VIEWS", "Teacher", "spreading"]

SPREADS = ("clusters", "graph")
VIEWS = ("student", "student map", "same")


@dataclass(frozen=True)
class Teacher:
    """Trains a student on labeled public samples, and shows samples as it sees them.

    ``keep`` is the share of every label's surest samples that are taught; the others abstain. ``view`` says where the
    next votes are cast: in the student's features, on a map of them, or where the last ones were.
    """

    pupil: Any
    public: NDArray[Any]
    names: NDArray[Any]
    first: Representation
    soft: bool
    keep: float
    view: str

    def __post_init__(self) -> None:
        if self.view not in VIEWS:
            raise InvalidInput(f"view must be one of {', '.join(VIEWS)}, got {self.view!r}")
        if not isinstance(self.keep, numbers.Real) or not 0 < self.keep <= 1:
            raise InvalidInput(f"keep must be above 0 and at most 1, got {self.keep!r}")

    def train(self, labeling: Labeling) -> Any:  # noqa: ANN401
        """The trained student, or one that always says the commonest label: a paid run is not lost to its student."""
        from sklearn.dummy import DummyClassifier

        rows = self.public.reshape(len(self.public), -1)
        labels = self.names[labeling.labels]
        try:
            sure = keep_surest(labeling.confidence, labeling.labels, self.keep) > 0
            if self.soft and labeling.probabilities is not None:
                # Odds say themselves how sure they are, so where all are taught none abstains.
                taught = sure if self.keep < 1 else slice(None)
                trained = fit_soft(self.pupil, rows[taught], self.names, labeling.probabilities[taught])
            else:
                # Which samples abstain is decided; what the others weigh is their confidence only where all are taught.
                weights = labeling.confidence if self.keep == 1 else sure.astype(np.float64)
                trained = fit_hard(self.pupil, rows, labels, weights)
        except Exception as error:
            warnings.warn(
                f"{type(self.pupil).__name__} could not be trained ({type(error).__name__}: {error}). The labels are "
                "kept; the student always says the commonest of them",
                TacitWarning,
                stacklevel=4,
            )
            return DummyClassifier(strategy="most_frequent").fit(rows, labels)
        if isinstance(trained, DummyClassifier) and not isinstance(self.pupil, DummyClassifier):
            warnings.warn(
                f"all labels came out the same ({labels[0]}), so there was nothing to learn: the student always says "
                "it",
                TacitWarning,
                stacklevel=4,
            )
        return trained

    def revise(self, labeling: Labeling) -> Revision:
        """What a student that learned from the labels so far adds to the next round."""
        with warnings.catch_warnings():
            # What this student could not learn is no fault yet: the last one is the user's, and says so itself.
            warnings.simplefilter("ignore", TacitWarning)
            trained = self.train(labeling)
        odds = StudentOdds(trained, tuple(self.names.tolist()))
        guesses = np.square(odds.encode(self.public)).astype(np.float64)
        guesses /= guesses.sum(axis=1, keepdims=True)
        if self.view == "same" or len(np.unique(labeling.labels)) < 2:
            return Revision(self.first, guesses)
        seen: Representation = odds
        if hasattr(trained, "features"):
            seen = StudentFeatures(trained)
            if not seen.encode(self.public).any():
                raise InvalidInput("the student's features are not finite numbers: it did not learn")
        if self.view == "student map":
            seen = Chained.fit(self.public, lambda _: seen, spectral_map)
        return Revision(seen, guesses)


def spreading(name: str, public: NDArray[Any], representation: Representation) -> Callable[[Labeling], Labeling] | None:
    """How labels of queries become labels of samples: of those in their cluster, or on over the neighbour graph."""
    if name not in SPREADS:
        raise InvalidInput(f"spread must be one of {', '.join(SPREADS)}, got {name!r}")
    if name == "clusters":
        return None
    graph = neighbor_graph(ground(public, representation))

    def listen(labeling: Labeling) -> Labeling:
        classes = int(labeling.labels.max()) + 1
        if classes == 1:
            return labeling
        heard = propagate(graph, np.eye(classes)[labeling.labels] * labeling.confidence[:, None])
        return replace(labeling, labels=heard.argmax(axis=1).astype(np.int64), confidence=lead(heard))

    return listen


def ground(public: NDArray[Any], representation: Representation) -> NDArray[Any]:
    """The features that a map was drawn from: the graph belongs on them, on the map distances were given up."""
    if isinstance(representation, Interpolated):
        return public.reshape(len(public), -1)
    if isinstance(representation, Chained) and isinstance(representation.parts[-1], Interpolated):
        before = representation.parts[:-1]
        return Chained(before).encode(public) if before else public.reshape(len(public), -1)
    return representation.encode(public)
