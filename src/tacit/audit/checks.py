"""What is audited, as values: a claim of privacy with the two inputs that test it, and a claim of being unbiased."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness

__all__ = ["Check", "Estimator", "Finding", "Target"]


@dataclass(frozen=True)
class Target:
    """A mechanism that claims (ε, δ), and two neighbouring inputs on which it is as distinguishable as it gets.

    ``draw(value, count, randomness)`` gives that many independent outcomes of the mechanism on ``value``, one row
    of integer features each. Features may forget some of an outcome, which is post-processing: what is proven of
    them holds for the outcome. ``cost`` says how many ordinary draws one draw takes the time of.

    A claim with ε = 0 is one of total variation: what is measured then is δ.
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    inputs: tuple[Any, Any]
    draw: Callable[[Any, int, Randomness], Integers]
    cost: int = 1

    @property
    def claimed(self) -> str:
        """The claim in short."""
        parts = [
            f"{name} = {float(value):.3g}" for name, value in (("ε", self.epsilon), ("δ", self.delta)) if value > 0
        ]
        return ", ".join(parts)


@dataclass(frozen=True)
class Estimator:
    """A mechanism that claims unbiased counts of a stated variance.

    ``deviations(clients, randomness)`` gives the error of every cell's estimate from the messages of that many
    clients, in claimed standard deviations.
    """

    name: str
    deviations: Callable[[int, Randomness], NDArray[np.float64]]
    cost: int = 1

    @property
    def claimed(self) -> str:
        """The claim in short."""
        return "unbiased"


Check = Target | Estimator


@dataclass(frozen=True)
class Finding:
    """What an audit found: a bound that the samples prove, beside the largest one that the claim allows.

    ``measure`` is ``ε`` or ``δ``, the proven lower bound of which must not be above the claim; or ``|z|``, the
    largest error of an estimate in standard deviations, which must not be above what chance allows.
    ``samples`` counts draws of each input, or clients.
    """

    name: str
    claimed: str
    measure: str
    allowed: float
    found: float
    samples: int
    confidence: float
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the samples agree with the claim. It is no proof that the claim is true."""
        return self.found <= self.allowed

    @property
    def share(self) -> float | None:
        """How much of a privacy claim the audit could show to be needed; nothing for an estimator."""
        return None if self.measure == "|z|" else self.found / self.allowed

    def __str__(self) -> str:
        if self.measure == "|z|":
            verdict = f"estimates are {self.found:.1f} standard deviations off, chance allows {self.allowed:.1f}"
        else:
            verdict = f"claimed {self.claimed}, samples prove {self.measure} ≥ {self.found:.4g}"
        return f"{self.name}: {verdict} (confidence {self.confidence:.7g})"
