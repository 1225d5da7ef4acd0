"""Statements for FedMD-NFDP and FedMD-NP, which are not (ε, δ)-differential privacy, and say so.

A separate module, so that showing a saved run does not import planning and training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from tacit.core import PUBLIC_DATA, TacitWarning, decimal
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample

__all__ = ["Exposure", "WeakPrivacyWarning"]

ABOUT_PUBLIC_DATA = f"Public data: {PUBLIC_DATA}."


class WeakPrivacyWarning(TacitWarning):
    """The run gives no privacy, or none in the usual sense of differential privacy."""


@dataclass(frozen=True)
class Exposure:
    """The claim of FedMD-NFDP and FedMD-NP: with this probability a record is used without noise.

    >>> print(Exposure.of(SubsetSample(18, 2880, replacement=True)))  # doctest: +ELLIPSIS
    NOT DIFFERENTIAL PRIVACY IN THE USUAL SENSE: 18 raw records of the party train its model without any noise.
    Total-variation stability: each record is exposed in the clear with probability delta = 0.00623159.
    This delta is the same for every epsilon, and is not below 1/n = 0.000347223: no record is promised deniability.
    Published for this mechanism, for comparison only: epsilon = 0.00624892 (natural logarithm).
    Public data: assumed to contain no private record and not to be chosen by looking at one; the features ...
    >>> print(Exposure.of(SubsetSample(5, 5, replacement=False)))  # doctest: +ELLIPSIS
    NO PRIVACY AT ALL: every record of the party trains its model, and what it sends is not protected.
    Public data: assumed to contain no private record and not to be chosen by looking at one; the features ...
    """

    KIND: ClassVar[str] = "total-variation stability"

    probability: Fraction
    lines: tuple[str, ...]
    simulation: bool = False

    @classmethod
    def of(cls, sample: SubsetSample | StratifiedSample, simulation: bool = False) -> Exposure:
        """The claim for a party that draws this sample."""
        delta = sample.spend.delta
        if delta == 1:
            return cls(
                delta,
                (
                    "NO PRIVACY AT ALL: every record of the party trains its model, "
                    "and what it sends is not protected.",
                    ABOUT_PUBLIC_DATA,
                ),
                simulation,
            )
        strata = sample.strata
        size, records = sum(each.size for each in strata), sum(each.population for each in strata)
        worst = max(strata, key=lambda each: each.delta)
        compared = "is not below" if delta * records >= 1 else "is below"
        where = "" if len(strata) == 1 else " in the class with the largest delta (class sizes are assumed public)"
        return cls(
            delta,
            (
                f"NOT DIFFERENTIAL PRIVACY IN THE USUAL SENSE: {size} raw records of the party train its model "
                "without any noise.",
                f"Total-variation stability: each record is exposed in the clear with probability delta = "
                f"{decimal(delta)}{where}.",
                f"This delta is the same for every epsilon, and {compared} 1/n = {decimal(Fraction(1, records))}: "
                "no record is promised deniability.",
                f"Published for this mechanism, for comparison only: epsilon = "
                f"{decimal(worst.published_epsilon)} (natural logarithm).",
                ABOUT_PUBLIC_DATA,
            ),
            simulation,
        )

    def with_caveat(self, caveat: str) -> Exposure:
        """The same claim with one more caveat."""
        return replace(self, lines=(*self.lines, f"Caveat: {caveat}."))

    @property
    def delta(self) -> Fraction:
        """The probability that a record is used without noise."""
        return self.probability

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Exposure:
        """The claim that ``to_json`` wrote."""
        lines = tuple(each for each in value["statement"].splitlines() if not each.startswith("SIMULATION"))
        return cls(Fraction(value["delta_exact"]), lines, value["simulation"])

    def __str__(self) -> str:
        """The claim in plain words."""
        seeded = ("SIMULATION: the subset came from a seeded generator that anyone can replay.",)
        return "\n".join((seeded if self.simulation and self.probability < 1 else ()) + self.lines)

    def to_json(self) -> dict[str, Any]:
        """The claim as JSON values."""
        return {
            "kind": self.KIND,
            "delta": decimal(self.probability),
            "delta_exact": str(self.probability),
            "simulation": self.simulation,
            "statement": str(self),
        }
