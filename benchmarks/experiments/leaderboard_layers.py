"""Options of the lines that train two layers by Opacus."""

from __future__ import annotations

from typing import Any

from experiments.leaderboard_encoded import seen
from experiments.leaderboard_parts import Encoded

__all__ = ["two_layers"]

# Epochs, and the fewest steps: of a thousand records ten epochs would be twenty steps, in which nothing is learned.
EPOCHS, FEWEST_STEPS, CALLED = 10, 100, 500


def two_layers(model: str, data: Encoded, epsilon: float) -> dict[str, Any]:
    """Two layers, whose Poisson samples are accounted for records that come and go."""
    rate = min(0.5, CALLED / data.units)
    return seen(data, epsilon) | {
        "model": model,
        "records": data.units,
        "adjacency": "add-remove",
        "epochs": max(EPOCHS, round(FEWEST_STEPS * rate)),
    }
