"""Features of a trained student. The student is a release, so voting in its feature space costs no privacy budget."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit.core import Floats, InvalidInput, Representation
from tacit.core.codec import StrictReader, bytes_to_array
from tacit.representations.arrays import REAL, read_finite_array
from tacit.representations.maps import Interpolated, spectral_map
from tacit.students.averaged import network_bytes, network_of
from tacit.students.registry import tensor_head
from tacit.students.weighted import logistic

__all__ = [
    "FeatureStudent",
    "LinearStudent",
    "NeighborMap",
    "StudentFeatures",
    "StudentOdds",
    "map_student",
    "require_sendable",
]

_BATCH = 1024
SENDABLE_STUDENTS = "choose the student logistic, map or a network, or vote_space same"
LARGEST_STUDENT = 64 * 2**20
# Inputs of a network; its first layer has some hundred weights for each of these.
WIDEST_STUDENT, _MOST_CLASSES = 2**18, 10_000


class FeatureStudent(Protocol):
    """A trained student that can return the input of its last layer."""

    @property
    def digest(self) -> str:
        """The digest of the trained weights."""
        ...

    def features(self, X: NDArray[Any]) -> Floats:
        """One row per sample, independent of other rows."""
        ...


@dataclass(frozen=True)
class StudentFeatures:
    """The input of a trained student's last layer, each row scaled to length 1.

    The last layer decides by angle, and the length is mostly the image's contrast; so angles are compared. A sample for
    which the student's arithmetic overflows gets zeros: one record must not stop a run.

    >>> class Doubling:
    ...     digest = "doubling"
    ...     def features(self, X):
    ...         return 2 * X
    >>> StudentFeatures(Doubling()).encode(np.array([[3.0, 4.0]])).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    name: ClassVar[str] = "student"

    student: FeatureStudent

    def __post_init__(self) -> None:
        if not hasattr(self.student, "features"):
            raise InvalidInput(f"{type(self.student).__name__} has no features: vote in another representation")

    def fields(self) -> dict[str, Any]:
        """The student as plain tensors; only networks with a registered name can be saved so."""
        try:
            return {"student": bytes_to_array(network_bytes(self.student))}
        except InvalidInput:
            raise InvalidInput(
                f"{type(self.student).__name__} cannot be sent to a holder: only networks known by name can"
            ) from None

    @classmethod
    def read(cls, fields: StrictReader) -> StudentFeatures:
        """Read a small network of this package, whose size is checked before it is built."""
        content = fields.content("student", LARGEST_STUDENT)
        if not _is_small(content):
            raise InvalidInput(f"the {fields.what}'s student must be a small network that was saved as tensors")
        try:
            return cls(network_of(content))
        except InvalidInput:
            raise InvalidInput(f"the {fields.what}'s student cannot be read, or not without an extra") from None

    @property
    def digest(self) -> str:
        """The digest of the student."""
        return self.student.digest

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.ascontiguousarray(self.student.features(_in_float32_range(samples)), dtype=np.float64)
        found = np.where(np.isfinite(found).all(axis=1, keepdims=True), found, 0.0)
        length = np.sqrt((found * found).sum(axis=1, keepdims=True))
        scaled: Floats = (found / np.where(length > 0, length, 1.0)).astype(np.float32)
        return scaled


