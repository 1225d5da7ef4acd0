"""Votes alone: what the default asks of one-record holders, of few images, and where it has no plan of its own.

One question, as reverse k-NN labeling plans it; the default chooses the space of the votes of images, and trains its
own students of images on the labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Trust
from tacit.methods.auto.advice import tips
from tacit.methods.auto.options import Auto
from tacit.methods.auto.plan import AutoPlan, image_parts
from tacit.methods.auto.teaching import AutoTeaching
from tacit.methods.rknn.method import prepare as prepare_votes
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.task import Job, Outcome, Task

__all__ = ["vote_job"]

# The weight of the released label of a query of which nothing else was released.
_CERTAIN = 0.9


def vote_job(task: Task, options: Auto, reason: str) -> Job:
    """The job of one question about votes, which is asked for this reason."""
    task.observer.stage(f"planning reverse k-NN votes: {reason}")
    plan = _plan(task, reason)
    settings = ReverseKNN(
        max_labels=options.max_labels, thresholds=options.thresholds, student=options.student,
        representation=plan.representation,
    )  # fmt: skip
    job = prepare_votes(task, settings)
    job = replace(
        job,
        plan=replace(job.plan, reasons=plan.reasons),
        chosen={**job.chosen, "votes because": reason, "plan": [f"{title}: {said}" for title, said in plan.reasons]},
    )
    if plan.representation == "auto" or task.multilabel or not options.own_student:
        return job
    teaching, labeled = AutoTeaching(task, plan), job.finish

    def finish(answered: Any) -> Outcome:  # noqa: ANN401
        outcome = labeled(answered)
        return replace(outcome, student=teaching.last(_chances(outcome, task.classes)))

    return replace(job, finish=finish)


def _plan(task: Task, reason: str) -> AutoPlan:
    """The public choices: for images of some size the space of gradients, and networks as students."""
    said = [("release", f"votes on clusters, once: {reason}")]
    representation, network = "auto", False
    if task.kind == "images":
        seen, _, network = image_parts(task.public)
        # A node may have other weights of a pretrained network.
        if seen == "gradients":
            representation = seen
            said.append(("features", "a map by histograms of gradients, in which shapes are closer than by pixels"))
            student = "the mean of two networks" if network else "a perceptron on components of these features"
            said.append(("student", f"{student}, taught the odds of every public sample's cluster"))
    if task.trust is Trust.LOCAL and (task.nodes is None or task.nodes.holders == "records"):
        said.append(
            ("tip", "a shuffler (trust shuffle) hides each answer among all others: less noise at this epsilon")
        )
    return AutoPlan(
        task.kind, representation, representation, network, (task,), "votes", (*said, *tips(task)),
    )  # fmt: skip


def _chances(outcome: Outcome, classes: NDArray[Any]) -> NDArray[np.float64]:
    """The probability of each class for every public sample; if labels alone were released, they are nearly certain."""
    if outcome.probabilities is not None:
        return outcome.probabilities
    ones: NDArray[np.float64] = (outcome.labels[:, None] == classes).astype(np.float64)
    return _CERTAIN * ones + (1 - _CERTAIN) / len(classes)
