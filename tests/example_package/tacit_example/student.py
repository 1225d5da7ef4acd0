"""A student that says the class whose weighted mean is nearest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin


class Centroids(ClassifierMixin, BaseEstimator):
    def fit(self, X: NDArray[Any], y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> Centroids:
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        self.classes_ = np.unique(np.asarray(y)[weights > 0])
        self.means_ = np.array([np.average(X[y == each], axis=0, weights=weights[y == each]) for each in self.classes_])
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        distances = ((X[:, None] - self.means_) ** 2).sum(axis=2)
        return self.classes_[distances.argmin(axis=1)]
