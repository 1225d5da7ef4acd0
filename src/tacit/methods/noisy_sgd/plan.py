"""Every public choice of noisy SGD, made before a record is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Adjacency, InvalidInput, Mechanism, Representation, Rule, Trust, Unit, weakness
from tacit.core.options import Options
from tacit.core.samples import content_digest, row_digests
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.class_sums.plan import SMALLEST_DELTA, sum_representation
from tacit.methods.class_sums.wire import Norm
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.noisy_sgd.coordinator import Descent
from tacit.methods.noisy_sgd.gradient import ERRORS
from tacit.methods.noisy_sgd.options import NoisySGD
from tacit.methods.noisy_sgd.rehearsal import OFFSET, Setting, candidates, rehearsed, with_constant, within_one
from tacit.methods.noisy_sgd.wire import GradientAsk, gradient_sensitivity
from tacit.methods.task import Task
from tacit.representations.chained import Chained
from tacit.representations.scaled import PrincipalComponents

__all__ = ["GRADIENT_PURPOSE", "GradientPlan", "forecast", "plan_gradients", "public_points", "step_mechanism"]

# The standard deviation between runs, as a fraction of the accuracy lost to noise; and that of the rehearsal.
_SHAKEN, _UNLIKE = 0.25, 0.02
GRADIENT_PURPOSE = "noisy SGD"
# Grid steps in features of norm 1, and the most components.
_LENGTH, _MOST = 2**9, 200
# The largest L2 sensitivity that mechanisms accept.
_LONGEST_GRID = 2**20
# The time to draw shares of Laplace noise grows with their scale.
_COARSE_LENGTH = 2**14
# Warn if the rehearsal's accuracy is below this multiple of a random guess.
_WORTHWHILE = 1.25


@dataclass(frozen=True)
class GradientPlan:
    """The first question, the updates, and how they were chosen; ``expected`` is the accuracy of the rehearsal."""

    question: GradientAsk
    descent: Descent
    setting: Setting
    steps: int
    records: int
    representation: str
    base: Representation
    trust: Trust
    unit: Unit
    expected: float
    doubts: tuple[str, ...]

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The plan in words."""
        ask, chosen = self.question, self.setting
        pure = "; a delta above 0 would need several times less noise" if ask.norm == "l1" else ""
        return (
            ("mechanism", f"{type(ask.mechanism).__name__}: the sum of gradients is released {self.steps} times{pure}"),
            (
                "questions",
                f"gradients of a linear model on {ask.components} components of the public samples by "
                f"{self.representation}, clipped in {ask.norm.upper()} to {ask.radius} grid steps",
            ),
            (
                "settings",
                f"rate {chosen.rate:g}, clip {chosen.clip:g}, damping {chosen.damping:g}: accuracy {self.expected:.0%} "
                "on public samples with made-up labels",
            ),
        )


def plan_gradients(task: Task, options: NoisySGD, trust: Trust) -> GradientPlan:
    """The first question for a task, from public information only."""
    if 0 < task.delta < SMALLEST_DELTA:
        raise InvalidInput(f"delta must be 0, or in [1e-30, 1), got {float(task.delta):g}")
    if options.records is None and task.adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidInput(
            "give the approximate number of records (records): under add-remove the number of records is private"
        )
    # The number of persons is public, and each has at most as many records as the unit.
    records = options.records or task.units * (task.unit.records if task.unit.column is not None else 1)
    norm: Norm = "l2" if task.delta > 0 else "l1"
    name, base, fitted, points = public_points(task, options)
    coarse = trust is Trust.MASKED and task.delta == 0
    length = grid_length(
        task.unit, 2.0 if options.clip is None else options.clip, _COARSE_LENGTH if coarse else _LONGEST_GRID
    )
    # Noise is proportional to the clip, so that one mechanism gives it for all candidates.
    tried = candidates(points.shape[1], options.components, options.rate, options.clip, options.damping)
    widest = max(each.components for each in tried)
    mechanism: Any = step_mechanism(task, trust, norm, ERRORS * length, widest, options.steps)
    answers = task.nodes.nodes if task.nodes is not None and trust is Trust.LOCAL else 1
    deviation = math.sqrt(mechanism.noise_law.variance * answers) / (ERRORS * length * records)
    setting, expected = rehearsed(points, len(task.classes), tried, options.steps, deviation, records, norm)
    fitted = PrincipalComponents(fitted.mean, fitted.directions[: setting.components])
    seen, scale = within_one(points[:, : setting.components], norm)
    radius = max(1, math.floor(setting.clip * ERRORS * length))
    ask = GradientAsk(
        representation=Chained.of((base, fitted), content_digest(row_digests(task.public))),
        scale=length * scale,
        length=length,
        offset=round(OFFSET * length),
        weights=np.zeros((setting.components + 1, len(task.classes)), dtype=np.int64),
        radius=radius,
        norm=norm,
        class_names=tuple(map(str, task.classes)),
        space=content_digest(row_digests(seen)),
        mechanism=step_mechanism(task, trust, norm, radius, setting.components, options.steps),
        purpose=GRADIENT_PURPOSE,
        request=task.request,
    )
    descent = Descent(np.square(with_constant(seen)).mean(axis=0), setting.rate, setting.damping)
    return GradientPlan(
        ask, descent, setting, options.steps, records, name, base, trust, task.unit, expected, _doubts(task, expected)
    )


