"""Training any scikit-learn classifier on hard or soft labels, weighted by their certainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput
from tacit.core.options import option

__all__ = [
    "ESTIMATORS",
    "THRESHOLDS",
    "BinaryRelevance",
    "fit_by_label",
    "fit_hard",
    "fit_soft",
    "forest",
    "label_thresholds",
    "logistic",
    "takes_weights",
    "thresholds_option",
]


def logistic() -> Any:  # noqa: ANN401
    """The default student: logistic regression on standardized features.

    >>> logistic().fit([[0.0], [1.0]], ["no", "yes"]).predict([[2.0]]).tolist()
    ['yes']
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000))


def forest() -> Any:  # noqa: ANN401
    """A random forest: for tables, and for classes that are not linearly separable.

    >>> forest().get_params()["n_estimators"]
    200
    """
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=200, min_samples_leaf=2, random_state=0)


# The estimators that a setting may name.
ESTIMATORS: dict[str, Callable[[], Any]] = {"logistic": logistic, "forest": forest}


def _weight_argument(student: Any) -> str:  # noqa: ANN401
    """The keyword for sample weights; a pipeline passes them to its last step."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    last = student.steps[-1] if isinstance(student, Pipeline) else ("", student)
    if not has_fit_parameter(last[1], "sample_weight"):
        raise InvalidInput(
            f"{type(last[1]).__name__} does not take sample weights: choose a student whose fit accepts sample_weight"
        )
    return f"{last[0]}__sample_weight" if last[0] else "sample_weight"


def takes_weights(student: Any) -> bool:  # noqa: ANN401
    """Whether a student can be trained on weighted samples.

    >>> takes_weights(logistic())
    True
    """
    try:
        return bool(_weight_argument(student))
    except InvalidInput:
        return False


def fit_hard(student: Any, samples: NDArray[Any], labels: NDArray[Any], weights: NDArray[np.float64]) -> Any:  # noqa: ANN401
    """A clone of the student, trained on one label per sample.

    If all labels are equal, the result always predicts that label: many classifiers refuse to be trained on one class,
    and labels that were paid for must not be lost.

    >>> student = fit_hard(logistic(), np.array([[0.0], [1.0]]), np.array([3, 7]), np.ones(2))
    >>> student.predict([[5.0]]).tolist()
    [7]
    """
    from sklearn import config_context
    from sklearn.base import clone
    from sklearn.dummy import DummyClassifier

    if len(np.unique(labels)) < 2:
        return DummyClassifier(strategy="most_frequent").fit(samples, labels)
    # Weights are passed by the name of the step, independent of the user's setting of metadata routing.
    with config_context(enable_metadata_routing=False):
        return clone(student).fit(samples, labels, **{_weight_argument(student): weights})


def fit_soft(
    student: Any,  # noqa: ANN401
    samples: NDArray[Any],
    classes: NDArray[Any],
    probabilities: NDArray[np.float64],
) -> Any:  # noqa: ANN401
    """A clone of the student, trained on soft labels: a probability for every class of a sample.

    A student with a method ``fit_probabilities`` gets them unchanged. For any other, each sample appears once per
    plausible class, weighted by its probability: for maximum likelihood this is the cross-entropy with the soft label.

    >>> soft = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> fit_soft(logistic(), np.array([[0.0], [1.0]]), np.array(["a", "b"]), soft).predict([[0.0]]).tolist()
    ['a']
    """
    from sklearn.base import clone

    if hasattr(student, "fit_probabilities"):
        return clone(student).fit_probabilities(samples, classes, probabilities)
    # A class a hundred times less likely than the best adds training time and changes little.
    row, column = np.nonzero(probabilities >= probabilities.max(axis=1, keepdims=True) / 100)
    return fit_hard(student, samples[row], classes[column], probabilities[row, column])


@dataclass(frozen=True)
class BinaryRelevance:
    """One trained binary student per label; a label is present if its probability reaches that label's threshold.

    Without ``thresholds`` every student decides by itself, which is at one half.
    """

    multilabel: ClassVar[bool] = True

    students: tuple[Any, ...]
    thresholds: tuple[float, ...] | None = None

    def predict(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """The labels of each sample, bool (samples, labels); images are flattened."""
        if self.thresholds is not None:
            return self.predict_proba(X) >= np.array(self.thresholds)
        rows = np.asarray(X).reshape(len(X), -1)
        return np.column_stack([np.asarray(each.predict(rows), dtype=np.bool_) for each in self.students])

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """The probability of each label, (samples, labels)."""
        rows = np.asarray(X).reshape(len(X), -1)
        # A student trained on one answer only has one class.
        chances = [each.predict_proba(rows) @ np.asarray(each.classes_, dtype=np.float64) for each in self.students]
        return np.column_stack(chances)


def fit_by_label(
    student: Any,  # noqa: ANN401
    samples: NDArray[Any],
    chances: NDArray[np.float64],
    rule: str = "half",
) -> BinaryRelevance:
    """Binary relevance: a clone of the student per label, trained on probabilities, (samples, labels).

    The thresholds are those of ``rule`` (``label_thresholds``) for the student's own probabilities of these samples. A
    student without probabilities decides by itself.

    >>> sure = np.array([[0.95, 0.1], [0.05, 0.1]])
    >>> fit_by_label(logistic(), np.array([[0.0], [1.0]]), sure).predict(np.array([[0.0], [1.0]])).tolist()
    [[True, False], [False, False]]
    """
    answers = np.array([False, True])
    trained = BinaryRelevance(
        tuple(fit_soft(student, samples, answers, np.column_stack([1 - each, each])) for each in chances.T)
    )
    if rule == "half" or not all(hasattr(each, "predict_proba") for each in trained.students):
        return trained
    return replace(trained, thresholds=label_thresholds(rule, chances, trained.predict_proba(samples)))


# How a probability becomes a label.
THRESHOLDS = ("f1", "frequency", "half")


def thresholds_option() -> Any:  # noqa: ANN401
    """The option of every method that labels with sets."""
    return option(
        "f1",
        "For sets of labels, when a label is predicted: f1 (the best expected micro-F1), frequency (as often as it was "
        "released), or half (at a probability of 1/2).",
        choices=THRESHOLDS,
    )


def label_thresholds(
    rule: str, chances: NDArray[np.float64], scores: NDArray[np.float64] | None = None
) -> tuple[float, ...]:
    """A threshold per label for ``scores``, if samples have each label with the probability in ``chances``.

    ``f1`` is one threshold for all labels, which maximizes the expected micro-F1, 2·E[right]/(predicted + E[present]).
    For calibrated scores it is half of the F1 that is reached, never above one half (Lipton, Elkan and Naryanaswamy,
    2014). ``frequency`` predicts every label as often as it is expected. ``half`` makes the fewest single errors.
    Nothing but probabilities is used, so this is post-processing of what they were computed from.

    >>> chances = np.array([[0.9, 0.48], [0.4, 0.1], [0.1, 0.0]])
    >>> [(chances >= label_thresholds(rule, chances)).astype(int).tolist() for rule in ("f1", "half")]
    [[[1, 1], [1, 0], [0, 0]], [[1, 0], [0, 0], [0, 0]]]
    >>> (chances >= label_thresholds("frequency", chances)).sum(axis=0).tolist()
    [1, 1]
    """
    scores = chances if scores is None else scores
    labels = int(chances.shape[1])
    if rule == "half":
        return (0.5,) * labels
    if rule == "f1":
        order = np.argsort(-scores, axis=None, kind="stable")
        right = np.cumsum(chances.ravel()[order])
        reached = 2 * right / (np.arange(1, len(order) + 1) + right[-1])
        ranked = scores.ravel()[order]
        # Equal scores are on the same side of every threshold.
        last = np.append(ranked[1:] < ranked[:-1], True)
        return (_below(ranked, int(np.where(last, reached, -1.0).argmax()) + 1),) * labels
    expected = np.rint(chances.sum(axis=0)).astype(np.int64)
    ranked = -np.sort(-scores, axis=0)
    return tuple(_below(ranked[:, label], int(expected[label])) for label in range(labels))


def _below(ranked: NDArray[np.float64], count: int) -> float:
    """A threshold that the first ``count`` of the scores reach: between the last of them and the next."""
    if count == 0:
        return float(np.nextafter(max(1.0, ranked[0]), 2.0))
    return float(ranked[count - 1] if count == len(ranked) else (ranked[count - 1] + ranked[count]) / 2)
