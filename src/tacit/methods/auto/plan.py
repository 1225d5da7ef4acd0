"""The plan of the default method: its questions and their parts of the budget, fixed before a record is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from tacit.core import InvalidInput, Rule, Trust
from tacit.core.samples import image_shape
from tacit.encoders.kinds import photographic
from tacit.methods.auto.advice import installed, tips
from tacit.methods.auto.coordinator import MIXED_KINDS
from tacit.methods.auto.correction import FINE, gradient_radius
from tacit.methods.auto.division import FIRST_SHARE, LATER, SUMS_THEN_GRADIENT, gaussian_budgets
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import SumPlan, plan_sums
from tacit.methods.task import Task

__all__ = ["AutoPlan", "divided_task", "little_noise", "plan_auto", "summed"]

# Smaller images have too few cells for gradient histograms.
LEAST_SIDE = 16
# What noise must leave of the components' signal for a gradient, of images and of tables: below it one sum of the whole
# budget is better. How these figures were chosen, and on which data, is in docs/auto.md.
CORRECTABLE, TABLE_CORRECTABLE = 0.6, 0.7
# How much the summed components of images and of tables are whitened. Few components of a table with two classes
# matter; with more classes more do.
_IMAGE_WHITENING, _TABLE_WHITENING = 0.25, {2: 0.125}
# What it must leave for several gradients instead of one sum of texts, photographs or embeddings.
LITTLE_NOISE = 0.95


# Kinds whose columns are summed with random features of them.
CURVED_KINDS, CURVED = ("table", "mixed"), "random-features"


@dataclass(frozen=True)
class AutoPlan:
    """The public choices: the kind of samples, their representation, and what each question may spend."""

    kind: str
    representation: str  # for sums
    vote_space: str  # for the first votes
    network: bool  # whether a network is trained between questions
    tasks: tuple[Task, ...]  # one per question, each with its own budget and request
    releases: str
    reasons: tuple[tuple[str, str], ...]
    corrects: bool = False  # whether the odds that follow from sums are corrected by a gradient
    whitening: float = _IMAGE_WHITENING  # of the summed components

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The plan in words."""
        return self.reasons


def plan_auto(task: Task, releases: str) -> AutoPlan:
    """The plan for a curator's records of one kind."""
    plan = _plan_images(task, releases) if task.kind == "images" else _plan_sums(task, releases)
    return replace(plan, reasons=(*plan.reasons, *tips(task)))


def _plan_images(task: Task, releases: str) -> AutoPlan:
    """Votes on clusters first, then what these show to be better."""
    said: list[tuple[str, str]] = []
    representation, vote_space, network = image_parts(task.public)
    shares = [FIRST_SHARE, LATER, LATER] if network else [FIRST_SHARE, 1 - FIRST_SHARE]
    if releases == "sums":
        shares = [share / (1 - FIRST_SHARE) for share in shares[1:]]
    tasks = divided_task(task, shares)
    settings = ClassSums(representation=representation, whitening=_IMAGE_WHITENING)
    corrects = network and releases == "auto" and _correctable(tasks[1], settings)
    said += [
        ("features", f"{representation} for sums, a map by {vote_space} for votes"),
        (
            "questions",
            "votes on clusters first; then votes in a student's feature space where clusters are nearly pure, and "
            "class sums where they are not"
            + (", and the gradient of the regression that follows from them" if corrects else "")
            if releases == "auto"
            else f"{releases} only, as requested",
        ),
        ("budget", f"{', '.join(f'{float(each):.0%}' for each in shares)} for {len(shares)} questions"),
    ]
    return AutoPlan(
        task.kind, representation, vote_space, network, tuple(tasks), releases, tuple(said), corrects,
    )  # fmt: skip


