"""Every public choice of Private k-NN, made before a record is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from tacit.accounting.calibrate import sampled_sigma
from tacit.core import Floats, Integers, InvalidInput, Representation, Spend, exact
from tacit.core.errors import plural
from tacit.core.guarantee import Adjacency, Trust, weakness
from tacit.core.options import Options
from tacit.core.samples import content_digest, row_digests
from tacit.mechanisms.central.private_knn import SubsampledGNMax, SubsampledScreen
from tacit.methods.forecast import NINE_OF_TEN, Evidence, Expected, voted
from tacit.methods.private_knn.coordinator import NeighborCoordinator
from tacit.methods.private_knn.options import PrivateKNN
from tacit.methods.private_knn.rehearsal import rehearsed_votes
from tacit.methods.private_knn.wire import NeighborAsk, neighbor_sensitivity
from tacit.methods.rknn.forecast import vote_points
from tacit.methods.rknn.plan import vote_representation
from tacit.methods.rknn.queries import cluster
from tacit.methods.task import Task

__all__ = ["NEIGHBOR_PURPOSE", "NeighborPlan", "forecast", "plan_neighbors", "radii", "spread_rows"]

# Seconds per comparison of a record with a query in one feature, and of the start.
_COMPARING, _STARTING = 2e-9, 1.0
NEIGHBOR_PURPOSE = "Private k-NN votes"
# Below this the accountants are not precise enough.
_SMALLEST_DELTA = Fraction(1, 10**30)
# The default k, relative to the expected number of sampled records per class.
_SHARE = 1.0
# The default number of queries leaves the votes of all neighbors this many standard deviations of the noise.
_CLEAR = 5.0
_MOST_QUERIES = 1000
# Queries for the first estimate of the noise, which grows about with the square root of their number.
_FIRST = 50
# The noise of the screen relative to that of the answers.
_SCREEN = 3.0


@dataclass(frozen=True)
class NeighborPlan:
    """The questions and how they were chosen. ``rows`` are the public samples that are queries."""

    coordinator: NeighborCoordinator
    rows: Integers
    membership: Integers  # the nearest query of each public sample
    representation: str
    fitted: Representation
    trust: Trust
    doubts: tuple[str, ...]

    @property
    def answers(self) -> SubsampledGNMax:
        """The mechanism for the votes."""
        return cast(SubsampledGNMax, self.coordinator.question.mechanism)

    @property
    def spends(self) -> dict[str, Spend]:
        """The cost of every request."""
        asks = (self.coordinator.screen, self.coordinator.question)
        return {ask.request: ask.mechanism.spend for ask in asks if ask is not None}

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The plan in words."""
        ask, mechanism = self.coordinator.question, self.answers
        said = [
            ("mechanism", f"SubsampledGNMax: votes with Gaussian noise of {float(mechanism.sigma):.3g} each"),
            (
                "questions",
                f"{len(self.rows)} public samples; each record is sampled with probability {float(mechanism.rate):g}, "
                f"the {ask.neighbors} nearest sampled records vote, distances by {self.representation}",
            ),
        ]
        if self.coordinator.screen is not None:
            screen = cast(SubsampledScreen, self.coordinator.screen.mechanism)
            said.append(
                (
                    "screening",
                    f"{mechanism.queries} are answered, first those where {screen.threshold} votes agree",
                )
            )
        if mechanism.participations < mechanism.queries:
            said.append(("filter", f"a record takes part in at most {mechanism.participations} of them"))
        return tuple(said)


