"""Every public choice of a reverse k-NN run, made before a record is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import total
from tacit.core import Estimates, InvalidInput, Number, Representation, Rule, exact, positive, probability, whole
from tacit.core.errors import not_one_of, plural
from tacit.core.guarantee import Adjacency, Trust, Unit, weakness
from tacit.core.options import build
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.rknn.choice import Choice, choose_local, choose_mechanism, choose_shuffled
from tacit.methods.rknn.coordinator import Round
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.rknn.posterior import Noise, calibrated_posterior, expected_proportions
from tacit.methods.rknn.queries import SELECTIONS, suggest_queries
from tacit.methods.rknn.reading import CountReader, MessageReader, PooledReader
from tacit.methods.rknn.wire import table_sensitivity
from tacit.methods.task import Nodes
from tacit.representations.registry import REPRESENTATIONS, fit_representation

__all__ = ["Plan", "PlannedRound", "plan", "record_doubts", "vote_representation"]

_LABELS = ("hard", "soft", "proportions")
# Secure aggregation (masked) needs nodes.
SUPPORTED = (Trust.CENTRAL, Trust.LOCAL, Trust.SHUFFLE)
# Below this the accountants are not precise enough.
_SMALLEST_DELTA = Fraction(1, 10**30)
# Labels are mostly noise if the lead that they need is this many times the votes of a query. On scikit-learn's digits
# labels begin to fail at about half of it.
HOPELESS = 5
# Steps of the bisection for the rounds' budgets, to about a thousandth.
STRETCHES = 10
# Rows encoded at a time while distinct ones are counted.
_CHUNK = 4096


@dataclass(frozen=True)
class PlannedRound:
    """One iteration: its mechanism, number of queries, their selection, and whether answers are class proportions."""

    choice: Choice
    queries: int
    selection: str
    proportions: bool

    @property
    def round(self) -> Round:
        """The round as the coordinator runs it."""
        return Round(self.queries, self.choice.mechanism, self.choice.reader, self.selection, self.proportions)


@dataclass(frozen=True)
class Plan:
    """The public choices, and ``doubts``, warnings in words.

    All of it may be stored: warnings that depend on the number of records are in ``record_doubts``.
    """

    rounds: tuple[PlannedRound, ...]
    neighbors: int
    unit: Unit
    adjacency: Adjacency
    trust: Trust
    representation: str
    fitted: Representation
    doubts: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...] = ()  # of a method that chose this one

    @property
    def choice(self) -> Choice:
        """The mechanism of the first round."""
        return self.rounds[0].choice

    @property
    def queries(self) -> int:
        """The number of queries of the first round."""
        return self.rounds[0].queries

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The plan in words."""
        said = [
            *self.reasons,
            ("mechanism", f"{self.choice.name}: {self.choice.reason}"),
            (
                "questions",
                f"{plural(self.queries, 'query', 'queries')}, each record votes for its {self.neighbors} nearest, "
                f"distances by {self.representation}",
            ),
        ]
        if len(self.rounds) > 1:
            counts = ", ".join(str(each.queries) for each in self.rounds)
            said.append(
                (
                    "rounds",
                    f"{len(self.rounds)} rounds share the budget, with {counts} queries; the above is for the first",
                )
            )
        return tuple(said)


