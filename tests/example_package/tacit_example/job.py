"""The example method as one job: one account pays for one question, here or at each node."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Trust
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.curated import Answering, CuratedJob
from tacit.methods.task import Announcement, Job, Outcome, Task
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext
from tacit.private.records import combine, joined
from tacit_example.holder import answer_at_node
from tacit_example.method import HistogramCoordinator, count_sensitivity
from tacit_example.options import Histogram


def prepare(task: Task, options: Histogram) -> Job:
    """The job that labels this task's public samples."""
    task.single_labels("histogram")
    if options.rank > len(task.classes):
        raise InvalidInput(f"rank must be at most the number of classes, {len(task.classes)}, got {options.rank}")
    here = Trust.CENTRAL if task.nodes is None else Trust.LOCAL
    trust = task.trusting(here, default=here)
    names = tuple(map(str, task.classes))
    noise = DiscreteLaplaceNoise.for_epsilon(task.budget, count_sensitivity(task.unit, task.adjacency).l1)
    return CuratedJob(
        task,
        options,
        Announcement((("mechanism", f"one count per class with noise of scale {float(noise.scale):.3g}"),)),
        HistogramCoordinator(names, task.public, noise, task.request, options.rank),
        trust=trust,
        prices={task.request: noise.spend},
        chosen={"mechanism": type(noise).__name__},
        stage="counting records",
        holder=partial(_answering, task, names),
        finish=partial(_finished, task),
        unit=task.unit,
    )


def _answering(task: Task, names: tuple[str, ...], gate: Gate) -> Answering:
    context = NodeContext(names, combine(task.parts, joined), gate)
    return lambda ask: answer_at_node(ask, context)


def _finished(task: Task, named: list[str]) -> Outcome:
    labels: Any = task.classes[[list(map(str, task.classes)).index(each) for each in named]]
    samples = task.public.reshape(len(task.public), -1)
    student = DummyClassifier(strategy="most_frequent").fit(samples, labels)
    return Outcome(student, np.asarray(labels))
