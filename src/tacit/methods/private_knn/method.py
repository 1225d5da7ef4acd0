"""Private k-NN as one job: planned from public knowledge, answered by holders here or by each node for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.core.account import Ceiling, Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Trust, Unit
from tacit.core.options import to_recipe
from tacit.core.protocols import Exchange, Ledger
from tacit.mechanisms.central.pate import winners
from tacit.methods.encoding import EncodedCache
from tacit.methods.private_knn.coordinator import NeighborCoordinator, NeighborVotes
from tacit.methods.private_knn.holder import NeighborHolder
from tacit.methods.private_knn.options import PrivateKNN
from tacit.methods.private_knn.plan import NeighborPlan, plan_neighbors
from tacit.methods.task import Account, Job, Nodes, Outcome, Task, taught, untrained
from tacit.private.gate import Gate

__all__ = ["NeighborJob", "prepare"]


def prepare(task: Task, options: PrivateKNN) -> Job:
    """The job of labeling this task's public samples by the noisy votes of called neighbors."""
    task.single_labels("private_knn")
    trust = _trust(task, options)
    student = untrained(options.student)
    task.observer.stage("choosing queries and noise")
    chosen = plan_neighbors(task, options, trust)
    task.check_representation(chosen.fitted)
    return NeighborJob(task, options, chosen, student)


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


@dataclass(frozen=True)
class NeighborJob:
    """One question for votes, with a screen before it or without, through one account here or one per node."""

    task: Task
    options: PrivateKNN
    plan: NeighborPlan
    student: Any
    caveats: tuple[str, ...] = ()
    holders_learn: bool = False

    @property
    def coordinator(self) -> NeighborCoordinator:
        """The side that sees releases only."""
        return self.plan.coordinator

    @property
    def unit(self) -> Unit:
        """Whose privacy the payments count for."""
        return self.task.unit

    @property
    def trust(self) -> Trust:
        """Who is trusted with what."""
        return self.plan.trust

    @property
    def doubts(self) -> Sequence[str]:
        """Reasons to think again."""
        return self.plan.doubts

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice."""
        mechanism = self.plan.answers
        return {
            "options": to_recipe(self.options),
            "mechanism": type(mechanism).__name__,
            "representation": self.plan.representation,
            "queries": len(self.plan.rows),
            "answers": mechanism.queries,
            "neighbors": self.coordinator.question.neighbors,
            "rate": float(mechanism.rate),
            "sigma": float(mechanism.sigma),
        }

    def accounts(self) -> Sequence[Account]:
        """One account pays, for the screen and for the answers."""
        ceiling = Ceiling(self.task.budget, self.task.delta, Rule.PLANNED, self.unit, self.task.adjacency)
        return [Account(None, ceiling, self.plan.spends)]

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """All records behind one gate."""
        cache = None if self.options.private_cache is None else EncodedCache(self.options.private_cache)
        holder = NeighborHolder(list(self.task.parts), Gate(*payers[0], self.task.randomness), cache)

        def put(ask: Any) -> list[Any]:  # noqa: ANN401
            self.task.observer.stage("sampling records and counting their votes")
            return [holder.answer(ask)]

        return put

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The nodes' votes, which the coordinator adds up."""
        return nodes.exchange

    def exposures(self) -> Sequence[Any]:
        """None: the receipts say what holds."""
        return ()

    def finish(self, released: NeighborVotes) -> Outcome:
        """A student of the answered queries, which labels what was not answered."""
        task, chosen = self.task, self.plan
        samples, known = task.public.reshape(len(task.public), -1), task.classes[winners(released.votes)]
        # A query stands for the samples around it. One that did not pass teaches nothing, unless none did.
        kept = np.flatnonzero(released.passed if released.passed.any() else ~released.passed)
        answer = np.full(len(chosen.rows), -1)
        answer[released.rows[kept]] = kept
        told = answer[chosen.membership]
        rows = np.flatnonzero(told >= 0)
        trained = taught(self.student, samples[rows], known[told[rows]], np.ones(len(rows)))
        labels = np.asarray(trained.predict(samples), dtype=task.classes.dtype)
        labels[rows] = known[told[rows]]
        arrays = {
            "queries": self.coordinator.question.queries[released.rows],
            "query_labels": known,
            "votes": released.votes,
            "answered": chosen.rows[released.rows],
            "passed": released.passed,
        }
        return Outcome(trained, labels, None, arrays, recipe={"student": type(trained).__name__})
