"""The student of a run, before it has learned anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, warn_user
from tacit.students.registry import STUDENTS
from tacit.students.weighted import fit_hard, fit_soft, takes_weights

__all__ = ["taught", "untrained"]


def untrained(student: Any) -> Any:  # noqa: ANN401
    """The student by its name, or the user's own if it can be trained later: what is paid for must not be lost to it.

    >>> from sklearn.linear_model import LinearRegression
    >>> untrained(LinearRegression())
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: student must be a classifier, and LinearRegression is not one
    """
    from sklearn.base import clone

    if isinstance(student, str):
        return STUDENTS.find(student)()
    if isinstance(student, type):
        raise InvalidInput(f"student must be an object, not a class: give {student.__name__}() with its parameters")
    name = type(student).__name__
    try:
        clone(student)
    except Exception as error:
        # A constructor of someone else's may fail in any way.
        raise InvalidInput(f"student {name} cannot be copied as scikit-learn copies estimators: {error}") from error
    if not _classifies(student):
        raise InvalidInput(f"student must be a classifier, and {name} is not one")
    if not takes_weights(student):
        raise InvalidInput(f"student {name} does not take sample_weight in fit; choose another")
    return student


def _classifies(student: Any) -> bool:  # noqa: ANN401
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(student))
    except (AttributeError, TypeError):
        # An estimator that does not descend from scikit-learn's says what it is by this name.
        return getattr(student, "_estimator_type", None) == "classifier"


def taught(
    student: Any,  # noqa: ANN401
    samples: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[np.float64],
    soft: tuple[NDArray[Any], NDArray[np.float64]] | None = None,
) -> Any:  # noqa: ANN401
    """The trained student, or one that always says the commonest label: a paid run is not lost to its student.

    ``soft`` are the classes and their probabilities, where the student is taught odds.

    >>> taught(untrained("logistic"), np.array([[0.0], [1.0]]), np.array(["a", "b"]), np.ones(2)).predict([[1.0]])
    array(['b'], dtype='<U1')
    """
    from sklearn.dummy import DummyClassifier

    try:
        trained = fit_hard(student, samples, labels, weights) if soft is None else fit_soft(student, samples, *soft)
    except Exception as error:
        warn_user(
            f"{type(student).__name__} could not be trained ({type(error).__name__}: {error}). The labels are "
            "kept; the student always says the commonest of them"
        )
        return DummyClassifier(strategy="most_frequent").fit(samples, labels)
    if isinstance(trained, DummyClassifier) and not isinstance(student, DummyClassifier):
        warn_user(
            f"all labels came out the same ({labels[0]}), so there was nothing to learn: the student always says it"
        )
    return trained