def _plan_sums(task: Task, releases: str) -> AutoPlan:
    """Sums, and for tables with two classes and Gaussian noise that leaves enough of them a gradient."""
    settings = summed(task)
    seen = str(settings.representation)
    plan = AutoPlan(
        task.kind, seen, "auto", False, (task,), "sums",
        (("questions", "class sums, once: classes of such samples are about linearly separable" if seen != CURVED else
          "class sums, once, of the columns and of random features of them, so that odds need not be linear"),),
        whitening=settings.whitening,
    )  # fmt: skip
    if task.kind in MIXED_KINDS:
        mixed = ("student", "a Gaussian mixture on the public samples, unless the released sums contradict it")
        return replace(plan, reasons=(*plan.reasons, mixed))
    # With more classes one sum of the whole budget is as good or better.
    if releases == "sums" or task.delta == 0 or len(task.classes) > 2:
        return plan
    try:
        tasks = divided_task(task, SUMS_THEN_GRADIENT)
    except InvalidInput:
        return plan
    if not _correctable(tasks[0], settings, TABLE_CORRECTABLE):
        return plan
    said = (
        ("questions", "class sums of the columns and of random features of them; then the gradient of the regression "
         "that follows from them, which corrects what the public samples misled"),
        ("budget", f"{', '.join(f'{float(each):.0%}' for each in SUMS_THEN_GRADIENT)} for 2 questions"),
    )  # fmt: skip
    return replace(plan, tasks=tuple(tasks), reasons=said, corrects=True)


def _correctable(task: Task, settings: ClassSums, least: float = CORRECTABLE) -> bool:
    """Whether noise leaves enough of the sums for a gradient at the odds that follow from them."""
    if task.delta == 0 or gradient_radius(task.unit.records) < FINE:
        return False
    planned = _planned(task, settings)
    return planned is not None and (planned.kept or 0.0) >= least


def _planned(task: Task, settings: ClassSums) -> SumPlan | None:
    """The plan of these sums; None where they are not possible, since votes may be."""
    try:
        return plan_sums(task, settings, Trust.CENTRAL)
    except InvalidInput:
        return None


def little_noise(task: Task) -> bool:
    """Whether noise leaves nearly all of the sums of texts, photographs or embeddings: then several gradients win.

    A few strong components may have nearly all of the signal while those that tell classes apart are weak: a gradient
    hardly sees these, and a sum does. So all components must be worth summing.
    """
    if task.kind not in MIXED_KINDS or task.delta == 0:
        return False
    planned = _planned(task, summed(task))
    if planned is None or planned.kept is None or planned.question.components < planned.considered:
        return False
    return planned.kept >= LITTLE_NOISE


def summed(task: Task) -> ClassSums:
    """What is summed of samples that are no images: their representation, and how much its components are whitened.

    The columns of a table are summed together with random features of them, but not with δ = 0, where noise grows with
    their number. The columns of a mixed table were brought to one scale by their encoder, as a network's features are.
    """
    if task.kind in CURVED_KINDS and task.delta > 0:
        whitening = _TABLE_WHITENING.get(len(task.classes), _IMAGE_WHITENING)
        return ClassSums(representation=CURVED, whitening=whitening)
    return ClassSums(representation="identity" if task.kind in ("mixed", "photographs") else "auto", whitening=0.0)


def image_parts(public: NDArray[Any]) -> tuple[str, str, bool]:
    """The representation of images, the space of their votes, and whether a network is trained on them."""
    if photographic(public):
        return "imagenet", "imagenet", False
    network = installed("torch", "safetensors")
    if min(image_shape(public)[:2]) < LEAST_SIDE:
        return "identity", "spectral", network
    return "gradients", "gradients", network


def divided_task(task: Task, shares: Sequence[Fraction]) -> list[Task]:
    """The task of each question, with its own part of the budget and its own request.

    With δ = 0 the budget itself is divided. With δ > 0 every question adds Gaussian noise and the squared shifts are
    divided in these shares, then all are increased as far as the account allows: a run's own account, in which
    everything is planned before the first release, or one in which each charge may depend on earlier releases.
    """
    if len(shares) == 1:
        return [task]
    requests = [f"{task.request}-{number}" for number in range(1, len(shares) + 1)]
    if task.delta == 0:
        budgets = [task.budget * share for share in shares]
    else:
        rule = Rule.PLANNED if task.own_budget else Rule.ADAPTIVE
        budgets = gaussian_budgets(task.budget, task.delta, shares, rule)
    return [replace(task, epsilon=each, request=name) for each, name in zip(budgets, requests, strict=True)]
