"""The choice of the mechanism with the smallest error at the same cost, with the reason in words.

With a curator, labels or counts are released; one-record holders send local or shuffled messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tacit.core import InvalidInput, LocalMechanism, Mechanism, Sensitivity
from tacit.mechanisms.accuracy import gap_needed
from tacit.mechanisms.choices import RECORD_VOTES, choose, require_current_name
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise, plan_noise_messages
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.rknn.posterior import Noise
from tacit.methods.rknn.reading import CountReader, LabelReader, MessageReader, Reader

__all__ = ["ERROR", "Choice", "choose_local", "choose_mechanism", "choose_shuffled", "said"]

# The error probability of a label at the stated lead.
ERROR = 0.01


@dataclass(frozen=True)
class Choice:
    """A mechanism, the reason for it, and the lead in votes that makes a label 99 % certain under it.

    ``reader`` turns the mechanism's answers into labels.
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
    # The pure mechanism that releases no more than is needed, and those that a delta allows.
    allowed = [
        kind for kind in RECORD_VOTES if (delta > 0 if kind.needs_delta else (kind.releases == "counts") == counts)
    ]
    tried = [_choice(kind, sensitivity, classes, epsilon, delta) for kind in allowed]
    best = min(tried, key=lambda choice: choice.gap)
    others = "; ".join(f"{each.name} would need {each.gap:.1f}" for each in tried if each is not best)
    return replace(best, reason=best.reason + (f" ({others})" if others else ""))


def said(what: str, gap: float) -> str:
    """A reason, and the lead that a label needs.

    >>> said("labels only", 12.21)
    'labels only; a label is 99 % certain if it leads by 12.2 votes'
    """
    return f"{what}; a label is 99 % certain if it leads by {gap:.1f} votes"


def _choice(kind: type[Any], sensitivity: Sensitivity, classes: int, epsilon: Fraction, delta: Fraction) -> Choice:
    mechanism = kind.calibrated(sensitivity, epsilon, delta)
    gap, law = mechanism.lead(classes, ERROR), mechanism.noise_law
    reader = LabelReader() if law is None else CountReader(Noise(law.kind, law.scale))
    return Choice(kind.option, mechanism, said(kind.offers, gap), gap, reader)


def _gap(variance: float, classes: int) -> float:
    """The lead that makes a label 99 % certain if counts have Gaussian errors of this variance."""
    return float(gap_needed("gaussian", classes, ERROR) * variance**0.5)


def choose_local(
    records: int, queries: int, classes: int, neighbors: int, epsilon: Fraction, name: str = "auto"
) -> Choice:
    """The local mechanism of that name, or with ``auto`` the one with the smallest error.

    >>> choose_local(60_000, 10, 10, 1, Fraction(2, 5)).name
    'subset selection'
    """
    options = choose(queries * classes, neighbors, epsilon)
    names = {each.name: each for each in options.alternatives}
    require_current_name(name)
    chosen = options.alternatives[0] if name == "auto" else names.get(name)
    if chosen is None:
        raise InvalidInput(f"unknown local mechanism {name!r}: choose one of {', '.join(['auto', *sorted(names)])}")
    mechanism: LocalMechanism = chosen.mechanism
    gap = _gap(records * mechanism.variance_zero, classes)
    reason = options.reason if name == "auto" else f"{name} was requested"
    return Choice(chosen.name, mechanism, said(reason, gap), gap, MessageReader(mechanism.decode, classes))


def choose_shuffled(
    records: int, queries: int, classes: int, neighbors: int, epsilon: Fraction, delta: Fraction, name: str = "auto"
) -> Choice:
    """One message per holder (amplification), many (noise messages), or with ``auto`` the one with less noise.

    >>> choose_shuffled(60_000, 40, 10, 1, Fraction(1), Fraction(1, 10**6)).name
    'many messages'
    """
    if delta == 0:
        raise InvalidInput("shuffling needs delta above 0, for example 1e-6; got 0")
    cells = queries * classes
    candidates = {"many messages": _many, "one message": _one}
    if name != "auto" and name not in candidates:
        raise InvalidInput(f"unknown shuffle mechanism {name!r}: choose one of auto, {', '.join(candidates)}")
    tried = []
    for each in candidates if name == "auto" else [name]:
        inner, variance, words = candidates[each](records, cells, neighbors, epsilon, delta)
        gap = _gap(variance, classes)
        shuffled = Shuffled(inner, records)
        tried.append(Choice(each, shuffled, said(words, gap), gap, MessageReader(shuffled.decode, classes)))
    return min(tried, key=lambda choice: choice.gap)


_Candidate = tuple[MultiMessageNoise | SingleMessage, float, str]


def _many(records: int, cells: int, neighbors: int, epsilon: Fraction, delta: Fraction) -> _Candidate:
    plan = plan_noise_messages(epsilon, delta, cells, records, ones=neighbors)
    words = f"each holder sends about {plan.messages:.1f} messages, whose noise adds up to that of a curator"
    return plan, plan.variance(records), words


def _one(records: int, cells: int, neighbors: int, epsilon: Fraction, delta: Fraction) -> _Candidate:
    plan = SingleMessage.for_budget(lambda local: SubsetSelection(cells, neighbors, local), records, epsilon, delta)
    words = (
        f"each holder sends one message at a local epsilon of {float(plan.mechanism.epsilon):.3g}, "
        f"hidden among {records} ({plan.amplified.bound})"
    )
    return plan, records * plan.mechanism.variance_zero, words
