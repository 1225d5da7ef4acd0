"""Options of the lines whose records vote: images are voted on in one public space, and students see the other one."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from experiments.leaderboard_parts import Encoded
from tacit.core import Representation

__all__ = ["Seen", "voted"]


class Seen(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Samples through a public representation, as the first step of a student."""

    def __init__(self, representation: Representation) -> None:
        self.representation = representation

    def fit(self, samples: NDArray[Any], labels: NDArray[Any] | None = None) -> Self:
        """Nothing is learned from samples."""
        self.n_features_in_ = samples.shape[1]
        return self

    def transform(self, samples: NDArray[Any]) -> NDArray[Any]:
        """One row of features per sample."""
        return np.asarray(self.representation.encode(np.asarray(samples)))


def voted(data: Encoded, _: float) -> dict[str, Any]:
    """Images by the features for votes, their student by those for sums, which other methods' models see too.

    Where these are the pixels themselves, the method's own student sees as much.
    """
    if data.images is None:
        return {}
    if data.images[0] == "identity":
        return {"representation": data.images[1]}
    from sklearn.pipeline import Pipeline

    from tacit.methods.class_sums.plan import sum_representation
    from tacit.students.weighted import logistic

    public = np.asarray(data.parts.public)
    seen = sum_representation(data.images[0], public.reshape(len(public), -1), data.classes)[1]
    return {"representation": data.images[1], "student": Pipeline([("seen", Seen(seen)), *logistic().steps])}