@dataclass(frozen=True)
class StudentOdds:
    """The square roots of a student's class probabilities, for any classifier with ``predict_proba``.

    The Euclidean distance of square roots is the Hellinger distance (up to a factor), which neither ignores unlikely
    classes nor is dominated by them. Classes without training samples have probability 0, and so have all classes for
    a sample for which the student's arithmetic overflows: one record must not stop a run. Batches have a fixed size, so
    that a sample's features do not depend on the number of other samples.

    >>> from sklearn.dummy import DummyClassifier
    >>> student = DummyClassifier(strategy="prior").fit([[0], [1]], ["a", "c"])
    >>> StudentOdds(student, ("a", "b", "c")).encode(np.zeros((1, 1))).round(3).tolist()
    [[0.7070000171661377, 0.0, 0.7070000171661377]]
    """

    name: ClassVar[str] = "student-odds"

    student: Any
    names: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not hasattr(self.student, "predict_proba"):
            raise InvalidInput(
                f"{type(self.student).__name__} has no probabilities, so it cannot guide a second iteration"
            )

    @property
    def parts(self) -> tuple[Representation, ...]:
        """The same as a chain of representations: if the student begins with a map, the map and the rest."""
        from sklearn.pipeline import Pipeline

        if not isinstance(self.student, Pipeline) or not isinstance(self.student.steps[0][1], NeighborMap):
            return (self,)
        return self.student.steps[0][1].drawn, StudentOdds(Pipeline(self.student.steps[1:]), self.names)

    def fields(self) -> dict[str, Any]:
        """The student's weights; its classes as indices, as a holder knows them."""
        linear = LinearStudent.of(self.student)
        places = {name: place for place, name in enumerate(self.names)}
        return {
            "weights": linear.weights,
            "offsets": linear.offsets,
            "places": [places[name] for name in linear.classes_.tolist()],
            "classes": len(places),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> StudentOdds:
        """Read the weights, as a linear student."""
        weights = read_finite_array(fields, "weights", REAL, (None, None))
        classes = fields.integer("classes", 2, _MOST_CLASSES)
        places = fields.integers("places", _MOST_CLASSES, 0, classes - 1)
        if len(places) != len(weights) or len(set(places)) != len(places):
            raise InvalidInput(f"the {fields.what}'s places must be one for each row of its weights, and differ")
        linear = LinearStudent(weights, read_finite_array(fields, "offsets", REAL, (len(weights),)), np.array(places))
        return cls(linear, tuple(range(classes)))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row per sample: the root of every class's probability."""
        known = {name: column for column, name in enumerate(self.student.classes_.tolist())}
        rows = _in_float32_range(samples.reshape(len(samples), -1))
        result = np.zeros((len(rows), len(self.names)), dtype=np.float32)
        for start in range(0, len(rows), _BATCH):
            part = rows[start : start + _BATCH]
            batch = np.zeros((_BATCH, rows.shape[1]), dtype=rows.dtype)
            batch[: len(part)] = part
            with np.errstate(over="ignore", invalid="ignore"):
                chances = self.student.predict_proba(batch)[: len(part)]
            chances = np.where(np.isfinite(chances).all(axis=1, keepdims=True), chances, 0.0)
            for column, name in enumerate(self.names):
                if name in known:
                    result[start : start + _BATCH, column] = np.sqrt(chances[:, known[name]])
        return result


def require_sendable(student: Any) -> None:  # noqa: ANN401
    """Refuse a student whose features cannot be sent to holders, before anything is paid.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> require_sendable(RandomForestClassifier())
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: later votes at nodes cannot be cast in the feature space of a \
RandomForestClassifier: choose the student logistic, map or a network, or vote_space same
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    if hasattr(student, "features"):
        return
    steps = [each for _, each in student.steps] if isinstance(student, Pipeline) else [student]
    if [type(each) for each in steps if type(each) not in (NeighborMap, StandardScaler)] != [LogisticRegression]:
        name = type(steps[-1]).__name__
        raise InvalidInput(f"later votes at nodes cannot be cast in the feature space of a {name}: {SENDABLE_STUDENTS}")


@dataclass(frozen=True, eq=False)
class LinearStudent:
    """A logistic regression that can be sent: a row of weights and an offset per class.

    >>> student = LinearStudent(np.array([[0.0], [1.0]]), np.zeros(2), np.array(["a", "b"]))
    >>> student.predict_proba(np.zeros((1, 1))).tolist()
    [[0.5, 0.5]]
    """

    weights: NDArray[np.float64]  # (classes, features)
    offsets: NDArray[np.float64]  # (classes,)
    classes_: NDArray[Any]

    @classmethod
    def of(cls, student: Any) -> LinearStudent:  # noqa: ANN401
        """The weights of a trained logistic regression, on standardized or unscaled features."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import StandardScaler

        if isinstance(student, cls):
            return student
        steps = [each for _, each in student.steps] if isinstance(student, Pipeline) else [student]
        kinds = [type(each) for each in steps]
        if kinds not in ([LogisticRegression], [StandardScaler, LogisticRegression]):
            raise InvalidInput(
                f"StudentOdds cannot be sent to a holder with a {type(steps[-1]).__name__}: {SENDABLE_STUDENTS}"
            )
        weights, offsets = steps[-1].coef_, steps[-1].intercept_
        if len(weights) == 1:
            # With two classes the first has score 0.
            weights, offsets = np.vstack([0 * weights, weights]), np.concatenate([[0.0], offsets])
        if len(steps) == 2:
            weights = weights / steps[0].scale_
            offsets = offsets - weights @ steps[0].mean_
        return cls(np.ascontiguousarray(weights, np.float64), np.asarray(offsets, np.float64), steps[-1].classes_)

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """The probability of each class, one row per sample."""
        # A hostile coordinator can choose weights for which the score is all rounding error. einsum sums each row
        # separately, always in the same order, independent of the other rows.
        scores = np.einsum("nf,cf->nc", X.astype(np.float64), self.weights) + self.offsets
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
        return found


def _in_float32_range(samples: NDArray[Any]) -> NDArray[Any]:
    """Samples clipped to the range of float32, in which students may compute."""
    if samples.dtype.kind != "f":
        return samples
    if not np.isfinite(samples).all():
        raise InvalidInput("a sample has a value that is not a finite number")
    limit = np.finfo(np.float32).max
    return np.clip(samples, -limit, limit) if samples.dtype.itemsize > 4 else samples


def _is_small(content: bytes) -> bool:
    """Whether the header of saved tensors describes a small network; nothing is built for this."""
    try:
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        words = tensor_head(head["__metadata__"])["words"]
        shape, classes = words["shape"], words["classes"]
        sizes = [math.prod(tensor["shape"]) for name, tensor in head.items() if name != "__metadata__"]
        return (
            all(type(side) is int and side > 0 for side in shape)
            and math.prod(shape) <= WIDEST_STUDENT
            and 2 <= len(classes) <= _MOST_CLASSES
            and len(shape) in (1, 3)
            and sum(sizes) * 2 <= len(content)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return False


class NeighborMap(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A step before a scikit-learn student: a spectral map of the training samples, extended to every other sample.

    The student learns the labels of places on the map, so unlabeled samples between labeled ones help, too: few
    private labels are enough.

    >>> rows = np.random.default_rng(0).normal(size=(60, 5))
    >>> NeighborMap(components=4).fit(rows).transform(rows[:3]).shape
    (3, 4)
    """

    def __init__(self, components: int = 20, neighbors: int = 10) -> None:
        self.components = components
        self.neighbors = neighbors

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> NeighborMap:
        """Make the map of these samples; duplicates, from soft labels, count once."""
        rows = np.unique(np.asarray(X, dtype=np.float32), axis=0)
        if len(rows) <= self.neighbors + 1:
            raise InvalidInput(
                f"a map needs more than {self.neighbors + 1} different samples, got {len(rows)}: choose another student"
            )
        drawn = spectral_map(rows, min(self.components, len(rows) - 2), self.neighbors)
        self.anchors_, self.places_, self.reach_ = drawn.anchors, drawn.places, drawn.neighbors
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """The places of the samples on the map, each computed separately."""
        rows: NDArray[Any] = np.asarray(X)
        return self.drawn.encode(rows)

    @property
    def drawn(self) -> Interpolated:
        """The fitted map, as a representation."""
        return Interpolated(np.asarray(self.anchors_), np.asarray(self.places_), int(self.reach_))


def map_student() -> Any:  # noqa: ANN401
    """Logistic regression on a spectral map of the training samples.

    >>> [name for name, _ in map_student().steps]
    ['map', 'standardscaler', 'logisticregression']
    """
    from sklearn.pipeline import Pipeline

    return Pipeline([("map", NeighborMap()), *logistic().steps])
