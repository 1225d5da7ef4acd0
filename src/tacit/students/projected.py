"""A fixed projection as a step of a scikit-learn pipeline: found on public samples once, and never fitted again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

__all__ = ["Projected"]


class Projected(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows minus ``centre``, seen along ``directions`` (d, features). It keeps these arrays and learns nothing.

    >>> Projected(np.array([1.0, 1.0]), np.array([[0.0, 1.0]])).transform([[5.0, 3.0]]).tolist()
    [[2.0]]
    """

    def __init__(self, centre: NDArray[Any], directions: NDArray[Any]) -> None:
        self.centre = centre
        self.directions = directions

    @classmethod
    def components(cls, public: NDArray[Any], most: int) -> Projected:
        """The principal components of public samples, at most so many.

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
        """The rows along the directions."""
        seen: NDArray[Any] = (np.asarray(X) - self.centre) @ np.asarray(self.directions).T
        return seen

    def __sklearn_is_fitted__(self) -> bool:
        return True
