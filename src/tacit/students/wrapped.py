"""Wrappers of scikit-learn models: flattened images, a projection, column names, an encoder, continued training.

A scikit-learn model cannot be trained for a few more steps. So ``Refitted`` stores its own records and the last
consensus, and is fitted again on both before the next prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from tacit.core import Floats, Integers
from tacit.core.samples import in_order
from tacit.students.weighted import BinaryRelevance, fit_hard, fit_soft

__all__ = [
    "EncodedStudent",
    "Flatten",
    "NamedStudent",
    "Projected",
    "Refitted",
    "for_images",
    "for_rows",
    "takes_images",
    "with_encoder",
    "with_names",
    "without_names",
]

# Methods of students whose first argument is samples.
TAKE_SAMPLES = (
    "predict_proba", "predict_log_proba", "decision_function", "features", "logits", "learn", "fit_consensus",
    "pretrain",
)  # fmt: skip
# Probabilities are at least this before the logarithm; a forest often returns 0.
LEAST = 1e-4


class Flatten(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One row of features per sample, whatever shape a sample has; without state.

    >>> Flatten().transform(np.zeros((2, 8, 8))).shape
    (2, 64)
    """

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Flatten:
        """Nothing is learned."""
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """The samples, each as one row."""
        samples = np.asarray(X)
        return samples.reshape(len(samples), -1)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def for_images(student: Any) -> Any:  # noqa: ANN401
    """The trained student behind a step that flattens images; students that take images are unchanged.

    >>> from tacit.students.weighted import logistic
    >>> rows = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> for_images(logistic().fit(rows, ["no", "yes"])).predict(rows.reshape(2, 2, 1)).tolist()
    ['no', 'yes']
    """
    from sklearn.pipeline import Pipeline

    if hasattr(student, "save_tensors") or isinstance(student, BinaryRelevance):
        return student
    return Pipeline([("flatten", Flatten()), ("student", student)])


def for_rows(student: Any) -> Any:  # noqa: ANN401
    """The student of ``for_images`` for rows that are flat already.

    >>> from tacit.students.weighted import logistic
    >>> student = logistic()
    >>> for_rows(for_images(student)) is student, for_rows(student) is student
    (True, True)
    """
    *before, last = [step for _, step in getattr(student, "steps", [("", student)])]
    return last if before and all(isinstance(each, Flatten) for each in before) else student


def takes_images(student: Any) -> bool:  # noqa: ANN401
    """Whether a trained student takes images: it flattens them, or it is a network.

    >>> from tacit.students.weighted import logistic
    >>> takes_images(logistic()), takes_images(for_images(logistic()))
    (False, True)
    """
    own = without_names(student)
    return for_rows(own) is not own or hasattr(own, "save_tensors")


