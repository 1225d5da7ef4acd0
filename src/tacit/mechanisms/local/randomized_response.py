"""Generalized randomized response (GRR), also called k-RR: names one cell, the participant's own with more probability.

``Responses`` randomizes several labels of one party; its cost is that of all of them together. ``RandomizedLabels`` are
the answers of one holder in one round of PrivateKT. Published code calibrated the noise for one number of answers and
gave another; here the number of answers, the budget of a round, the noise of each answer, the spend and the unbiased
estimate all come from the same object.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import total
from tacit.core import (
    ANYTHING,
    Integers,
    InvalidInput,
    MessageLaw,
    Number,
    RandomizedResponse,
    Randomness,
    Repeated,
    Rule,
    Sensitivity,
    bisect,
    positive,
    probability,
    rounded_down,
    uniform_below,
)
from tacit.mechanisms.auditing import AUDITED_CELLS, PAIR, PURE, Check, Target, message_checks
from tacit.mechanisms.description import CELLS, EXACT, Checks, Described, Inner, Parameters
from tacit.mechanisms.exact import ExactTable, exp, precision
from tacit.mechanisms.forms import AnswerForm, Numbers
from tacit.mechanisms.local.participants import (
    DOMAIN,
    LAW_DIGITS,
    HitEstimates,
    HitRates,
    checked_messages,
    domain,
    local_epsilon,
    one_participant,
    participant_cells,
)
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.messages import IndexCode
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = ["GeneralizedRandomizedResponse", "RandomizedLabels", "Responses"]


@lru_cache(maxsize=64)
def _own(cells: int, ones: int, epsilon: Fraction) -> ExactTable:
    """Whether the named cell is the participant's own (1) or not (0)."""

    def weights(digits: int) -> list[Decimal]:
        return [Decimal(cells - ones), precision(digits).multiply(Decimal(ones), exp(epsilon, digits))]

    return ExactTable(weights)


