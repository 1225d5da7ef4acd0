"""How to divide a budget between noise and flood when votes travel as anonymous messages.

A fraction φ of ε pays for the flood, the rest for the noise, whose scale is 2c/((1−φ)ε). A small φ means counts
nearly as good as a trusted curator's and many messages; a large one the reverse, until the noise itself takes over.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from scipy.optimize import minimize_scalar

from tacit.core.errors import InvalidInput
from tacit.core.rational import Number, exact, positive
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.noise_messages import least_noise_messages

__all__ = ["plan_noise_messages"]

# A scale 11 % above the trusted curator's, for about six times the fewest messages.
LEAST_NOISE = Fraction(1, 10)


def plan_noise_messages(
    epsilon: Number,
    delta: Number,
    cells: int,
    participants: int,
    ones: int = 1,
    share: Number = 1,
    prefer: Literal["fewest_messages", "least_noise"] | Number = "least_noise",
) -> MultiMessageNoise:
    """Shuffled messages that cost at most (ε, δ) when a client's at most ``ones`` votes are replaced.

    ``prefer`` is the fraction φ of ε that pays for the flood, or what matters: ``least_noise`` is φ = 1/10,
    ``fewest_messages`` looks for the best φ in hundredths. For each φ the flood of the fewest messages is taken.

    >>> plan = plan_noise_messages(1, 1e-6, cells=400, participants=60_000, prefer="1/2")
    >>> float(plan.spend.epsilon), plan.spend.delta <= Fraction(1, 10**6), round(plan.messages, 2)
    (1.0, True, 1.89)
    """
    budget, allowed = positive(epsilon, "epsilon"), positive(delta, "delta")
    if ones < 1:
        raise InvalidInput(f"ones must be at least 1, got {ones}")

    def planned(fraction: Fraction) -> MultiMessageNoise:
        noise, margin = (1 - fraction) * budget / (2 * ones), fraction * budget / ones
        flood = least_noise_messages(noise, margin, allowed / ones)
        return MultiMessageNoise(cells, ones, participants, noise, margin, flood, share)

    match prefer:
        case "least_noise":
            return planned(LEAST_NOISE)
        case "fewest_messages":
            found = minimize_scalar(
                lambda fraction: planned(_hundredths(fraction)).messages,
                bounds=(0.01, 0.99),
                method="bounded",
                options={"xatol": 0.01},
            )
            return planned(_hundredths(found.x))
        case _:
            fraction = exact(prefer, "prefer")
            if not 0 < fraction < 1:
                raise InvalidInput(f"prefer must be a fraction in (0, 1), least_noise or fewest_messages, got {prefer}")
            return planned(fraction)


def _hundredths(fraction: float) -> Fraction:
    return Fraction(math.ceil(100 * fraction), 100)