def plan_neighbors(task: Task, options: PrivateKNN, trust: Trust) -> NeighborPlan:
    """The questions for a task, from public information only."""
    if not task.delta >= _SMALLEST_DELTA:
        raise InvalidInput(
            f"private_knn adds Gaussian noise, which needs a delta above 0, for example 1e-6; got {float(task.delta):g}"
        )
    replace_one = task.adjacency is Adjacency.REPLACE_ONE
    if options.participations is not None and replace_one:
        raise InvalidInput("participations needs add-remove adjacency: give adjacency add-remove, or leave it out")
    if not replace_one and (options.queries is None or options.neighbors is None):
        raise InvalidInput("give queries and neighbors: under add-remove the number of records is private")
    rate, expected = exact(options.rate, "rate"), _called(task, options)
    neighbors = options.neighbors or max(1, int(_SHARE * expected / len(task.classes)))
    if replace_one and neighbors >= expected:
        raise InvalidInput(_too_many(neighbors, expected))
    queries = options.queries or _affordable(task, options, rate, neighbors)
    name, fitted = vote_representation(options.representation, task.public, queries)
    encoded = np.asarray(fitted.encode(task.public), dtype=np.float32)
    distinct = len(np.unique(encoded, axis=0))
    if options.queries is not None and distinct < queries:
        raise InvalidInput(f"queries must be between 1 and the {distinct} distinct public samples, got {queries}")
    rows, membership = spread_rows(encoded, min(queries, distinct))
    points = encoded[rows]
    screen, answers = _mechanisms(task, options, rate, neighbors, len(rows))
    question = NeighborAsk(
        queries=points,
        representation=fitted,
        neighbors=neighbors,
        class_names=tuple(map(str, task.classes)),
        space=content_digest(row_digests(encoded)),
        mechanism=answers,
        purpose=NEIGHBOR_PURPOSE,
        request=task.request,
        reach=None if options.participations is None else radii(encoded, points, options.reach),
    )
    screening = None
    if screen is not None:
        screening = NeighborAsk(
            **{**vars(question), "mechanism": screen, "request": f"{task.request}-screen"},
        )
    doubts = _doubts(task, neighbors, expected)
    return NeighborPlan(NeighborCoordinator(question, screening), rows, membership, name, fitted, trust, doubts)


def _called(task: Task, options: PrivateKNN) -> float:
    """The expected number of sampled records of one holder."""
    holders = 1 if task.nodes is None else task.nodes.nodes
    return options.rate * task.units / holders


def _too_many(neighbors: int, expected: float) -> str:
    return (
        f"neighbors must be below the expected number of sampled records, {expected:.3g}, or all of them vote on every "
        f"query; got {neighbors}. Choose fewer neighbors or a larger rate"
    )


def _affordable(task: Task, options: PrivateKNN, rate: Fraction, neighbors: int) -> int:
    """As many queries as leave the neighbors' votes well above the noise; all numbers here are public."""
    least = min(len(task.classes), len(task.public))
    sigma = _sigma(task, options, rate, neighbors, _FIRST)
    queries = int(_FIRST * (neighbors / (_CLEAR * float(sigma))) ** 2)
    return max(min(queries, len(task.public), _MOST_QUERIES), least)


