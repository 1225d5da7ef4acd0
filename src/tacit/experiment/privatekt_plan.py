"""Who is asked how often in a PrivateKT run, and what that costs a holder: solved or told before anybody is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tacit.accounting.compose import Rule, Total, total
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.core.rational import Number, probability
from tacit.core.spend import Repeated
from tacit.experiment.inputs import whole
from tacit.ledger.account import Ceiling
from tacit.mechanisms.local.answer_sheet import AnswerSheet

__all__ = ["TransferPlan", "plan_transfer"]


@dataclass(frozen=True)
class TransferPlan:
    """The sheet every holder answers on, and ``total``: what the holder pays that is asked as often as allowed."""

    sheet: AnswerSheet
    holders: int
    invited: int
    rounds: int
    most: int
    total: Total

    @property
    def ceiling(self) -> Ceiling:
        """The account of one holder for this run."""
        return Ceiling(Fraction(self.total.epsilon), self.total.delta, Rule.PLANNED, Unit.whole_holder())


def plan_transfer(
    classes: int,
    holders: int,
    epsilon: Number | None = None,
    delta: Number = "1e-5",
    *,
    round_epsilon: Number | None = None,
    rounds: int = 100,
    answers: int = 2,
    participation: float = 0.5,
    most: int | None = None,
) -> TransferPlan:
    """Solve for ε a round where a total is given, or say what a given ε a round adds up to.

    ``participation`` of the holders are asked in each round, nobody more than ``most`` times; left out, as often as
    comes of asking all equally often.

    >>> plan = plan_transfer(10, 80, round_epsilon=5, rounds=500)
    >>> plan.most, round(float(plan.total.epsilon), 2)
    (250, 794.84)
    >>> plan = plan_transfer(10, 80, epsilon=10, rounds=500)
    >>> round(float(plan.sheet.epsilon), 3), plan.total.epsilon <= 10
    (0.384, True)
    """
    holders, rounds, answers = whole(holders, "holders"), whole(rounds, "rounds"), whole(answers, "answers")
    if not 0 < participation <= 1:
        raise InvalidInput(f"participation must be in (0, 1], got {participation}")
    invited = max(1, round(participation * holders))
    most = math.ceil(rounds * invited / holders) if most is None else min(whole(most, "most"), rounds)
    limit = probability(delta, "delta")
    if epsilon is not None and round_epsilon is None:
        sheet = AnswerSheet.for_total(classes, answers, epsilon, limit, most)
    elif round_epsilon is not None and epsilon is None:
        sheet = AnswerSheet(classes, answers, round_epsilon)
    else:
        raise InvalidInput("give either epsilon, the total of a holder, or round_epsilon, what one round costs it")
    spend = Repeated(sheet.spend, most)
    # What is pure is said to be pure, even where some δ was allowed.
    found = min((total([spend], each, Rule.PLANNED) for each in (Fraction(0), limit)), key=lambda each: each.epsilon)
    return TransferPlan(sheet, holders, invited, rounds, most, found)
