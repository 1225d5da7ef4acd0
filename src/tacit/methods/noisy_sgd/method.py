"""Noisy SGD as one job: planned from public knowledge, answered by holders here or by nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.account import Ceiling, Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Trust, Unit
from tacit.core.options import to_recipe
from tacit.core.protocols import Exchange, Ledger
from tacit.core.samples import content_digest, row_digests
from tacit.methods.auto.coordinator import SumFeatures
from tacit.methods.auto.teaching import ReleasedFeatures, regression_student
from tacit.methods.class_sums.coordinator import LinearOdds
from tacit.methods.class_sums.plan import trusted_with_sums
from tacit.methods.noisy_sgd.coordinator import GradientCoordinator, TrainingAsk, TrainingCoordinator, step_requests
from tacit.methods.noisy_sgd.holder import GradientHolder, TrainingHolder
from tacit.methods.noisy_sgd.options import NoisySGD
from tacit.methods.noisy_sgd.plan import GRADIENT_PURPOSE, GradientPlan, plan_gradients, public_points
from tacit.methods.noisy_sgd.rehearsal import OFFSET, within_one
from tacit.methods.noisy_sgd.torch_hidden import OPACUS_NOISE, calibrated_training, hidden_student, require_opacus
from tacit.methods.task import Account, Announcement, Job, Nodes, Outcome, Task
from tacit.private.gate import Gate
from tacit.representations.chained import Chained
from tacit.representations.scaled import Identity, PrincipalComponents

__all__ = ["GradientJob", "HiddenJob", "prepare"]


# Grid steps in the longest features of a student that has none of its own.
STUDENT_STEPS = 2**20


def prepare(task: Task, options: NoisySGD) -> Job:
    """The job of training a model on this task's records, by noisy gradients."""
    task.single_labels("noisy_sgd")
    if options.model == "hidden":
        return prepare_hidden(task, options)
    trust = trusted_with_sums(task, "noisy SGD has", "gradient", "gradients")
    task.observer.stage("trying settings on public samples with made-up labels")
    chosen = plan_gradients(task, options, trust)
    task.check_representation(chosen.base)
    task.check_representation(chosen.question.representation)
    return GradientJob(task, options, chosen)


@dataclass(frozen=True)
class GradientJob:
    """A question per step, through one account here or one per node."""

    task: Task
    options: NoisySGD
    plan: GradientPlan
    holders_learn: bool = False

    @property
    def coordinator(self) -> GradientCoordinator:
        """The side that sees releases only."""
        return GradientCoordinator(self.plan.question, self.plan.descent, self.plan.steps, self.plan.records)

    @property
    def unit(self) -> Unit:
        """Whose privacy the payments count for."""
        return self.plan.unit

    @property
    def trust(self) -> Trust:
        """Who is trusted with what."""
        return self.plan.trust

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the guarantee assumes of the others, where it rests on them."""
        mechanism: Any = self.plan.question.mechanism
        return (mechanism.in_words.rstrip("."),) if self.trust is Trust.MASKED else ()

    @property
    def doubts(self) -> Sequence[str]:
        """Reasons to think again."""
        return self.plan.doubts

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice."""
        ask, chosen = self.plan.question, self.plan.setting
        return {
            "options": to_recipe(self.options),
            "mechanism": type(ask.mechanism).__name__,
            "representation": self.plan.representation,
            "components": ask.components,
            "norm": ask.norm,
            "radius": ask.radius,
            "steps": self.plan.steps,
            "rate": chosen.rate,
            "clip": chosen.clip,
            "damping": chosen.damping,
        }

    def accounts(self) -> Sequence[Account]:
        """One account pays for every step."""
        ceiling = Ceiling(self.task.budget, self.task.delta, Rule.PLANNED, self.unit, self.task.adjacency)
        names = step_requests(self.task.request, self.plan.steps)
        return [Account(None, ceiling, dict.fromkeys(names, self.plan.question.mechanism.spend))]

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """All records behind one gate."""
        gate = Gate(*payers[0], self.task.randomness)
        holder = GradientHolder(list(self.task.parts), gate, self.task.observer.progress)

        def put(ask: Any) -> list[Any]:  # noqa: ANN401
            self.task.observer.stage("adding up gradients")
            return [holder.answer(ask)]

        return put

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The nodes' tables, which the coordinator adds up."""
        return nodes.exchange

    def exposures(self) -> Sequence[Any]:
        """None: the receipts say what holds."""
        return ()

    def finish(self, released: NDArray[np.float64]) -> Outcome:
        """The trained model as a student, and what it says of the public samples."""
        task, ask = self.task, self.plan.question
        features = SumFeatures(ask.representation, ask.scale, ask.length, ask.norm)
        odds = LinearOdds(released[:-1], OFFSET * released[-1])
        chances = odds.probabilities(features.points(task.public))
        student = regression_student([features], odds, task.classes, task.public.shape[1:])
        return Outcome(
            student=student,
            labels=task.classes[chances.argmax(axis=1)],
            probabilities=chances,
            arrays={"weights": released},
            recipe={"student": type(student).__name__},
        )


