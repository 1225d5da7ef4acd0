"""The default method as one job: its own plan for a curator's records, and reverse k-NN votes otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tacit.core import Adjacency, InvalidInput, Release, Spend, Trust, weakness
from tacit.core.options import Options
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.auto.coordinator import AutoCoordinator, Step
from tacit.methods.auto.correction import correction_mechanism
from tacit.methods.auto.division import FIRST_SHARE
from tacit.methods.auto.options import Auto
from tacit.methods.auto.plan import AutoPlan, little_noise, plan_auto, summed
from tacit.methods.auto.teaching import PER_CLASS, AutoTeaching
from tacit.methods.auto.voting import vote_job
from tacit.methods.class_sums.coordinator import ReleasedSums
from tacit.methods.class_sums.holder import SumHolder
from tacit.methods.class_sums.method import prepare as prepare_sums
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import SMALLEST_DELTA, added_as, counted, sum_mechanism, sums_forecast
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.curated import Answering, CuratedJob
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.noisy_sgd.holder import GradientHolder
from tacit.methods.noisy_sgd.method import prepare as prepare_gradients
from tacit.methods.noisy_sgd.options import NoisySGD
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.methods.rknn.forecast import votes_forecast
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.rknn.wire import VoteAsk, table_sensitivity
from tacit.methods.task import Job, Outcome, Task, untrained
from tacit.private.gate import Gate

__all__ = ["forecast", "prepare", "question_prices"]

# Kinds of samples with a plan for delta = 0; for others, reverse k-NN votes are used.
PURE_KINDS = ("mixed", "text", "images")
# Kinds that nodes sum.
SUMMED_KINDS = ("mixed", "table", "text", "embedding")
# A query of the first votes must have CLEAR times the lead that makes a label 99 % certain.
CLEAR, UNSURE = 3, 0.01


def prepare(task: Task, options: Auto) -> Job:
    """The job of the default method: its own plan for a curator's records, otherwise votes, or what the options fix."""
    reason = elsewhere(task)
    if not task.multilabel and options.max_labels is not None:
        raise InvalidInput("max_labels is for records with sets of labels; these have one label each")
    if reason is not None and (options.releases == "sums" or (options.releases == "auto" and summable_sets(task))):
        settings = ClassSums(max_labels=options.max_labels, thresholds=options.thresholds, student=options.student)
        return prepare_sums(task, settings)
    if options.releases == "auto" and summable_at_nodes(task):
        return _sums_at_nodes(task, options)
    if reason is None and options.releases == "votes" and task.kind != "images":
        reason = "votes were asked for"
    if reason is not None:
        return vote_job(task, options, reason)
    # A student or delta that would fail later must be refused before anything is paid.
    if not options.own_student:
        untrained(options.student)
    if 0 < task.delta < SMALLEST_DELTA:
        raise InvalidInput(f"delta must be 0, or in [1e-30, 1), got {float(task.delta):g}")
    task.observer.stage("choosing what to ask")
    if options.releases == "auto" and options.own_student and little_noise(task):
        return _gradients(task)
    plan = plan_auto(task, options.releases)
    if options.releases == "auto" and not worth_dividing(AutoTeaching(task, plan)):
        return vote_job(task, options, "with a part of the budget votes cannot be distinguished from noise")
    # Errors in the public samples are found before anything is paid.
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
        finish=lambda blocks: teaching.finish(blocks, options.student),
        unit=task.unit,
        doubts=_doubts(task, first),
    )


def _sums_at_nodes(task: Task, options: Auto) -> Job:
    """Class sums once, of the features that a curator would sum, refined as a curator's are."""
    task = replace(task, trust=task.trust or Trust(options.trust_over_nodes))
    job = prepare_sums(task, replace(summed(task), student="logistic" if options.own_student else options.student))
    ask = job.plan.question
    teaching = AutoTeaching(task, plan_auto(task, "sums"))

    def finish(released: ReleasedSums) -> Outcome:
        step = Step(ask, lambda _: teaching.summed_block(ask, released), chosen={"answers": released.answers})
        return teaching.finish([step.block(released.table)], options.student)

    return replace(job, options=options, finish=finish)


def _gradients(task: Task) -> Job:
    reason = "noise leaves nearly all of the signal, so several gradients learn more than one sum"
    job = prepare_gradients(task, NoisySGD(representation=summed(task).representation))
    return replace(job, chosen={**job.chosen, "gradients because": reason})


