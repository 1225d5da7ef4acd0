"""Which mechanism answers a question best at the same price, and why, in words for the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tacit.accounting.compose import Rule
from tacit.core.errors import InvalidInput
from tacit.core.protocols import Mechanism
from tacit.core.sensitivity import Sensitivity
from tacit.mechanisms.accuracy import gap_needed
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
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
    moves: Sensitivity,
    classes: int,
    epsilon: Fraction,
    delta: Fraction,
    name: str = "auto",
    counts: bool = False,
) -> Choice:
    """The mechanism of that name, or with ``auto`` the one that needs the smallest lead for the same (ε, δ).

    >>> from tacit.core.sensitivity import vote_sensitivity
    >>> moves = vote_sensitivity(queries=40, classes=10, neighbors=1)
    >>> choose_mechanism(moves, 10, Fraction(1), Fraction(0)).name
    'permute-and-flip'
    """
    candidates: dict[str, Callable[[], Choice]] = {
        "permute-and-flip": lambda: _permute_and_flip(moves, classes, epsilon),
        "laplace": lambda: _laplace(moves, classes, epsilon),
        "gaussian": lambda: _gaussian(moves, classes, epsilon, delta),
    }
    if name != "auto":
        if name not in candidates:
            raise InvalidInput(f"unknown mechanism {name!r}: choose one of auto, {', '.join(candidates)}")
        if name == "permute-and-flip" and counts:
            raise InvalidInput("permute-and-flip releases labels only; soft labels need laplace or gaussian counts")
        return candidates[name]()
    allowed = ["laplace"] if counts else ["permute-and-flip"]
    if delta > 0:
        allowed.append("gaussian")
    tried = [candidates[each]() for each in allowed]
    best = min(tried, key=lambda choice: choice.gap)
    others = "; ".join(f"{each.name} would need {each.gap:.1f}" for each in tried if each is not best)
    return replace(best, reason=best.reason + (f" ({others})" if others else ""))


def said(what: str, gap: float) -> str:
    """A reason with the lead that it leads to.

    >>> said("labels only", 12.21)
    'labels only; a label is 99 % certain once it leads by 12.2 votes'
    """
    return f"{what}; a label is 99 % certain once it leads by {gap:.1f} votes"


def _permute_and_flip(moves: Sensitivity, classes: int, epsilon: Fraction) -> Choice:
    mechanism = PermuteAndFlip.for_epsilon(epsilon, int(moves.row_range))
    gap = gap_needed("permute-and-flip", classes, ERROR) / float(mechanism.rate)
    reason = said("only labels are released, so permute-and-flip is the best pure mechanism", gap)
    return Choice("permute-and-flip", mechanism, reason, gap, LabelReader())


def _laplace(moves: Sensitivity, classes: int, epsilon: Fraction) -> Choice:
    mechanism = DiscreteLaplaceNoise.for_epsilon(epsilon, int(moves.l1))
    gap = gap_needed("laplace", classes, ERROR) * float(mechanism.scale)
    reader = CountReader(Noise("laplace", float(mechanism.scale)))
    return Choice("laplace", mechanism, said("counts are released with pure privacy", gap), gap, reader)


def _gaussian(moves: Sensitivity, classes: int, epsilon: Fraction, delta: Fraction) -> Choice:
    if delta == 0:
        raise InvalidInput("gaussian noise needs delta above 0, for example --delta 1e-6; got 0")
    mechanism = DiscreteGaussianNoise.for_budget(
        epsilon,
        delta,
        squared_shift=int(moves.l2_squared),
        unit_steps=moves.linf <= 1,
        repetitions=1,
        rule=Rule.PLANNED,
    )
    gap = gap_needed("gaussian", classes, ERROR) * float(mechanism.sigma)
    reader = CountReader(Noise("gaussian", float(mechanism.sigma)))
    return Choice("gaussian", mechanism, said("counts are released with (ε, δ) privacy", gap), gap, reader)