def _answers(options: PrivateKNN, queries: int) -> int:
    """The number of answered queries: all, or with a screen the number wanted."""
    if options.threshold is None:
        return queries
    return max(1, queries // 2) if options.answers is None else min(options.answers, queries)


def _sigma(task: Task, options: PrivateKNN, rate: Fraction, neighbors: int, queries: int) -> Fraction:
    """The noise of the answers; that of the screen is ``_SCREEN`` times as large."""
    shift = math.sqrt(neighbor_sensitivity(neighbors, task.unit).l2_squared)
    answers = _answers(options, queries)
    parts = [(1 / shift, min(options.participations or answers, answers))]
    if options.threshold is not None:
        parts.append((_SCREEN * math.sqrt(2) / shift, min(options.participations or queries, queries)))
    replace_one = task.adjacency is Adjacency.REPLACE_ONE
    try:
        return max(sampled_sigma(task.budget, task.delta, rate, tuple(parts), replace_one), Fraction(1, 100))
    except ArithmeticError:
        raise InvalidInput(
            f"no mechanism can be made for epsilon = {float(task.budget):g} and delta = {float(task.delta):g}"
        ) from None


def _mechanisms(
    task: Task, options: PrivateKNN, rate: Fraction, neighbors: int, queries: int
) -> tuple[SubsampledScreen | None, SubsampledGNMax]:
    """The screen, if there is one, and the answers, which together stay within (ε, δ)."""
    sensitivity, replace_one = neighbor_sensitivity(neighbors, task.unit), task.adjacency is Adjacency.REPLACE_ONE
    sigma, answers = _sigma(task, options, rate, neighbors, queries), _answers(options, queries)
    votes = SubsampledGNMax(
        rate, sigma, answers, int(sensitivity.l2_squared), replace_one, min(options.participations or answers, answers)
    )
    if options.threshold is None:
        return None, votes
    threshold = math.ceil(options.threshold * neighbors)
    limit = min(options.participations or queries, queries)
    screened = SubsampledScreen(
        rate, exact(_SCREEN) * sigma, threshold, queries, int(sensitivity.linf) ** 2, replace_one, limit
    )
    return screened, votes


def spread_rows(encoded: Floats, queries: int) -> tuple[Integers, Integers]:
    """The central public sample of each of ``queries`` clusters, and the cluster of every sample.

    >>> rows, group = spread_rows(np.array([[0.0], [0.1], [0.2], [9.0]], dtype=np.float32), 2)
    >>> sorted(rows.tolist()), group[0] == group[2] != group[3]
    ([1, 3], np.True_)
    """
    groups = cluster(encoded, queries)
    distance = np.square(encoded - groups.centers[groups.membership]).sum(axis=1)
    order = np.lexsort((distance, groups.membership))
    first = np.flatnonzero(np.diff(groups.membership[order], prepend=-1))
    return order[first].astype(np.int64), groups.membership


def radii(encoded: Floats, points: Floats, reach: float) -> Floats:
    """The distance from each point within which that fraction of the public samples lies.

    >>> radii(np.array([[0.0], [1.0], [2.0], [8.0]], dtype=np.float32), np.array([[0.0]]), 0.5).tolist()
    [1.0]
    """
    place = max(0, math.ceil(reach * len(encoded)) - 1)
    found = [np.sort(np.square(encoded - point).sum(axis=1))[place] for point in points]
    distances: Floats = np.sqrt(np.array(found)).astype(np.float32)
    return distances


def _doubts(task: Task, neighbors: int, expected: float) -> tuple[str, ...]:
    """Warnings for the operator's screen only; they may depend on the number of records."""
    doubts = [weakness(task.budget, task.unit)]
    if neighbors >= expected:
        doubts.append(_too_many(neighbors, expected))
    return tuple(each for each in doubts if each is not None)


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast for a curator, with the queries and neighbors that the run would choose."""
    assert isinstance(options, PrivateKNN)
    labeled = evidence.labeled and evidence.stated is None
    # The voters on a query are a part of all records, often as large as a class: they agree as a cluster of that size
    # does, however small the cluster that gets their label.
    key = ("neighbors", task.budget, task.delta, task.units, options)
    if key not in evidence.found:
        plan = plan_neighbors(task, options, Trust.CENTRAL)
        part = min(1.0, plan.coordinator.question.neighbors / _called(task, options))
        ask, noise = plan.coordinator.question, float(plan.answers.sigma)
        tried = rehearsed_votes(evidence, ask, plan.fitted, noise, part) if labeled else None
        evidence.found[key] = plan, part, tried
    plan, part, tried = evidence.found[key]
    neighbors, sigma, queries = plan.coordinator.question.neighbors, float(plan.answers.sigma), plan.answers.queries
    if tried is not None:
        middle, deviation = tried
        drawn = NINE_OF_TEN * math.sqrt(max(middle * (1 - middle), 1e-3) / evidence.labeled)
        accuracy = min(1.0, max(0.0, middle + evidence.level * drawn))
    else:
        _, purity = evidence.purity(vote_points(evidence, options.representation), max(1, round(1 / part)))
        # The same number of records votes on each query.
        even = np.full(queries, 1 / queries)
        accuracy, deviation = voted(even, purity, neighbors * queries, sigma, evidence.classes)
    seconds = _STARTING + _COMPARING * task.units * queries * task.public[0].size
    said = f"{plural(neighbors, 'vote')} per query, noise of {sigma:.3g}"
    return Expected(accuracy, 0.02 + deviation, queries, neighbors, 1, seconds, said)
