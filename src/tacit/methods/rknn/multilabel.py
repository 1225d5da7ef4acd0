"""Votes of records with sets of labels (multi-label): the probability of each label for every query.

A record with several labels votes for each of them, so a query has no single winner. A label is decided by the fraction
of the query's voters that have it; both the label's count and the number of voters are noisy.

Law. For a query with N voters, of whom the fraction π have label y, the releases are z_N = N + noise and
z_y = Nπ + noise. With a weight v_y(π) for each fraction, common to all queries and fitted by expectation-maximization,

    P(π | z) ∝ v_y(π) · Σ_N f(z_N − N) · f(z_y − Nπ),

and the label's probability is the mean of π: the probability that a record near the query has it. A label is present if
that is at least one half. All of it is post-processing of releases, the number of voters included.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import (
    Adjacency,
    Estimates,
    Integers,
    InvalidInput,
    Mechanism,
    Reals,
    Release,
    Representation,
    Rule,
    Trust,
    whole,
)
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.choices import choose, require_current_name
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.rknn.choice import Choice
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.rknn.plan import Plan, PlannedRound, vote_representation
from tacit.methods.rknn.posterior import Noise
from tacit.methods.rknn.queries import Clusters, cluster, suggest_queries
from tacit.methods.rknn.reading import LabelReader, Pooled
from tacit.methods.rknn.voting_rules import balanced_offsets
from tacit.methods.rknn.wire import VoteAsk, table_sensitivity
from tacit.methods.task import Nodes, Task

__all__ = [
    "SetCoordinator",
    "SetCountReader",
    "SetLabeling",
    "SetMessageReader",
    "SetReading",
    "label_chances",
    "plan_sets",
]


_SIZES, _SHARES, ITERATIONS = 48, 21, 50


@dataclass(frozen=True)
class SetReading:
    """For every query the probability that a record near it has each label, (queries, classes)."""

    chances: Reals

    @property
    def present(self) -> NDArray[np.bool_]:
        """The labels with a probability of at least one half."""
        return self.chances >= 0.5


@dataclass(frozen=True)
class SetCountReader:
    """The answer of a curator: noisy counts of each label, and of the voters in the last column.

    >>> counts = np.array([[58, 2, 61], [-3, 49, 50], [1, 77, 80], [3, -2, 4]])
    >>> SetCountReader(Noise("laplace", 4))(counts).present[:3].tolist()
    [[True, False], [False, True], [False, True]]
    """

    noise: Noise

    def __call__(self, answer: Integers | Pooled) -> SetReading:
        """Read one answer, of a curator or the sum over nodes."""
        if isinstance(answer, Pooled):
            deviation = self.noise.deviation * math.sqrt(answer.nodes * answer.inflation)
            noise = self.noise if answer.nodes == 1 else Noise("gaussian", deviation)
            return SetReading(label_chances(answer.counts[:, :-1], answer.counts[:, -1], noise, noise))
        return SetReading(label_chances(answer[:, :-1], answer[:, -1], self.noise, self.noise))


@dataclass(frozen=True)
class SetMessageReader:
    """The answer of one-record holders, whose sets were filled up to ``labels`` labels with made-up ones.

    Every voter has exactly ``labels`` votes in a query, so a query's votes divided by ``labels`` are its voters.
    """

    decode: Callable[[NDArray[Any]], Estimates]
    classes: int
    labels: int

    def __call__(self, answer: NDArray[Any]) -> SetReading:
        """Read one answer."""
        estimates = self.decode(answer)
        counts = estimates.counts.reshape(-1, self.classes + self.labels)
        # The sum of many records' errors is nearly Gaussian.
        spread = float(np.sqrt(estimates.variances.mean()))
        voters = spread * np.sqrt(counts.shape[1]) / self.labels
        return SetReading(
            label_chances(
                counts[:, : self.classes],
                counts.sum(axis=1) / self.labels,
                Noise("gaussian", spread),
                Noise("gaussian", float(voters)),
            )
        )


def label_chances(counts: NDArray[Any], voters: NDArray[Any], noise: Noise, voter_noise: Noise) -> Reals:
    """The probability that a record near each query has each label, (queries, classes), from noisy counts.

    >>> chances = label_chances(np.array([[60, 1], [2, 55]]), np.array([62, 57]), *2 * [Noise("laplace", 2)])
    >>> chances.round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if counts.ndim != 2 or voters.shape != counts.shape[:1]:
        raise InvalidInput(
            f"counts must be a table with one number of voters per row, got {counts.shape}, {voters.shape}"
        )
    # Equal steps of the square root: a finer grid for small numbers of voters.
    most = np.sqrt(max(1.0, float(voters.max()), float(counts.max())))
    sizes, shares = np.linspace(0, most, _SIZES) ** 2, np.linspace(0, 1, _SHARES)
    size_weight = _log_density(voters[:, None] - sizes, voter_noise)  # (queries, sizes)
    size_weight -= size_weight.max(axis=1, keepdims=True)
    result = np.empty(counts.shape)
    for label in range(counts.shape[1]):
        distance = counts[:, label, None, None] - sizes[:, None] * shares  # (queries, sizes, shares)
        joint = size_weight[:, :, None] + _log_density(distance, noise)
        evidence = np.exp(joint - joint.max(axis=(1, 2), keepdims=True)).sum(axis=1)  # (queries, shares)
        weights = np.full(_SHARES, 1 / _SHARES)
        for _ in range(ITERATIONS):
            # A uniform prior with the weight of one query, so that no fraction is ruled out by few queries.
            posterior = evidence * weights
            posterior /= posterior.sum(axis=1, keepdims=True)
            weights = (posterior.sum(axis=0) + 1 / _SHARES) / (len(counts) + 1)
        posterior = evidence * weights
        result[:, label] = posterior @ shares / posterior.sum(axis=1)
    return result


