"""Options of Private k-NN: as few neighbors as noise allows, from ε, δ and the number of records and classes alone.

The method's own default is one class's share of the sampled records. Of two classes that is every other record, and
nearly every query gets the larger class.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from experiments.leaderboard_parts import DELTA, Encoded
from experiments.leaderboard_voted import voted
from tacit.accounting.calibrate import sampled_sigma
from tacit.core import exact

__all__ = ["few_neighbors", "neighbors"]

# The method's own rate, and the numbers by which it chooses its queries: the most, and how clear their votes must be.
RATE, MOST_QUERIES, CLEAR = Fraction(3, 20), 1000, 5.0
LEAST_PARTS = 10


def few_neighbors(epsilon: float, units: int, classes: int) -> int:
    """As few as make the most queries clear; at least the root of the sampled records, at most a tenth of them.

    >>> few_neighbors(8.0, 20_000, 2), few_neighbors(0.1, 20_000, 2)
    (55, 300)
    """
    sampled = float(RATE) * units
    sigma = sampled_sigma(exact(epsilon), exact(DELTA), RATE, ((1 / math.sqrt(2), MOST_QUERIES),), True)
    most = sampled / max(classes, LEAST_PARTS)
    return max(1, round(min(max(CLEAR * float(sigma), math.sqrt(sampled)), most)))


def neighbors(data: Encoded, epsilon: float) -> dict[str, Any]:
    """What votes see, and the number of neighbors."""
    return voted(data, epsilon) | {"neighbors": few_neighbors(epsilon, data.units, data.classes)}