class Projected(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The projection of rows minus ``center`` on ``directions`` (d, features), fitted once on public samples.

    >>> Projected(np.array([1.0, 1.0]), np.array([[0.0, 1.0]])).transform([[5.0, 3.0]]).tolist()
    [[2.0]]
    """

    def __init__(self, center: NDArray[Any], directions: NDArray[Any]) -> None:
        self.center = center
        self.directions = directions

    @classmethod
    def components(cls, public: NDArray[Any], most: int) -> Projected:
        """The first principal components of public samples, at most ``most``.

        >>> Projected.components(np.arange(12.0).reshape(4, 3), 2).directions.shape
        (2, 3)
        """
        from sklearn.decomposition import PCA

        rows = public.reshape(len(public), -1)
        found = PCA(min(most, *rows.shape), random_state=0).fit(rows)
        return cls(found.mean_, found.components_)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Projected:
        """Nothing is learned."""
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """The projected rows."""
        projected: NDArray[Any] = (np.asarray(X) - self.center) @ np.asarray(self.directions).T
        return projected

    def __sklearn_is_fitted__(self) -> bool:
        return True


class NamedStudent(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A trained student with the names of its columns: it reorders a table's columns, and refuses other columns.

    Samples without names are used as they are. ``feature_names_in_`` is scikit-learn's attribute for the names.

    >>> from tacit.core.samples import Named
    >>> from tacit.students.weighted import logistic
    >>> student = NamedStudent(logistic().fit([[0.0, 9.0], [1.0, 9.0]], ["no", "yes"]), ("dose", "age"))
    >>> student.predict(Named(np.array([[9.0, 1.0]]), ("age", "dose"))).tolist()
    ['yes']
    >>> student.predict(Named(np.array([[9.0, 1.0]]), ("age", "weight")))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: samples: the columns are not those of the samples that it learned from: ...
    """

    def __init__(self, student: Any, names: Sequence[str]) -> None:  # noqa: ANN401
        self.student = student
        self.names = names

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, in the order of training."""
        return np.array(list(self.names), dtype=object)

    @property
    def n_features_in_(self) -> int:
        """The number of columns."""
        return len(self.names)

    def fit(self, X: ArrayLike, y: ArrayLike, **more: Any) -> NamedStudent:  # noqa: ANN401
        """Train the student again, on a table with the same columns."""
        self.student.fit(self._ordered(X), y, **more)
        return self

    def predict(self, X: ArrayLike) -> Any:  # noqa: ANN401
        """The student's prediction for every sample."""
        return self.student.predict(self._ordered(X))

    def _ordered(self, samples: Any) -> Any:  # noqa: ANN401
        found = in_order(samples, self.names, "samples", "the samples that it learned from")
        return samples if found is samples else np.asarray(found)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__") or name in ("student", "names", "encoder"):
            raise AttributeError(name)
        found = getattr(self.student, name)
        if name not in TAKE_SAMPLES:
            return found
        return lambda samples, *rest, **more: found(self._ordered(samples), *rest, **more)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class EncodedStudent(NamedStudent):
    """A trained student with the encoder of its samples: it takes raw tables, texts or images.

    >>> from tacit.students.weighted import logistic
    >>> class Lengths:
    ...     names = None
    ...     def encode(self, samples):
    ...         return np.array([[float(len(each))] for each in samples])
    >>> EncodedStudent(logistic().fit([[1.0], [9.0]], ["short", "long"]), Lengths()).predict(["a", "a long text"])
    array(['short', 'long'], dtype='<U5')
    """

    def __init__(self, student: Any, encoder: Any) -> None:  # noqa: ANN401
        self.student = student
        self.encoder = encoder

    @property
    def names(self) -> Sequence[str]:  # type: ignore[override]
        """The names of the columns, if there are any."""
        return self.encoder.names or ()

    def _ordered(self, samples: Any) -> Any:  # noqa: ANN401
        return self.encoder.encode(samples)


def with_encoder(student: Any, encoder: Any) -> Any:  # noqa: ANN401
    """The student with the encoder of its samples, if there is one.

    >>> with_encoder("a student", None)
    'a student'
    """
    return student if encoder is None else EncodedStudent(without_names(student), encoder)


def with_names(student: Any, names: Sequence[str] | None) -> Any:  # noqa: ANN401
    """The student with the names of its columns, if there are any.

    >>> with_names("a student", None)
    'a student'
    """
    return student if names is None else NamedStudent(student, tuple(names))


def without_names(student: Any) -> Any:  # noqa: ANN401
    """The student without names and encoder.

    >>> without_names(with_names("a student", ["age"]))
    'a student'
    """
    return student.student if isinstance(student, NamedStudent) else student


class Refitted:
    """A classifier that is fitted again on its own labeled samples and on public samples with their consensus.

    >>> from tacit.students.weighted import logistic
    >>> model = Refitted(logistic(), classes=2)
    >>> model.learn(np.array([[0.0], [1.0]]), np.array([0, 1]), epochs=1)
    >>> model.fit_consensus(np.array([[5.0], [6.0]]), np.array([[1, 0], [1, 0]], dtype=np.float32), False, epochs=1)
    >>> model.predict(np.array([[6.0]])).tolist()
    [0]
    """

    def __init__(self, estimator: Any, classes: int) -> None:  # noqa: ANN401
        self._estimator = estimator
        self._classes = classes
        self._own: tuple[NDArray[Any], NDArray[np.float64]] | None = None
        self._public: tuple[NDArray[Any], NDArray[np.float64]] | None = None
        self._fitted: Any = None

    @property
    def gives_scores(self) -> bool:
        """Whether the classifier has ``predict_proba``."""
        return hasattr(self._estimator, "predict_proba")

    @property
    def fitted(self) -> Any:  # noqa: ANN401
        """The fitted classifier, for rows of features."""
        return self._current()

    def pretrain(self, samples: NDArray[Any], labels: Integers, classes: int, epochs: int) -> None:
        """Store labeled public samples until the first consensus; samples with other classes are ignored."""
        if classes == self._classes:
            self._public = (_rows(samples), np.eye(classes)[labels])
            self._fitted = None

    def learn(self, samples: NDArray[Any], labels: Integers, epochs: int) -> None:
        """Store these samples as its own."""
        self._own = (_rows(samples), np.eye(self._classes)[labels])
        self._fitted = None

    def fit_consensus(self, samples: NDArray[Any], targets: Floats, logits: bool, epochs: int) -> None:
        """Store this consensus in place of the last one."""
        chances = targets.astype(np.float64)
        if logits:
            chances = np.exp(chances - chances.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
        self._public = (_rows(samples), chances)
        self._fitted = None

    def logits(self, samples: NDArray[Any]) -> Floats:
        """The logarithms of the probabilities."""
        fitted = self._current()
        chances = np.full((len(samples), self._classes), 0.0)
        chances[:, fitted.classes_] = fitted.predict_proba(_rows(samples))
        logits: Floats = np.log(np.maximum(chances, LEAST)).astype(np.float32)
        return logits

    def predict(self, samples: NDArray[Any]) -> Integers:
        """One class index per sample."""
        predicted: Integers = np.asarray(self._current().predict(_rows(samples)), dtype=np.int64)
        return predicted

    def _current(self) -> Any:  # noqa: ANN401
        if self._fitted is None:
            known = [part for part in (self._own, self._public) if part is not None]
            samples = np.concatenate([part[0] for part in known])
            chances = np.concatenate([part[1] for part in known])
            if ((chances == 0) | (chances == 1)).all():
                self._fitted = fit_hard(self._estimator, samples, chances.argmax(axis=1), np.ones(len(samples)))
            else:
                self._fitted = fit_soft(self._estimator, samples, np.arange(self._classes), chances)
        return self._fitted


def _rows(samples: NDArray[Any]) -> NDArray[Any]:
    return samples.reshape(len(samples), -1)
