"""Any scikit-learn classifier as a model that goes on learning: it is fitted again on all that it should know.

A scikit-learn model cannot take a few more steps. So digesting a consensus replaces the consensus that it keeps,
revisiting replaces its own records, and the next prediction is by a model fitted on both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Floats, Integers
from tacit.students.weighted import fit_hard, fit_soft
from tacit.students.wrapped import without_names

__all__ = ["Refitted", "by_itself"]

# The logarithm of 0 is no logit; a forest says 0 whenever none of its trees disagrees.
LEAST = 1e-4


class Refitted:
    """A classifier, its own labeled samples, and public samples with the consensus on them.

    >>> from tacit.students.weighted import logistic
    >>> model = Refitted(logistic(), classes=2)
    >>> model.learn(np.array([[0.0], [1.0]]), np.array([0, 1]), epochs=1)
    >>> model.digest(np.array([[5.0], [6.0]]), np.array([[1.0, 0.0], [1.0, 0.0]], dtype=np.float32), False, epochs=1)
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
        """The classifier as it stands, for rows of features."""
        return self._current()

    def pretrain(self, samples: NDArray[Any], labels: Integers, classes: int, epochs: int) -> None:
        """Know labeled public samples until the first consensus comes; of other classes they are no use here."""
        if classes == self._classes:
            self._public = (_rows(samples), np.eye(classes)[labels])
            self._fitted = None

    def learn(self, samples: NDArray[Any], labels: Integers, epochs: int) -> None:
        """Know these samples as its own."""
        self._own = (_rows(samples), np.eye(self._classes)[labels])
        self._fitted = None

    def digest(self, samples: NDArray[Any], targets: Floats, logits: bool, epochs: int) -> None:
        """Know this consensus, and none before it."""
        chances = targets.astype(np.float64)
        if logits:
            chances = np.exp(chances - chances.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
        self._public = (_rows(samples), chances)
        self._fitted = None

    def logits(self, samples: NDArray[Any]) -> Floats:
        """Logarithms of the probabilities."""
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


def by_itself(student: Any) -> Any:  # noqa: ANN401
    """The classifier alone: without names of columns, and of a model that goes on learning as it stands now.

    >>> from tacit.students.weighted import logistic
    >>> model = Refitted(logistic(), classes=2)
    >>> model.learn(np.array([[0.0], [1.0]]), np.array([0, 1]), epochs=1)
    >>> type(by_itself(model)).__name__
    'Pipeline'
    """
    student = without_names(student)
    return student.fitted if isinstance(student, Refitted) else student


def _rows(samples: NDArray[Any]) -> NDArray[Any]:
    return samples.reshape(len(samples), -1)
