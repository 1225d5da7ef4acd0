"""A student's own view of samples. The student is a release, so voting in its feature space costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats

__all__ = ["FeatureStudent", "StudentFeatures"]


class FeatureStudent(Protocol):
    """A trained student that shows what its last layer sees."""

    @property
    def digest(self) -> str:
        """A name for the trained student: equal weights give equal names."""
        ...

    def features(self, X: NDArray[Any]) -> Floats:
        """One row a sample, not depending on other rows."""
        ...


@dataclass(frozen=True)
class StudentFeatures:
    """What a trained student's last layer sees, each row scaled to length 1.

    The last layer decides by angle, and a length is mostly how much ink there is; so angles are compared.

    >>> class Doubling:
    ...     digest = "doubling"
    ...     def features(self, X):
    ...         return 2 * X
    >>> StudentFeatures(Doubling()).encode(np.array([[3.0, 4.0]])).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    student: FeatureStudent

    def __post_init__(self) -> None:
        if not hasattr(self.student, "features"):
            raise InvalidInput(f"{type(self.student).__name__} shows no features: vote in another representation")

    @property
    def digest(self) -> str:
        """The student's."""
        return self.student.digest

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        seen = np.ascontiguousarray(self.student.features(samples), dtype=np.float64)
        if not np.isfinite(seen).all():
            raise InvalidInput("the student's features are not finite numbers: it did not learn")
        length = np.sqrt((seen * seen).sum(axis=1, keepdims=True))
        scaled: Floats = (seen / np.where(length > 0, length, 1.0)).astype(np.float32)
        return scaled
