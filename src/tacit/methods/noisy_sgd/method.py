"""Noisy SGD as one job: planned from public information, answered by holders in this process or by nodes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacit.core import Adjacency, InvalidInput, Trust
from tacit.core.samples import content_digest, row_digests
from tacit.mechanisms.description import noise_in_words
from tacit.methods.auto.coordinator import SumFeatures
from tacit.methods.auto.teaching import ReleasedFeatures, regression_student
from tacit.methods.class_sums.coordinator import LinearOdds
from tacit.methods.class_sums.plan import trusted_with_sums
from tacit.methods.curated import CuratedJob, sharers_caveat
from tacit.methods.noisy_sgd.coordinator import GradientCoordinator, TrainingAsk, TrainingCoordinator, step_requests
from tacit.methods.noisy_sgd.holder import GradientHolder, TrainingHolder
from tacit.methods.noisy_sgd.options import NoisySGD
from tacit.methods.noisy_sgd.plan import GRADIENT_PURPOSE, plan_gradients, public_points
from tacit.methods.noisy_sgd.rehearsal import OFFSET, within_one
from tacit.methods.noisy_sgd.torch_hidden import (
    OPACUS_NOISE,
    calibrated_training,
    hidden_student,
    pretrained_layer,
    require_opacus,
)
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.methods.task import Announcement, Outcome, Task
from tacit.representations.chained import Chained
from tacit.representations.scaled import PrincipalComponents

__all__ = ["prepare"]

# Clusters per class that a network learns to tell apart before it is fine-tuned.
GROUPS = 4


def prepare(task: Task, options: NoisySGD) -> CuratedJob:
    """The job that trains a model on this task's records by noisy gradients."""
    task.single_labels("noisy_sgd")
    if options.model != "linear":
        return prepare_hidden(task, options)
    trust = trusted_with_sums(task, "noisy SGD has", "gradient", "gradients")
    task.observer.stage("trying settings on public samples with made-up labels")
    chosen = plan_gradients(task, options, trust)
    task.check_representation(chosen.base)
    task.check_representation(chosen.question.representation)
    ask = chosen.question
    return CuratedJob(
        task,
        options,
        chosen,
        GradientCoordinator(ask, chosen.descent, chosen.steps, chosen.records),
        trust=chosen.trust,
        prices=dict.fromkeys(step_requests(task.request, chosen.steps), ask.mechanism.spend),
        chosen={
            "mechanism": type(ask.mechanism).__name__,
            **noise_in_words(ask.mechanism),
            "representation": chosen.representation,
            "components": ask.components,
            "norm": ask.norm,
            "radius": ask.radius,
            "steps": chosen.steps,
            "rate": chosen.setting.rate,
            "clip": chosen.setting.clip,
            "damping": chosen.setting.damping,
        },
        stage="adding up gradients",
        holder=lambda gate: GradientHolder(list(task.parts), gate, task.observer.progress).answer,
        finish=partial(_finished, task, ask),
        unit=chosen.unit,
        doubts=chosen.doubts,
        caveats=sharers_caveat(ask.mechanism, chosen.trust),
    )


def _finished(task: Task, ask: GradientAsk, released: NDArray[np.float64]) -> Outcome:
    """The trained model as a student, and its labels of the public samples."""
    features = SumFeatures(ask.representation, ask.scale, ask.length, ask.norm)
    odds = LinearOdds(released[:-1], OFFSET * released[-1])
    chances = odds.probabilities(features.points(task.public))
    student = regression_student([features], odds, task.classes, task.public.shape[1:])
    return Outcome(
        student=student,
        labels=task.classes[chances.argmax(axis=1)],
        probabilities=chances,
        arrays={"weights": released},
    )


def prepare_hidden(task: Task, options: NoisySGD) -> CuratedJob:
    """The job that trains two layers by Opacus: one release, in one process."""
    if task.nodes is not None:
        raise InvalidInput(f"model {options.model} runs in one process only: nodes do not accept the noise of Opacus")
    task.trusting(Trust.CENTRAL, default=Trust.CENTRAL)
    if task.adjacency is not Adjacency.ADD_REMOVE or options.records is None:
        raise InvalidInput(
            f"model {options.model} is trained on Poisson samples, which protect records under add-remove adjacency: "
            "give adjacency add-remove and records, the approximate number of records, which is private then"
        )
    if task.delta == 0 or task.unit.records != 1:
        raise InvalidInput(f"model {options.model} needs a delta above 0, for example 1e-6, and one record per person")
    require_opacus()
    name, base, fitted, points = public_points(task, options)
    seen, scale = within_one(points, "l2")
    scaled = PrincipalComponents(fitted.mean, fitted.directions * scale)
    representation = Chained.of((base, scaled), content_digest(row_digests(seen)))
    task.check_representation(base)
    task.observer.stage("solving for the noise")
    training = calibrated_training(
        task.budget, task.delta, seen.shape[1], len(task.classes), options.width, options.records, options.epochs
    )
    if options.model == "finetuned":
        task.observer.stage("training a first layer on clusters of the public samples")
        training = replace(training, pretrained=pretrained_layer(seen, options.width, GROUPS * len(task.classes)))
    # What a repeated request must have in common: the samples, and the order of the classes.
    words = [content_digest(row_digests(seen)), *map(repr, task.classes.tolist())]
    question = hashlib.sha256("\n".join(words).encode()).hexdigest()
    ask = TrainingAsk(representation, seen.shape[1], training, question, GRADIENT_PURPOSE, task.request)
    return CuratedJob(
        task,
        options,
        _announced(ask, name),
        TrainingCoordinator(ask),
        trust=Trust.CENTRAL,
        prices={task.request: training.spend},
        chosen={
            "mechanism": type(training).__name__,
            "representation": name,
            "components": training.features,
            "steps": training.steps,
            "rate": str(training.rate),
            "noise_multiplier": str(training.noise_multiplier),
        },
        stage="training by Opacus",
        holder=lambda gate: TrainingHolder(list(task.parts), gate).answer,
        finish=partial(_trained, task, ask),
        unit=task.unit,
        doubts=(OPACUS_NOISE,),
        caveats=(OPACUS_NOISE,),
    )


def _announced(ask: TrainingAsk, representation: str) -> Announcement:
    """The plan in words."""
    made = ask.mechanism
    return Announcement((
        ("mechanism", f"Opacus: {made.steps} steps, each with {float(made.rate):.0%} of the records and noise "
         f"{float(made.noise_multiplier):.2f} times the clipping norm"),
        ("questions", f"two layers on {made.features} components of the public samples by {representation}"),
        ("caveat", OPACUS_NOISE),
    ))  # fmt: skip


def _trained(task: Task, ask: TrainingAsk, released: NDArray[np.float32]) -> Outcome:
    """The trained layers as a student, and its labels of the public samples."""
    features = SumFeatures(ask.representation, 1.0, 1, "l2")
    model = hidden_student(released, ask.mechanism, task.classes)
    encoder = ReleasedFeatures.of([features], task.public.shape[1:])
    from sklearn.pipeline import Pipeline

    student = Pipeline([("features", encoder), ("layers", model)])
    chances = student.predict_proba(task.public)
    labels = np.asarray(student.classes_)[chances.argmax(axis=1)]
    order = np.argsort(np.argsort(task.classes, kind="stable"), kind="stable")
    return Outcome(
        student=student,
        labels=labels,
        probabilities=chances[:, order],
        arrays={"weights": released},
    )
