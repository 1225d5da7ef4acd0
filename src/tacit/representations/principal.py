"""Principal components of the public samples: fewer, uncorrelated features in which distance means more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.representations.scaled import flat, narrowed, same_width

__all__ = ["PrincipalComponents"]

KEPT_VARIANCE = 0.85


@dataclass(frozen=True)
class PrincipalComponents:
    """The projection on the directions in which the public samples vary most.

    >>> public = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> abs(PrincipalComponents.fit(public, components=1).encode(public)[1]).round(3).tolist()
    [1.4140000343322754]
    """

    mean: NDArray[np.float64]
    directions: NDArray[np.float64]  # (components, features)

    @classmethod
    def fit(cls, public: NDArray[Any], components: int | None = None, whitening: float = 0.0) -> PrincipalComponents:
        """Find the directions on the public samples: that many, or as many as hold 85 % of their variance.

        There are never more than samples or features, and never so few that a plane is all there is. ``whitening``
        divides each direction by its variance to that power: at ½ all vary equally, at ¼ the differences between
        their spreads are halved.
        """
        from sklearn.decomposition import PCA

        if components is not None and components < 1:
            raise InvalidInput(f"components must be at least 1, got {components}")
        if not 0 <= whitening <= 0.5:
            raise InvalidInput(f"whitening must be from 0 to 0.5, got {whitening}")
        rows = flat(public).astype(np.float64)
        most = min(rows.shape)
        fitted = PCA(min(components or most, most), random_state=0).fit(rows)
        if components is None:
            held = np.cumsum(fitted.explained_variance_ratio_)
            components = max(int(np.searchsorted(held, KEPT_VARIANCE)) + 1, min(3, most))
        variances = np.maximum(fitted.explained_variance_, 1e-12 * fitted.explained_variance_[0])
        return cls(fitted.mean_, (fitted.components_ * variances[:, None] ** -whitening)[:components])

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        centred = same_width(samples, len(self.mean)) - self.mean
        # A matrix product rounds a row differently depending on the rows around it, so that one record could move
        # another's vote. einsum adds each row up by itself, always in the same order.
        return narrowed(np.einsum("nf,cf->nc", centred, self.directions))
