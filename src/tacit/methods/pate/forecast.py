"""What PATE promises: teachers of few records each vote on every sample that is asked about."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.core.guarantee import Trust
from tacit.core.options import Options
from tacit.methods.forecast import Evidence, Expected, noise_unit, voted
from tacit.methods.pate.method import RECORDS_PER_TEACHER, vote_noise
from tacit.methods.pate.options import PATE
from tacit.methods.task import Task

__all__ = ["forecast"]

_FEW = (50, 100, 200, 400)


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The best of a few numbers of queries, or the number that was given; the student labels the rest."""
    assert isinstance(options, PATE)
    classes, records = evidence.classes, task.units * task.unit.records
    teachers = options.teachers or max(2, records // RECORDS_PER_TEACHER)
    taught = evidence.learned(records / teachers)
    tried = []
    for queries in (options.queries,) if options.queries else sorted({min(each, len(task.public)) for each in _FEW}):
        key = ("teachers", task.budget, task.delta, options.mechanism, queries)
        if key not in evidence.found:
            lead = _lead(vote_noise(task, options, Trust.CENTRAL, queries, queries), classes)
            evidence.found[key] = noise_unit(lead, classes)
        noise = evidence.found[key]
        right, deviation = voted(np.ones(1), taught, teachers, noise, classes)
        # Teachers err together on hard samples, so labels are no better than what can be learned.
        right = min(right, evidence.reachable())
        certain = max(0.0, (right - 1 / classes) / (1 - 1 / classes))
        student = evidence.learned(queries * certain)
        asked = queries / len(task.public)
        tried.append(
            Expected(asked * right + (1 - asked) * student, 0.02 + deviation / queries**0.5, queries, None, teachers,
                     1.0 + 0.02 * teachers, f"{teachers} teachers, noise of {noise:.3g} votes")
        )  # fmt: skip
    return max(tried, key=lambda each: each.accuracy)


def _lead(mechanism: Any, classes: int) -> float:  # noqa: ANN401
    if hasattr(mechanism, "lead"):
        return float(mechanism.lead(classes, 0.01))
    return float(mechanism.sigma) * 4.25 if hasattr(mechanism, "sigma") else 7.33 / float(mechanism.rate)
