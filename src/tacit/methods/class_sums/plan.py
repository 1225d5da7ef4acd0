"""Every public choice of class sums, made before a record is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Mechanism, Representation, Sensitivity
from tacit.core.guarantee import Adjacency, Trust, Unit, weakness
from tacit.core.options import Options
from tacit.core.samples import content_digest, row_digests
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.wire import (
    LARGEST_RADIUS,
    Norm,
    SumAsk,
    lengths,
    set_sensitivity,
    set_shift,
    sum_sensitivity,
)
from tacit.methods.forecast import Evidence, Expected, of_planes
from tacit.methods.task import Task
from tacit.representations.chained import Chained
from tacit.representations.image_features import Deskewed, EvenWidth, OrientedGradients
from tacit.representations.random_features import RandomFeatures
from tacit.representations.registry import REPRESENTATIONS, fit_representation, suggest_representation
from tacit.representations.scaled import Identity, PrincipalComponents, Standardized, flat

__all__ = [
    "RADIUS",
    "SUM_PURPOSE",
    "SumPlan",
    "added_as",
    "counted",
    "forecast",
    "most_labels",
    "plan_sums",
    "suggest_components",
    "sum_mechanism",
    "sums_forecast",
    "trusted_with_sums",
]

# The standard deviation between runs, as a fraction of the accuracy lost to noise.
_SHAKEN = 0.25
# The standard deviation between a regression by moments and one on all labels.
_UNLIKE = 0.02
# Grid units in the radius: a hundredth of it still has 40 steps, and sums of 10^8 records fit in 40 bits.
RADIUS = 2**12
# The radius is the quantile of the public samples' norms. Longer samples are clipped to it and keep their direction,
# which loses little, and the noise is that of the small radius.
_WITHIN = 0.25
# The most components considered, the expected total variance of the log-odds between two classes, and the part of a
# component's signal that must remain under noise for it to be used: docs/class-sums.md says how they were chosen.
_MOST, _SPREAD, WORTH = 200, 2.0, 0.5
# Components up to this number are summed while classes one standard deviation apart in each would exceed the noise:
# a few components hold most of what tells classes apart, and which ones cannot be seen without labels.
_STRONG = 6
# Public samples from which the number of components is chosen.
_LOOKED_AT = 5000
# Warn if noise leaves less than this part of the signal.
_WORTHWHILE = 0.1
# For sets of labels: the least weight of counts, and the standard deviation of a frequency above which counts weigh
# more.
_LIGHT, _VAGUE = 0.25, 0.05
SMALLEST_DELTA = Fraction(1, 10**30)
SUM_PURPOSE = "class sums"


@dataclass(frozen=True)
class SumPlan:
    """The one question and its choice: ``kept`` of the signal is what noise leaves, of ``considered`` components."""

    question: SumAsk
    representation: str
    base: Representation
    trust: Trust
    unit: Unit
    kept: float | None
    considered: int
    doubts: tuple[str, ...]

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The plan in words."""
        ask = self.question
        rows = "class" if ask.labels is None else "label"
        pure = "; a delta above 0 would need several times less noise" if ask.norm == "l1" else ""
        return (
            ("mechanism", f"{type(ask.mechanism).__name__}: one noisy sum per {rows} is released, once{pure}"),
            (
                "questions",
                f"{ask.components} components of the public samples by {self.representation}, clipped in "
                f"{ask.norm.upper()} to the length of the shortest quarter, on a grid of {ask.radius} steps",
            ),
        )


def trusted_with_sums(task: Task, has: str, hidden: str, tables: str) -> Trust:
    """The trust model if records are summed: a curator in this process, or nodes with many records each."""
    if task.nodes is None:
        if task.trust in (Trust.LOCAL, Trust.SHUFFLE):
            raise InvalidInput(
                f"{has} no {task.trust} mechanism: noise that hides the complete {hidden} of one record is far larger "
                f"than the {hidden}. Use method rknn for one-record holders, or trust central; over nodes secure "
                "aggregation (trust masked) needs no trusted curator"
            )
        return task.trusting(Trust.CENTRAL, default=Trust.CENTRAL)
    if task.nodes.holders != "nodes":
        raise InvalidInput(
            f"{tables} are tables, which need many records per node; for one-record holders use method rknn"
        )
    return task.trusting(Trust.LOCAL, Trust.MASKED, Trust.CENTRAL, default=Trust.MASKED)


