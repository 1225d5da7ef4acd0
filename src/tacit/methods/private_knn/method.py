"""Private k-NN as one job: planned from public information, answered by holders in this process or by each node."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tacit.core import InvalidInput, Trust
from tacit.mechanisms.central.pate import winners
from tacit.mechanisms.description import noise_in_words
from tacit.methods.curated import Answering, CuratedJob, private_cache
from tacit.methods.private_knn.coordinator import NeighborVotes
from tacit.methods.private_knn.holder import NeighborHolder
from tacit.methods.private_knn.options import PrivateKNN
from tacit.methods.private_knn.plan import NeighborPlan, plan_neighbors
from tacit.methods.task import Job, Outcome, Task, taught, untrained
from tacit.private.gate import Gate

__all__ = ["prepare"]


def prepare(task: Task, options: PrivateKNN) -> Job:
    """The job that labels this task's public samples by the noisy votes of their nearest sampled records."""
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
            **noise_in_words(chosen.answers),
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
        if task.division is not None and len(task.parts) > 1:
            raise InvalidInput(
                "Private k-NN lets the first of equally near records vote, and a division among simulated holders "
                "would put all records in another order when one changes: leave out holders, or give the records of "
                "each holder"
            )
        if task.trust in (Trust.LOCAL, Trust.SHUFFLE):
            raise InvalidInput(
                f"Private k-NN has no {task.trust} mechanism: the nearest records are found among all sampled records. "
                "Use method rknn for one-record holders, or trust central"
            )
        return task.trusting(Trust.CENTRAL, default=Trust.CENTRAL)
    if task.nodes.holders != "nodes":
        raise InvalidInput("Private k-NN compares many records in one place: for one-record holders use method rknn")
    if options.threshold is not None:
        raise InvalidInput("over nodes there is no screen, since each would select other queries: leave out threshold")
    if task.trust is Trust.MASKED:
        raise InvalidInput(
            "Private k-NN samples records for every query, for which distributed noise is not accounted. Use trust "
            "local, where each node adds its own noise, or method rknn"
        )
    return task.trusting(Trust.LOCAL, default=Trust.LOCAL)


def _answering(task: Task, options: PrivateKNN, gate: Gate) -> Answering:
    return NeighborHolder(list(task.parts), gate, private_cache(options.private_cache)).answer


def _finished(task: Task, chosen: NeighborPlan, student: Any, released: NeighborVotes) -> Outcome:  # noqa: ANN401
    """A student trained on the answered queries, which labels the other samples."""
    samples, known = task.public.reshape(len(task.public), -1), task.classes[winners(released.votes)]
    # A query's label is that of its cluster. Queries that did not pass are not used, unless none passed.
    kept = np.flatnonzero(released.passed if released.passed.any() else ~released.passed)
    answer = np.full(len(chosen.rows), -1)
    answer[released.rows[kept]] = kept
    nearest = answer[chosen.membership]
    rows = np.flatnonzero(nearest >= 0)
    trained = taught(student, samples[rows], known[nearest[rows]], np.ones(len(rows)))
    labels = np.asarray(trained.predict(samples), dtype=task.classes.dtype)
    labels[rows] = known[nearest[rows]]
    arrays = {
        "queries": chosen.coordinator.question.queries[released.rows],
        "query_labels": known,
        "votes": released.votes,
        "answered": chosen.rows[released.rows],
        "passed": released.passed,
    }
    return Outcome(trained, labels, None, arrays)
