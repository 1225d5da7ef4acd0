"""What every mechanism says of itself: parameters, form of its answers, noise, on whom it relies, and its audits.

Nothing outside this folder compares the types of mechanisms. Whoever needs to know something asks the mechanism, and a
new one answers for itself: it is written in one file, listed in ``registry.py``, and offered in a table of choices.
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
    "CLIENTS",
    "COUNT",
    "EXACT",
    "FLAG",
    "LENGTHS",
    "OPTIONAL_COUNT",
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

# What is randomized: a table of counts; records that are called to vote; the cells of each client; the messages of
# one-record holders as one of them makes them, and as a shuffler passes them on; a holder's part of a sum; labels of
# one holder; a subset of records.
Statistic = Literal["table", "electorate", "local", "messages", "shuffle", "share", "labels", "subset"]
Released = Literal["labels", "counts", "flags", "messages", "sealed", "records"]
# The checks of a mechanism that is to spend ε and, where its claim needs one, δ.
Checks = Callable[[Fraction, Fraction], Sequence[Check]]

# Limits on what a question may name: beyond, it would cost its holder more time or memory than any honest one.
_LARGEST = 10**9
_LARGEST_DOMAIN = 10**7
# Adding up how messages of this many clients hide each other takes a minute or so; beyond, it takes hours.
MOST_CLIENTS = 10**7


@dataclass(frozen=True)
class Parameter:
    """How one parameter is written and, strictly, read."""

    write: Callable[[Any], Any]
    read: Callable[[StrictReader, str], Any]


def _integer(low: int, high: int) -> Parameter:
    return Parameter(int, lambda fields, name: fields.integer(name, low, high))


EXACT = Parameter(str, lambda fields, name: fields.fraction(name))
COUNT = _integer(1, _LARGEST)
CLIENTS = _integer(1, MOST_CLIENTS)
# What may be left out is None, and then not written.
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
    """A parameter with parameters of its own: one of ``kinds``, or any registered mechanism of a ``statistic``.

    ``check`` refuses what is too much to ask of a holder, though such an object can be made.
    """

    kinds: tuple[type[Any], ...] = ()
    statistic: Statistic | None = None
    check: Callable[[Any], None] = lambda _: None


@dataclass(frozen=True)
class Reliance:
    """On whom a guarantee rests: how many ``others`` must be honest, and which share of the noise is the node's own."""

    others: int
    share: Fraction


ALONE = Reliance(0, Fraction(1))


