"""What every mechanism declares: parameters, form of its answers, noise, trust assumptions, and audits.

No code outside this folder depends on the types of mechanisms. A new mechanism is one file, one line in
``registry.py``, and one line in each list of ``choices.py`` where it is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Sensitivity, TooFewParticipants
from tacit.core.codec import StrictReader
from tacit.mechanisms.auditing import Check
from tacit.mechanisms.forms import GAUSSIAN_REACH, REACH, AnswerForm, Numbers, noisy_counts

__all__ = [
    "ALONE",
    "CAPACITY",
    "CELLS",
    "COUNT",
    "EXACT",
    "FLAG",
    "LENGTHS",
    "OPTIONAL_COUNT",
    "PARTICIPANTS",
    "WHOLE",
    "Checks",
    "Described",
    "Inner",
    "NoiseLaw",
    "Parameter",
    "Parameters",
    "Released",
    "Reliance",
    "Statistic",
    "noise_in_words",
    "require_quorum",
]

# What is randomized: a table of counts; voters that are sampled; the cells of each participant; the messages of one
# participant, and all of them after a shuffler; a holder's part of a sum; labels of one holder; a subset of records.
Statistic = Literal["table", "electorate", "local", "messages", "shuffle", "share", "labels", "subset"]
Released = Literal["labels", "counts", "flags", "messages", "sealed", "records"]
# Makes the audit's checks of a mechanism that spends ε and, if its claim needs one, δ.
Checks = Callable[[Fraction, Fraction], Sequence[Check]]

# Limits on the parameters in a question, so that no question can exhaust its holder's time or memory.
_LARGEST = 10**9
_LARGEST_DOMAIN = 10**7
# The amplification bound for this many participants takes about a minute; for more it would take hours.
MOST_PARTICIPANTS = 10**7


@dataclass(frozen=True)
class Parameter:
    """How one parameter is written and, strictly, read."""

    write: Callable[[Any], Any]
    read: Callable[[StrictReader, str], Any]


def _integer(low: int, high: int) -> Parameter:
    return Parameter(int, lambda fields, name: fields.integer(name, low, high))


EXACT = Parameter(str, lambda fields, name: fields.fraction(name))
COUNT = _integer(1, _LARGEST)
PARTICIPANTS = _integer(1, MOST_PARTICIPANTS)
# None is not written.
OPTIONAL_COUNT = Parameter(
    lambda value: None if value is None else int(value),
    lambda fields, name: None if fields.peek(name) is None else fields.integer(name, 0, _LARGEST),
)
CELLS = _integer(1, _LARGEST_DOMAIN)
CAPACITY = _integer(1, 2**40)
WHOLE = _integer(-_LARGEST, _LARGEST)
FLAG = Parameter(bool, lambda fields, name: fields.flag(name))
LENGTHS = Parameter(list, lambda fields, name: fields.integers(name, 2, 2, _LARGEST_DOMAIN))


@dataclass(frozen=True)
class Inner:
    """A parameter that is itself an object: one of ``kinds``, or any registered mechanism of a ``statistic``.

    ``check`` refuses valid objects that would cost a holder too much.
    """

    kinds: tuple[type[Any], ...] = ()
    statistic: Statistic | None = None
    check: Callable[[Any], None] = lambda _: None


@dataclass(frozen=True)
class Reliance:
    """The trust assumption of a guarantee: how many ``others`` must be honest, and the node's ``share`` of noise."""

    others: int
    share: Fraction


ALONE = Reliance(0, Fraction(1))


