"""A student that is the regression itself: public features of all releases, and the odds that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit.core.codec import decode, encode
from tacit.core.strict_reader import StrictReader
from tacit.methods.auto.blocks import Features, SumFeatures, VoteFeatures
from tacit.methods.class_sums.reading import LinearOdds
from tacit.representations.registry import read_representation, representation_fields

__all__ = ["ReleasedFeatures", "regression_student"]


class ReleasedFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Samples in the features that releases were about; ``written`` is them as bytes, so that saving runs no code.

    >>> from tacit.representations.scaled import Identity
    >>> votes = VoteFeatures(Identity(2), np.array([[0.0, 0.0], [9.0, 9.0]], dtype=np.float32))
    >>> ReleasedFeatures.of([votes], (2,)).transform([[8.0, 8.0]]).tolist()
    [[0.0, 1.0]]
    """

    def __init__(self, written: NDArray[np.uint8], shape: Sequence[int]) -> None:
        self.written = written
        self.shape = shape

    @classmethod
    def of(cls, features: Sequence[Features], shape: Sequence[int]) -> ReleasedFeatures:
        """Of these features, for samples of this shape."""
        return cls(np.frombuffer(encode([_fields(each) for each in features]), dtype=np.uint8).copy(), list(shape))

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> ReleasedFeatures:
        """Nothing is learned."""
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """One row per sample, the features of all releases side by side."""
        samples = np.asarray(X).reshape(-1, *self.shape)
        return np.concatenate([each.points(samples) for each in self._features()], axis=1)

    def _features(self) -> list[Features]:
        return [_read(each) for each in decode(np.asarray(self.written, dtype=np.uint8).tobytes())]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _fields(features: Features) -> dict[str, Any]:
    common = {"representation": representation_fields(features.representation)}
    if isinstance(features, VoteFeatures):
        return common | {"queries": features.queries}
    return common | {"scale": features.scale, "radius": features.radius, "norm": features.norm}


def _read(fields: dict[str, Any]) -> Features:
    representation = read_representation(StrictReader(fields["representation"], "student"))
    if "queries" in fields:
        return VoteFeatures(representation, fields["queries"])
    return SumFeatures(representation, fields["scale"], fields["radius"], fields["norm"])


def regression_student(
    features: Sequence[Features], odds: LinearOdds, classes: NDArray[Any], shape: Sequence[int]
) -> Any:  # noqa: ANN401
    """The regression as a student with scikit-learn's manners, which is saved as every other."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    model = LogisticRegression()
    order = np.argsort(classes, kind="stable")
    weights, intercepts = odds.weights[:, order].T, odds.intercepts[order]
    if len(classes) == 2:
        weights, intercepts = weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
    model.classes_, model.coef_, model.intercept_ = classes[order], weights, intercepts
    model.n_features_in_, model.n_iter_ = weights.shape[1], np.zeros(1, dtype=np.int32)
    return Pipeline([("features", ReleasedFeatures.of(features, shape)), ("odds", model)])
