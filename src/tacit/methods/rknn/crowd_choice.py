"""Which mechanism a crowd of one-record holders uses, without a curator: local or shuffled messages, and why."""

from __future__ import annotations

from fractions import Fraction

from tacit.core.errors import InvalidInput
from tacit.core.protocols import LocalMechanism
from tacit.mechanisms.accuracy import gap_needed
from tacit.mechanisms.local.choice import choose
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.noise_messages_plan import plan_noise_messages
from tacit.mechanisms.shuffle.shuffled import Shuffled
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.methods.rknn.choice import ERROR, Choice, said
from tacit.methods.rknn.reading import MessageReader

__all__ = ["choose_local", "choose_shuffled"]


def _gap(variance: float, classes: int) -> float:
    """The lead that makes a label 99 % certain when each count has this variance; sums of many errors are Gaussian."""
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
    chosen = options.alternatives[0] if name == "auto" else names.get(name)
    if chosen is None:
        # In quotes: some names have a comma in them.
        known = ", ".join(map(repr, ["auto", *sorted(names)]))
        raise InvalidInput(f"unknown local mechanism {name!r}: choose one of {known}")
    mechanism: LocalMechanism = chosen.mechanism
    gap = _gap(records * mechanism.variance_zero, classes)
    reason = options.reason if name == "auto" else f"{name} was asked for"
    return Choice(chosen.name, mechanism, said(reason, gap), gap, MessageReader(mechanism.decode, classes))


def choose_shuffled(
    records: int, queries: int, classes: int, neighbors: int, epsilon: Fraction, delta: Fraction, name: str = "auto"
) -> Choice:
    """One message per holder with amplification, many with noise shares, or with ``auto`` the one with less noise.

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
        crowd = Shuffled(inner, records)
        tried.append(Choice(each, crowd, said(words, gap), gap, MessageReader(crowd.decode, classes)))
    return min(tried, key=lambda choice: choice.gap)


Candidate = tuple[MultiMessageNoise | SingleMessage, float, str]


def _many(records: int, cells: int, neighbors: int, epsilon: Fraction, delta: Fraction) -> Candidate:
    plan = plan_noise_messages(epsilon, delta, cells, records, ones=neighbors)
    words = f"holders send about {plan.messages:.1f} messages each, whose noise adds up to a curator's"
    return plan, plan.variance(records), words


def _one(records: int, cells: int, neighbors: int, epsilon: Fraction, delta: Fraction) -> Candidate:
    plan = SingleMessage.for_budget(lambda local: SubsetSelection(cells, neighbors, local), records, epsilon, delta)
    words = (
        f"each holder sends one message at a local epsilon of {float(plan.mechanism.epsilon):.3g}, "
        f"hidden among {records} ({plan.amplified.bound})"
    )
    return plan, records * plan.mechanism.variance_zero, words
