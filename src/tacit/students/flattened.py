"""A student that learned from rows of features, for samples in the shape they were given in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

__all__ = ["Flatten", "for_images"]


class Flatten(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One row of features a sample, whatever shape a sample has. It learns nothing and keeps nothing.

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
    """The trained student behind a step that makes rows of images; a network takes either and stays as it is.

    >>> from tacit.students.weighted import logistic
    >>> rows = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> for_images(logistic().fit(rows, ["no", "yes"])).predict(rows.reshape(2, 2, 1)).tolist()
    ['no', 'yes']
    """
    from sklearn.pipeline import Pipeline

    if hasattr(student, "save_tensors"):
        return student
    return Pipeline([("flatten", Flatten()), ("student", student)])
