"""Class sums as one job: planned from public information, answered by holders in this process or by nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tacit.mechanisms.description import noise_in_words
from tacit.methods.class_sums.coordinator import ReleasedSums, SumCoordinator, public_probabilities
from tacit.methods.class_sums.holder import SumHolder
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import SumPlan, counted, plan_sums, trusted_with_sums
from tacit.methods.class_sums.sets import public_label_chances
from tacit.methods.curated import Answering, CuratedJob, private_cache, sharers_caveat
from tacit.methods.held import require_few_labels
from tacit.methods.task import Outcome, Task, taught, untrained
from tacit.private.gate import Gate
from tacit.students.weighted import fit_by_label, label_thresholds

__all__ = ["prepare"]


def prepare(task: Task, options: ClassSums) -> CuratedJob:
    """The job that labels this task's public samples from the noisy class sums of its records."""
    trust = trusted_with_sums(task, "class sums have", "encoding", "class sums")
    # The odds are linear in the features, so the default student is linear too.
    automatic = isinstance(options.student, str) and options.student == "auto"
    student = untrained("logistic" if automatic else options.student)
    task.observer.stage("choosing components and a mechanism")
    chosen = plan_sums(task, options, trust)
    task.check_representation(chosen.base)
    task.check_representation(chosen.question.representation)
    ask = chosen.question
    if ask.labels is not None:
        require_few_labels(task.parts, options.max_labels)
    return CuratedJob(
        task,
        options,
        chosen,
        SumCoordinator(ask),
        trust=chosen.trust,
        prices={task.request: ask.mechanism.spend},
        chosen={
            "mechanism": type(ask.mechanism).__name__,
            **noise_in_words(ask.mechanism),
            "representation": chosen.representation,
            "components": ask.components,
            "norm": ask.norm,
            "radius": ask.radius,
            "count": ask.count,
            **({} if ask.labels is None else {"labels": ask.labels}),
        },
        stage="adding up the records of each class",
        holder=partial(_answering, task, options),
        finish=partial(_finished if ask.labels is None else _labeled_sets, task, options, chosen, student),
        unit=chosen.unit,
        doubts=chosen.doubts,
        caveats=sharers_caveat(ask.mechanism, chosen.trust),
    )


def _answering(task: Task, options: ClassSums, gate: Gate) -> Answering:
    return SumHolder(list(task.parts), gate, task.observer.progress, private_cache(options.private_cache)).answer


def _finished(task: Task, options: ClassSums, plan: SumPlan, student: Any, released: ReleasedSums) -> Outcome:  # noqa: ANN401
    """The odds of the public samples, and a student trained on them."""
    task.observer.stage("fitting odds to the sums")
    chances = public_probabilities(released, plan.question, task.public, counted(task), options.fit)
    labels = task.classes[chances.argmax(axis=1)]
    rows = task.public.reshape(len(task.public), -1)
    trained = taught(student, rows, labels, np.ones(0), (task.classes, chances))
    return Outcome(
        student=trained,
        labels=labels,
        probabilities=chances,
        arrays={"sums": released.table},
    )


def _labeled_sets(task: Task, options: ClassSums, plan: SumPlan, student: Any, released: ReleasedSums) -> Outcome:  # noqa: ANN401
    """The probability of every label for the public samples, and a student per label trained on them."""
    task.observer.stage("fitting odds to the sums")
    records = counted(task)
    assert records is not None
    chances = public_label_chances(released, plan.question, task.public, records)
    return Outcome(
        student=fit_by_label(student, task.public.reshape(len(task.public), -1), chances, options.thresholds),
        labels=chances >= np.array(label_thresholds(options.thresholds, chances)),
        probabilities=chances,
        arrays={"sums": released.table},
        recipe={"student": type(student).__name__},
    )
