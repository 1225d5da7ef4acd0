"""The figures of theory: what can be said about accuracy and cost before any record is touched.

Every number comes from the mechanism or accountant that would be used, or from the bounds in ``count_errors``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from experiments.count_errors import collision_count_error, laplace_count_error, randomized_response_count_error
from tacit.accounting.amplify import AmplificationBound, amplified_epsilon, largest_local_epsilon
from tacit.accounting.calibrate import gaussian_sigma
from tacit.core import InvalidInput, LocalMechanism
from tacit.mechanisms.accuracy import error_probability
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision, published_length
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.report.charts import Chart, Panel

__all__ = ["amplification", "central_label_error", "count_error", "local_error", "shuffled_messages"]


QUARTERS = tuple(Fraction(step, 4) for step in range(2, 25))
TWENTIETHS = tuple(Fraction(step, 20) for step in range(1, 20))


def count_error(epsilons: Sequence[Fraction] = QUARTERS) -> Chart:
    """What the error of no count exceeds, except with probability 5 %: 1,000 votes for one query, ten classes.

    >>> chart = count_error([Fraction(1)])
    >>> {name: round(bounds[0], 1) for name, bounds in chart.panels[0].curves.items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'central, Laplace (published)': 10.6, 'central, Laplace (exact)': 10.6, 'local, symmetric unary encoding': 225.0,
     'local, Collision': 251.6}
    """
    records, classes, beta = 1000, 10, 0.05
    central = [laplace_count_error(classes, 1, 1, epsilon, beta) for epsilon in epsilons]
    curves = {
        "central, Laplace (published)": [each.published for each in central],
        "central, Laplace (exact)": [each.exact for each in central],
        "local, symmetric unary encoding": [
            randomized_response_count_error(records, classes, epsilon, beta) for epsilon in epsilons
        ],
        "local, Collision": [
            collision_count_error(records, classes, epsilon, beta, published_length(1, epsilon)) for epsilon in epsilons
        ],
    }
    return Chart(
        name="count-error",
        caption="A bound that the error of none of ten counts exceeds, except with probability 5 %, over 1,000 votes "
        "for one query. The local bounds use Bernstein's inequality: the published constants fail for some parameters.",
        panels=[Panel("Error of every count", "epsilon", "votes", list(map(float, epsilons)), curves, log_up=True)],
        settings={"records": records, "classes": classes, "failure": beta},
    )


def local_error(epsilons: Sequence[Fraction] = QUARTERS) -> Chart:
    """The error of local mechanisms over ε in the setting of the paper's figure 6, and their bias beside it.

    >>> chart = local_error([Fraction(1)])
    >>> {name: round(query_offsets[0], 3) for name, query_offsets in chart.panels[0].curves.items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'Collision (published length)': 18.181, 'Separation': 1585.98, 'Concatenation as published': 345.238,
     'Concatenation corrected': 222.812, 'subset selection': 16.455}
    """
    shape = VoteShape(queries=200, classes=50, neighbors=2, labels=2)
    cells, ones = shape.cells, shape.ones
    kinds: dict[str, Callable[[Fraction], LocalMechanism]] = {
        "Collision (published length)": lambda e: Collision(cells, ones, e, length=published_length(ones, e)),
        "Separation": lambda e: Separation(
            shape, e, lengths=(published_length(shape.neighbors, e / 2), published_length(shape.labels, e / 2))
        ),
        "Concatenation as published": lambda e: Concatenation(shape, e, corrected=False),
        "Concatenation corrected": lambda e: Concatenation(shape, e, corrected=True),
        "subset selection": lambda e: SubsetSelection(cells, ones, e),
    }
    errors = {name: [kind(epsilon).mean_squared_error for epsilon in epsilons] for name, kind in kinds.items()}
    published = [Concatenation(shape, epsilon, corrected=False).moments.means[1][1] for epsilon in epsilons]
    corrected = [Concatenation(shape, epsilon, corrected=True).moments.means[1][1] for epsilon in epsilons]
    places = [float(epsilon) for epsilon in epsilons]
    return Chart(
        name="local-error",
        caption="Local mechanisms on one client's vote for 2 of 200 buckets with 2 of 50 labels (the paper's figure "
        "6). Concatenation as published falls below Collision because it is biased: on a true cell its mean is not 1.",
        panels=[
            Panel("Squared error per cell", "epsilon", "mean squared error", places, errors, log_up=True),
            Panel(
                "Mean of the estimate on a true cell (should be 1)",
                "epsilon",
                "mean",
                places,
                {"Concatenation as published": published, "all others": corrected},
            ),
        ],
        settings={"clients": 1, "queries": 200, "classes": 50, "neighbors": 2, "labels": 2},
    )


def central_label_error(
    gaps: Sequence[int] = tuple(range(0, 161, 10)), epsilon: Fraction = Fraction(1, 10), rounds: int = 8
) -> Chart:
    """How often a label is wrong, over its lead in votes, for each central mechanism at the same price.

    >>> chart = central_label_error([100])
    >>> {name: round(query_offsets[0], 4) for name, query_offsets in chart.panels[0].curves.items()}
    {'Laplace counts': 0.068, 'exponential mechanism': 0.0572, 'permute-and-flip': 0.0298, 'Gaussian counts': 0.2404}
    """
    classes, delta = 10, Fraction(1, 10**5)

    def panel(times: int, reach: int) -> Panel:
        # One record moves one vote from a label to another, every time it is asked.
        noise = DiscreteLaplaceNoise.for_epsilon(epsilon / times, l1=2)
        unit, sigma = float(noise.scale), gaussian_sigma(epsilon, delta, math.sqrt(2 * times))
        curves = {
            "Laplace counts": [error_probability("laplace", classes, reach * gap / unit) for gap in gaps],
            "exponential mechanism": [error_probability("exponential", classes, reach * gap / unit) for gap in gaps],
            "permute-and-flip": [error_probability("permute-and-flip", classes, reach * gap / unit) for gap in gaps],
            "Gaussian counts": [error_probability("gaussian", classes, reach * gap / sigma) for gap in gaps],
        }
        title = "asked once" if times == 1 else f"asked {times} times, the budget shared"
        places = [float(reach * gap) for gap in gaps]
        return Panel(
            title, "lead of the true label, in votes", "probability of a wrong label", places, curves, log_up=True
        )

    return Chart(
        name="central-label-error",
        caption=f"Wrong labels at a total of epsilon = {float(epsilon):g} (delta = 1e-5 for the Gaussian), {classes} "
        "classes, all rivals level. Asked once, permute-and-flip is best; asked often, the Gaussian is.",
        panels=[panel(1, 1), panel(rounds, 4)],
        settings={"epsilon": float(epsilon), "delta": 1e-5, "classes": classes, "neighbors": 1, "rounds": rounds},
    )


def amplification(
    messages: Sequence[int] = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000), local_epsilon: int = 4
) -> Chart:
    """What shuffling makes of a local ε₀ over the number of messages, and how large an ε₀ it allows.

    >>> chart = amplification([100_000])
    >>> {name: round(query_offsets[0], 4) for name, query_offsets in chart.panels[0].curves.items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'closed form (2021)': 0.5346, 'closed form (2022)': 0.4078, 'numeric clones (2021)': 0.1698,
     'numeric clones (2022)': 0.1182, 'privacy blanket of local hashing': 0.082}
    """
    delta, goal, cells = Fraction(1, 10**6), Fraction(1, 2), 400
    general = (
        AmplificationBound.CLOSED_2021,
        AmplificationBound.CLOSED_2022,
        AmplificationBound.NUMERIC_2021,
        AmplificationBound.NUMERIC_2022,
    )
    hashing = "privacy blanket of local hashing"

    def proven(bound: AmplificationBound, count: int) -> float | None:
        try:
            return amplified_epsilon(bound, count, local_epsilon, delta)
        except InvalidInput:
            # The closed forms are proven only for enough messages.
            return None

    amplified: dict[str, list[float | None]] = {
        str(bound): [proven(bound, count) for count in messages] for bound in general
    }
    amplified[hashing] = [
        float(SingleMessage(Collision(cells, 1, local_epsilon), count, delta).spend.epsilon) for count in messages
    ]
    allowed: dict[str, list[float | None]] = {
        str(bound): [float(largest_local_epsilon(count, goal, delta, bound)) for count in messages] for bound in general
    }
    allowed[hashing] = [
        float(SingleMessage.for_budget(lambda local: Collision(cells, 1, local), count, goal, delta).mechanism.epsilon)
        for count in messages
    ]
    places = [float(count) for count in messages]
    return Chart(
        name="amplification",
        caption="Amplification by shuffling, one message per client, delta = 1e-6. All curves are proven; the last "
        "is for one mechanism, the others for any.",
        panels=[
            Panel(
                f"epsilon after shuffling messages of epsilon = {local_epsilon}",
                "messages",
                "epsilon",
                places,
                amplified,
                log_across=True,
                log_up=True,
            ),
            Panel(
                f"largest local epsilon for a total of {float(goal):g}",
                "messages",
                "local epsilon",
                places,
                allowed,
                log_across=True,
            ),
        ],
        settings={"delta": 1e-6, "local epsilon": local_epsilon, "goal": float(goal), "cells": cells},
    )


def shuffled_messages(fractions: Sequence[Fraction] = TWENTIETHS) -> Chart:
    """The cost of counting with noise messages, over the fraction φ of ε that pays for them.

    >>> chart = shuffled_messages([Fraction(1, 2)])
    >>> [round(panel.curves["epsilon = 1"][0], 2) for panel in chart.panels]
    [1.89, 2.02]
    """
    cells, participants, delta = 400, 60_000, Fraction(1, 10**6)
    sent: dict[str, list[float]] = {}
    spread: dict[str, list[float]] = {}
    for epsilon in (Fraction(1, 4), Fraction(1), Fraction(4)):
        plans = [plan_noise_messages(epsilon, delta, cells, participants, prefer=fraction) for fraction in fractions]
        curator = DiscreteLaplaceNoise.for_epsilon(epsilon, l1=2).variance
        sent[f"epsilon = {float(epsilon):g}"] = [plan.messages for plan in plans]
        spread[f"epsilon = {float(epsilon):g}"] = [math.sqrt(plan.variance(participants) / curator) for plan in plans]
    places = [float(fraction) for fraction in fractions]
    across = "fraction of epsilon that pays for the flood"
    return Chart(
        name="shuffled-messages",
        caption="Counting one vote per client in 400 cells from the shuffled messages of 60,000 clients, delta = 1e-6. "
        "Few messages and little noise are bought from the same budget.",
        panels=[
            Panel("Messages per client, in the mean", across, "messages", places, sent, log_up=True),
            Panel("Noise, relative to a trusted curator's", across, "standard deviations", places, spread, log_up=True),
        ],
        settings={"cells": cells, "participants": participants, "delta": 1e-6, "ones": 1},
    )
