"""Every public choice of PATE: the noise of the votes, what a screen, a test or an estimate takes, and a forecast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from tacit.accounting.calibrate import screened_sigma
from tacit.accounting.compose import total
from tacit.core import Mechanism, Rule, Trust, exact
from tacit.core.errors import InvalidInput
from tacit.core.options import Options
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.estimated_votes import EstimatedGNMax, estimate_order
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.central.tested_votes import TestedGNMax, contested_sigma
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.forecast import Evidence, Expected, noise_unit, voted
from tacit.methods.pate.options import PATE
from tacit.methods.task import Task

__all__ = [
    "confident_votes",
    "estimated_votes",
    "forecast",
    "plain_sigma",
    "teachers_of",
    "tested_votes",
    "told_cost",
    "vote_noise",
]

_FEW = (50, 100, 200, 400)
RECORDS_PER_TEACHER = 20
# The noise of the screen relative to that of the answers, as published for handwritten digits: 150 and 40.
SCREEN = Fraction(15, 4)
# The part of ε that the test of contested votes costs: less, and its margin takes more teachers than there are.
TEST = Fraction(1, 4)
# The probability that an estimated cost is above the bound that is stated beside it.
_DOUBT = 0.01


def vote_noise(task: Task, options: PATE, trust: Trust, queries: int, each: int) -> Mechanism[Any, Any]:
    """The mechanism of one round of ``each`` queries, within (ε, δ) for all ``queries``; a teacher changes 2 votes."""
    moved, now, budget = 2 * queries, 2 * each, task.budget
    if trust is Trust.MASKED and task.nodes is not None:
        if options.mechanism not in ("auto", "laplace"):
            raise InvalidInput(f"secure aggregation (trust masked) has laplace noise only, not {options.mechanism}")
        part = budget * Fraction(now, moved)
        return DistributedLaplace.for_epsilon(
            part,
            now,
            task.nodes.nodes,
            most=1,
            surviving=task.nodes.surviving,
            honest=task.nodes.honest,
            colluding=task.nodes.colluders,
        )
    name = options.mechanism
    if name == "auto":
        name = "laplace" if trust is Trust.LOCAL else "gaussian" if task.delta > 0 else "permute-and-flip"
    if name in ("gaussian", "gnmax"):
        if task.delta == 0:
            raise InvalidInput("gaussian noise needs delta above 0, for example 1e-6; got 0")
        noise = DiscreteGaussianNoise.for_budget(budget, task.delta, moved, True, 1, Rule.PLANNED)
        return DiscreteGaussianNoise(noise.sigma, now, True) if name == "gaussian" else GNMax(noise.sigma, each)
    if name == "lnmax":
        return LNMax(budget / moved, each)
    part = budget * Fraction(now, moved)
    return DiscreteLaplaceNoise.for_epsilon(part, now) if name == "laplace" else PermuteAndFlip.for_epsilon(part, now)


def confident_votes(
    task: Task, options: PATE, queries: int
) -> tuple[ConfidentScreen, GNMax] | tuple[ConfidentScreen, EstimatedGNMax]:
    """Confident-GNMax: the screen and the answers, which with an estimate of the latter stay within (ε, δ)."""
    if task.nodes is not None:
        raise InvalidInput("over nodes, where each node is one teacher, there is no screen: leave out threshold")
    if task.delta == 0:
        raise InvalidInput("gaussian noise needs delta above 0, for example 1e-6; got 0")
    answers = max(1, queries // 2) if options.answers is None else min(options.answers, queries)
    threshold = math.ceil(float(options.threshold or 1) * teachers_of(task, options))
    if options.cost_estimate is not None:
        solved = partial(screened_sigma, answers=answers, screened=queries, ratio=SCREEN)
        votes = estimated_votes(task, options.cost_estimate, answers, solved)
        return ConfidentScreen(SCREEN * votes.sigma, threshold, queries), votes
    sigma = screened_sigma(task.budget, task.delta, answers, queries, SCREEN)
    return ConfidentScreen(SCREEN * sigma, threshold, queries), GNMax(sigma, answers)


def tested_votes(task: Task, options: PATE, queries: int) -> TestedGNMax:
    """GNMax with less noise where a test finds few queries contested, all of it within (ε, δ)."""
    if task.nodes is not None:
        raise InvalidInput("there is no test over nodes, where each node is one teacher: leave out contested")
    if task.delta == 0:
        raise InvalidInput("a test of the votes needs delta above 0, for example 1e-6; got 0")
    epsilon, delta = (1 - TEST) * task.budget, task.delta / 2
    doubted = max(1, math.ceil((options.contested or 0) * queries))
    made = TestedGNMax(contested_sigma(epsilon, delta, doubted), queries, epsilon, delta, TEST * task.budget)
    teachers = teachers_of(task, options)
    if 2 * made.margin >= teachers or made.sigma >= made.safe.sigma:
        raise InvalidInput(
            f"a test gains nothing here: it takes more than {2 * made.margin} teachers and a noise of "
            f"{float(made.sigma):.3g} below {float(made.safe.sigma):.3g}; there are {teachers} teachers. Leave out "
            "contested"
        )
    return made


def plain_sigma(epsilon: Fraction, delta: Fraction, queries: int) -> Fraction:
    """The noise of votes on that many queries and nothing else.

    >>> round(float(plain_sigma(Fraction(2), Fraction(1, 10**5), 300)), 1)
    48.8
    """
    return DiscreteGaussianNoise.for_budget(epsilon, delta, 2 * queries, True, 1, Rule.PLANNED).sigma


def estimated_votes(
    task: Task, part: float, queries: int, solved: Callable[[Fraction, Fraction], Fraction]
) -> EstimatedGNMax:
    """GNMax with an estimate of what it cost on its votes, which takes this part of ε and half of δ.

    ``solved`` gives the noise within what is left.
    """
    if task.nodes is not None:
        raise InvalidInput("over nodes, where each is one teacher, no cost is estimated: leave out cost_estimate")
    if task.delta == 0:
        raise InvalidInput("cost_estimate needs delta above 0, for example 1e-6; got 0")
    if not 0 < part < 1:
        raise InvalidInput(f"cost_estimate is a part of epsilon, above 0 and below 1; got {part:g}")
    own, delta = exact(part) * task.budget, task.delta / 2
    sigma = solved(task.budget - own, delta)
    mechanism = EstimatedGNMax(sigma, queries, estimate_order(sigma, queries, delta), own, delta)
    if total([mechanism.spend], task.delta, Rule.PLANNED).epsilon > task.budget:
        raise InvalidInput(
            f"cost_estimate = {part:g} leaves too little of epsilon = {float(task.budget):g} for the labels: give less"
        )
    return mechanism


def told_cost(mechanism: EstimatedGNMax, released: Sequence[int]) -> dict[str, float]:
    """What the labels cost on these votes, from released and public numbers, beside what was charged for them.

    >>> told = told_cost(EstimatedGNMax(40, 300, 16, "1/2", "1e-6"), (0, 600))
    >>> [(name, round(value, 3)) for name, value in told.items()]  # doctest: +NORMALIZE_WHITESPACE
    [('charged epsilon of the labels', 2.819), ('estimated epsilon of the labels', 0.672),
     ('estimated epsilon of the labels 99 percent bound', 0.672)]
    """
    order, delta = mechanism.order, float(mechanism.delta)
    converted = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    charged = float(total([mechanism.spend.spends[0]], mechanism.delta, Rule.PLANNED).epsilon)
    index, value = released
    told = (each + converted for each in mechanism.divergences(index, value, _DOUBT))
    estimated, most = (max(0.0, min(each, charged)) for each in told)
    return {
        "charged epsilon of the labels": charged,
        "estimated epsilon of the labels": estimated,
        f"estimated epsilon of the labels {100 * (1 - _DOUBT):g} percent bound": most,
    }


def teachers_of(task: Task, options: PATE) -> int:
    """The number of teachers: that of the holders, or that among which one holder's records are partitioned."""
    if task.nodes is not None:
        return task.nodes.nodes
    if len(task.parts) > 1:
        return len(task.parts)
    return options.teachers or max(2, task.units // RECORDS_PER_TEACHER)


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast for the best of a few numbers of queries, or for the given one."""
    assert isinstance(options, PATE)
    classes, records = evidence.classes, task.units * task.unit.records
    teachers = options.teachers or max(2, records // RECORDS_PER_TEACHER)
    taught = evidence.learned(records / teachers)
    tried = []
    for queries in (options.queries,) if options.queries else sorted({min(each, len(task.public)) for each in _FEW}):
        key = ("teachers", task.budget, task.delta, options.mechanism, queries)
        if key not in evidence.found:
            lead = _lead(vote_noise(task, options, Trust.CENTRAL, queries, queries), classes)
            evidence.found[key] = noise_unit(lead, classes)
        noise = evidence.found[key]
        right, deviation = voted(np.ones(1), taught, teachers, noise, classes)
        # Teachers make the same errors on hard samples, so labels are at most as accurate as a good model.
        right = min(right, evidence.reachable())
        certain = max(0.0, (right - 1 / classes) / (1 - 1 / classes))
        student = evidence.learned(queries * certain)
        asked = queries / len(task.public)
        tried.append(
            Expected(asked * right + (1 - asked) * student, 0.02 + deviation / queries**0.5, queries, None, teachers,
                     1.0 + 0.02 * teachers, f"{teachers} teachers, noise of {noise:.3g} votes")
        )  # fmt: skip
    return max(tried, key=lambda each: each.accuracy)


def _lead(mechanism: Any, classes: int) -> float:  # noqa: ANN401
    if hasattr(mechanism, "lead"):
        return float(mechanism.lead(classes, 0.01))
    return float(mechanism.sigma) * 4.25 if hasattr(mechanism, "sigma") else 7.33 / float(mechanism.rate)