def plan(
    public: NDArray[Any],
    classes: int,
    records: int,
    epsilon: Number,
    delta: Number = 0,
    *,
    unit: Unit | None = None,
    adjacency: str = "replace-one",
    trust: str = "central",
    nodes: Nodes | None = None,
    method: ReverseKNN | None = None,
    **options: Any,  # noqa: ANN401
) -> Plan:
    """Every public choice of a run, from public information only; ``options`` are those of ``ReverseKNN``.

    Over ``nodes`` with many records each, every node adds its own noise or, with ``masked`` trust, a share of one noise
    (secure aggregation); with ``shuffle`` trust each record's message is shuffled with those of the surviving others;
    with ``central`` trust a curator adds exact counts.

    >>> plan(np.random.default_rng(0).normal(size=(400, 64)), classes=10, records=1000, epsilon=1).queries
    32
    """
    method = build(ReverseKNN, options) if method is None else method
    unit = unit or Unit()
    budget, slack = positive(epsilon, "epsilon"), probability(delta, "delta")
    if 0 < slack < _SMALLEST_DELTA:
        raise InvalidInput(f"delta must be 0, or in [1e-30, 1), got {delta}")
    if method.labels not in _LABELS:
        raise not_one_of("labels", _LABELS, method.labels)
    if not isinstance(method.mechanism, str):
        raise InvalidInput(f"mechanism must be a name, got {method.mechanism!r}")
    neighbors = whole(method.neighbors, "neighbors")
    if adjacency not in tuple(Adjacency):
        raise InvalidInput(f"adjacency must be one of {', '.join(Adjacency)}, got {adjacency!r}")
    supported = SUPPORTED if nodes is None else tuple(Trust)
    if trust not in supported:
        raise InvalidInput(f"trust must be one of {', '.join(supported)}, got {str(trust)!r}")
    replace = adjacency == Adjacency.REPLACE_ONE
    one_record = _one_record_holders(Trust(trust), nodes)
    if one_record and (not replace or unit.records != 1):
        raise InvalidInput(f"{trust} trust is for holders of one record each, under replace-one adjacency")
    if nodes is not None and trust == Trust.SHUFFLE:
        # The plan must hold without the nodes that drop out.
        records = max(2, int(records * exact(nodes.surviving)))
    pools = nodes is not None and not one_record and trust != Trust.CENTRAL

    def choose(asked: int, share: Fraction, stretch: Fraction = Fraction(1)) -> Choice:
        epsilon_share, delta_share = budget * share * stretch, slack * share
        mechanism = method.mechanism
        try:
            if one_record and trust == Trust.LOCAL:
                return choose_local(records, asked, classes, neighbors, epsilon_share, mechanism)
            if one_record:
                return choose_shuffled(records, asked, classes, neighbors, epsilon_share, delta_share, mechanism)
            sensitivity = table_sensitivity(asked, classes, neighbors, unit, Adjacency(adjacency))
            counts = method.labels != "hard" or method.one_query_per_class or pools
            choice = choose_mechanism(sensitivity, classes, epsilon_share, delta_share, mechanism, counts=counts)
            return _pooled(choice, nodes, Trust(trust), epsilon_share) if pools and nodes is not None else choice
        except ArithmeticError:
            raise InvalidInput(f"no mechanism can be made for epsilon = {epsilon} and delta = {delta}") from None

    if pools and trust == Trust.MASKED and method.mechanism not in ("auto", "laplace"):
        raise InvalidInput(f"secure aggregation (trust masked) has laplace noise only, not {method.mechanism}")
    parts = _shares(method.iterations, method.shares)
    if method.one_query_per_class:
        _require_one_to_one(method.queries, classes, method.labels, len(parts))
    given = _each(method.queries, len(parts))
    if method.selection not in tuple(SELECTIONS):
        raise not_one_of("selection", sorted(SELECTIONS), method.selection)
    if None in given and not replace:
        raise InvalidInput("give queries: under add-remove the number of records is private")
    # The needed lead depends on the number of queries only if almost all of them are neighbors.
    leads = [
        choose(max(2 * neighbors, len(public)) if asked is None else asked, share).gap
        for asked, share in zip(given, parts, strict=True)
    ]
    wanted = [
        suggest_queries(records, len(public), classes, neighbors, gap) if asked is None else asked
        for asked, gap in zip(given, leads, strict=True)
    ]
    name, fitted = vote_representation(method.representation, public, wanted[0])
    # There cannot be more queries than distinct samples.
    distinct = _distinct(public, fitted, max(wanted))
    for asked in given:
        if asked is not None and distinct < asked:
            raise InvalidInput(f"queries must be between 1 and the {distinct} distinct public samples, got {asked}")
    if neighbors > min(distinct, *wanted):
        raise InvalidInput(
            f"neighbors must be at most the {plural(min(distinct, *wanted), 'query', 'queries')}, got {neighbors}"
        )
    asked_for = [min(count, distinct) for count in wanted]

    def choices(stretch: Fraction) -> list[Choice]:
        return [choose(count, share, stretch) for count, share in zip(asked_for, parts, strict=True)]

    rounds = tuple(
        PlannedRound(
            _read(choice, method.one_query_per_class, method.labels, nodes, Trust(trust), classes),
            count,
            method.selection if number else "clusters",
            method.labels == "proportions",
        )
        for number, (choice, count) in enumerate(zip(_together(choices, budget, slack), asked_for, strict=True))
    )
    large = weakness(budget, unit)
    doubts = () if large is None else (large,)
    return Plan(rounds, neighbors, unit, Adjacency(adjacency), Trust(trust), name, fitted, doubts)