def elsewhere(task: Task) -> str | None:
    """Why the default's own plan does not apply, or None: it is for a curator's records with one label each."""
    if task.nodes is not None or task.trust not in (None, Trust.CENTRAL):
        return "no curator has all records"
    if task.multilabel:
        return "records have sets of labels"
    if task.adjacency is not Adjacency.REPLACE_ONE:
        return "the number of records is private"
    if task.unit.holder:
        return "a holder with all its records is protected"
    if task.delta == 0 and task.kind not in PURE_KINDS:
        return "with delta = 0 they need the least noise"
    return None


def summable_sets(task: Task) -> bool:
    """Whether sets of labels are summed once: a curator has a known number of records, and there is a delta."""
    central = task.nodes is None and task.trust in (None, Trust.CENTRAL)
    return task.multilabel and central and task.delta > 0 and counted(task) is not None


def summable_at_nodes(task: Task) -> bool:
    """Whether nodes with many records each sum them once: a known number of tables, texts or embeddings, and a delta.

    With one answer per node, or one for all under secure aggregation; a shuffler takes votes only.
    """
    nodes = task.nodes
    return (
        nodes is not None and nodes.holders == "nodes" and task.trust is not Trust.SHUFFLE and not task.multilabel
        and task.kind in SUMMED_KINDS and task.delta > 0 and task.adjacency is Adjacency.REPLACE_ONE
    )  # fmt: skip


def worth_dividing(teaching: AutoTeaching) -> bool:
    """Whether first votes with a part of the budget exceed the noise; otherwise one question gets the full budget."""
    if len(teaching.plan.tasks) == 1 or teaching.plan.kind != "images":
        return True
    first = teaching.plan.tasks[0]
    lead = teaching.vote_mechanism(first, 2).lead(teaching.classes, UNSURE)
    return bool(first.units * first.unit.records >= CLEAR * lead * PER_CLASS * teaching.classes)


def _doubts(task: Task, first: Step) -> tuple[str, ...]:
    """Warnings to show before anything is paid."""
    doubts = [weakness(task.budget, task.unit), *first.doubts]
    return tuple(dict.fromkeys(each for each in doubts if each is not None))


def _answering(task: Task, gate: Gate) -> Answering:
    """All records behind one gate, for questions about votes and about sums."""
    observer = task.observer
    holder = list(task.parts), gate, observer.progress
    answering: dict[str, tuple[str, Answering]] = {
        SumAsk.name: ("adding up the records of each class", SumHolder(*holder).answer),
        GradientAsk.name: ("adding up what each record says of the odds", GradientHolder(*holder).answer),
        VoteAsk.name: ("counting votes", VoteHolder(*holder).answer),
    }

    def answer(ask: Any) -> Release[Any]:  # noqa: ANN401
        stage, answered = answering[ask.name]
        observer.stage(stage)
        return answered(ask)

    return answer


def question_prices(plan: AutoPlan, classes: int) -> dict[str, Spend]:
    """The cost of each question, which does not depend on earlier releases, although the question may."""
    prices = {each.request: _price(each, classes) for each in plan.tasks}
    if plan.corrects:
        last = plan.tasks[-1]
        gradient = correction_mechanism(last, 1).spend
        # For images the last question is about votes, sums or a gradient, for tables about a gradient.
        prices[last.request] = _dearest([prices[last.request], gradient]) if plan.kind == "images" else gradient
    return prices


def _dearest(spends: Sequence[Any]) -> Spend:
    """The largest cost of questions with Gaussian noise."""
    dearest: Spend = min(spends, key=lambda each: each.noise_multiplier)
    return dearest


def _price(task: Task, classes: int) -> Spend:
    """The cost of a question about votes or sums: the larger of the two, which differ by rounding."""
    if task.delta == 0:
        sensitivity = table_sensitivity(2, classes, 1, task.unit, task.adjacency)
        return DiscreteLaplaceNoise.calibrated(sensitivity, task.budget, task.delta).spend
    votes = table_sensitivity(2, classes, 1, task.unit, task.adjacency)
    mechanisms: list[Any] = [
        RoundedGaussianNoise.calibrated(votes, task.budget, task.delta),
        sum_mechanism(task, Trust.CENTRAL, *added_as(task), 1),
    ]
    return _dearest([each.spend for each in mechanisms])


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast of votes if the default's own plan does not apply, otherwise of sums; for images the better one."""
    if elsewhere(task) is not None and not summable_at_nodes(task):
        return votes_forecast(task, ReverseKNN(), evidence)
    if task.kind != "images":
        return sums_forecast(task, summed(task), evidence)
    later = replace(task, epsilon=task.budget * (1 - FIRST_SHARE))
    return max(
        (votes_forecast(later, ReverseKNN(), evidence), sums_forecast(later, ClassSums(), evidence)),
        key=lambda each: each.accuracy,
    )
