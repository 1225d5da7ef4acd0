"""Private k-NN as one job: planned from public knowledge, answered by holders here or by each node for itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tacit.core import InvalidInput, Trust
from tacit.mechanisms.central.pate import winners
from tacit.methods.curated import Answering, CuratedJob, private_cache
from tacit.methods.private_knn.coordinator import NeighborVotes
from tacit.methods.private_knn.holder import NeighborHolder
from tacit.methods.private_knn.options import PrivateKNN
from tacit.methods.private_knn.plan import NeighborPlan, plan_neighbors
from tacit.methods.task import Job, Outcome, Task, taught, untrained
from tacit.private.gate import Gate

__all__ = ["prepare"]


def prepare(task: Task, options: PrivateKNN) -> Job:
    """The job of labeling this task's public samples by the noisy votes of called neighbors."""
    task.single_labels("private_knn")
    trust = _trust(task, options)
    student = untrained(options.student)
    task.observer.stage("choosing queries and noise")
    chosen = plan_neighbors(task, options, trust)
    task.check_representation(chosen.fitted)
    return CuratedJob(
        task,
        options,
        chosen,
        chosen.coordinator,
        trust=chosen.trust,
        prices=chosen.spends,
        chosen={
            "mechanism": type(chosen.answers).__name__,
            "representation": chosen.representation,
            "queries": len(chosen.rows),
            "answers": chosen.answers.queries,
            "neighbors": chosen.coordinator.question.neighbors,
            "rate": float(chosen.answers.rate),
            "sigma": float(chosen.answers.sigma),
        },
        stage="sampling records and counting their votes",
        holder=partial(_answering, task, options),
        finish=partial(_finished, task, chosen, student),
        unit=task.unit,
        doubts=chosen.doubts,
    )


def _trust(task: Task, options: PrivateKNN) -> Trust:
    if task.nodes is None:
        if task.trust in (Trust.LOCAL, Trust.SHUFFLE):
            raise InvalidInput(
                f"Private k-NN has no {task.trust} mechanism: the nearest records are found where all sampled records "
                "are. Use method rknn for one-record holders, or trust central"
            )
        return task.trusting(Trust.CENTRAL, default=Trust.CENTRAL)
    if task.nodes.holders != "nodes":
        raise InvalidInput("Private k-NN compares many records in one place: for one-record holders use method rknn")
    if options.threshold is not None:
        raise InvalidInput("there is no screen over nodes, since each node would screen differently: leave it out")
    if task.trust is Trust.MASKED:
        raise InvalidInput(
            "Private k-NN draws a sample of the records for every query, and shares of noise are not accounted for "
            "that. Use trust local, where each node adds its own noise, or method rknn"
        )
    return task.trusting(Trust.LOCAL, default=Trust.LOCAL)


def _answering(task: Task, options: PrivateKNN, gate: Gate) -> Answering:
    return NeighborHolder(list(task.parts), gate, private_cache(options.private_cache)).answer


def _finished(task: Task, chosen: NeighborPlan, student: Any, released: NeighborVotes) -> Outcome:  # noqa: ANN401
    """A student of the answered queries, which labels what was not answered."""
    samples, known = task.public.reshape(len(task.public), -1), task.classes[winners(released.votes)]
    # A query stands for the samples around it. One that did not pass teaches nothing, unless none did.
    kept = np.flatnonzero(released.passed if released.passed.any() else ~released.passed)
    answer = np.full(len(chosen.rows), -1)
    answer[released.rows[kept]] = kept
    told = answer[chosen.membership]
    rows = np.flatnonzero(told >= 0)
    trained = taught(student, samples[rows], known[told[rows]], np.ones(len(rows)))
    labels = np.asarray(trained.predict(samples), dtype=task.classes.dtype)
    labels[rows] = known[told[rows]]
    arrays = {
        "queries": chosen.coordinator.question.queries[released.rows],
        "query_labels": known,
        "votes": released.votes,
        "answered": chosen.rows[released.rows],
        "passed": released.passed,
    }
    return Outcome(trained, labels, None, arrays, recipe={"student": type(trained).__name__})
