"""Class sums as one job: planned from public knowledge, answered by holders here or by nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.core.account import Ceiling, Rule
from tacit.core.guarantee import Trust, Unit
from tacit.core.options import to_recipe
from tacit.core.protocols import Exchange, Ledger
from tacit.mechanisms.description import noise_in_words
from tacit.methods.class_sums.coordinator import ReleasedSums, SumCoordinator, public_probabilities
from tacit.methods.class_sums.holder import SumHolder
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import SumPlan, counted, plan_sums, trusted_with_sums
from tacit.methods.encoding import EncodedCache
from tacit.methods.task import Account, Job, Nodes, Outcome, Task, taught, untrained
from tacit.private.gate import Gate

__all__ = ["SumJob", "prepare"]


def prepare(task: Task, options: ClassSums) -> Job:
    """The job of labeling this task's public samples by the noisy sums of its records' classes."""
    task.single_labels("class_sums")
    trust = trusted_with_sums(task, "class sums have", "encoding", "class sums")
    # Odds are linear in the features, and so is this student; what is better for images is the user's to say.
    automatic = isinstance(options.student, str) and options.student == "auto"
    student = untrained("logistic" if automatic else options.student)
    task.observer.stage("choosing components and a mechanism")
    chosen = plan_sums(task, options, trust)
    task.check_representation(chosen.base)
    task.check_representation(chosen.question.representation)
    return SumJob(task, options, chosen, student)


@dataclass(frozen=True)
class SumJob:
    """One question for the sums, through one account here or one per node."""

    task: Task
    options: ClassSums
    plan: SumPlan
    student: Any
    holders_learn: bool = False

    @property
    def coordinator(self) -> SumCoordinator:
        """The side that sees releases only."""
        return SumCoordinator(self.plan.question)

    @property
    def unit(self) -> Unit:
        """Whose privacy the payment counts for."""
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
        ask = self.plan.question
        return {
            "options": to_recipe(self.options),
            "mechanism": type(ask.mechanism).__name__,
            **noise_in_words(ask.mechanism),
            "representation": self.plan.representation,
            "components": ask.components,
            "norm": ask.norm,
            "radius": ask.radius,
            "count": ask.count,
        }

    def accounts(self) -> Sequence[Account]:
        """One account pays once."""
        ceiling = Ceiling(self.task.budget, self.task.delta, Rule.PLANNED, self.unit, self.task.adjacency)
        return [Account(None, ceiling, {self.task.request: self.plan.question.mechanism.spend})]

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """All records behind one gate."""
        cache = None if self.options.private_cache is None else EncodedCache(self.options.private_cache)
        gate = Gate(*payers[0], self.task.randomness)
        holder = SumHolder(list(self.task.parts), gate, self.task.observer.progress, cache)

        def put(ask: Any) -> list[Any]:  # noqa: ANN401
            self.task.observer.stage("adding up the records of each class")
            return [holder.answer(ask)]

        return put

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The nodes' tables, which the coordinator adds up."""
        return nodes.exchange

    def exposures(self) -> Sequence[Any]:
        """None: the receipts say what holds."""
        return ()

    def finish(self, released: ReleasedSums) -> Outcome:
        """Odds of the public samples, and a student of them."""
        task = self.task
        task.observer.stage("fitting odds to the sums")
        chances = public_probabilities(released, self.plan.question, task.public, counted(task), self.options.fit)
        labels = task.classes[chances.argmax(axis=1)]
        rows = task.public.reshape(len(task.public), -1)
        trained = taught(self.student, rows, labels, np.ones(0), (task.classes, chances))
        return Outcome(
            student=trained,
            labels=labels,
            probabilities=chances,
            arrays={"sums": released.table},
            recipe={"student": type(trained).__name__},
        )
