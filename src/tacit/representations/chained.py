"""One representation after another: gradients, then principal components, then a map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tacit.core.content import content_digest, row_digests
from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats, Representation

__all__ = ["Chained"]


@dataclass(frozen=True)
class Chained:
    """What the last of several representations makes of what the ones before it made.

    >>> import numpy as np
    >>> from tacit.representations.principal import PrincipalComponents
    >>> from tacit.representations.scaled import Standardised
    >>> public = np.array([[0.0, 0.0], [2.0, 200.0], [4.0, 400.0]])
    >>> Chained.fit(public, Standardised.fit, PrincipalComponents.fit).encode(public).shape
    (3, 2)

    ``fitted_on`` says what the chain was fitted on, so that whoever has records can refuse one fitted on them.
    """

    parts: tuple[Representation, ...]
    fitted_on: str | None = None

    @classmethod
    def fit(cls, public: NDArray[Any], *fits: Callable[[NDArray[Any]], Representation]) -> Chained:
        """Fit each on the public samples as the ones before it encode them."""
        if not fits:
            raise InvalidInput("a chain needs at least one representation")
        parts: list[Representation] = []
        fitted_on = content_digest(row_digests(public))
        for fit in fits:
            parts.append(fit(public))
            public = parts[-1].encode(public)
        return cls(tuple(parts), fitted_on)

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features a sample."""
        for part in self.parts:
            samples = part.encode(samples)
        return samples