def plan_sums(task: Task, options: ClassSums, trust: Trust) -> SumPlan:
    """The question for a task, from public information only."""
    if 0 < task.delta < SMALLEST_DELTA:
        raise InvalidInput(f"delta must be 0, or in [1e-30, 1), got {float(task.delta):g}")
    replace = task.adjacency is Adjacency.REPLACE_ONE
    classes = len(task.classes)
    if options.components is None and not replace:
        raise InvalidInput("give components: under add-remove the number of records is private")
    labels = most_labels(task, options)
    norm, count, centered = added_as(task, options.count_weight, labels)
    # A label is present or not: every label is one question about two classes.
    sides = classes if labels is None else 2
    name, base = sum_representation(options.representation, task.public, classes)
    encoded = base.encode(task.public)
    if not encoded.std(axis=0).any():
        raise InvalidInput("the public samples are all equal")
    most = considered = min(_MOST if options.components is None else options.components, *encoded.shape)
    fitted = PrincipalComponents.fit(encoded, most, whitening=options.whitening)
    points = fitted.encode(encoded).astype(np.float64)
    kept = None
    if options.components is None:
        # Relative to the radius, the sensitivity hardly depends on the number of components.
        mechanism = sum_mechanism(task, trust, norm, count, centered, most, labels)
        deviation = math.sqrt(mechanism.noise_law.variance * _answers(task, trust)) / RADIUS
        deviation /= classes if centered else 1
        most, kept = suggest_components(points, deviation / task.units, task.units, sides, norm)
    fitted = PrincipalComponents(fitted.mean, fitted.directions[:most])
    length = float(np.quantile(lengths(points[:, :most], norm), _WITHIN))
    if not length > 0:
        raise InvalidInput("a quarter of the public samples are equal to their mean: they vary too little")
    ask = SumAsk(
        representation=Chained.of((base, fitted), content_digest(row_digests(task.public))),
        components=most,
        scale=RADIUS / length,
        radius=RADIUS,
        norm=norm,
        count=count,
        class_names=tuple(map(str, task.classes)),
        space=content_digest(row_digests(points)),
        mechanism=sum_mechanism(task, trust, norm, count, centered, most, labels),
        purpose=SUM_PURPOSE,
        request=task.request,
        centered=centered,
        labels=labels,
    )
    return SumPlan(ask, name, base, trust, task.unit, kept, considered, _doubts(task, kept))


def counted(task: Task) -> int | None:
    """The number of records in the sums if it is public (one record per unit, and replace-one adjacency), else None."""
    single = task.unit.column is None or (task.unit.records == 1 and task.nodes is None)
    return task.units if task.adjacency is Adjacency.REPLACE_ONE and single else None


def most_labels(task: Task, options: ClassSums) -> int | None:
    """The most labels of a record that has a set of them, by default all; None for records with one label each."""
    if not task.multilabel:
        if options.max_labels is not None:
            raise InvalidInput("max_labels is for records with sets of labels; these have one label each")
        return None
    classes = len(task.classes)
    labels = classes if options.max_labels is None else options.max_labels
    if labels > classes:
        raise InvalidInput(f"max_labels must be between 1 and the {classes} classes, got {labels}")
    if counted(task) is None:
        raise InvalidInput(
            "sums of label sets need a public number of records: replace-one adjacency, and one record per person"
        )
    if options.fit != "logistic":
        raise InvalidInput(f"sets of labels are fitted by logistic regressions only: leave out fit, got {options.fit}")
    return labels


def added_as(task: Task, weight: float | None = None, labels: int | None = None) -> tuple[Norm, int, bool]:
    """The norm in which records are clipped, the weight of a record's count, and whether sums are centered.

    With δ = 0 the norm is L1. If the number of records is public, the sum over all rows is known, and centering saves
    the budget for it. In L2 under replace-one adjacency counts cost nothing up to the radius, or up to √(1 − 2/classes)
    of it if sums are centered. Otherwise they cost a little, and a small weight is enough, since classes have far more
    records than the noise hides. ``labels`` is the most labels of a record that has a set of them.
    """
    norm: Norm = "l2" if task.delta > 0 else "l1"
    classes = len(task.classes)
    known = counted(task) is not None and task.nodes is None
    if labels is not None:
        # In L1 centering makes a record's contribution smaller only if it may have more than half of the labels.
        fits = classes - set_shift(classes, labels) <= LARGEST_RADIUS // RADIUS
        centered = known and fits and (norm == "l2" or 2 * labels > classes)
        return norm, max(1, math.floor(RADIUS * _set_weight(task, weight, norm, labels, centered))), centered
    centered = norm == "l2" and known and classes - 1 <= LARGEST_RADIUS // RADIUS
    if weight is None:
        free = math.sqrt(1 - 2 / classes) if centered else float(task.adjacency is Adjacency.REPLACE_ONE)
        weight = 1 / 8 if norm == "l1" else max(1 / 4, free)
    return norm, max(1, math.floor(weight * RADIUS)), centered


