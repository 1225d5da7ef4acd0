"""FedMD's public choices: what each variant sends, the noise it needs, and its guarantee.

Noise is calibrated for the total over all queries of all rounds. The influence of one record on a trained model is not
bounded, so every prediction may change over its complete range, in all rounds. That makes predictions expensive. For
the variants without noise no (ε, δ) is claimed, and a warning says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.calibrate import largest_pure_epsilon
from tacit.accounting.compose import total
from tacit.core import Ceiling, Integers, InvalidInput, Repeated, Representation, Rule, Unit
from tacit.core.options import Options
from tacit.core.rational import Number, bisect, positive, probability, rounded_down, whole
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, Responses
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.methods.fedmd.coordinator import ConsensusVoteCoordinator
from tacit.methods.fedmd.options import RESPONSES, FedMD
from tacit.methods.fedmd.wire import PredictionForm
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.rknn.forecast import votes_forecast
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.rknn.queries import cluster, suggest_queries
from tacit.methods.rknn.wire import table_sensitivity
from tacit.methods.task import Task
from tacit.representations.chained import Chained, spectral
from tacit.representations.image_features import OrientedGradients
from tacit.representations.registry import fit_representation
from tacit.representations.scaled import PrincipalComponents

__all__ = [
    "DIVIDED_BY_LABEL",
    "MODEL_STAYS",
    "ceiling_of",
    "check_options",
    "forecast",
    "party_sample",
    "prediction_noise",
    "response_mechanism",
    "subset_ceiling",
    "subset_sample",
    "unit_of",
    "vote_coordinator",
]


def _positive_counts(queries: int, rounds: int) -> None:
    for name, value in (("queries", queries), ("rounds", rounds)):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")


def prediction_noise(
    form: PredictionForm, queries: int, rounds: int, epsilon: Number, delta: Number = 0
) -> DiscreteLaplaceNoise | DiscreteGaussianNoise:
    """Integer noise for one round's table, such that all rounds together stay within (ε, δ).

    With δ = 0 it is discrete Laplace at ε/R per round; otherwise discrete Gaussian, composed over the rounds.

    >>> prediction_noise(PredictionForm("argmax", classes=10), queries=100, rounds=5, epsilon=1).scale
    Fraction(1000, 1)
    """
    _positive_counts(queries, rounds)
    sensitivity = form.sensitivity(queries)
    if probability(delta, "delta") == 0:
        return DiscreteLaplaceNoise.for_epsilon(positive(epsilon, "epsilon") / rounds, l1=int(sensitivity.l1))
    return DiscreteGaussianNoise.for_budget(
        epsilon,
        delta,
        squared_shift=int(sensitivity.l2_squared),
        unit_steps=False,
        repetitions=rounds,
        rule=Rule.PLANNED,
    )


def response_mechanism(
    classes: int, queries: int, rounds: int, epsilon: Number, delta: Number = 0, name: str = "subset-selection"
) -> Responses:
    """Randomized responses for one round's labels, such that all rounds together stay within (ε, δ).

    >>> response_mechanism(10, queries=5, rounds=2, epsilon=10).local.epsilon
    Fraction(1, 1)
    """
    _positive_counts(queries, rounds)
    if name not in RESPONSES:
        raise InvalidInput(f"mechanism must be one of {', '.join(RESPONSES)}, got {name!r}")
    kind = SubsetSelection if name == "subset-selection" else GeneralizedRandomizedResponse
    goal, limit = positive(epsilon, "epsilon"), probability(delta, "delta")
    share = largest_pure_epsilon(goal, limit, queries * rounds, Rule.PLANNED)

    def made(each: Fraction) -> Responses:
        return Responses(kind(classes, 1, each), queries)

    def fits(each: float) -> bool:
        spend = made(max(share, rounded_down(each, 9))).spend
        return total([Repeated(spend, rounds)], limit, Rule.PLANNED).epsilon <= goal

    if limit == 0 or fits(float(goal)):
        return made(share if limit == 0 else goal)
    # The exact privacy loss of a response may allow a larger ε than that of a general pure mechanism.
    found = bisect(fits, float(share), float(goal), tolerance=1e-6 * float(share))
    return made(max(share, rounded_down(found, 9)))


# The default of each option, and the variants that use it.
_PREDICTING = ("np", "nfdp", "ldp", "response")
OPTIONS: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "epsilon": (None, ("ldp", "response", "rknn")),
    "delta": (0, ("ldp", "response")),
    "subset": (None, ("nfdp",)),
    "replacement": (True, ("nfdp",)),
    "per_class": (False, ("nfdp",)),
    "mechanism": ("subset-selection", ("response",)),
    "vote_queries": (None, ("rknn",)),
    "representation": ("auto", ("rknn",)),
    "kind": ("argmax", _PREDICTING),
    "weights": ("equal", _PREDICTING),
}
MODEL_STAYS = (
    "the holders' own models were trained on their records without noise and are not covered, nor are measurements of "
    "them, such as accuracies; they stay with the holders, and everything that a holder sent is covered"
)
DIVIDED_BY_LABEL = (
    "it holds for the records that each simulated holder was given: they were partitioned by their labels, so that one "
    "changed label would have moved other records between holders"
)
# A subset costs δ only, but a ceiling needs an ε; this one is too small for anything else.
NO_EPSILON = Fraction(1, 10**6)


def check_options(options: FedMD, epsilon: Fraction | None, delta: Fraction) -> None:
    """Refuse an option that has no effect in this variant.

    >>> check_options(FedMD(variant="nfdp", subset=60), Fraction(1), Fraction(0))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: epsilon has no effect in variant nfdp: it is for ldp, response, rknn
    """
    given = {"epsilon": epsilon, "delta": delta} | {
        name: getattr(options, name) for name in OPTIONS if name not in ("epsilon", "delta")
    }
    for name, value in given.items():
        usual, owners = OPTIONS[name]
        if options.variant not in owners and not (value is usual or value == usual):
            raise InvalidInput(f"{name} has no effect in variant {options.variant}: it is for {', '.join(owners)}")
    if epsilon is None and options.variant in OPTIONS["epsilon"][1]:
        raise InvalidInput(f"variant {options.variant} needs epsilon, the total that a holder may spend")


def subset_sample(
    labels: Integers, size: int | None, replacement: bool, per_class: bool
) -> SubsetSample | StratifiedSample:
    """The sample of a party with these labels: ``size`` records, in total or divided among the classes.

    >>> subset_sample(np.array([0, 0, 0, 1]), 2, replacement=False, per_class=True).strata[1]
    SubsetSample(size=1, population=1, replacement=False)
    """
    if size is None:
        raise InvalidInput("subset must be the number of records that each party trains on (k)")
    if not per_class:
        return SubsetSample(size, len(labels), replacement)
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    sizes = np.maximum(1, np.rint(size * counts / counts.sum()).astype(np.int64))
    return StratifiedSample(
        tuple(SubsetSample(int(k), int(n), replacement) for k, n in zip(sizes, counts, strict=True))
    )


def unit_of(variant: str) -> Unit:
    """Any record may change all predictions, so these protect a holder with all its records; votes one record."""
    return Unit() if variant == "rknn" else Unit.whole_holder()


def ceiling_of(variant: str, epsilon: Number, delta: Number) -> Ceiling:
    """The ceiling of a party in a variant with noise."""
    return Ceiling(positive(epsilon, "epsilon"), probability(delta, "delta"), Rule.PLANNED, unit_of(variant))


def subset_ceiling(delta: Fraction) -> Ceiling:
    """The ceiling for exactly one subset."""
    return Ceiling(NO_EPSILON, delta, Rule.PLANNED)


def party_sample(
    variant: str, labels: Integers, size: int | None, replacement: bool, per_class: bool
) -> SubsetSample | StratifiedSample:
    """The sample of a party in ``np`` (all records) or ``nfdp`` (a proper subset)."""
    if variant == "np":
        return SubsetSample(len(labels), len(labels), replacement=False)
    sample = subset_sample(labels, size, replacement, per_class)
    if sample.spend.delta == 1:
        raise InvalidInput(
            "a party would train on all of its records (or all of a class), which protects nothing: choose a smaller "
            "subset, or variant np"
        )
    return sample


# A lead should be this many standard deviations of the summed noise.
CLEAR_LEAD = 4.25
# Smaller images are not encoded by gradients; the gradients of larger ones are reduced to this many components.
SMALLEST_IMAGE, _COMPONENTS = 16, 64


def vote_coordinator(task: Task, options: FedMD, holders: int) -> ConsensusVoteCoordinator:
    """Queries and noise for reverse k-NN votes that are added over the holders."""
    count, seed = len(task.classes), task.seed or 0

    def noise(asked: int) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise.for_epsilon(task.budget, int(table_sensitivity(asked, count).l1))

    queries = options.vote_queries
    if queries is None:
        # The number of records is public under replace-one adjacency.
        gap = CLEAR_LEAD * math.sqrt(holders * noise(2).variance)
        queries = suggest_queries(task.units, len(task.public), count, 1, gap)
    queries, given = whole(queries, "vote_queries"), options.representation
    fitted = _fitted(given, task.public, queries) if isinstance(given, str) else given
    task.check_representation(fitted)
    groups = cluster(fitted.encode(task.public), queries, seed)
    return ConsensusVoteCoordinator(
        task.public, fitted, groups.centers, groups.membership, count, noise(queries), options.rounds,
        options.queries_of(len(task.public)), task.request, seed,
    )  # fmt: skip


def _fitted(name: str, public: NDArray[Any], queries: int) -> Representation:
    """The representation of that name; ``auto`` is gradients for images, otherwise all features."""
    if name == "auto" and public.ndim > 2 and min(public.shape[1:3]) >= SMALLEST_IMAGE and len(public) > _COMPONENTS:
        return Chained.fit(
            public,
            OrientedGradients.fit,
            lambda rows: PrincipalComponents.fit(rows, _COMPONENTS),
            lambda rows: spectral(rows, queries),
        )
    return fit_representation(name, public, queries)[1]


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast of the variant rknn; the other variants have none."""
    assert isinstance(options, FedMD)
    if options.variant != "rknn":
        raise InvalidInput(f"variant {options.variant} has no forecast; rknn, the default, has one")
    holders = max(len(task.holders), 1)
    votes = ReverseKNN(mechanism="laplace", labels="soft", queries=options.vote_queries)
    return votes_forecast(task, votes, evidence, noise_factor=math.sqrt(holders))