def public_points(
    task: Task, options: NoisySGD
) -> tuple[str, Representation, PrincipalComponents, NDArray[np.float64]]:
    """The representation and its name, its components, and the public samples in them."""
    wanted = options.representation
    if isinstance(wanted, str) and wanted == "auto" and task.kind == "images":
        from tacit.methods.auto.plan import image_parts

        wanted = image_parts(task.public)[0]
    name, base = sum_representation(wanted, task.public, len(task.classes))
    encoded = base.encode(task.public)
    if not encoded.std(axis=0).any():
        raise InvalidInput("the public samples are all equal")
    most = min(options.components or _MOST, *encoded.shape)
    fitted = PrincipalComponents.fit(encoded, most, whitening=options.whitening)
    return name, base, fitted, fitted.encode(encoded).astype(np.float64)


def grid_length(unit: Unit, clip: float, farthest: int = _LONGEST_GRID) -> int:
    """Grid steps in features of norm 1: fewer if a person has many records, to limit the sensitivity.

    >>> grid_length(Unit(), 1.0), grid_length(Unit.person("patient", 50), 1.0)
    (512, 32)
    """
    length = _LENGTH
    while length > 1 and 2 * unit.records * clip * ERRORS * length > farthest:
        length //= 2
    return length


def step_mechanism(
    task: Task, trust: Trust, norm: Norm, radius: int, components: int, steps: int
) -> Mechanism[Any, Any]:
    """The noise with which all steps together stay within (ε, δ)."""
    cells = len(task.classes) * (components + 1)
    sensitivity = gradient_sensitivity(cells, radius, norm, task.unit, task.adjacency)
    # A run's own account is planned before the first release; other accounts may have adaptive charges.
    rule = Rule.PLANNED if task.own_budget and task.nodes is None else Rule.ADAPTIVE
    try:
        if trust is Trust.MASKED and task.nodes is not None:
            nodes = task.nodes
            quorum: dict[str, Any] = {
                "holders": nodes.nodes, "most": nodes.records * radius, "surviving": nodes.surviving,
                "honest": nodes.honest, "colluding": nodes.colluders,
            }  # fmt: skip
            if task.delta == 0:
                return DistributedLaplace.for_epsilon(task.budget / steps, int(sensitivity.l1), **quorum)
            return DistributedGaussian.for_budget(
                task.budget, task.delta, int(sensitivity.l2_squared), cells, **quorum, repetitions=steps, rule=rule
            )
        if task.delta == 0:
            return DiscreteLaplaceNoise.calibrated(sensitivity, task.budget / steps, task.delta)
        return RoundedGaussianNoise.for_budget(task.budget, task.delta, int(sensitivity.l2_squared), steps, rule)
    except ArithmeticError:
        raise InvalidInput(
            f"no mechanism can be made for epsilon = {float(task.budget):g} and delta = {float(task.delta):g}"
        ) from None


def _doubts(task: Task, expected: float) -> tuple[str, ...]:
    doubts = [weakness(task.budget, task.unit)]
    if expected * len(task.classes) < _WORTHWHILE:
        doubts.append(
            f"the labels will be mostly noise: with made-up labels the accuracy was {expected:.0%}. Use more records "
            "or a larger epsilon"
        )
    return tuple(each for each in doubts if each is not None)


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast for a curator with the settings that the run would choose; ``hidden`` is treated as ``linear``."""
    assert isinstance(options, NoisySGD)
    key = ("gradients", task.budget, task.delta, task.units, options)
    if key not in evidence.found:
        plan = plan_gradients(task, options, Trust.CENTRAL)
        least = 1 / evidence.classes
        kept = min(1.0, max(0.0, (plan.expected - least) / (1 - least)))
        evidence.found[key] = plan.question.representation.encode(evidence.points), kept
    rows, kept = evidence.found[key]
    most = evidence.reachable(rows) if evidence.labeled else evidence.reachable()
    # Made-up labels have no margins between classes; real ones have, and are easier to learn.
    accuracy = evidence.common + (most - evidence.common) * math.sqrt(kept)
    seconds = 2.0 + 4e-9 * options.steps * task.units * rows.shape[1] * evidence.classes
    deviation = _UNLIKE + _SHAKEN * (1 - kept) * (most - 1 / evidence.classes)
    said = f"{options.steps} steps in {rows.shape[1]} components; accuracy {kept:.0%} on made-up labels"
    return Expected(accuracy, deviation, options.steps, None, options.steps, seconds, said)
