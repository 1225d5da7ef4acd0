"""The default as one job: a plan of its own for a curator's records, and reverse k-NN votes for all others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Trust, large_delta, weakness
from tacit.core.options import Options
from tacit.core.release import Release
from tacit.core.spend import Gaussian, Spend
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.auto.coordinator import AutoCoordinator, Step
from tacit.methods.auto.correction import correction_mechanism
from tacit.methods.auto.options import Auto
from tacit.methods.auto.plan import FIRST_SHARE, AutoPlan, plan_auto
from tacit.methods.auto.teaching import PER_CLASS, AutoTeaching
from tacit.methods.class_sums.holder import SumHolder
from tacit.methods.class_sums.method import prepare as prepare_sums
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import SMALLEST_DELTA, added_as, sum_mechanism, sums_forecast
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.curated import Answering, CuratedJob
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.noisy_sgd.holder import GradientHolder
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.methods.rknn.forecast import votes_forecast
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.method import prepare as prepare_votes
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.rknn.wire import table_sensitivity
from tacit.methods.task import Job, Task, untrained
from tacit.private.gate import Gate

__all__ = ["forecast", "prepare", "question_prices"]

# Kinds that are planned for without a delta, too; rows of numbers of other kinds are voted on.
PURE_KINDS = ("mixed", "text", "images")
# How many times the lead that makes a label 99 % certain a query of the first votes must have.
CLEAR, UNSURE = 3, 0.01


def prepare(task: Task, options: Auto) -> Job:
    """The job of the default: its own plan for a curator's records, votes elsewhere, or what the options fix."""
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
    teaching = AutoTeaching(task, plan)
    first = teaching.choose(())
    return CuratedJob(
        task,
        options,
        plan,
        AutoCoordinator(len(plan.tasks), first, teaching.choose),
        trust=Trust.CENTRAL,
        prices=question_prices(plan, len(task.classes)),
        chosen={
            "kind": plan.kind,
            "representation": plan.representation,
            "plan": [f"{title}: {words}" for title, words in plan.lines],
            "budgets": [float(each.budget) for each in plan.tasks],
        },
        stage="",
        holder=partial(_answering, task),
        finish=lambda told: teaching.finish(told, options.student),
        unit=task.unit,
        doubts=_doubts(task, first),
    )


def _votes(task: Task, options: Auto, reason: str) -> Job:
    task.observer.stage(f"planning reverse k-NN votes: {reason}")
    job = prepare_votes(task, ReverseKNN(student=options.student))
    return replace(job, chosen={**job.chosen, "votes because": reason})


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
    """Whether first votes with a part of the budget exceed the noise; otherwise one question gets all of it."""
    if len(teaching.plan.tasks) == 1 or teaching.plan.kind != "images":
        return True
    first = teaching.plan.tasks[0]
    lead = teaching.vote_mechanism(first, 2).lead(teaching.classes, UNSURE)
    return bool(first.units * first.unit.records >= CLEAR * lead * PER_CLASS * teaching.classes)


def _doubts(task: Task, first: Step) -> tuple[str, ...]:
    """Reasons to think again."""
    doubts = [weakness(task.budget, task.unit), *first.doubts]
    if task.delta * task.units >= 1:
        doubts.append(large_delta(task.unit))
    return tuple(dict.fromkeys(each for each in doubts if each is not None))


def _answering(task: Task, gate: Gate) -> Answering:
    """All records behind one gate, which answer votes and sums."""
    parts, observer = list(task.parts), task.observer
    sums, votes = SumHolder(parts, gate, observer.progress), VoteHolder(parts, gate, observer.progress)
    gradients = GradientHolder(parts, gate, observer.progress)

    def answer(ask: Any) -> Release[Any]:  # noqa: ANN401
        if isinstance(ask, SumAsk):
            observer.stage("adding up the records of each class")
            return sums.answer(ask)
        if isinstance(ask, GradientAsk):
            observer.stage("adding up what each record says of the odds")
            return gradients.answer(ask)
        observer.stage("counting votes")
        return votes.answer(ask)

    return answer


def question_prices(plan: AutoPlan, classes: int) -> dict[str, Spend]:
    """What each question costs: what it asks may depend on earlier releases, its price does not."""
    prices = {each.request: _price(each, classes) for each in plan.tasks}
    if plan.corrects:
        prices[plan.tasks[-1].request] = correction_mechanism(plan.tasks[-1], 1).spend
    return prices


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


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """Votes where no plan of its own is made, sums where it is, and for images the better of both."""
    if elsewhere(task) is not None:
        return votes_forecast(task, ReverseKNN(), evidence)
    if task.kind != "images":
        return sums_forecast(task, ClassSums(whitening=0.0 if task.kind in ("mixed", "table") else 0.25), evidence)
    later = replace(task, epsilon=task.budget * (1 - FIRST_SHARE))
    return max(
        (votes_forecast(later, ReverseKNN(), evidence), sums_forecast(later, ClassSums(), evidence)),
        key=lambda each: each.accuracy,
    )
