"""Options of class sums, whose student sees images through the features that were summed."""

from __future__ import annotations

from typing import Any

from experiments.leaderboard_parts import Encoded
from experiments.leaderboard_voted import voted

__all__ = ["summed"]


def summed(data: Encoded, epsilon: float) -> dict[str, Any]:
    """The student of votes, and the features for sums."""
    return {} if data.images is None else voted(data, epsilon) | {"representation": data.images[0]}