def _one_record_holders(trust: Trust, nodes: Nodes | None) -> bool:
    """Whether every record is its own holder."""
    if trust is Trust.LOCAL:
        return nodes is None or nodes.holders == "records"
    if trust is Trust.MASKED and nodes is not None and nodes.holders == "records":
        raise InvalidInput(
            "secure aggregation (trust masked) adds tables, one per node; with holders = records each record answers "
            "separately"
        )
    return trust is Trust.SHUFFLE


def _pooled(choice: Choice, nodes: Nodes, trust: Trust, epsilon: Fraction) -> Choice:
    """The choice over nodes: each adds its own noise or, with secure aggregation, a share of one noise."""
    mechanism: Any = choice.mechanism
    if trust is not Trust.MASKED:
        # The standard deviation of the sum, relative to one noise.
        return replace_fields(choice, gap=choice.gap * math.sqrt(nodes.nodes), reader=_summed(mechanism))
    if mechanism.noise_law is None or mechanism.noise_law.kind != "laplace":
        raise InvalidInput("secure aggregation (trust masked) has laplace noise, with delta 0")
    shared = DistributedLaplace.for_epsilon(
        epsilon, mechanism.l1, nodes.nodes, nodes.records, nodes.surviving, nodes.honest, nodes.colluders
    )
    spread = math.sqrt(1 / float(exact(nodes.surviving) * exact(nodes.honest)))
    return replace_fields(
        choice,
        name="masked laplace",
        reason=shared.in_words,
        mechanism=shared,
        gap=choice.gap * spread,
        reader=_summed(shared),
    )


def _summed(mechanism: Any) -> PooledReader:  # noqa: ANN401
    """A reader of sums, for the noise of all nodes; the number of nodes in a sum is known when it is released."""
    law = mechanism.noise_law
    if law is None:
        raise InvalidInput(f"{type(mechanism).__name__} releases labels, and the answers of nodes are added as counts")
    return PooledReader(Noise(law.kind, law.scale), law.variance)


@dataclass(frozen=True)
class _MixedDecoder:
    """Estimates from the output of a shuffler, for the number of its participants."""

    shuffled: Any

    def __call__(self, mixed: Any) -> Estimates:  # noqa: ANN401
        estimates: Estimates = mixed.estimates(self.shuffled.inner)
        return estimates


def record_doubts(chosen: Plan, records: int) -> list[str]:
    """Warnings about a plan that depend on the number of records or persons.

    For the operator's screen only: under add-remove adjacency the number is private.

    >>> public = np.random.default_rng(0).normal(size=(400, 64))
    >>> few = record_doubts(plan(public, classes=10, records=1000, epsilon=1, queries=300), 1000)
    >>> [doubt[:24] for doubt in few]
    ['many labels may be wrong']
    """
    doubts, gap = [], chosen.choice.gap
    votes = records * chosen.unit.records * chosen.neighbors / chosen.queries
    if gap > votes:
        likely = "most labels will be wrong" if gap > HOPELESS * votes else "many labels may be wrong"
        doubts.append(
            f"{likely}: to be 99 % certain a label needs a lead of {gap:.3g} votes, and a query gets "
            f"{votes:.3g} on average. Use more records, fewer queries or a larger epsilon"
        )
    return doubts