def _set_weight(task: Task, weight: float | None, norm: Norm, labels: int, centered: bool) -> float:
    """The weight of counts for sets of labels: free or small, unless the labels' frequencies would be mostly noise."""
    if weight is not None:
        return weight
    classes = len(task.classes)
    # In L2 counts cost nothing up to here; see set_sensitivity.
    free = math.sqrt(max(0.0, 1 - 2 * labels / classes)) if centered else 1.0
    least = max(_LIGHT, free if norm == "l2" else 0.0)
    noise = sum_mechanism(task, Trust.CENTRAL, norm, math.floor(least * RADIUS), centered, 1, labels)
    deviation = math.sqrt(noise.noise_law.variance) / RADIUS / task.units / (classes if centered else 1)
    return min(1.0, max(least, deviation / _VAGUE))


def sum_mechanism(
    task: Task, trust: Trust, norm: Norm, count: int, centered: bool, components: int, labels: int | None = None
) -> Any:  # noqa: ANN401
    """The noise that keeps the one release within (ε, δ)."""
    classes = len(task.classes)
    unit = task.unit, task.adjacency
    if labels is not None:
        sensitivity = set_sensitivity(components, RADIUS, count, classes, labels, norm, *unit, centered)
    else:
        sensitivity = sum_sensitivity(components, RADIUS, count, norm, *unit, classes if centered else None)
    try:
        return _calibrated(task, trust, sensitivity, components)
    except ArithmeticError:
        raise InvalidInput(
            f"no mechanism can be made for epsilon = {float(task.budget):g} and delta = {float(task.delta):g}"
        ) from None


def _calibrated(task: Task, trust: Trust, sensitivity: Sensitivity, components: int) -> Mechanism[Any, Any]:
    if trust is Trust.MASKED and task.nodes is not None:
        nodes = task.nodes
        quorum: dict[str, Any] = {
            "holders": nodes.nodes, "most": nodes.records * RADIUS, "surviving": nodes.surviving,
            "honest": nodes.honest, "colluding": nodes.colluders,
        }  # fmt: skip
        if task.delta == 0:
            return DistributedLaplace.for_epsilon(task.budget, int(sensitivity.l1), **quorum)
        cells = len(task.classes) * (components + 1)
        return DistributedGaussian.for_budget(task.budget, task.delta, int(sensitivity.l2_squared), cells, **quorum)
    if task.delta > 0:
        return RoundedGaussianNoise.calibrated(sensitivity, task.budget, task.delta)
    return DiscreteLaplaceNoise.calibrated(sensitivity, task.budget, task.delta)


def _answers(task: Task, trust: Trust) -> int:
    """The number of noise terms in the sum: one per node if nodes answer separately."""
    return task.nodes.nodes if task.nodes is not None and trust is Trust.LOCAL else 1