def prepare_hidden(task: Task, options: NoisySGD) -> Job:
    """The job of training two layers by Opacus: one release, in one process."""
    if task.nodes is not None:
        raise InvalidInput("model hidden is trained in one process: a node must not answer with its noise")
    task.trusting(Trust.CENTRAL, default=Trust.CENTRAL)
    if task.adjacency is not Adjacency.ADD_REMOVE or options.records is None:
        raise InvalidInput(
            "model hidden is trained on Poisson samples, which are accounted for add-remove: give adjacency add-remove "
            "and the approximate number of records (records); under add-remove it is private"
        )
    if task.delta == 0 or task.unit.records != 1:
        raise InvalidInput("model hidden needs a delta above 0, for example 1e-6, and one record per person")
    require_opacus()
    name, base, fitted, points = public_points(task, options)
    seen, scale = within_one(points, "l2")
    parts = (PrincipalComponents(fitted.mean, fitted.directions * scale),)
    representation = Chained(parts if isinstance(base, Identity) else (base, *parts), content_digest(row_digests(seen)))
    task.check_representation(base)
    task.observer.stage("solving for the noise")
    training = calibrated_training(
        task.budget, task.delta, seen.shape[1], len(task.classes), options.width, options.records, options.epochs
    )
    ask = TrainingAsk(
        representation, seen.shape[1], training, content_digest(row_digests(seen)), GRADIENT_PURPOSE, task.request
    )
    return HiddenJob(task, options, ask, name)


@dataclass(frozen=True)
class HiddenJob:
    """One question for a model that Opacus trains."""

    task: Task
    options: NoisySGD
    question: TrainingAsk
    representation: str
    holders_learn: bool = False

    @property
    def plan(self) -> Announcement:
        """The plan in words."""
        made = self.question.mechanism
        return Announcement((
            ("mechanism", f"Opacus: {made.steps} steps, each with {float(made.rate):.0%} of the records and noise "
             f"{float(made.noise_multiplier):.2f} times the longest gradient"),
            ("asking", f"two layers on {made.features} components of the public samples by {self.representation}"),
            ("mind", OPACUS_NOISE),
        ))  # fmt: skip

    @property
    def coordinator(self) -> TrainingCoordinator:
        """The side that sees releases only."""
        return TrainingCoordinator(self.question)

    @property
    def unit(self) -> Unit:
        """Whose privacy the payment counts for."""
        return self.task.unit

    @property
    def trust(self) -> Trust:
        """Who is trusted with what."""
        return Trust.CENTRAL

    @property
    def caveats(self) -> tuple[str, ...]:
        """That the noise is Opacus' own."""
        return (OPACUS_NOISE,)

    @property
    def doubts(self) -> Sequence[str]:
        """Reasons to think again."""
        return (OPACUS_NOISE,)

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice."""
        made = self.question.mechanism
        return {
            "options": to_recipe(self.options),
            "mechanism": type(made).__name__,
            "representation": self.representation,
            "components": made.features,
            "steps": made.steps,
            "rate": str(made.rate),
            "noise_multiplier": str(made.noise_multiplier),
        }

    def accounts(self) -> Sequence[Account]:
        """One account pays once."""
        ceiling = Ceiling(self.task.budget, self.task.delta, Rule.PLANNED, self.unit, self.task.adjacency)
        return [Account(None, ceiling, {self.task.request: self.question.mechanism.spend})]

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """All records behind one gate."""
        holder = TrainingHolder(list(self.task.parts), Gate(*payers[0], self.task.randomness))

        def put(ask: Any) -> list[Any]:  # noqa: ANN401
            self.task.observer.stage("training by Opacus")
            return [holder.answer(ask)]

        return put

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """Never: it is refused before."""
        raise InvalidInput("model hidden is trained in one process")

    def exposures(self) -> Sequence[Any]:
        """None: the receipts say what holds."""
        return ()

    def finish(self, released: NDArray[np.float32]) -> Outcome:
        """The trained layers as a student, and what they say of the public samples."""
        task, ask = self.task, self.question
        # Its points are on no grid that matters: a length of a million steps.
        features = SumFeatures(ask.representation, float(STUDENT_STEPS), STUDENT_STEPS, "l2")
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
            recipe={"student": type(model).__name__},
        )
