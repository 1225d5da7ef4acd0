"""The forecast of reverse k-NN votes: the best number of queries and neighbors, and the accuracy of labels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from tacit.core import Adjacency, Representation, Trust
from tacit.core.options import Options
from tacit.methods.forecast import Evidence, Expected, noise_unit, voted
from tacit.methods.rknn.choice import choose_local, choose_mechanism, choose_shuffled
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.rknn.plan import vote_representation
from tacit.methods.rknn.queries import suggest_queries
from tacit.methods.rknn.wire import table_sensitivity
from tacit.methods.task import Task

__all__ = ["forecast", "vote_points", "votes_forecast"]

_NEIGHBORS, _AROUND = (1, 2, 4), (0.5, 1, 2)
# Seconds per comparison of a record with a query in one feature, and of the start; measured on one core.
_COMPARING, _STARTING = 4e-10, 1.0


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast for the best of a few numbers of queries and neighbors, or for the given ones."""
    assert isinstance(options, ReverseKNN)
    return votes_forecast(task, options, evidence)


def votes_forecast(task: Task, options: ReverseKNN, evidence: Evidence, noise_factor: float = 1.0) -> Expected:
    """The forecast of votes; ``noise_factor`` is above 1 if several holders each add noise."""
    classes = evidence.classes
    trust = task.trust or Trust.CENTRAL
    tried: list[Expected] = []
    # With a shuffler planning is slow, and more neighbors gain nothing.
    alone = options.neighbors != 1 or trust is Trust.SHUFFLE
    fewest = math.inf if options.queries is None else min(_asked(options, 0, 0, 0, ()))
    for neighbors in (options.neighbors,) if alone else [each for each in _NEIGHBORS if each <= max(1, fewest)]:
        lead = _once(evidence, task, max(4 * classes, 2 * neighbors), neighbors, trust, options)[0]
        lead *= noise_factor
        usual = suggest_queries(task.units * task.unit.records, len(task.public), classes, neighbors, lead)
        factors = (1,) if trust is Trust.SHUFFLE else _AROUND
        asked = _asked(options, usual, len(task.public), max(classes, neighbors), factors)
        for queries in asked:
            lead, messages = _once(evidence, task, queries, neighbors, trust, options)
            noise = noise_unit(lead * noise_factor, classes)
            shares, purity = _seen(evidence, options, max(classes, queries // neighbors))
            votes = task.units * task.unit.records * neighbors * len(shares) / queries
            accuracy, deviation = voted(shares, purity, votes, noise, classes)
            work = task.units * queries * task.public[0].size
            tried.append(
                Expected(accuracy, deviation, queries, neighbors, messages, _STARTING + _COMPARING * work,
                         f"{(each := votes / len(shares)):.3g} vote{'' if each == 1 else 's'} per query, noise of "
                         f"{noise:.3g}")
            )  # fmt: skip
    # The fewest neighbors that are not measurably worse.
    best = max(each.accuracy for each in tried)
    return min((each for each in tried if each.accuracy >= best - 0.003), key=lambda each: each.neighbors or 0)


def _asked(options: ReverseKNN, usual: int, public: int, least: int, factors: tuple[float, ...]) -> list[int]:
    if options.queries is not None:
        return [int(options.queries if isinstance(options.queries, int) else options.queries[0])]
    most = max(least, min(public // 2, 1000))
    return sorted({min(max(round(usual * factor), least), most) for factor in factors})


def _seen(evidence: Evidence, options: ReverseKNN, queries: int) -> Any:  # noqa: ANN401
    encoded = vote_points(evidence, options.representation)
    return evidence.purity(encoded, min(queries, max(1, len(encoded) // 3)) if len(encoded) else queries)


def vote_points(evidence: Evidence, representation: str | Representation) -> NDArray[Any]:
    """The public samples in the space of the votes, as for four queries per class: there purity was compared."""
    key = ("votes", representation if isinstance(representation, str) else id(representation))
    if key not in evidence.found:
        rows = evidence.points
        fitted = vote_representation(representation, rows, 4 * evidence.classes)[1] if len(rows) else None
        evidence.found[key] = rows if fitted is None else fitted.encode(rows)
    points: NDArray[Any] = evidence.found[key]
    return points


def _once(
    evidence: Evidence, task: Task, queries: int, neighbors: int, trust: Trust, options: ReverseKNN
) -> tuple[float, int]:
    """The lead and the number of messages, cached for all levels of the evidence."""
    key = ("noise", task.budget, task.delta, task.units, task.unit, queries, neighbors, trust, options.mechanism,
           options.labels, options.iterations)  # fmt: skip
    if key not in evidence.found:
        evidence.found[key] = _choice(task, queries, neighbors, trust, options)
    lead, messages = evidence.found[key]
    return lead, messages


def _choice(task: Task, queries: int, neighbors: int, trust: Trust, options: ReverseKNN) -> tuple[float, int]:
    """The lead that makes a label 99 % certain, and the number of messages."""
    classes, budget = len(task.classes), task.budget / options.iterations
    if trust is Trust.LOCAL:
        return choose_local(task.units, queries, classes, neighbors, budget).gap, task.units
    if trust is Trust.SHUFFLE:
        chosen = choose_shuffled(task.units, queries, classes, neighbors, budget, task.delta)
        per: Any = getattr(getattr(chosen.mechanism, "inner", None), "messages", 1.0)
        return chosen.gap, math.ceil(task.units * float(per))
    sensitivity = table_sensitivity(queries, classes, neighbors, task.unit, task.adjacency or Adjacency.REPLACE_ONE)
    counts = options.labels != "hard" or options.one_query_per_class
    return choose_mechanism(sensitivity, classes, budget, Fraction(task.delta), options.mechanism, counts=counts).gap, 1