def _log_density(values: Reals, noise: Noise) -> Reals:
    """The logarithm of the noise's density, up to a constant."""
    scaled = values / noise.scale
    return -abs(scaled) if noise.law == "laplace" else -(scaled**2) / 2


SetReader = Callable[[Any], SetReading]
# A fraction can be distinguished from one half if half of the voters exceed the noise of the count and of half of the
# voters with 99 % certainty: 2 · 2.33 · √(1 + 1/4) standard deviations of one noise.
LEAD = 5.2


@dataclass(frozen=True)
class SetLabeling:
    """The probability of each label for each query, (queries, classes), and the query of every sample."""

    clusters: Clusters
    chances: Reals


class SetCoordinator:
    """Asks once for the labels of the records near each query."""

    def __init__(
        self,
        public: NDArray[Any],
        representation: Representation,
        queries: int,
        mechanism: Mechanism[Any, Any],
        reader: SetReader,
        neighbors: int,
        names: Iterable[Any],
        request: str,
        max_labels: int,
        balanced: bool,
    ) -> None:
        encoded = representation.encode(public)
        self._clusters, self._reader = cluster(encoded, queries), reader
        self._ask = VoteAsk(
            queries=self._clusters.centers,
            representation=representation,
            neighbors=neighbors,
            class_names=tuple(map(str, names)),
            space=hashlib.sha256(encoded.tobytes()).hexdigest(),
            mechanism=mechanism,
            purpose="reverse k-NN labels, sets",
            request=request,
            query_offsets=balanced_offsets(encoded, self._clusters.centers, neighbors) if balanced else None,
            labels=max_labels,
        )

    def begin(self) -> Release[SetLabeling] | None:
        """The state before the question."""
        return None

    def ask(self, state: Release[SetLabeling] | None) -> VoteAsk | None:
        """The one question, until it is answered."""
        return self._ask if state is None else None

    def fold(self, state: Release[SetLabeling] | None, answers: Sequence[Release[Any]]) -> Release[SetLabeling]:
        """Read the one answer."""
        if len(answers) != 1:
            raise InvalidInput(
                f"labeling expects one answer, of a curator or of all one-record holders; got {len(answers)}"
            )
        return answers[0].map(lambda answer: SetLabeling(self._clusters, self._reader(answer).chances))

    def result(self, state: Release[SetLabeling] | None) -> Release[SetLabeling]:
        """The probability of each label for each query."""
        if state is None:
            raise InvalidInput("the run has no answer yet")
        return state