@dataclass(frozen=True)
class NoiseLaw:
    """The law of the noise on one count, for readers of counts.

    >>> NoiseLaw("gaussian", 2.0, 4.0).evidence(np.array([[3, 0]])).tolist()
    [[0.75, 0.0]]
    """

    kind: Literal["laplace", "gaussian"]
    scale: float
    variance: float

    @property
    def in_words(self) -> str:
        """The law as text for a report.

        >>> NoiseLaw("laplace", 2.0, 7.8).in_words
        'Laplace, scale 2, standard deviation 2.8'
        >>> NoiseLaw("gaussian", 9216.4, 9216.4**2).in_words
        'Gaussian, scale 9,216, standard deviation 9,216'
        """
        scale, deviation = (
            f"{each:,.0f}" if each >= 1000 else f"{each:.{digits}g}"
            for each, digits in ((self.scale, 3), (self.variance**0.5, 2))
        )
        return f"{self.kind.capitalize()}, scale {scale}, standard deviation {deviation}"

    def evidence(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """The log-likelihood of a true count of one rather than zero, per noisy count, up to a constant per row."""
        table = np.asarray(counts, dtype=np.float64)
        if self.kind == "gaussian":
            return table / self.scale**2
        return (np.abs(table) - np.abs(table - 1)) / self.scale

    def counts(self, rows: int, columns: int, limit: int) -> Numbers:
        """The answer form of a table of counts within ±``limit``, with this noise."""
        return noisy_counts(rows, columns, limit + (REACH if self.kind == "laplace" else GAUSSIAN_REACH) * self.scale)

    def reach(self, copies: float, failure: float) -> float:
        """A bound that the absolute sum of ``copies`` independent noises exceeds with probability at most ``failure``.

        A discrete Laplace variable of scale b has a moment generating function of at most 1/(1 − b²λ²), that of the
        continuous one, and so of at most e^(2b²λ²) for bλ ≤ 1/√2. With c of them, and λ = t/(4cb²) if that is small
        enough and λ = 1/(√2·b) otherwise, Chernoff's bound gives t = b√(8cL) for c ≥ L and t = √2·b(L + c) for c < L,
        where L = ln(2/failure). Gaussian noise has t = σ√(2cL).

        >>> round(NoiseLaw("laplace", 2.0, 7.8).reach(100, 1e-9), 1)
        261.8
        """
        nats = math.log(2 / failure)
        if self.kind == "gaussian":
            return self.scale * math.sqrt(2 * copies * nats)
        return self.scale * (math.sqrt(8 * copies * nats) if copies >= nats else math.sqrt(2) * (nats + copies))


Parameters = Mapping[str, Parameter | Inner]


class Described:
    """The base class of mechanisms, with defaults for what they declare.

    ``name`` is its name on the wire. ``parameters`` are its constructor's arguments, each an attribute of the same
    name; a mechanism without them is never sent. ``option`` is the name by which a user chooses it for a table of
    votes, and ``offers`` the reason for that choice, in words.
    """

    name: ClassVar[str]
    statistic: ClassVar[Statistic]
    releases: ClassVar[Released]
    parameters: ClassVar[Parameters | None] = None
    option: ClassVar[str] = ""
    offers: ClassVar[str] = ""
    needs_delta: ClassVar[bool] = False

    @property
    def noise_law(self) -> NoiseLaw | None:
        """The law of the noise on each released count; None if no noisy counts are released."""
        return None

    @property
    def quorum(self) -> int:
        """The least number of participants at the holder that answers."""
        return 1

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: Fraction, delta: Fraction) -> Self:
        """The mechanism with the least noise for a table of this sensitivity, at this cost."""
        raise InvalidInput(f"{cls.__name__} cannot be calibrated from a sensitivity alone")

    def lead(self, classes: int, error: float) -> float:
        """The lead in votes at which a row's label is wrong with probability ``error``, all others being equal."""
        # Slow to import, and needed by plans only.
        from tacit.mechanisms.accuracy import gap_needed

        law = self.noise_law
        if law is None:
            raise InvalidInput(f"{type(self).__name__} has no law for the error of its labels")
        return gap_needed(law.kind, classes, error) * law.scale

    def answer_form(self, rows: int, columns: int, limit: int) -> AnswerForm:
        """The answer's form for a table of that shape with counts up to ``limit``, or for ``limit`` participants."""
        if self.releases == "counts" and self.noise_law is not None:
            return self.noise_law.counts(rows, columns, limit)
        raise InvalidInput(f"{type(self).__name__} has no answer that a holder may send alone")

    def noise_reach(self, cells: int, holders: int, failure: float) -> float | None:
        """A bound that the summed noise of ``cells`` counts exceeds with probability ``failure``; None if no noise."""
        law = self.noise_law
        return None if law is None else law.reach(cells, failure)

    def reliance(self, participants: int) -> Reliance:
        """The trust assumption at a node with this many participants.

        A node that adds all of its noise itself, or has a curator of its own choice add it, relies on no other node.
        """
        return ALONE

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Its audits by name: each makes the checks for a given ε and δ."""
        return {}


def noise_in_words(mechanism: Any) -> dict[str, str]:  # noqa: ANN401
    """What a run records about the noise on its released counts, and the sensitivity that it was made for.

    >>> noise_in_words(object())
    {}
    """
    law, most = getattr(mechanism, "noise_law", None), getattr(mechanism, "max_sensitivity", None)
    noise = {} if law is None else {"noise": law.in_words}
    return noise | ({"sensitivity": most.in_words} if most is not None and most.in_words else {})


def require_quorum(participants: int, quorum: int) -> None:
    """Refuse to show the messages of too few participants, which would not hide each other.

    >>> require_quorum(74, 75)
    Traceback (most recent call last):
        ...
    tacit.core.errors.TooFewParticipants: 74 participants answered, and at least 75 are needed for the stated epsilon. \
Nothing was revealed; ask again when more can answer
    """
    if participants < quorum:
        raise TooFewParticipants(
            f"{participants} participants answered, and at least {quorum} are needed for the stated epsilon. Nothing "
            "was revealed; ask again when more can answer"
        )
