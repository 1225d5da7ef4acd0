"""Counts with two-sided geometric noise, brought back into the range that counts can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness
from tacit.core.rational import Number
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Pure
from tacit.mechanisms.auditing import PURE, Check, rowwise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.description import COUNT, EXACT, Checks, Described, Parameters
from tacit.mechanisms.forms import Numbers

__all__ = ["BoundedCounts"]


@dataclass(frozen=True)
class BoundedCounts(Described):
    """The truncated geometric mechanism: noisy counts from 0 to ``highest``, whatever the noise.

    **Law.** A count plus noise P(x) ∝ e^(−|x|/scale), then the nearest number in [0, highest].

    **Spend.** ``Pure(l1 / scale)``.

    **Proof.** That of ``DiscreteLaplaceNoise``; what is done to its output is post-processing.

    **Source.** A. Ghosh, T. Roughgarden and M. Sundararajan, STOC 2009.

    >>> BoundedCounts(2, 2, 100).spend
    Pure(epsilon=Fraction(1, 1))
    """

    name = "example-bounded-counts"
    statistic = "table"
    releases = "counts"
    parameters: ClassVar[Parameters] = {"scale": EXACT, "l1": COUNT, "highest": COUNT}

    scale: Fraction
    l1: int
    highest: int

    def __init__(self, scale: Number, l1: int, highest: int) -> None:
        if highest < 1:
            raise InvalidInput(f"highest must be at least 1, got {highest}")
        noise = DiscreteLaplaceNoise(scale, l1)
        object.__setattr__(self, "scale", noise.scale)
        object.__setattr__(self, "l1", noise.l1)
        object.__setattr__(self, "highest", int(highest))

    @property
    def spend(self) -> Pure:
        """What the whole table costs."""
        return Pure(self.l1 / self.scale)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """How far the table may move."""
        return Sensitivity(l1=self.l1)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The noisy table, of the same shape."""
        noisy = DiscreteLaplaceNoise(self.scale, self.l1).sample(value, randomness)
        return np.clip(noisy, 0, self.highest)

    def answer_form(self, rows: int, columns: int, limit: int) -> Numbers:
        """Counts in their range take few bits."""
        return Numbers((rows, columns), 0, self.highest)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One vote moves from a cell to another, in the middle of the range."""

        def moved(epsilon: Fraction, delta: Fraction) -> list[Check]:
            mechanism = cls(2 / Fraction(epsilon), 2, 5)
            return [rowwise(cls.name, (mechanism.spend.epsilon, PURE), lambda rows: mechanism, ((3, 2), (2, 3)))]

        return {cls.name: moved}
