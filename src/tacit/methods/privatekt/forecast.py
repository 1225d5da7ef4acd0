"""Forecast of PrivateKT: randomized answers are worth fewer true labels."""

from __future__ import annotations

from tacit.core.options import Options
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.privatekt.options import PrivateKT
from tacit.methods.privatekt.plan import plan_transfer
from tacit.methods.task import Task

__all__ = ["forecast"]


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
