"""A student's own view of samples. The student is a release, so voting in its feature space costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats

BATCH = 1024

__all__ = ["FeatureStudent", "StudentFeatures", "StudentOdds"]


class FeatureStudent(Protocol):
    """A trained student that shows what its last layer sees."""

    @property
    def digest(self) -> str:
        """A name for the trained student: equal weights give equal names."""
        ...

    def features(self, X: NDArray[Any]) -> Floats:
        """One row a sample, not depending on other rows."""
        ...


@dataclass(frozen=True)
class StudentFeatures:
    """What a trained student's last layer sees, each row scaled to length 1.

    The last layer decides by angle, and a length is mostly how much ink there is; so angles are compared. A sample so
    wild that the student's arithmetic overflows is seen as nothing: one record must not stop a run.

    >>> class Doubling:
    ...     digest = "doubling"
    ...     def features(self, X):
    ...         return 2 * X
    >>> StudentFeatures(Doubling()).encode(np.array([[3.0, 4.0]])).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    student: FeatureStudent

    def __post_init__(self) -> None:
        if not hasattr(self.student, "features"):
            raise InvalidInput(f"{type(self.student).__name__} shows no features: vote in another representation")

    @property
    def digest(self) -> str:
        """The student's."""
        return self.student.digest

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        with np.errstate(over="ignore", invalid="ignore"):
            seen = np.ascontiguousarray(self.student.features(_within_reach(samples)), dtype=np.float64)
        seen = np.where(np.isfinite(seen).all(axis=1, keepdims=True), seen, 0.0)
        length = np.sqrt((seen * seen).sum(axis=1, keepdims=True))
        scaled: Floats = (seen / np.where(length > 0, length, 1.0)).astype(np.float32)
        return scaled


@dataclass(frozen=True)
class StudentOdds:
    """How likely a student finds each class, as square roots: a view that every classifier with probabilities has.

    On roots the distance between two opinions is the Hellinger distance, which neither ignores what is unlikely nor
    is ruled by it. Classes that the student has never seen have probability 0, and so have all classes for a sample
    so wild that the student's arithmetic overflows: one record must not stop a run. Samples go through the student
    in batches of one size and no other, so that a sample's view is computed the same way in any company.

    >>> from sklearn.dummy import DummyClassifier
    >>> student = DummyClassifier(strategy="prior").fit([[0], [1]], ["a", "c"])
    >>> StudentOdds(student, ("a", "b", "c")).encode(np.zeros((1, 1))).round(3).tolist()
    [[0.7070000171661377, 0.0, 0.7070000171661377]]
    """

    student: Any
    names: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not hasattr(self.student, "predict_proba"):
            raise InvalidInput(
                f"{type(self.student).__name__} gives no probabilities, so no student can guide a second iteration"
            )

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row a sample: the root of every class's probability."""
        known = {name: column for column, name in enumerate(self.student.classes_.tolist())}
        rows = _within_reach(samples.reshape(len(samples), -1))
        result = np.zeros((len(rows), len(self.names)), dtype=np.float32)
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            batch = np.zeros((BATCH, rows.shape[1]), dtype=rows.dtype)
            batch[: len(part)] = part
            with np.errstate(over="ignore", invalid="ignore"):
                chances = self.student.predict_proba(batch)[: len(part)]
            chances = np.where(np.isfinite(chances).all(axis=1, keepdims=True), chances, 0.0)
            for column, name in enumerate(self.names):
                if name in known:
                    result[start : start + BATCH, column] = np.sqrt(chances[:, known[name]])
        return result


def _within_reach(samples: NDArray[Any]) -> NDArray[Any]:
    """Samples in the range of float32, which students may compute in."""
    if samples.dtype.kind != "f":
        return samples
    if not np.isfinite(samples).all():
        raise InvalidInput("a sample has a value that is not a finite number")
    limit = np.finfo(np.float32).max
    return np.clip(samples, -limit, limit) if samples.dtype.itemsize > 4 else samples