def plan_sets(task: Task, options: ReverseKNN, trust: Trust) -> tuple[Plan, SetReader]:
    """Every public choice for records with sets of labels, and the reader of the answers."""
    classes, nodes = len(task.classes), task.nodes
    if options.max_labels is None:
        raise InvalidInput("give max_labels, the most labels of one record: it determines the noise, and is public")
    labels, neighbors = whole(options.max_labels, "max_labels"), whole(options.neighbors, "neighbors")
    if labels > classes:
        raise InvalidInput(f"max_labels must be between 1 and the {classes} classes, got {labels}")
    if task.unit.column is not None or task.adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidInput("sets of labels are protected per record, under replace-one adjacency")
    if whole(options.iterations, "iterations") != 1 or options.labels == "proportions":
        raise InvalidInput("sets of labels allow one iteration only: leave out iterations and proportions")
    allowed = (Trust.CENTRAL, Trust.LOCAL) if nodes is None else (Trust.CENTRAL, Trust.LOCAL, Trust.MASKED)
    task.trusting(*allowed, default=trust)
    one_record = trust is Trust.LOCAL and (nodes is None or nodes.holders == "records")

    def chosen(asked: int) -> _Chosen:
        if one_record:
            return _local(task.units, asked, classes, neighbors, labels, task.budget, options.mechanism)
        found = _central(asked, classes, neighbors, labels, task.budget, task.delta, options.mechanism)
        return found if nodes is None or trust is Trust.CENTRAL else _over(found, nodes, trust, task.budget)

    queries = options.queries
    if queries is None:
        lead = LEAD * chosen(max(2 * neighbors, len(task.public) // 5)).deviation
        queries = suggest_queries(task.units, len(task.public), 2, neighbors, lead)
    asked = whole(queries, "queries")
    choice = chosen(asked)
    name, fitted = vote_representation(options.representation, task.public, asked)
    made = Choice(choice.name, choice.mechanism, "every label is decided separately", choice.deviation, LabelReader())
    rounds = (PlannedRound(made, asked, "clusters", False),)
    return Plan(rounds, neighbors, task.unit, task.adjacency, trust, name, fitted, ()), choice.reader


def _over(found: _Chosen, nodes: Nodes, trust: Trust, epsilon: Fraction) -> _Chosen:
    """The choice over nodes: each adds its own noise or, with secure aggregation, a share of one noise."""
    if trust is not Trust.MASKED:
        return _Chosen(found.name, found.mechanism, found.reader, found.deviation * math.sqrt(nodes.nodes))
    noise: Any = found.mechanism
    if noise.noise_law is None or noise.noise_law.kind != "laplace":
        raise InvalidInput("secure aggregation (trust masked) has laplace noise, with delta 0")
    shared = DistributedLaplace.for_epsilon(
        epsilon, noise.l1, nodes.nodes, nodes.records, nodes.surviving, nodes.honest, nodes.colluders
    )
    deviation = math.sqrt(shared.variance(shared.holders))
    return _Chosen("masked laplace", shared, SetCountReader(Noise("gaussian", deviation)), deviation)


@dataclass(frozen=True)
class _Chosen:
    """A mechanism, its name, the reader of its answers, and the standard deviation of one count under it."""

    name: str
    mechanism: Mechanism[Any, Any]
    reader: SetReader
    deviation: float


def _central(
    queries: int, classes: int, neighbors: int, labels: int, epsilon: Fraction, delta: Fraction, name: str
) -> _Chosen:
    sensitivity = table_sensitivity(queries, classes, neighbors, labels=labels)
    laplace = DiscreteLaplaceNoise.for_epsilon(epsilon, int(sensitivity.l1))
    scale = float(laplace.scale)
    options = {"laplace": _Chosen("laplace", laplace, SetCountReader(Noise("laplace", scale)), 2**0.5 * scale)}
    if delta > 0:
        gaussian = DiscreteGaussianNoise.for_budget(
            epsilon, delta, squared_shift=int(sensitivity.l2_squared), unit_steps=True, repetitions=1, rule=Rule.PLANNED
        )
        sigma = float(gaussian.sigma)
        options["gaussian"] = _Chosen("gaussian", gaussian, SetCountReader(Noise("gaussian", sigma)), sigma)
    if name == "auto":
        return min(options.values(), key=lambda each: each.deviation)
    if name not in options:
        raise InvalidInput(f"mechanism must be auto, laplace or, with delta above 0, gaussian; got {name!r}")
    return options[name]


def _local(
    records: int, queries: int, classes: int, neighbors: int, labels: int, epsilon: Fraction, name: str
) -> _Chosen:
    # As many made-up classes as labels, so that every record has exactly the same number of cells.
    shape = VoteShape(queries, classes + labels, neighbors, labels)
    options = {each.name: each.mechanism for each in choose(shape.cells, shape.ones, epsilon).alternatives}
    best = next(iter(options))
    options |= {
        "Separation": Separation(shape, epsilon),
        "Concatenation, corrected": Concatenation(shape, epsilon, corrected=True),
        "Concatenation, as published": Concatenation(shape, epsilon, corrected=False),
    }
    require_current_name(name)
    chosen = best if name == "auto" else name
    if chosen not in options:
        raise InvalidInput(f"mechanism must be auto or one of {', '.join(sorted(options))}; got {name!r}")
    found = options[chosen]
    reader = SetMessageReader(found.decode, classes, labels)
    return _Chosen(chosen, found, reader, (records * found.variance_zero) ** 0.5)