@dataclass(frozen=True)
class NoiseLaw:
    """The law of the noise on one count, as far as a reader of counts needs it.

    >>> NoiseLaw("gaussian", 2.0, 4.0).evidence(np.array([[3, 0]])).tolist()
    [[0.75, 0.0]]
    """

    kind: Literal["laplace", "gaussian"]
    scale: float
    variance: float

    @property
    def in_words(self) -> str:
        """The law as a reader of a report needs it.

        >>> NoiseLaw("laplace", 2.0, 7.8).in_words
        'laplace, scale 2, standard deviation 2.8'
        """
        return f"{self.kind}, scale {self.scale:.3g}, standard deviation {self.variance**0.5:.2g}"

    def evidence(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """How much each noisy count speaks for a one in place of a zero: log-likelihoods, up to a constant a row."""
        table = np.asarray(counts, dtype=np.float64)
        if self.kind == "gaussian":
            return table / self.scale**2
        return (np.abs(table) - np.abs(table - 1)) / self.scale

    def counts(self, rows: int, columns: int, limit: int) -> Numbers:
        """The form of a table of counts, none beyond ``limit``, with this noise."""
        return noisy_counts(rows, columns, limit + (REACH if self.kind == "laplace" else GAUSSIAN_REACH) * self.scale)

    def reach(self, copies: float, failure: float) -> float:
        """What ``copies`` independent noises together go beyond, up or down, with at most this probability.

        A discrete Laplace variable of scale b has a moment generating function of at most 1/(1 − b²λ²), which is that
        of a continuous one, and at most e^(2b²λ²) for bλ ≤ 1/√2. With c of them, λ = t/(4cb²) where that is small
        enough and λ = 1/(√2·b) elsewhere, Chernoff's bound gives t = b√(8cL) for c ≥ L and t = √2·b(L + c) below,
        L = ln(2/failure). Gaussian noise has t = σ√(2cL).

        >>> round(NoiseLaw("laplace", 2.0, 7.8).reach(100, 1e-9), 1)
        261.8
        """
        nats = math.log(2 / failure)
        if self.kind == "gaussian":
            return self.scale * math.sqrt(2 * copies * nats)
        return self.scale * (math.sqrt(8 * copies * nats) if copies >= nats else math.sqrt(2) * (nats + copies))


Parameters = Mapping[str, Parameter | Inner]


class Described:
    """What a mechanism says of itself, with what is true of most of them; a class states the rest.

    ``name`` is what it is called on the wire, ``parameters`` are what it is built from, each by its name as an
    attribute and as an argument. One without parameters does not travel. ``option`` is what a user calls it where it
    can be chosen for a table of votes, and ``offers`` says in words why one would.
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
        """The law of the noise on each count that is released; None where no counts with noise are."""
        return None

    @property
    def quorum(self) -> int:
        """How many clients must take part at the one holder that answers."""
        return 1

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: Fraction, delta: Fraction) -> Self:
        """The mechanism with the least noise for a table that moves this far, at this price."""
        raise InvalidInput(f"{cls.__name__} is not made for tables by their sensitivity alone")

    def lead(self, classes: int, error: float) -> float:
        """The lead in votes at which the label of a row is wrong with probability ``error``, all rivals being level."""
        # The laws of winners are slow to import and needed by plans only.
        from tacit.mechanisms.accuracy import gap_needed

        law = self.noise_law
        if law is None:
            raise InvalidInput(f"{type(self).__name__} does not say how certain its labels are")
        return gap_needed(law.kind, classes, error) * law.scale

    def answer_form(self, rows: int, columns: int, limit: int) -> AnswerForm:
        """What comes of a table of counts of that shape, none beyond ``limit``, or of at most that many clients."""
        if self.releases == "counts" and self.noise_law is not None:
            return self.noise_law.counts(rows, columns, limit)
        raise InvalidInput(f"{type(self).__name__} gives no answer that leaves its holder on its own")

    def noise_reach(self, cells: int, holders: int, failure: float) -> float | None:
        """What the noises of ``cells`` counts together go beyond with at most this probability; None without noise."""
        law = self.noise_law
        return None if law is None else law.reach(cells, failure)

    def reliance(self, clients: int) -> Reliance:
        """What the guarantee needs of others, at a node that speaks for this many clients.

        Whoever adds all of its noise itself, or has a curator add it whom its own file names, relies on no other node.
        """
        return ALONE

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """How it is audited: by name, what makes the checks for a given ε and δ."""
        return {}


def noise_in_words(mechanism: Any) -> dict[str, str]:  # noqa: ANN401
    """What a run writes down of the noise on what it released; nothing where no counts with noise are.

    >>> noise_in_words(object())
    {}
    """
    law = getattr(mechanism, "noise_law", None)
    return {} if law is None else {"noise": law.in_words}


def require_quorum(participants: int, quorum: int) -> None:
    """Refuse to show anything of too few clients: their messages would not hide each other.

    >>> require_quorum(74, 75)
    Traceback (most recent call last):
        ...
    tacit.core.errors.TooFewParticipants: 74 clients took part, and at least 75 are needed: with fewer the shuffled \
messages would not hide a vote as claimed. Nothing was revealed; ask again when more clients can answer
    """
    if participants < quorum:
        raise TooFewParticipants(
            f"{participants} clients took part, and at least {quorum} are needed: with fewer the shuffled messages "
            "would not hide a vote as claimed. Nothing was revealed; ask again when more clients can answer"
        )
