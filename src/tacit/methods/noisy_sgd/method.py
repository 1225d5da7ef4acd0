"""Noisy SGD as one job: planned from public knowledge, answered by holders here or by nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.account import Ceiling, Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Trust, Unit
from tacit.core.options import to_recipe
from tacit.core.protocols import Exchange, Ledger
from tacit.methods.auto.coordinator import SumFeatures
from tacit.methods.auto.teaching import regression_student
from tacit.methods.class_sums.coordinator import LinearOdds
from tacit.methods.noisy_sgd.coordinator import GradientCoordinator, step_requests
from tacit.methods.noisy_sgd.holder import GradientHolder
from tacit.methods.noisy_sgd.options import NoisySGD
from tacit.methods.noisy_sgd.plan import GradientPlan, plan_gradients
from tacit.methods.noisy_sgd.rehearsal import OFFSET
from tacit.methods.task import Account, Job, Nodes, Outcome, Task
from tacit.private.gate import Gate

__all__ = ["GradientJob", "prepare"]


def prepare(task: Task, options: NoisySGD) -> Job:
    """The job of training a model on this task's records, by noisy gradients."""
    task.single_labels("noisy_sgd")
    trust = _trust(task)
    task.observer.stage("trying settings on public samples with made-up labels")
    chosen = plan_gradients(task, options, trust)
    task.check_representation(chosen.base)
    task.check_representation(chosen.question.representation)
    return GradientJob(task, options, chosen)


def _trust(task: Task) -> Trust:
    if task.nodes is None:
        if task.trust in (Trust.LOCAL, Trust.SHUFFLE):
            raise InvalidInput(
                f"noisy SGD has no {task.trust} mechanism: noise that hides one record's whole gradient drowns it. "
                "Use method rknn for a crowd, or trust central; over nodes masked sums need no trusted curator"
            )
        return task.trusting(Trust.CENTRAL, default=Trust.CENTRAL)
    if task.nodes.holders != "sites":
        raise InvalidInput("gradients are tables, which sites have; for devices with one record each use method rknn")
    return task.trusting(Trust.LOCAL, Trust.MASKED, Trust.CENTRAL, default=Trust.MASKED)


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
