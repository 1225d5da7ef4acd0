"""The plan of a PrivateKT run: how often holders are asked, and their cost, fixed before the first question."""

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
    """The mechanism of one round, and ``total``, the cost for a holder that is asked ``most`` times."""

    mechanism: RandomizedLabels
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
                "questions",
                f"{self.rounds} rounds, {self.invited} of {self.holders} holders in each, {self.mechanism.answers} "
                f"samples per holder; each holder at most {self.most} times",
            ),
            (
                "cost",
                f"epsilon {decimal(self.mechanism.epsilon)} per round, in total {decimal(self.total.epsilon)} for a "
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
    """The ε per round for a given total, or the total for a given ε per round.

    The fraction ``participation`` of the holders is asked in each round, no holder more than ``max_participations``
    times; by default all are asked equally often.

    >>> plan = plan_transfer(10, 80, None, "1e-5", PrivateKT(round_epsilon=5, rounds=500))
    >>> plan.most, round(float(plan.total.epsilon), 2)
    (250, 794.84)
    >>> plan = plan_transfer(10, 80, 10, "1e-5", PrivateKT(rounds=500))
    >>> round(float(plan.mechanism.epsilon), 3), plan.total.epsilon <= 10
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
        mechanism = RandomizedLabels.for_total(classes, answers, epsilon, limit, most)
    elif options.round_epsilon is not None and epsilon is None:
        mechanism = RandomizedLabels(classes, answers, options.round_epsilon)
    else:
        raise InvalidInput("give either epsilon, the total of a holder, or round_epsilon, its cost per round")
    return TransferPlan(
        mechanism, holders, invited, rounds, most, least_total([Repeated(mechanism.spend, most)], limit)
    )


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast: an answer is worth the squared probability that it is true, times that of a right local model."""
    assert isinstance(options, PrivateKT)
    holders, classes = max(len(task.holders), 1), evidence.classes
    total = None if options.round_epsilon is not None else task.epsilon
    plan = plan_transfer(classes, holders, total, task.delta, options)
    answers = plan.rounds * plan.invited * plan.mechanism.answers
    own = evidence.learned(task.units / holders)
    certain = max(0.0, (own - 1 / classes) / (1 - 1 / classes))
    worth = answers * (plan.mechanism.keeping * certain) ** 2
    return Expected(
        evidence.learned(worth), 0.05, plan.mechanism.answers, None, answers, 2.0 + 0.05 * plan.rounds,
        f"{answers} answers, {plan.mechanism.keeping:.0%} of them true, are worth {worth:.3g} labels",
    )  # fmt: skip
