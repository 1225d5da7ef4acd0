"""The default as one job: a plan of its own for a curator's records, and reverse k-NN votes for all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tacit.core.account import Ceiling, Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Trust, Unit, large_delta, weakness
from tacit.core.options import to_recipe
from tacit.core.protocols import Exchange, Ledger
from tacit.core.spend import Gaussian, Spend
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.auto.coordinator import AutoCoordinator, Block, Step
from tacit.methods.auto.options import Auto
from tacit.methods.auto.plan import AutoPlan, plan_auto
from tacit.methods.auto.teaching import PER_CLASS, AutoTeaching
from tacit.methods.class_sums.holder import SumHolder
from tacit.methods.class_sums.method import prepare as prepare_sums
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import SMALLEST_DELTA, added_as, sum_mechanism
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.method import prepare as prepare_votes
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.rknn.wire import table_sensitivity
from tacit.methods.task import Account, Job, Nodes, Outcome, Task, untrained
from tacit.private.gate import Gate

__all__ = ["AutoJob", "prepare"]

# Kinds that are planned for without a delta, too; rows of numbers of other kinds are voted on.
PURE_KINDS = ("mixed", "text", "images")
# How many times the lead that makes a label 99 % certain a query of the first votes must have.
CLEAR, UNSURE = 3, 0.01


def prepare(task: Task, options: Auto) -> Job:
    """The job of the default: its own plan where one place has all records, votes elsewhere, or what was said."""
    reason = elsewhere(task)
    if reason is not None and options.releases == "sums":
        return prepare_sums(task, ClassSums(student=options.student))
    if reason is None and options.releases == "votes" and task.kind != "images":
        reason = "votes were asked for"
    if reason is not None:
        return _votes(task, options, reason)
    # What is paid for must not be lost to a student, or to a delta, that a later question or the end would refuse.
    if not (isinstance(options.student, str) and options.student == "auto"):
        untrained(options.student)
    if 0 < task.delta < SMALLEST_DELTA:
        raise InvalidInput(f"delta must be 0, or in [1e-30, 1), got {float(task.delta):g}")
    task.observer.stage("choosing what to ask")
    plan = plan_auto(task, options.releases)
    if options.releases == "auto" and not worth_dividing(AutoTeaching(task, plan)):
        return _votes(task, options, "with a part of the budget votes cannot be distinguished from noise")
    # All that the public samples can be refused for is found out before anything is paid.
    return AutoJob(task, options, plan, AutoTeaching(task, plan).choose(()))


def _votes(task: Task, options: Auto, reason: str) -> Job:
    task.observer.stage(f"planning reverse k-NN votes: {reason}")
    return replace(prepare_votes(task, ReverseKNN(student=options.student)), reason=reason)


def elsewhere(task: Task) -> str | None:
    """Why the plan is not made for this task, if it is not: it is for a curator's records with one label each."""
    if task.nodes is not None or task.trust not in (None, Trust.CENTRAL):
        return "no curator has all records"
    if task.multilabel:
        return "records have sets of labels"
    if task.adjacency is not Adjacency.REPLACE_ONE:
        return "the number of records is private"
    if task.unit.holder:
        return "a holder with all its records is protected"
    if task.delta == 0 and task.kind not in PURE_KINDS:
        return "without a delta they need the least noise"
    return None


def worth_dividing(teaching: AutoTeaching) -> bool:
    """Whether a part of the budget buys first votes that can be told from noise: else one question gets all of it."""
    if len(teaching.plan.tasks) == 1:
        return True
    first = teaching.plan.tasks[0]
    lead = teaching.vote_mechanism(first, 2).lead(teaching.classes, UNSURE)
    return bool(first.units * first.unit.records >= CLEAR * lead * PER_CLASS * teaching.classes)


@dataclass(frozen=True)
class AutoJob:
    """Questions for votes and sums, through one account."""

    task: Task
    options: Auto
    plan: AutoPlan
    first: Step
    holders_learn: bool = False

    @property
    def coordinator(self) -> AutoCoordinator:
        """The side that sees releases only."""
        return AutoCoordinator(len(self.plan.tasks), self.first, AutoTeaching(self.task, self.plan).choose)

    @property
    def unit(self) -> Unit:
        """Whose privacy the payments count for."""
        return self.task.unit

    @property
    def trust(self) -> Trust:
        """One curator has all records."""
        return Trust.CENTRAL

    @property
    def caveats(self) -> tuple[str, ...]:
        """None beside the numbers."""
        return ()

    @property
    def doubts(self) -> Sequence[str]:
        """Reasons to think again."""
        doubts = [weakness(self.task.budget, self.task.unit), *self.first.doubts]
        if self.task.delta * self.task.units >= 1:
            doubts.append(large_delta(self.task.unit))
        return tuple(dict.fromkeys(each for each in doubts if each is not None))

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice."""
        return {
            "options": to_recipe(self.options),
            "kind": self.plan.kind,
            "representation": self.plan.representation,
            "plan": [f"{title}: {words}" for title, words in self.plan.lines],
            "budgets": [float(each.budget) for each in self.plan.tasks],
        }

    def accounts(self) -> Sequence[Account]:
        """One account pays for every question; what each asks may depend on earlier releases, its price does not."""
        ceiling = Ceiling(self.task.budget, self.task.delta, Rule.PLANNED, self.unit, self.task.adjacency)
        prices = {each.request: _price(each, len(self.task.classes)) for each in self.plan.tasks}
        return [Account(None, ceiling, prices)]

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """All records behind one gate, which answer votes and sums."""
        gate, parts = Gate(*payers[0], self.task.randomness), list(self.task.parts)
        sums = SumHolder(parts, gate, self.task.observer.progress)
        votes = VoteHolder(parts, gate, self.task.observer.progress)

        def put(ask: Any) -> list[Any]:  # noqa: ANN401
            if isinstance(ask, SumAsk):
                self.task.observer.stage("adding up the records of each class")
                return [sums.answer(ask)]
            self.task.observer.stage("counting votes")
            return [votes.answer(ask)]

        return put

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """Not reached: over nodes the default is votes."""
        return nodes.exchange

    def exposures(self) -> Sequence[Any]:
        """None: the receipts say what holds."""
        return ()

    def finish(self, told: Sequence[Block]) -> Outcome:
        """The last student."""
        return AutoTeaching(self.task, self.plan).finish(told, self.options.student)


def _price(task: Task, classes: int) -> Spend:
    """What a question costs, whether it asks for votes or for sums: the dearer, where rounding sets them apart."""
    if task.delta == 0:
        moves = table_sensitivity(2, classes, 1, task.unit, task.adjacency)
        return DiscreteLaplaceNoise.calibrated(moves, task.budget, task.delta).spend
    votes = table_sensitivity(2, classes, 1, task.unit, task.adjacency)
    mechanisms: list[Any] = [
        RoundedGaussianNoise.calibrated(votes, task.budget, task.delta),
        sum_mechanism(task, Trust.CENTRAL, *added_as(task), 1),
    ]
    charges: list[Gaussian] = [each.spend for each in mechanisms]
    return min(charges, key=lambda each: each.noise_multiplier)
