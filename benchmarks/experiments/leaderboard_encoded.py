"""Options of the lines whose methods encode samples themselves: the encoder's name, or a map of public samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.leaderboard_parts import Encoded

__all__ = ["mapped", "seen"]


def seen(data: Encoded, _: float) -> dict[str, Any]:
    """Images by the features for sums; other kinds have an encoder of their own."""
    return {} if data.images is None else {"representation": data.images[0]}


def mapped(data: Encoded, _: float) -> dict[str, Any]:
    """The map of public samples that votes are cast on, as features: what reverse k-NN knows beside the encoder."""
    from tacit.representations.registry import fit_representation

    name = "spectral" if data.images is None else data.images[1]
    return {"representation": fit_representation(name, np.asarray(data.parts.public), 4 * data.classes)[1]}
