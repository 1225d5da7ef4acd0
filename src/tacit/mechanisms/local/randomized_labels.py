"""The answers of one holder to one round of questions: the one object that knows how many they are.

Published code has set the noise for this many answers and given another number of them. Here the number of answers, the
budget of a round, the noise of each answer, the spend and the unbiased estimate are all read off the same sheet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness
from tacit.core.rational import Number, bisect, positive, probability, rounded_down
from tacit.core.sensitivity import ANYTHING, Sensitivity
from tacit.core.spend import Repeated
from tacit.mechanisms.auditing import PURE, Check, Target
from tacit.mechanisms.description import CELLS, EXACT, Checks, Described, Parameters
from tacit.mechanisms.forms import Numbers
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse

__all__ = ["RandomizedLabels"]


@dataclass(frozen=True)
class RandomizedLabels(Described):
    """``answers`` labels out of ``classes``, each by randomized response at ``epsilon / answers``.

    **Law.** Independently for each answer, P(true label) = e^(ε/K)/(e^(ε/K) + C − 1) and 1/(e^(ε/K) + C − 1) for every
    other: keep the label with probability β = (e^(ε/K) − 1)/(e^(ε/K) − 1 + C), else draw one uniformly.

    **Spend.** ``Repeated(RandomizedResponse(epsilon / answers, classes), answers)``, between any two sheets: all of
    the answers may change with one record, and with all records of the holder too.

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
        # Made once here, so that what it refuses is refused before anything is asked.
        self.response  # noqa: B018

    @classmethod
    def for_total(cls, classes: int, answers: int, epsilon: Number, delta: Number, rounds: int) -> RandomizedLabels:
        """The sheet with the largest ε per round of which ``rounds`` compose to (ε, δ), all planned in advance.

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
        """What one sheet costs its holder."""
        return Repeated(self.response.spend, self.answers)

    @property
    def keeping(self) -> float:
        """β, how likely a label is kept as it is rather than drawn anew."""
        growth = math.expm1(float(self.epsilon / self.answers))
        return growth / (growth + self.classes)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The randomized answers of one holder; any other number of labels than planned is refused."""
        labels = np.asarray(value)
        if labels.shape != (self.answers,):
            raise InvalidInput(f"this sheet has room for {self.answers} answers, got labels of shape {labels.shape}")
        filled: Integers = self.fill(labels[None], randomness)[0]
        return filled

    def fill(self, sheets: NDArray[Any], randomness: Randomness) -> Integers:
        """The randomized answers of many holders, one sheet a row."""
        return self.response.encode(np.reshape(sheets, (-1, 1)), randomness).reshape(-1, self.answers)

    def shares(self, sheets: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Unbiased shares of the holders that gave each label, and their variances, from one sheet a row.

        Both are (answers, classes). Shares add up to 1; some may be negative, as unbiased ones must.

        >>> RandomizedLabels(2, 1, 500).shares(np.array([[0], [0], [1], [0]]))[0].round(6).tolist()
        [[0.75, 0.25]]
        """
        sheets = np.asarray(sheets)
        if sheets.ndim != 2 or sheets.shape[1] != self.answers or not len(sheets):
            raise InvalidInput(f"sheets must have {self.answers} answers in each of some rows, got {sheets.shape}")
        found = [self.response.decode(column.astype(np.int64)) for column in sheets.T]
        counts, variances = np.array([each.counts for each in found]), np.array([each.variances for each in found])
        return counts / len(sheets), variances / len(sheets) ** 2

    def answer_form(self, rows: int, columns: int, limit: int) -> Numbers:
        """One label per answer."""
        return Numbers((self.answers,), 0, self.classes - 1)

    def answered(self, name: str, epsilon: Fraction) -> Target:
        """A holder that fills in this sheet and claims to spend ε: all its answers may change with one record."""

        def draw(label: int, count: int, randomness: Randomness) -> Integers:
            ones: Integers = self.fill(np.full((count, self.answers), label), randomness).sum(axis=1)
            return ones

        return Target(name, epsilon, PURE, (0, 1), draw)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """PrivateKT: the sheet that holders answer on, three answers at ε/3 each."""

        def answered(epsilon: Fraction, delta: Fraction) -> list[Check]:
            return [cls(classes=2, answers=3, epsilon=epsilon).answered("privatekt-answers", epsilon)]

        return {"privatekt-answers": answered}
