"""What Private k-NN promises: every public sample takes the label of its query, on which the nearest called vote."""

from __future__ import annotations

import numpy as np

from tacit.core.guarantee import Trust
from tacit.core.options import Options
from tacit.methods.forecast import Evidence, Expected, voted
from tacit.methods.private_knn.options import PrivateKNN
from tacit.methods.private_knn.plan import plan_neighbors
from tacit.methods.task import Task

__all__ = ["forecast"]

# Seconds per comparison of a record with a query in one feature, and to begin with.
_COMPARING, _STARTING = 2e-9, 1.0


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The queries and neighbors that the run would choose, answered by a curator."""
    assert isinstance(options, PrivateKNN)
    key = ("neighbors", task.budget, task.delta, task.units, options)
    if key not in evidence.found:
        plan = plan_neighbors(task, options, Trust.CENTRAL)
        ask, answers = plan.coordinator.question, plan.answers
        evidence.found[key] = plan.fitted.encode(evidence.points), ask.neighbors, float(answers.sigma), answers.queries
    encoded, neighbors, sigma, queries = evidence.found[key]
    _, purity = evidence.purity(encoded, min(queries, max(1, len(encoded) // 3)))
    # As many vote on each query, whatever part of the samples is near it.
    accuracy, deviation = voted(np.full(queries, 1 / queries), purity, neighbors * queries, sigma, evidence.classes)
    seconds = _STARTING + _COMPARING * task.units * queries * task.public[0].size
    said = f"{neighbors} votes per query, noise of {sigma:.3g}"
    return Expected(accuracy, 0.02 + deviation, queries, neighbors, 1, seconds, said)
