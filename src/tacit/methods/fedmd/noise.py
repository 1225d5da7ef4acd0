"""How much noise FedMD's predictions need for a stated total, over every query of every round.

Nothing bounds how far one record moves a trained model, so each prediction may move over its whole public range, and
all predictions of all rounds move together. That is the price of sharing predictions, and it is large.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tacit.accounting.calibrate import gaussian_sigma, largest_pure_epsilon
from tacit.accounting.compose import Rule, total
from tacit.accounting.monotone import bisect
from tacit.core.errors import InvalidInput
from tacit.core.rational import Number, exact, positive, probability, rounded_down
from tacit.core.spend import Repeated
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.methods.fedmd.form import Form
from tacit.methods.fedmd.responses import Responses

__all__ = ["RESPONSES", "gaussian_needed", "laplace_needed", "prediction_noise", "response_mechanism"]

RESPONSES = ("subset-selection", "generalized-response")


def _positive_counts(queries: int, rounds: int) -> None:
    for name, value in (("queries", queries), ("rounds", rounds)):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")


def prediction_noise(
    form: Form, queries: int, rounds: int, epsilon: Number, delta: Number = 0
) -> DiscreteLaplaceNoise | DiscreteGaussianNoise:
    """Integer noise for one round's table, such that all rounds together stay within (ε, δ).

    With δ = 0 it is discrete Laplace at ε/R a round; otherwise discrete Gaussian, composed over the rounds.

    >>> prediction_noise(Form("argmax", classes=10), queries=100, rounds=5, epsilon=1).scale
    Fraction(1000, 1)
    """
    _positive_counts(queries, rounds)
    moves = form.sensitivity(queries)
    if probability(delta, "delta") == 0:
        return DiscreteLaplaceNoise.for_epsilon(positive(epsilon, "epsilon") / rounds, l1=int(moves.l1))
    return DiscreteGaussianNoise.for_budget(
        epsilon, delta, squared_shift=int(moves.l2_squared), unit_steps=False, repetitions=rounds, rule=Rule.PLANNED
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
    kind = SubsetSelection if name == "subset-selection" else GeneralizedResponse
    goal, limit = positive(epsilon, "epsilon"), probability(delta, "delta")
    share = largest_pure_epsilon(goal, limit, queries * rounds, Rule.PLANNED)

    def made(each: Fraction) -> Responses:
        return Responses(kind(classes, 1, each), queries)

    def fits(each: float) -> bool:
        spend = made(max(share, rounded_down(each, 9))).spend
        return total([Repeated(spend, rounds)], limit, Rule.PLANNED).epsilon <= goal

    if limit == 0 or fits(float(goal)):
        return made(share if limit == 0 else goal)
    # What is known of a response beyond its ε may allow more than any pure mechanism would get.
    found = bisect(fits, float(share), float(goal), tolerance=1e-6 * float(share))
    return made(max(share, rounded_down(found, 9)))


def laplace_needed(form: Form, queries: int, rounds: int, epsilon: Number) -> float:
    """The Laplace scale, in units of the prediction itself, that all queries of all rounds need for ε together.

    >>> laplace_needed(Form("softmax", classes=10), queries=5000, rounds=20, epsilon=1)
    200000.0
    """
    _positive_counts(queries, rounds)
    unit = 1 if form.kind == "argmax" else form.grid
    return float(Fraction(int(form.sensitivity(queries).l1) * rounds, unit) / positive(epsilon, "epsilon"))


def gaussian_needed(form: Form, queries: int, rounds: int, epsilon: Number, delta: Number) -> float:
    """The Gaussian standard deviation, in units of the prediction, that all queries of all rounds need for (ε, δ).

    All releases together are one Gaussian mechanism whose L2 sensitivity grows with the root of their number.

    >>> round(gaussian_needed(Form("softmax", classes=10), queries=5000, rounds=20, epsilon=1, delta=1e-5))
    1668
    """
    _positive_counts(queries, rounds)
    unit = 1 if form.kind == "argmax" else form.grid
    distance = math.sqrt(form.sensitivity(queries).l2_squared * rounds) / unit
    return distance * gaussian_sigma(epsilon, exact(delta, "delta"))
