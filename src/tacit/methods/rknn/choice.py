"""Which mechanism answers a question best at the same price, and why, in words for the user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Mechanism
from tacit.core.sensitivity import Sensitivity
from tacit.mechanisms.choices import RECORD_VOTES
from tacit.methods.rknn.posterior import Noise
from tacit.methods.rknn.reading import CountReader, LabelReader, Reader

__all__ = ["ERROR", "Choice", "choose_mechanism", "said"]

# How unsure a label may be at the lead that is quoted.
ERROR = 0.01


@dataclass(frozen=True)
class Choice:
    """A mechanism, why it was chosen, and the lead in votes that makes a label 99 % certain under it.

    ``reader`` says what the mechanism's answers mean.
    """

    name: str
    mechanism: Mechanism[Any, Any]
    reason: str
    gap: float
    reader: Reader


def choose_mechanism(
    sensitivity: Sensitivity,
    classes: int,
    epsilon: Fraction,
    delta: Fraction,
    name: str = "auto",
    counts: bool = False,
) -> Choice:
    """The mechanism of that name, or with ``auto`` the one that needs the smallest lead for the same (ε, δ).

    >>> from tacit.core.sensitivity import vote_sensitivity
    >>> sensitivity = vote_sensitivity(queries=40, classes=10, neighbors=1)
    >>> choose_mechanism(sensitivity, 10, Fraction(1), Fraction(0)).name
    'permute-and-flip'
    """
    offered = {kind.option: kind for kind in RECORD_VOTES}
    if name != "auto":
        if name not in offered:
            raise InvalidInput(f"unknown mechanism {name!r}: choose one of auto, {', '.join(offered)}")
        if counts and offered[name].releases == "labels":
            noisy = " or ".join(kind.option for kind in RECORD_VOTES if kind.releases == "counts")
            raise InvalidInput(f"{name} releases labels only; soft labels need {noisy} counts")
        return _choice(offered[name], sensitivity, classes, epsilon, delta)
    # A pure mechanism that releases no more than is needed, and whatever a delta allows beside it.
    allowed = [
        kind for kind in RECORD_VOTES if (delta > 0 if kind.needs_delta else (kind.releases == "counts") == counts)
    ]
    tried = [_choice(kind, sensitivity, classes, epsilon, delta) for kind in allowed]
    best = min(tried, key=lambda choice: choice.gap)
    others = "; ".join(f"{each.name} would need {each.gap:.1f}" for each in tried if each is not best)
    return replace(best, reason=best.reason + (f" ({others})" if others else ""))


def said(what: str, gap: float) -> str:
    """A reason with the lead that it leads to.

    >>> said("labels only", 12.21)
    'labels only; a label is 99 % certain once it leads by 12.2 votes'
    """
    return f"{what}; a label is 99 % certain once it leads by {gap:.1f} votes"


def _choice(kind: type[Any], sensitivity: Sensitivity, classes: int, epsilon: Fraction, delta: Fraction) -> Choice:
    mechanism = kind.calibrated(sensitivity, epsilon, delta)
    gap, law = mechanism.lead(classes, ERROR), mechanism.noise_law
    reader = LabelReader() if law is None else CountReader(Noise(law.kind, law.scale))
    return Choice(kind.option, mechanism, said(kind.offers, gap), gap, reader)
