"""Who is asked how often in a PrivateKT run, and what that costs a holder: solved or told before anybody is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tacit.accounting.compose import least_total
from tacit.core import Ceiling, InvalidInput, Number, Repeated, Rule, Total, Unit, decimal, probability, whole
from tacit.core.options import Options
from tacit.mechanisms.local.randomized_response import RandomizedLabels
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.privatekt.options import PrivateKT
from tacit.methods.task import Task

__all__ = ["TransferPlan", "forecast", "plan_transfer"]


@dataclass(frozen=True)
class TransferPlan:
    """The sheet every holder answers on, and ``total``: what the holder pays that is asked as often as allowed."""

    sheet: RandomizedLabels
    holders: int
    invited: int
    rounds: int
    most: int
    total: Total

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The plan in words."""
        return (
            (
                "asking",
                f"{self.rounds} rounds, {self.invited} of {self.holders} holders in each, {self.sheet.answers} samples "
                f"per holder; each holder at most {self.most} times",
            ),
            (
                "price",
                f"epsilon {decimal(self.sheet.epsilon)} per round, in total {decimal(self.total.epsilon)} for a "
                f"holder asked {self.most} times",
            ),
        )

    @property
    def ceiling(self) -> Ceiling:
        """The account of one holder for this run."""
        return Ceiling(Fraction(self.total.epsilon), self.total.delta, Rule.PLANNED, Unit.whole_holder())


def plan_transfer(
    classes: int, holders: int, epsilon: Number | None, delta: Number, options: PrivateKT
) -> TransferPlan:
    """Solve for ε per round where a total is given, or say what a given ε per round adds up to.

    ``participation`` of the holders are asked in each round, nobody more than ``max_participations`` times; left out,
    as often as comes of asking all equally often.

    >>> plan = plan_transfer(10, 80, None, "1e-5", PrivateKT(round_epsilon=5, rounds=500))
    >>> plan.most, round(float(plan.total.epsilon), 2)
    (250, 794.84)
    >>> plan = plan_transfer(10, 80, 10, "1e-5", PrivateKT(rounds=500))
    >>> round(float(plan.sheet.epsilon), 3), plan.total.epsilon <= 10
    (0.384, True)
    """
    holders, rounds = whole(holders, "holders"), whole(options.rounds, "rounds")
    answers = whole(options.queries_per_round, "queries_per_round")
    invited = max(1, round(options.participation * holders))
    most = math.ceil(rounds * invited / holders)
    if options.max_participations is not None:
        most = min(whole(options.max_participations, "max_participations"), rounds)
    limit = probability(delta, "delta")
    if epsilon is not None and options.round_epsilon is None:
        sheet = RandomizedLabels.for_total(classes, answers, epsilon, limit, most)
    elif options.round_epsilon is not None and epsilon is None:
        sheet = RandomizedLabels(classes, answers, options.round_epsilon)
    else:
        raise InvalidInput("give either epsilon, the total of a holder, or round_epsilon, its cost of one round")
    return TransferPlan(sheet, holders, invited, rounds, most, least_total([Repeated(sheet.spend, most)], limit))


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """Answers count by the square of how often they are kept and of how often the holders' models are right."""
    assert isinstance(options, PrivateKT)
    holders, classes = max(len(task.holders), 1), evidence.classes
    total = None if options.round_epsilon is not None else task.epsilon
    plan = plan_transfer(classes, holders, total, task.delta, options)
    answers = plan.rounds * plan.invited * plan.sheet.answers
    own = evidence.learned(task.units / holders)
    certain = max(0.0, (own - 1 / classes) / (1 - 1 / classes))
    worth = answers * (plan.sheet.keeping * certain) ** 2
    return Expected(
        evidence.learned(worth), 0.05, plan.sheet.answers, None, answers, 2.0 + 0.05 * plan.rounds,
        f"{answers} answers, {plan.sheet.keeping:.0%} of them true, are worth {worth:.3g} labels",
    )  # fmt: skip