def suggest_components(
    points: NDArray[np.float64], noise: float, records: int, classes: int, norm: Norm
) -> tuple[int, float]:
    """How many components to sum, and the part of their signal that noise leaves.

    ``noise`` is the standard deviation of a mean relative to the radius. More components contain more information, but
    make vectors longer, so that all of them get more noise. In half-whitened components weights are assumed to be
    equal, so that the signal of a component is its variance; a component gains the part of its signal that noise
    leaves, minus ``WORTH``. A few components are summed in any case, if the strongest signal they could have exceeds
    the noise; the part that noise leaves is that of the number with the largest gain. Only public samples, the number
    of records and the noise are used.

    >>> spread = np.random.default_rng(0).normal(size=(500, 20)) / np.arange(1, 21)
    >>> [suggest_components(spread, noise, 10**4, 2, "l2")[0] for noise in (1e-5, 1e-2)]
    [20, 6]
    """
    rows = points[:: -(-len(points) // _LOOKED_AT)]
    spread = np.square(rows).mean(axis=0)
    weight = _SPREAD * (classes - 1) / spread.sum()
    curvature = spread * (1 - 1 / classes) / classes
    if norm == "l1":
        reach = np.median(np.cumsum(np.abs(rows), axis=1), axis=0)
    else:
        reach = np.sqrt(np.median(np.cumsum(np.square(rows), axis=1), axis=0))
    signal = curvature**2 * weight
    # A row for each number of components: the part of each component's signal that noise leaves.
    left = signal / (signal + np.square(noise * reach)[:, None] + curvature / records)
    gains = np.tril(spread * (left - WORTH)).sum(axis=1)
    best = int(gains.argmax())
    strong = int((curvature > np.square(noise * reach))[:_STRONG].nonzero()[0].max(initial=0))
    return max(best, strong) + 1, float((spread * left[best])[: best + 1].sum() / spread.sum())


def sum_representation(
    representation: str | Representation, public: NDArray[Any], classes: int
) -> tuple[str, Representation]:
    """The representation and its name, fitted on the public samples if it is given by name.

    Sums need features in which classes are linearly separable, so maps (``spectral``, ``umap``) and ``pca`` are
    replaced by the features themselves.

    >>> ages = np.array([[30.0, 0.0], [50.0, 1.0], [70.0, 0.0]])
    >>> sum_representation("auto", ages, 2)[1].encode(ages)[:, 1].round(2).tolist()
    [-0.33000001311302185, 0.6700000166893005, -0.33000001311302185]
    """
    if not isinstance(representation, str):
        if isinstance(representation, type) or not callable(getattr(representation, "encode", None)):
            raise InvalidInput(
                f"representation must be auto, one of {', '.join(sorted(REPRESENTATIONS))}, or a fitted object with a "
                f"method encode; got {representation!r}"
            )
        return type(representation).__name__, representation
    if representation == "auto":
        mixed = suggest_representation(public) == "standardized"
        return ("standardized", _mixed(public)) if mixed else ("identity", Identity.fit(public))
    if representation == "random-features":
        _, scaled = sum_representation("auto", public, classes)
        return representation, Chained.fit(public, lambda _: scaled, RandomFeatures.fit)
    if representation in ("pca", "spectral", "umap"):
        return "identity", Identity.fit(public)
    if representation == "gradients":
        return representation, Chained.fit(public, OrientedGradients.fit)
    if representation == "handwriting":
        return representation, Chained.fit(public, Deskewed.fit, EvenWidth.fit, OrientedGradients.fit)
    return fit_representation(representation, public, classes)


def _mixed(public: NDArray[Any]) -> Standardized:
    """Standardized features, where a feature of two values is divided by their difference.

    A rare value of a category, divided by its small standard deviation, would be far larger than all others and would
    decide how much of a record is clipped.
    """
    fitted = Standardized.fit(public)
    rows = flat(public).astype(np.float64)
    low, high = rows.min(axis=0), rows.max(axis=0)
    two = ((rows == low) | (rows == high)).all(axis=0) & (high > low)
    return Standardized(fitted.mean, np.where(two, high - low, fitted.spread))


def _doubts(task: Task, kept: float | None) -> tuple[str, ...]:
    doubts = [weakness(task.budget, task.unit)]
    if kept is not None and kept < _WORTHWHILE:
        doubts.append(
            f"the labels will be mostly noise, which leaves {kept:.0%} of the components' signal. Use more records or "
            "a larger epsilon"
        )
    return tuple(each for each in doubts if each is not None)


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast for one question to a curator."""
    assert isinstance(options, ClassSums)
    return sums_forecast(task, options, evidence)


def sums_forecast(task: Task, options: ClassSums, evidence: Evidence) -> Expected:
    """The accuracy of a linear model on the summed components, reduced by the noise of this budget."""
    key = ("kept", task.budget, task.delta, task.units, options)
    if key not in evidence.found:
        ask = plan_sums(task, options, Trust.CENTRAL).question
        mechanism: Any = ask.mechanism
        rows = ask.representation.encode(evidence.points).astype(np.float64)
        noise = (
            math.sqrt(mechanism.noise_law.variance)
            / ask.radius
            / task.units
            / (evidence.classes if ask.centered else 1)
        )
        _, kept = suggest_components(rows, noise, task.units, evidence.classes, ask.norm)
        evidence.found[key] = rows, kept
    rows, kept = evidence.found[key]
    components = rows.shape[1]
    if evidence.labeled:
        most = evidence.reachable(rows)
    else:
        # How much of the information is in a few components depends on the labels, which are unknown.
        part = min(1.0, (components / evidence.classes) ** 0.5)
        most = evidence.common + (evidence.reachable() - evidence.common) * part ** (1 - evidence.level)
    accuracy = of_planes(most, evidence.common, kept, evidence.classes)
    seconds = 1.0 + 2e-9 * task.units * task.public[0].size * components
    return Expected(
        accuracy, _UNLIKE + _SHAKEN * (1 - kept) * (most - 1 / evidence.classes), components, None, 1, seconds,
        f"noise leaves {kept:.0%} of {components} components",
    )  # fmt: skip
