"""PATE as one job: teachers on disjoint records vote through one gate here, or each node is a teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.account import Ceiling, Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Trust, Unit
from tacit.core.options import to_recipe
from tacit.core.protocols import Exchange, Integers, Ledger, Mechanism
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.pate import GNMax, LNMax
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.pate.coordinator import TeacherCoordinator, TeacherLabels
from tacit.methods.pate.holder import TeacherHolder, rows_per_teacher
from tacit.methods.pate.options import PATE
from tacit.methods.rknn.method import require_robust
from tacit.methods.rknn.reading import pooling, robustly_added
from tacit.methods.task import Account, Announcement, Job, Nodes, Outcome, Task, taught, untrained
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, combine, inspect, joined

__all__ = ["TeacherJob", "prepare", "vote_noise"]

RECORDS_PER_TEACHER = 20
SEVERAL_MODELS = "teachers were trained on records in the clear; they stay with their holders and are not covered"
HOLDERS_KNOWN = "which holder has a record or a person is public: one is replaced by another of the same holder"


def prepare(task: Task, options: PATE) -> Job:
    """The job of labeling public samples by the noisy votes of teachers."""
    task.single_labels("pate")
    nodes = task.nodes
    trust = task.trusting(
        *((Trust.CENTRAL,) if nodes is None else (Trust.LOCAL, Trust.MASKED)),
        default=Trust.CENTRAL if nodes is None else Trust.MASKED,
    )
    if options.robust is not None:
        require_robust(options.robust, trust, None if nodes is None else nodes.holders)
    if nodes is None:
        _require_teachers(task, options)
    asked = task.public if options.queries is None else task.public[: options.queries]
    mechanism = vote_noise(task, options, trust, len(asked))
    coordinator = TeacherCoordinator(asked, task.classes, mechanism, task.request)
    student, teacher = untrained(options.student), options.teacher
    unit = Unit.whole_holder() if nodes is not None else task.unit
    caveats: tuple[str, ...] = (SEVERAL_MODELS,)
    if nodes is None and task.division is None and task.adjacency is Adjacency.REPLACE_ONE:
        caveats += (HOLDERS_KNOWN,)
    return TeacherJob(task, options, asked, mechanism, coordinator, student, teacher, unit, trust, caveats)


def _require_teachers(task: Task, options: PATE) -> None:
    """Refuse teachers of whom one changed record would change several, or whose number would tell that of records."""
    if task.division not in (None, "even"):
        raise InvalidInput(
            f"records divided among teachers by {task.division}: one changed label would move records of others from "
            "teacher to teacher. Divide them evenly, or give the records of each holder"
        )
    alone = len(task.parts) == 1
    if options.teachers is not None and not alone:
        raise InvalidInput(f"each of the {len(task.parts)} holders is one teacher: leave out teachers, or holders")
    if task.adjacency is not Adjacency.REPLACE_ONE and options.teachers is None and alone:
        raise InvalidInput("say how many teachers: under add-remove the number of records is private, so we cannot")


def vote_noise(task: Task, options: PATE, trust: Trust, queries: int) -> Mechanism[Any, Any]:
    """The noise that keeps all queries within (ε, δ): one teacher moves two votes in each."""
    moved, budget = 2 * queries, task.budget
    if trust is Trust.MASKED and task.nodes is not None:
        if options.mechanism not in ("auto", "laplace"):
            raise InvalidInput(f"masked sums have shares of laplace noise, not {options.mechanism}")
        return DistributedLaplace.for_epsilon(budget, moved, task.nodes.nodes, most=1, surviving=task.nodes.surviving)
    name = options.mechanism
    if name == "auto":
        name = "laplace" if trust is Trust.LOCAL else "gaussian" if task.delta > 0 else "permute-and-flip"
    if name in ("gaussian", "gnmax"):
        if task.delta == 0:
            raise InvalidInput("gaussian noise needs delta above 0, for example 1e-6; got 0")
        noise = DiscreteGaussianNoise.for_budget(budget, task.delta, moved, True, 1, Rule.PLANNED)
        return noise if name == "gaussian" else GNMax(noise.sigma, queries)
    if name == "lnmax":
        return LNMax(budget / moved, queries)
    return (
        DiscreteLaplaceNoise.for_epsilon(budget, moved)
        if name == "laplace"
        else PermuteAndFlip.for_epsilon(budget, moved)
    )


@dataclass(frozen=True)
class TeacherJob:
    """One question to teachers, through one account here or one per node."""

    task: Task
    options: PATE
    asked: NDArray[Any]
    mechanism: Mechanism[Any, Any]
    coordinator: TeacherCoordinator
    student: Any
    teacher: Any
    unit: Unit
    trust: Trust
    caveats: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    holders_learn: bool = False

    @property
    def plan(self) -> Announcement:
        """What is asked of whom, in words."""
        asked = f"{self.recipe['teachers']} teachers vote on {len(self.asked)} public samples"
        return Announcement((("asking", asked), ("mechanism", type(self.mechanism).__name__)))

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice."""
        return {
            "options": to_recipe(self.options),
            "queries": len(self.asked),
            "mechanism": type(self.mechanism).__name__,
            "teachers": self._teachers if self.task.nodes is None else self.task.nodes.nodes,
        }

    @property
    def _teachers(self) -> int:
        if len(self.task.parts) > 1:
            return len(self.task.parts)
        return self.options.teachers or max(2, self.task.units // RECORDS_PER_TEACHER)

    def accounts(self) -> Sequence[Account]:
        """One account pays once."""
        ceiling = Ceiling(self.task.budget, self.task.delta, Rule.PLANNED, self.unit, self.task.adjacency)
        return [Account(None, ceiling, {self.task.request: self.mechanism.spend})]

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """The teachers of all holders behind one gate."""
        gate = Gate(*payers[0], self.task.randomness)
        holder = TeacherHolder(self._shards(), gate, lambda: untrained(self.teacher))

        def put(ask: Any) -> list[Any]:  # noqa: ANN401
            self.task.observer.stage("training the teachers and counting their votes")
            return [holder.answer(ask)]

        return put

    def _shards(self) -> list[Private[Records]]:
        """Disjoint records for each teacher: those of each holder, or where all are in one place drawn from them."""
        task = self.task
        if task.division is None:
            return list(task.parts)
        whole = combine(task.parts, joined)
        rows = inspect([whole], lambda own: rows_per_teacher(own[0], self._teachers, task.adjacency, task.randomness))
        return [whole.map(partial(_taken, mine)) for mine in rows]

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The nodes' votes, added up by the coordinator or by a robust rule."""
        robust = self.options.robust
        if robust is None:
            return nodes.exchange
        return pooling(nodes.exchange, lambda tables: robustly_added(robust, tables).counts)

    def exposures(self) -> Sequence[Any]:
        """None: the receipts say what holds."""
        return ()

    def finish(self, released: TeacherLabels) -> Outcome:
        """A student of the labeled samples, which labels the others."""
        known = self.task.classes[released.labels]
        samples = self.task.public.reshape(len(self.task.public), -1)
        trained = taught(self.student, samples[: len(known)], known, np.ones(len(known)))
        labels = np.asarray(trained.predict(samples), dtype=self.task.classes.dtype)
        labels[: len(known)] = known
        arrays = {
            "queries": samples[: len(known)].astype(np.float32),
            "query_labels": known,
            "membership": np.arange(len(samples)).clip(max=len(known) - 1),
        }
        if released.votes is not None:
            arrays["votes"] = released.votes
        return Outcome(trained, labels, None, arrays, recipe={"student": type(trained).__name__})


def _taken(rows: Integers, records: Records) -> Records:
    return records.take(rows)