def _together(choices: Callable[[Fraction], list[Choice]], budget: Fraction, slack: Fraction) -> list[Choice]:
    """The rounds' mechanisms, with as large budgets as their composition allows.

    Budgets of pure mechanisms add up. Several rounds of Gaussian noise compose to less than their sum, so each round
    may have more than its share. They are composed by the adaptive rule, the strictest, so that any account with this
    budget can pay.
    """
    best = choices(Fraction(1))
    if len(best) == 1 or any(choice.name != "gaussian" for choice in best):
        return best
    low, high = Fraction(1), Fraction(len(best))
    for _ in range(STRETCHES):
        middle = (low + high) / 2
        tried = choices(middle)
        spent = total([choice.mechanism.spend for choice in tried], slack, Rule.ADAPTIVE)
        if spent.epsilon <= budget and all(choice.name == "gaussian" for choice in tried):
            low, best = middle, tried
        else:
            high = middle
    return best


def _require_one_to_one(queries: object, classes: int, labels: str, iterations: int) -> None:
    """Refuse one query per class unless there are as many queries as classes, one iteration and no proportions."""
    if queries != classes or iterations != 1 or labels == "proportions":
        raise InvalidInput(
            f"one_query_per_class needs {classes} queries, one per class, in one iteration with hard or soft labels"
        )


def _read(
    choice: Choice, one_query_per_class: bool, labels: str, nodes: Nodes | None, trust: Trust, classes: int
) -> Choice:
    """The choice with a reader for the wanted labels: one class per query, or class proportions."""
    reader = choice.reader
    if nodes is not None and trust is Trust.SHUFFLE:
        reader = MessageReader(_MixedDecoder(choice.mechanism), classes)
    if not isinstance(reader, CountReader | MessageReader | PooledReader):
        return choice
    chances = expected_proportions if labels == "proportions" else calibrated_posterior
    return replace_fields(
        choice, reader=replace_fields(reader, one_query_per_class=one_query_per_class, chances=chances)
    )


def _shares(iterations: int, shares: Sequence[Number] | None) -> list[Fraction]:
    """The fraction of the budget for each iteration."""
    count = whole(iterations, "iterations")
    if shares is None:
        return [Fraction(1, count)] * count
    if not isinstance(shares, Sequence | np.ndarray) or len(shares) != count:
        got = f"{len(shares)} numbers" if isinstance(shares, list | tuple) else repr(shares)
        raise InvalidInput(f"shares must be a list with one number per iteration ({count}), got {got}")
    parts = [positive(share, "a share") for share in shares]
    return [part / sum(parts) for part in parts]


def _each(queries: int | Sequence[int] | None, iterations: int) -> list[int | None]:
    """The given number of queries for every iteration."""
    if queries is None:
        return [None] * iterations
    if np.ndim(queries) == 0:
        return [whole(queries, "queries")] * iterations
    given = [whole(each, "queries") for each in np.asarray(queries).tolist()]
    if len(given) != iterations:
        raise InvalidInput(f"queries must be one number, or one per iteration ({iterations}), got {given}")
    return list(given)


def vote_representation(
    representation: str | Representation, public: NDArray[Any], queries: int
) -> tuple[str, Representation]:
    """The representation and its name, fitted on the public samples if it is given by name."""
    if isinstance(representation, str):
        return fit_representation(representation, public, queries)
    if isinstance(representation, type) or not callable(getattr(representation, "encode", None)):
        raise InvalidInput(
            f"representation must be auto, one of {', '.join(sorted(REPRESENTATIONS))}, or a fitted object with a "
            f"method encode; got {representation!r}"
        )
    return type(representation).__name__, representation


def _distinct(public: NDArray[Any], fitted: Representation, enough: int) -> int:
    """The number of public samples with different encodings, counted up to ``enough``."""
    seen: set[bytes] = set()
    for start in range(0, len(public), _CHUNK):
        # Adding 0 turns -0 into 0.
        encoded = fitted.encode(public[start : start + _CHUNK]) + np.float32(0)
        seen.update(row.tobytes() for row in encoded)
        if len(seen) >= enough:
            return enough
    return len(seen)