@dataclass(frozen=True)
class GeneralizedRandomizedResponse(HitEstimates):
    """Names one cell, each of the participant's own with e^ε times the probability of any other.

    **Law.** P(j) = e^ε/Ω for the participant's c cells and 1/Ω for the d − c others, Ω = c·e^ε + d − c.

    **Spend.** ``RandomizedResponse(epsilon, ⌊d/c⌋)``, between any two sets of c cells; at least two classes.

    **Proof.** Ω does not depend on the set, and every probability is 1/Ω or e^ε/Ω. A cell that only one of two sets has
    reaches the bound. For two sets that differ in m ≤ c cells the privacy loss is +ε with probability m·e^ε/Ω, −ε with
    m/Ω, and otherwise 0. Randomized response over ⌊d/c⌋ classes has +ε with probability 1/(1 + (⌊d/c⌋ − 1)e^(−ε)),
    which is at least c·e^ε/Ω. If d < 2c, two classes dominate every ε-DP mechanism.

    For c > 1 this is not "sample one of the c, then respond at ε", which would waste a part of ε: all c cells have the
    larger probability.

    **Source.** P. Kairouz, K. Bonawitz and D. Ramage, Discrete distribution estimation under local privacy,
    ICML 2016, for c = 1; for c > 1 it is subset selection with subsets of one cell.

    >>> mechanism = GeneralizedRandomizedResponse(cells=100, ones=1, epsilon=4)
    >>> round(mechanism.variance_zero, 6)
    0.053119
    """

    name = "generalized-response"
    parameters: ClassVar[Parameters] = DOMAIN

    cells: int
    ones: int
    epsilon: Fraction

    def __init__(self, cells: int, ones: int, epsilon: Number) -> None:
        cells, ones = domain(cells, ones)
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "ones", ones)
        object.__setattr__(self, "epsilon", local_epsilon(epsilon))

    @property
    def spend(self) -> RandomizedResponse:
        """The cost of one message."""
        return RandomizedResponse(self.epsilon, max(2, self.cells // self.ones))

    @property
    def message_bits(self) -> int:
        """The bits of one cell's index."""
        return (self.cells - 1).bit_length()

    @property
    def rates(self) -> HitRates:
        """How often a held cell, and any other, is named."""
        # Numerators and Ω are divided by e^ε, so that nothing overflows.
        decay, total = math.exp(-self.epsilon), self.ones + (self.cells - self.ones) * math.exp(-self.epsilon)
        return HitRates(1 / total, decay / total, -math.expm1(-self.epsilon) / total)

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> Integers:
        """One cell per participant."""
        held = participant_cells(cells, self.cells, self.ones)
        count = len(held)
        own = _own(self.cells, self.ones, self.epsilon).sample(count, randomness)
        mine = held[np.arange(count), uniform_below(self.ones, count, randomness)]
        other = uniform_below(self.cells - self.ones, count, randomness)
        for column in held.T:
            # The i-th cell outside of the set: every cell of the set at or below it moves it up by one, lowest first.
            other += other >= column
        return np.where(own == 1, mine, other)

    def hit_counts(self, messages: NDArray[Any]) -> Integers:
        """How many messages name each cell."""
        named = checked_messages(messages, np.int64, ())
        if not self.code.valid(named).all():
            raise InvalidInput(f"messages must name cells in [0, {self.cells - 1}]")
        return np.bincount(named, minlength=self.cells)

    def law(self, cells: Sequence[int]) -> MessageLaw:
        """The probability of every cell to be named."""
        held = one_participant(cells, self.cells, self.ones)
        context, weight = precision(LAW_DIGITS), exp(self.epsilon, LAW_DIGITS)
        total = context.add(context.multiply(weight, Decimal(self.ones)), Decimal(self.cells - self.ones))
        own, other = context.divide(weight, total), context.divide(Decimal(1), total)
        return MessageLaw(
            np.arange(self.cells, dtype=np.int64),
            tuple(own if cell in held else other for cell in range(self.cells)),
        )

    @property
    def code(self) -> IndexCode:
        """The index of a cell."""
        return IndexCode(self.cells)

    def exact_form(self, count: int) -> Numbers:
        """The form of exactly ``count`` messages, packed without whole bytes."""
        return Numbers((count,), 0, self.cells - 1)

    def hits(self, messages: NDArray[Any]) -> NDArray[np.float64]:
        """For each message and cell, 1 where the cell is named."""
        named: NDArray[np.float64] = np.eye(self.cells)[messages]
        return named

    def blankets(self) -> list[Blanket]:
        """The floor is 1/Ω on each of the d cells; c − j of them are likely under one of two inputs only.

        >>> [round(each.total, 6) for each in GeneralizedRandomizedResponse(cells=10, ones=2, epsilon=1).blankets()]
        [0.744238, 0.744238]
        """
        epsilon, ones, cells = float(self.epsilon), self.ones, self.cells
        floor = 1 / (ones * math.exp(epsilon) + cells - ones)
        return [Blanket(epsilon, (ones - j) * floor, cells * floor) for j in self.shared_cells]

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """The cell that is named."""
        return {
            cls.name: lambda epsilon, delta: message_checks(cls.name, cls(AUDITED_CELLS, 2, epsilon), PAIR, np.asarray)
        }


@dataclass(frozen=True)
class Responses(Described):
    """Randomizes ``count`` labels of one party independently, each by ``local``.

    **Law.** Message i is drawn by ``local`` from label i, independently of the others.

    **Spend.** ``Repeated(local.spend, count)``: a local mechanism states the cost of one label, and all these labels
    come from the same records.

    **Proof.** One changed record may change every label, because nothing bounds its influence on a trained model.
    Each message is then ε₀-DP, and independent draws compose.

    **Source.** Composition of the local mechanism; nothing new.

    >>> Responses(GeneralizedRandomizedResponse(cells=10, ones=1, epsilon="1/10"), count=50).spend.count
    50
    """

    name = "responses"
    statistic = "labels"
    releases = "messages"
    parameters: ClassVar[Parameters] = {
        "local": Inner((GeneralizedRandomizedResponse, SubsetSelection)),
        "count": CELLS,
    }
    max_sensitivity: ClassVar[Sensitivity] = ANYTHING

    local: GeneralizedRandomizedResponse | SubsetSelection
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"count must be at least 1, got {self.count}")
        if self.local.ones != 1:
            raise InvalidInput(f"a label is one cell; the local mechanism is for {self.local.ones}")

    @property
    def spend(self) -> Repeated:
        """The cost of all labels together."""
        return Repeated(self.local.spend, self.count)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """One message per label."""
        if value.shape != (self.count,):
            raise InvalidInput(f"{self.count} labels are paid for, got an array of shape {value.shape}")
        return self.local.encode(value[:, None], randomness)

    def estimates(self, messages: NDArray[Any]) -> NDArray[np.float64]:
        """An unbiased estimate (count, classes) of each label's one-hot vector.

        >>> from tacit.core.randomness import SeededRandomness
        >>> sure = Responses(GeneralizedRandomizedResponse(3, 1, 20), count=2)
        >>> sure.estimates(sure.sample(np.array([2, 0]), SeededRandomness(1))).round(6).tolist()
        [[-0.0, -0.0, 1.0], [1.0, -0.0, -0.0]]
        """
        rates = self.local.rates
        return (self._hits(messages) - rates.zero) / rates.gap

    def evidence(self, messages: NDArray[Any]) -> NDArray[np.float64]:
        """The log-likelihood of each class for each message, up to a constant per row.

        Both mechanisms send a message that names the true class e^ε times as likely as one that does not.

        >>> Responses(GeneralizedRandomizedResponse(3, 1, 2), count=1).evidence(np.array([1])).tolist()
        [[0.0, 2.0, 0.0]]
        """
        return float(self.local.epsilon) * self._hits(messages)

    def _hits(self, messages: NDArray[Any]) -> NDArray[np.float64]:
        """Ones where a message names the class."""
        if len(messages) != self.count:
            raise InvalidInput(f"{self.count} messages were asked for, got {len(messages)}")
        return self.local.hits(messages)

    def answer_form(self, rows: int, columns: int, limit: int) -> AnswerForm:
        """Exactly one response per row."""
        return self.local.exact_form(rows)


@dataclass(frozen=True)
class RandomizedLabels(Described):
    """``answers`` labels out of ``classes``, each by randomized response at ``epsilon / answers``.

    **Law.** Independently for each answer, P(true label) = e^(ε/K)/(e^(ε/K) + C − 1) and 1/(e^(ε/K) + C − 1) for every
    other: keep the label with probability β = (e^(ε/K) − 1)/(e^(ε/K) − 1 + C), otherwise draw one uniformly.

    **Spend.** ``Repeated(RandomizedResponse(epsilon / answers, classes), answers)``, between any two lists of answers:
    one record may change all of them, and so may all records of the holder.

    **Proof.** Each answer is generalized randomized response over C cells; K of them, each at ε/K, compose to ε.

    **Source.** Qi, Wu, Wu, He, Huang and Xie, Differentially private knowledge transfer for federated learning,
    Nature Communications 2023.

    >>> sheet = RandomizedLabels(classes=10, answers=10, epsilon=5)
    >>> round(sheet.keeping, 9), sheet.spend.count
    (0.06092011, 10)
    """

    name = "answer-sheet"
    statistic = "labels"
    releases = "labels"
    parameters: ClassVar[Parameters] = {"classes": CELLS, "answers": CELLS, "epsilon": EXACT}
    max_sensitivity: ClassVar[Sensitivity] = ANYTHING

    classes: int
    answers: int
    epsilon: Fraction

    def __init__(self, classes: int, answers: int, epsilon: Number) -> None:
        if answers < 1:
            raise InvalidInput(f"answers must be at least 1, got {answers}")
        object.__setattr__(self, "classes", int(classes))
        object.__setattr__(self, "answers", int(answers))
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        # Made once here, so that invalid parameters are refused before anything is asked.
        self.response  # noqa: B018

    @classmethod
    def for_total(cls, classes: int, answers: int, epsilon: Number, delta: Number, rounds: int) -> RandomizedLabels:
        """The mechanism with the largest ε per round of which ``rounds`` compose to (ε, δ), all planned in advance.

        >>> sheet = RandomizedLabels.for_total(classes=10, answers=2, epsilon=10, delta=1e-5, rounds=250)
        >>> round(float(sheet.epsilon), 3)
        0.384
        """
        goal, limit = positive(epsilon, "epsilon"), probability(delta, "delta")
        if rounds < 1:
            raise InvalidInput(f"rounds must be at least 1, got {rounds}")
        share = goal / rounds
        if limit == 0:
            return cls(classes, answers, share)

        def fits(each: float) -> bool:
            spend = cls(classes, answers, max(share, rounded_down(each, 9))).spend
            return total([Repeated(spend, rounds)], limit, Rule.PLANNED).epsilon <= goal

        largest = bisect(fits, float(share), float(goal), tolerance=1e-9 * float(share))
        return cls(classes, answers, max(share, rounded_down(largest, 9)))

    @property
    def response(self) -> GeneralizedRandomizedResponse:
        """The mechanism of a single answer."""
        return GeneralizedRandomizedResponse(self.classes, 1, self.epsilon / self.answers)

    @property
    def spend(self) -> Repeated:
        """The cost of one round's answers."""
        return Repeated(self.response.spend, self.answers)

    @property
    def keeping(self) -> float:
        """β, the probability that a label is kept and not drawn again."""
        growth = math.expm1(float(self.epsilon / self.answers))
        return growth / (growth + self.classes)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The randomized answers of one holder; another number of labels is refused."""
        labels = np.asarray(value)
        if labels.shape != (self.answers,):
            raise InvalidInput(f"this mechanism is for {self.answers} answers, got labels of shape {labels.shape}")
        filled: Integers = self.fill(labels[None], randomness)[0]
        return filled

    def fill(self, sheets: NDArray[Any], randomness: Randomness) -> Integers:
        """The randomized answers of several holders, one row per holder."""
        return self.response.encode(np.reshape(sheets, (-1, 1)), randomness).reshape(-1, self.answers)

    def shares(self, sheets: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Unbiased estimates of the fraction of holders with each label, and their variances, from one row per holder.

        Both are (answers, classes). The fractions add up to 1; some may be negative.

        >>> RandomizedLabels(2, 1, 500).shares(np.array([[0], [0], [1], [0]]))[0].round(6).tolist()
        [[0.75, 0.25]]
        """
        sheets = np.asarray(sheets)
        if sheets.ndim != 2 or sheets.shape[1] != self.answers or not len(sheets):
            raise InvalidInput(f"answers must be rows of {self.answers} answers, got shape {sheets.shape}")
        found = [self.response.decode(column.astype(np.int64)) for column in sheets.T]
        counts, variances = np.array([each.counts for each in found]), np.array([each.variances for each in found])
        return counts / len(sheets), variances / len(sheets) ** 2

    def answer_form(self, rows: int, columns: int, limit: int) -> Numbers:
        """One label per answer."""
        return Numbers((self.answers,), 0, self.classes - 1)

    def answered(self, name: str, epsilon: Fraction) -> Target:
        """A holder's answers with a claimed ε: all of them may change with one record."""

        def draw(label: int, count: int, randomness: Randomness) -> Integers:
            ones: Integers = self.fill(np.full((count, self.answers), label), randomness).sum(axis=1)
            return ones

        return Target(name, epsilon, PURE, (0, 1), draw)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """PrivateKT's answers: three at ε/3 each."""

        def answered(epsilon: Fraction, delta: Fraction) -> list[Check]:
            return [cls(classes=2, answers=3, epsilon=epsilon).answered("privatekt-answers", epsilon)]

        return {"privatekt-answers": answered}
